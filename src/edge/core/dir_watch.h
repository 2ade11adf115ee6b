/* SPDX-License-Identifier: Apache-2.0 */
/* Watches a directory inside a sandbox. */
#ifndef EDGE_CORE_DIR_WATCH_H
#define EDGE_CORE_DIR_WATCH_H

#include "edge/core/internal.h"
#include "backends/records.h"
#include "lib/loop/fd.h"

struct dir_watch;
struct dir_watch_events {
    void (*stands)(struct dir_watch *d); /* the watch is active: later changes are reported */
    /* False: the receiver is full; dir_watch_resume() continues. */
    bool (*changed)(struct dir_watch *d, const struct backend_change *v);
    /* The last callback; e is NULL if the watch ended normally. If the operation did not start,
     * `op` has the failed step. */
    void (*over)(struct dir_watch *d, const struct err *e);
};

/* A member of its owner, which must exist until `over` or dir_watch_stop(); a callback may stop the
 * watch but not free it. */
struct dir_watch {
    const struct dir_watch_events *events;
    struct loop *loop;
    struct run_op op;
    struct loop_fd output;
    int out; /* -1: closed */
    bool running, stood, full;
    struct buf records;
    struct err failure;
};

/* `user` NULL: the sandbox's own. mode: BACKEND_WATCH_… bits, or 0. */
void dir_watch_start(struct dir_watch *d, struct loop *l, struct sandbox *s, const char *user,
                     const char *path, uint32_t mode, const struct dir_watch_events *events);
void dir_watch_resume(struct dir_watch *d);
/* Ends the callbacks. An operation that is still starting continues to its callback. */
void dir_watch_stop(struct dir_watch *d);

#endif
