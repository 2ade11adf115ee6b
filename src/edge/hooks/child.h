/* A program that takes a step: on two pipes, with our environment and stderr, in a process group of
 * its own. */
#ifndef STEP_CHILD_H
#define STEP_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

struct child {
    pid_t pid;
    int to, from; /* its stdin and stdout; -1: closed */
};

#define CHILD_NONE                                                                                 \
    {                                                                                              \
        .to = -1, .from = -1                                                                       \
    }

int child_start(struct child *c, const char *const *argv, struct err *e);

/* Waits until something can be read, or written if `pending` is more than nothing, and does either:
 * what was written is taken off `pending`, what was read is added to `in`. 1, or 0 when the child
 * says no more; -ERR_TIMEOUT after the deadline, -ERR_TOO_BIG when `in` is full. */
int child_exchange(struct child *c, struct str *pending, struct buf *in, int64_t deadline,
                   struct err *e);

/* Its end, which must be in order and in time. */
int child_wait(struct child *c, int64_t deadline, struct err *e);

/* Kills it and what it left behind. */
void child_done(struct child *c);

#endif
