/* A user in a passwd file that anybody may have written. */
#ifndef PROC_PASSWD_H
#define PROC_PASSWD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct passwd_entry {
    uint32_t uid, gid;
    char name[64];
    char home[256];
};

/* The first line of the file, up to PASSWD_MAX bytes, that has this name; or, if the name's p is
 * NULL, this uid. Lines that are none are passed over. Nothing allocates. */
enum { PASSWD_MAX = 256 << 10 };
bool passwd_find(int fd, struct str name, uint32_t uid, struct passwd_entry *ret);
/* The number of the first line of a group file that has this name, in the same way. */
bool group_find(int fd, struct str name, uint32_t *ret);

#endif
