/* SPDX-License-Identifier: Apache-2.0 */
/* A moment on the monotonic clock. One-shot: the timer is stopped before its callback is called,
 * which may start it again.
 *
 *     r = loop_timer_start(loop, &c->idle, clock_mono() + 30 * NS_PER_S, on_idle, e);
 *
 * Timers are called in the order of their deadlines, those with the same deadline in the order they
 * were started, never early, late by up to a millisecond and what the batch before takes. Starting
 * costs O(1), stopping and expiring O(log n) amortised. */
#ifndef LIB_LOOP_TIMER_H
#define LIB_LOOP_TIMER_H

#include "lib/loop/loop.h"

struct loop_timer;
typedef void loop_timer_fn(struct loop_timer *t);

struct loop_timer {
    struct loop *loop;
    int64_t deadline; /* clock_mono() nanoseconds */
    bool waiting_;    /* in the heap */
    uint64_t number_;
    loop_timer_fn *call_;
    struct loop_timer *child_, *next_, *prev_; /* prev_ of a first child is its parent */
    struct link due_link_;
};

/* A deadline in the past is due in the next batch. */
int loop_timer_start(struct loop *l, struct loop_timer *t, int64_t deadline, loop_timer_fn *call,
                     struct err *e);
void loop_timer_stop(struct loop_timer *t);
bool loop_timer_started(const struct loop_timer *t);

void loop_timer_collect_(struct loop *l, int64_t now);
int loop_timer_run_(struct loop *l);

#endif
