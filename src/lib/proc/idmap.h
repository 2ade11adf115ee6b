/* SPDX-License-Identifier: Apache-2.0 */
/* Id mappings of user namespaces. */
#ifndef LIB_PROC_IDMAP_H
#define LIB_PROC_IDMAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { IDMAP_IDS = 65536 }; /* user and group ids in one sandbox */

/* Writes a uid_map or gid_map that maps `count` ids from `inside` on to those from `outside` on. */
int idmap_write(const char *file, uint32_t inside, uint32_t outside, uint32_t count, struct err *e);

/* Makes a plain caller root of a new user and mount namespace, which maps the caller and, if
 * /etc/subuid, /etc/subgid and the programs newuidmap and newgidmap provide them, its subordinate
 * ids (*ret_many). */
int idmap_become_root(bool *ret_many, struct err *e);

#endif
