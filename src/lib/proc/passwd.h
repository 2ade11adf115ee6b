/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up users and groups in untrusted passwd and group files. */
#ifndef LIB_PROC_PASSWD_H
#define LIB_PROC_PASSWD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct passwd_entry {
    uint32_t uid, gid;
    char name[64];
    char home[256];
};

/* Finds the first entry with this name or, if the name's p is NULL, with this uid, in the first
 * PASSWD_MAX bytes of the file. Skips invalid lines. Does not allocate. */
enum { PASSWD_MAX = 256 << 10 };
bool passwd_find(int fd, struct str name, uint32_t uid, struct passwd_entry *ret);
/* Finds the gid of the first group with this name, likewise. */
bool group_find(int fd, struct str name, uint32_t *ret);

#endif
