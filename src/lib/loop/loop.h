/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop: one per process, run by one thread, on epoll.
 *
 * The loop waits for sources: struct loop_fd, loop_timer, loop_signal, loop_child, loop_wake,
 * each in the header of its name, and loop_later, here. A source is a member of the object that
 * owns it, starts out zeroed, and its callback receives it, so that container_of() leads back to
 * the owner:
 *
 *     static void on_readable(struct loop_fd *s, unsigned events)
 *     {
 *         struct client *c = container_of(s, struct client, socket);
 *         …
 *     }
 *
 *     r = loop_fd_start(loop, &c->socket, fd, LOOP_READ, on_readable, e);
 *
 * Rules for every kind:
 *   - Starting a source that is started is an error (-ERR_CONFLICT) and changes nothing.
 *   - Stopping is idempotent, and harmless on a zeroed source.
 *   - Any callback may start or stop any source, itself too. A stopped source is never called, even
 *     if its event was already waiting. Its memory may be reused as soon as it is stopped.
 *   - A callback must not free the object its own source is a member of while functions of that
 *     object are still on the stack; it stops the object's sources and frees it from a
 *     loop_later() callback.
 *   - A started source must not be moved. All calls belong to the loop's thread, except
 *     loop_wake_post().
 *   - `loop` in a source is set by its first start and stays, so callbacks can use it.
 *
 * One batch is: wait; then ready descriptors (signals, children and wake-ups are descriptors
 * too); then timers that are due, so an answer that came in time beats its own timeout; then the
 * pending loop_later() callbacks. A source that its own callback starts again waits for the next
 * batch, so it cannot starve the others. */
#ifndef LIB_LOOP_LOOP_H
#define LIB_LOOP_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "lib/loop/list.h"

struct loop_timer;

struct loop {
    int epoll_;
    bool open_, running_, stop_;
    bool full_;          /* this batch has as many descriptors as fit: there may be more */
    struct list ready_;  /* loop_fd: called in this batch */
    struct list always_; /* loop_fd: descriptors that cannot be polled, ready by definition */
    struct list due_;    /* loop_timer: called in this batch */
    struct list later_;  /* loop_later */
    struct loop_timer *timers_;
    uint64_t timers_started_; /* among equal deadlines, the first started is the first called */
    uint64_t signals_;        /* bit n-1: signal n has a source */
    uint64_t batch_;          /* which one this is */
};

/* A loop must not be moved after this. */
int loop_init(struct loop *l, struct err *e);

/* Every source must be stopped before. */
void loop_done(struct loop *l);

/* Runs batches until loop_stop(), then what is pending in loop_later(), so that owners on their way
 * out are freed. Waits forever if nothing is started. Fails only if waiting itself fails, or with
 * -ERR_BUG from inside a callback: loops do not nest. */
int loop_run(struct loop *l, struct err *e);

/* Runs one batch and returns how many callbacks it called. Waits for at most `timeout` nanoseconds;
 * negative means without end. Signal handlers do not cut the wait short. Fails as loop_run()
 * does. */
int loop_run_once(struct loop *l, int64_t timeout, struct err *e);

/* Lets loop_run() return when the current batch is finished; called before loop_run(), lets it
 * return at once. */
void loop_stop(struct loop *l);

struct loop_later;
typedef void loop_later_fn(struct loop_later *s);

struct loop_later {
    struct loop *loop;
    loop_later_fn *run_;
    struct link link_;
};

/* Calls run once, when the current batch is finished. The place to free an owner: no callback of
 * this batch is on the stack at that time. -ERR_CONFLICT if it is pending already, which an owner
 * that only wants to be freed may ignore. */
int loop_later(struct loop *l, struct loop_later *s, loop_later_fn *run, struct err *e);
void loop_later_stop(struct loop_later *s);

#endif
