/* Which ids in a user namespace are which outside. */
#ifndef PROC_IDMAP_H
#define PROC_IDMAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { IDMAP_IDS = 65536 }; /* user and group ids in one sandbox */

/* Writes a uid_map or gid_map. */
int idmap_write(const char *file, uint32_t inside, uint32_t outside, uint32_t count, struct err *e);

/* Makes a plain caller root of a new user and mount namespace that holds itself and, where
 * /etc/subuid, /etc/subgid and the newuidmap and newgidmap programs give them, its subordinate ids
 * (*ret_many). */
int idmap_become_root(bool *ret_many, struct err *e);

#endif
