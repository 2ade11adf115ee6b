/* SPDX-License-Identifier: Apache-2.0 */
/* A process of the monitor's own that runs as long as the daemon does.
 *
 * The monitor starts another one when it ends: at once, and after a growing pause if it ends again and
 * again. So a companion keeps nothing that the next one needs. */
#ifndef DAEMON_COMPANION_H
#define DAEMON_COMPANION_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Forks the process, as a child of the caller that ends with it. Returns its pid; 0: there is
 * nothing to run. */
typedef pid_t companion_fork(void *owner, struct err *e);

struct companion {
    companion_fork *fork; /* NULL: never runs */
    void *owner;
    const char *failed_event, *ended_event; /* names in the log (docs/events.md) */
    /* Internal. */
    pid_t pid; /* 0: none now */
    int64_t started;
    int64_t due;   /* when the next one starts; 0: never */
    unsigned ends; /* in a row */
};

/* A failure is logged, and tried again as an end is. */
void companion_start(struct companion *c);

/* A child of the caller ended, this one or another. */
void companion_ended(struct companion *c, pid_t pid, int status);
/* Starts another one if it is due; returns when that will be, 0: not by itself. */
int64_t companion_restart(struct companion *c);
void companion_stop(struct companion *c);

/* In the child: makes it end with `parent`, and closes all descriptors but stdio and `keep`. An end of
 * a channel that stayed open would hide that the other process is gone. */
void companion_enter(pid_t parent, const int *keep, size_t n);

#endif
