/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/loop/loop.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "lib/loop/fd.h"
#include "lib/loop/timer.h"

enum { BATCH = 128 };

int loop_init(struct loop *l, struct err *e)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);

    if (fd < 0)
        return err_sys(e, "creating the event loop");
    *l = (struct loop){ .epoll_ = fd, .open_ = true };
    return 0;
}

void loop_done(struct loop *l)
{
    if (!l || !l->open_)
        return;
    close(l->epoll_);
    *l = (struct loop){ 0 };
}

/* When waiting must end, in the terms of clock_poll_ms(): 0 is never, 1 is long past. */
static int64_t wait_until(struct loop *l, int64_t timeout)
{
    int64_t until = INT64_MAX, now = clock_mono();

    if (list_first(&l->later_) || list_first(&l->always_) || timeout == 0)
        return 1;
    if (timeout > 0 && timeout < INT64_MAX - now)
        until = now + timeout;
    if (l->timers_ && l->timers_->deadline < until)
        until = l->timers_->deadline;
    if (until == INT64_MAX)
        return 0;
    return until > 0 ? until : 1;
}

/* Fills ready_ and due_ with what this batch calls. */
static int collect_events(struct loop *l, int64_t timeout, struct err *e)
{
    struct epoll_event events[BATCH];
    int64_t until = wait_until(l, timeout);
    int n;

    do
        n = epoll_wait(l->epoll_, events, BATCH, clock_poll_ms(until));
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_sys(e, "waiting for events");
    l->batch_++;
    l->full_ = n == BATCH;
    for (int i = 0; i < n; i++)
        loop_fd_collect_(events[i].data.ptr, events[i].events);
    loop_fd_collect_always_(l);
    loop_timer_collect_(l, clock_mono());
    return 0;
}

static int run_later(struct loop *l)
{
    struct list batch = { 0 };
    int called = 0;

    list_move(&l->later_, &batch);
    for (struct link *m; (m = list_take(&batch)); called++) {
        struct loop_later *s = container_of(m, struct loop_later, link_);

        s->run_(s);
    }
    return called;
}

static int run_loop_batch(struct loop *l, int64_t timeout, struct err *e)
{
    int called, r = collect_events(l, timeout, e);

    if (r < 0)
        return r;
    called = loop_fd_run_(l);
    called += loop_timer_run_(l);
    called += run_later(l);
    return called;
}

static int enter_loop(struct loop *l, struct err *e)
{
    if (l->running_)
        return err_set(e, ERR_BUG, "the event loop was run from inside one of its callbacks");
    l->running_ = true;
    return 0;
}

int loop_run_once(struct loop *l, int64_t timeout, struct err *e)
{
    int r = enter_loop(l, e);

    if (r < 0)
        return r;
    r = run_loop_batch(l, timeout, e);
    l->running_ = false;
    return r;
}

int loop_run(struct loop *l, struct err *e)
{
    int r = enter_loop(l, e);

    if (r < 0)
        return r;
    while (!l->stop_ && r >= 0)
        r = run_loop_batch(l, -1, e);
    if (r >= 0) {
        while (run_later(l) > 0)
            ;
        l->stop_ = false;
        r = 0;
    }
    l->running_ = false;
    return r;
}

void loop_stop(struct loop *l)
{
    l->stop_ = true;
}

int loop_later(struct loop *l, struct loop_later *s, loop_later_fn *run, struct err *e)
{
    if (link_joined(&s->link_))
        return err_set(e, ERR_CONFLICT, "already set to run later");
    s->loop = l;
    s->run_ = run;
    list_append(&l->later_, &s->link_);
    return 0;
}

void loop_later_stop(struct loop_later *s)
{
    link_leave(&s->link_);
}
