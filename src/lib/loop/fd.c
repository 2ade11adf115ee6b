/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/loop/fd.h"

#include <errno.h>
#include <sys/epoll.h>

#include "base/own.h"

enum { CAN_WANT = LOOP_READ | LOOP_WRITE | LOOP_HALF, UNASKED = LOOP_HUP | LOOP_ERROR };

static const struct {
    unsigned ours;
    uint32_t epoll;
} event_bits[] = {
    { LOOP_READ, EPOLLIN }, { LOOP_WRITE, EPOLLOUT }, { LOOP_HALF, EPOLLRDHUP },
    { LOOP_HUP, EPOLLHUP }, { LOOP_ERROR, EPOLLERR },
};

static uint32_t to_epoll(unsigned ours)
{
    uint32_t bits = 0;

    for (size_t i = 0; i < COUNT_OF(event_bits); i++)
        if (ours & event_bits[i].ours)
            bits |= event_bits[i].epoll;
    return bits;
}

static unsigned from_epoll(uint32_t epoll)
{
    unsigned bits = 0;

    for (size_t i = 0; i < COUNT_OF(event_bits); i++)
        if (epoll & event_bits[i].epoll)
            bits |= event_bits[i].ours;
    return bits;
}

static int set_want(struct loop_fd *s, unsigned want, struct err *e)
{
    struct epoll_event ev = { .events = to_epoll(want), .data.ptr = s };
    int op = !s->want ? EPOLL_CTL_ADD : !want ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;

    if (want & ~(unsigned)CAN_WANT)
        return err_set(e, ERR_BUG, "a descriptor source cannot want events 0x%x", want);
    /* epoll holds a descriptor exactly while something is wanted of it. */
    if (!s->always_ready_ && want != s->want && epoll_ctl(s->loop->epoll_, op, s->fd, &ev) < 0) {
        if (errno != EPERM)
            return err_sys(e, "watching descriptor %d", s->fd);
        s->always_ready_ = true;
    }
    if (s->always_ready_) {
        link_leave(&s->always_link_);
        if (want & (LOOP_READ | LOOP_WRITE))
            list_append(&s->loop->always_, &s->always_link_);
    }
    if (s->want != want)
        s->stirred_ = s->loop->batch_;
    s->want = want;
    return 0;
}

int loop_fd_start(struct loop *l, struct loop_fd *s, int fd, unsigned want, loop_fd_fn *call,
                  struct err *e)
{
    int r;

    if (s->on_)
        return err_set(e, ERR_CONFLICT, "descriptor %d is already watched by this source", s->fd);
    *s = (struct loop_fd){ .loop = l, .fd = fd, .call_ = call };
    r = set_want(s, want, e);
    if (r < 0)
        return r;
    s->on_ = true;
    return 0;
}

int loop_fd_want(struct loop_fd *s, unsigned want, struct err *e)
{
    if (!s->on_)
        return err_set(e, ERR_CONFLICT, "the descriptor source is not started");
    return set_want(s, want, e);
}

void loop_fd_stop(struct loop_fd *s)
{
    if (s->on_)
        set_want(s, 0, NULL); /* fails only for an owner who closed the descriptor too early */
    loop_fd_stop_to_close(s);
}

void loop_fd_stop_to_close(struct loop_fd *s)
{
    if (!s->on_)
        return;
    link_leave(&s->always_link_);
    link_leave(&s->ready_link_);
    s->want = 0;
    s->on_ = false;
}

bool loop_fd_was_quiet(const struct loop_fd *s)
{
    return s->on_ && s->want && !s->loop->full_ && s->stirred_ != s->loop->batch_;
}

static void mark_fd_ready(struct loop_fd *s, unsigned events)
{
    s->ready_ = events;
    s->stirred_ = s->loop->batch_;
    list_append(&s->loop->ready_, &s->ready_link_);
}

void loop_fd_collect_(struct loop_fd *s, uint32_t events)
{
    mark_fd_ready(s, from_epoll(events));
}

void loop_fd_collect_always_(struct loop *l)
{
    LIST_EACH (struct loop_fd, s, &l->always_, always_link_)
        mark_fd_ready(s, s->want & (LOOP_READ | LOOP_WRITE));
}

int loop_fd_run_(struct loop *l)
{
    int called = 0;

    for (struct link *m; (m = list_take(&l->ready_));) {
        struct loop_fd *s = container_of(m, struct loop_fd, ready_link_);
        /* Earlier callbacks of the batch may have changed the wanted events. */
        unsigned events = s->want ? s->ready_ & (s->want | UNASKED) : 0;

        if (!events)
            continue;
        s->call_(s, events);
        called++;
    }
    return called;
}
