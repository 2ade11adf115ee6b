/* SPDX-License-Identifier: Apache-2.0 */
/* A descriptor becoming readable or writable. Level-triggered: every batch calls the source again
 * while a wanted condition holds, so a callback need not read or write everything at once.
 *
 * The descriptor stays the caller's: stop the source first, close afterwards.
 *
 * Descriptors that epoll refuses (regular files and /dev/null, as in shell redirections) are ready
 * for all wanted events in every batch, as they are for poll(). */
#ifndef LIB_LOOP_FD_H
#define LIB_LOOP_FD_H

#include "lib/loop/loop.h"

enum loop_event {
    LOOP_READ = 1 << 0,
    LOOP_WRITE = 1 << 1,
    LOOP_HALF = 1 << 2, /* the peer has shut down writing; for sources that do not read */

    /* Reported with any wanted event; cannot be requested. */
    LOOP_HUP = 1 << 3, /* both directions are closed; data sent before can still be read */
    LOOP_ERROR = 1 << 4,
};

struct loop_fd;
typedef void loop_fd_fn(struct loop_fd *s, unsigned events);

struct loop_fd {
    struct loop *loop;
    int fd;
    unsigned want; /* LOOP_READ | LOOP_WRITE | LOOP_HALF */
    unsigned ready_;
    bool on_, always_ready_;
    loop_fd_fn *call_;
    uint64_t stirred_; /* the last batch in which it was ready, or what it wants changed */
    struct link ready_link_, always_link_;
};

/* want may be 0: started, and paused. */
int loop_fd_start(struct loop *l, struct loop_fd *s, int fd, unsigned want, loop_fd_fn *call,
                  struct err *e);

/* Changes the wanted events; events of this batch that are no longer wanted are not reported.
 *
 * With 0 the descriptor leaves epoll and no event is reported, not even LOOP_HUP: epoll would
 * otherwise report a closed peer in every batch to an owner that wants no events. LOOP_HUP is
 * reported when the source wants events again. LOOP_HUP, LOOP_ERROR and LOOP_HALF persist: the
 * callback must stop the source or want fewer events, or it is called in every batch.
 * -ERR_CONFLICT if the source is stopped. */
int loop_fd_want(struct loop_fd *s, unsigned want, struct err *e);

void loop_fd_stop(struct loop_fd *s);
/* The same for an owner who closes the descriptor next, before the loop can wait again: closing
 * takes it out of epoll, which saves a system call. Only where no duplicate of it stays open. */
void loop_fd_stop_to_close(struct loop_fd *s);

/* Whether no wanted event was pending when this batch began. Costs no system call. False if
 * unknown: the wanted events have changed since, or more events were pending than a batch takes. */
bool loop_fd_was_quiet(const struct loop_fd *s);

void loop_fd_collect_(struct loop_fd *s, uint32_t events);
void loop_fd_collect_always_(struct loop *l);
int loop_fd_run_(struct loop *l);

#endif
