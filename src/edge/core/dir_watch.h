/* Watching a directory inside, for as long as somebody wants to know. */
#ifndef API_DIR_WATCH_H
#define API_DIR_WATCH_H

#include "api/inside.h"
#include "extensions/records.h"
#include "loop/fd.h"

struct dir_watch;
struct dir_watch_events {
    void (*stands)(struct dir_watch *d); /* what happens from now on is told */
    /* False: enough for now, dir_watch_resume() goes on. */
    bool (*changed)(struct dir_watch *d, const struct ext_change *v);
    /* The last word; e: why, NULL if there is nothing more to tell. Of one that was not started,
     * `op` has the step. */
    void (*over)(struct dir_watch *d, const struct err *e);
};

/* A member of its owner, which stays until it is over, or stopped while it runs; inside of a
 * callback it may be stopped, but not freed. */
struct dir_watch {
    const struct dir_watch_events *events;
    struct loop *loop;
    struct run_op op;
    struct loop_fd output;
    int out; /* -1: nothing is read any more */
    bool running, stood, full;
    struct buf records;
    struct err failure;
};

/* `user` NULL: the sandbox's own. mode: EXT_WATCH_…, or 0. */
void dir_watch_start(struct dir_watch *d, struct loop *l, struct sandbox *s, const char *user,
                     const char *path, uint32_t mode, const struct dir_watch_events *events);
void dir_watch_resume(struct dir_watch *d);
/* Nothing is told any more, unless it is only starting: then that goes on. */
void dir_watch_stop(struct dir_watch *d);

#endif
