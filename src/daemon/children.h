/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of one kind that the monitor started, so that their number is bounded and each can
 * be found by the id of the request that it was started for. */
#ifndef DAEMON_CHILDREN_H
#define DAEMON_CHILDREN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum { CHILDREN_MAX = 4096 };

struct children {
    const char *what; /* for errors: "egress workers" */
    size_t max;       /* at most CHILDREN_MAX */
    size_t n;
    struct child {
        pid_t pid;
        uint64_t id;
    } child[CHILDREN_MAX];
};

/* -ERR_BUSY if there are `max` already. */
int children_check(const struct children *c, struct err *e);
void children_add(struct children *c, pid_t pid, uint64_t id); /* after children_check() */
pid_t children_find(const struct children *c, uint64_t id);    /* 0: none */
void children_ended(struct children *c, pid_t pid);            /* of this kind or another one */

#endif
