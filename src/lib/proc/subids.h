/* Subordinate ids: what /etc/subuid and /etc/subgid give a plain user, mapped by the system's own
 * set-user-id programs newuidmap and newgidmap. */
#ifndef PROC_SUBIDS_H
#define PROC_SUBIDS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct subids {
    uint32_t uid_first, gid_first, count;
    int go; /* tells the mapper that the namespace is there */
};

/* Whether this user has at least `count` of both kinds, and the programs are installed. */
bool subids_find(uint32_t uid, uint32_t count, struct subids *ret);

/* A namespace's maps can only be written from outside: a child that stays there waits until the
 * caller has made its namespace, then runs the programs on it. Call exactly one of finish and
 * cancel. */
int subids_start_mapper(struct subids *s, uint32_t uid, uint32_t gid, pid_t *ret, struct err *e);
int subids_finish(struct subids *s, pid_t mapper, struct err *e);
void subids_cancel(struct subids *s, pid_t mapper);

#endif
