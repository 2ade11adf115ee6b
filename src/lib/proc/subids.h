/* SPDX-License-Identifier: Apache-2.0 */
/* Subordinate ids of a plain user, from /etc/subuid and /etc/subgid, mapped by the system's
 * set-user-id programs newuidmap and newgidmap. */
#ifndef LIB_PROC_SUBIDS_H
#define LIB_PROC_SUBIDS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct subids {
    uint32_t uid_first, gid_first, count;
    int go; /* pipe to the mapper: a byte means that the namespace exists */
};

/* Whether the user has at least `count` uids and gids, and the programs are installed. */
bool subids_find(uint32_t uid, uint32_t count, struct subids *ret);

/* Starts a mapper: a namespace's maps must be written from outside, so this child remains outside,
 * waits until the caller has made its namespace, and runs the programs on it. The caller then calls
 * exactly one of finish and cancel. */
int subids_start_mapper(struct subids *s, uint32_t uid, uint32_t gid, pid_t *ret, struct err *e);
int subids_finish(struct subids *s, pid_t mapper, struct err *e);
void subids_cancel(struct subids *s, pid_t mapper);

#endif
