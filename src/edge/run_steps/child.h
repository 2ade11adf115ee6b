/* SPDX-License-Identifier: Apache-2.0 */
/* The program of an external step: connected by two pipes, with our environment and stderr, in a
 * process group of its own. */
#ifndef EDGE_HOOKS_CHILD_H
#define EDGE_HOOKS_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

struct hook_child {
    pid_t pid;
    int to, from; /* its stdin and stdout; -1: closed */
};

#define CHILD_NONE                                                                                 \
    {                                                                                              \
        .to = -1, .from = -1                                                                       \
    }

int child_start(struct hook_child *c, const char *const *argv, struct err *e);

/* Waits until the child can be read, or written if `pending` is not empty, and does either: written
 * bytes are removed from `pending`, read bytes are added to `in`. Returns 1, or 0 at the end of the
 * child's output; -ERR_TIMEOUT after the deadline, -ERR_TOO_BIG when `in` is full. */
int child_exchange(struct hook_child *c, struct str *pending, struct buf *in, int64_t deadline,
                   struct err *e);

/* Waits for the child's end; fails unless it exits with status 0 before the deadline. */
int child_wait(struct hook_child *c, int64_t deadline, struct err *e);

/* Kills the child and its remaining descendants. */
void child_done(struct hook_child *c);

#endif
