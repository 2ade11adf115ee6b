/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/loop/fd.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "harness/tap.h"
#include "lib/loop/timer.h"

static struct loop loop;
static struct err e;

/* One end watched, the other in the hands of the test. */
struct wire {
    struct loop_fd source;
    struct loop_later later;
    int near, far;
    int called;
    unsigned events; /* of the last call */
    struct wire *other;
};

static void wire_open(struct wire *w)
{
    int fds[2];

    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    *w = (struct wire){ .near = fds[0], .far = fds[1] };
}

static void wire_close(struct wire *w)
{
    loop_fd_stop(&w->source);
    drop_fd(&w->near);
    drop_fd(&w->far);
}

static void record(struct loop_fd *s, unsigned events)
{
    struct wire *w = container_of(s, struct wire, source);

    w->called++;
    w->events = events;
}

static void watch(struct wire *w, unsigned want, loop_fd_fn *call)
{
    CHECK_OK(loop_fd_start(&loop, &w->source, w->near, want, call, &e), e);
}

static void poke(struct wire *w)
{
    CHECK_INT(write(w->far, "x", 1), 1);
}

static int once(void)
{
    int r = loop_run_once(&loop, 0, &e);

    CHECK_OK(r, e);
    return r;
}

TEST(reading_and_writing)
{
    struct wire w;
    char c;

    CHECK_OK(loop_init(&loop, &e), e);
    wire_open(&w);
    watch(&w, LOOP_READ, record);
    CHECK_INT(once(), 0);
    poke(&w);
    CHECK_INT(once(), 1);
    CHECK_INT(w.events, LOOP_READ);
    CHECK_INT(once(), 1); /* still there to be read */
    CHECK_INT(read(w.near, &c, 1), 1);
    CHECK_INT(once(), 0);
    CHECK_OK(loop_fd_want(&w.source, LOOP_READ | LOOP_WRITE, &e), e);
    CHECK_INT(once(), 1);
    CHECK_INT(w.events, LOOP_WRITE);
    poke(&w);
    CHECK_INT(once(), 1);
    CHECK_INT(w.events, LOOP_READ | LOOP_WRITE);
    wire_close(&w);
    loop_done(&loop);
}

TEST(starting_and_stopping_twice)
{
    struct wire w;
    struct loop_fd zeroed = { 0 };

    CHECK_OK(loop_init(&loop, &e), e);
    loop_fd_stop(&zeroed);
    CHECK_INT(loop_fd_want(&zeroed, LOOP_READ, &e), -ERR_CONFLICT);
    wire_open(&w);
    watch(&w, LOOP_READ, record);
    CHECK_INT(loop_fd_start(&loop, &w.source, w.far, LOOP_READ, record, &e), -ERR_CONFLICT);
    CHECK_INT(w.source.fd, w.near);
    poke(&w);
    loop_fd_stop(&w.source);
    loop_fd_stop(&w.source);
    CHECK_INT(once(), 0);
    CHECK_INT(loop_fd_want(&w.source, LOOP_READ, &e), -ERR_CONFLICT);
    watch(&w, LOOP_READ, record);
    CHECK_INT(once(), 1);
    wire_close(&w);
    loop_done(&loop);
}

TEST(failed_starts_leave_a_stopped_source)
{
    struct loop_fd s = { 0 };
    struct wire w;

    CHECK_OK(loop_init(&loop, &e), e);
    CHECK_INT(loop_fd_start(&loop, &s, -1, LOOP_READ, record, &e), -ERR_SYS);
    CHECK_INT(loop_fd_start(&loop, &s, 0, LOOP_HUP, record, &e), -ERR_BUG);
    wire_open(&w);
    CHECK_OK(loop_fd_start(&loop, &s, w.near, 0, record, &e), e);
    loop_fd_stop(&s);
    wire_close(&w);
    loop_done(&loop);
}

static void stop_both(struct loop_fd *s, unsigned events)
{
    struct wire *w = container_of(s, struct wire, source);

    record(s, events);
    loop_fd_stop(&w->source);
    loop_fd_stop(&w->other->source);
}

TEST(stopped_by_another_in_the_same_batch)
{
    struct wire a, b;

    CHECK_OK(loop_init(&loop, &e), e);
    wire_open(&a);
    wire_open(&b);
    a.other = &b;
    b.other = &a;
    watch(&a, LOOP_READ, stop_both);
    watch(&b, LOOP_READ, stop_both);
    poke(&a);
    poke(&b);
    CHECK_INT(once(), 1);
    CHECK_INT(a.called + b.called, 1);
    CHECK_INT(once(), 0);
    wire_close(&a);
    wire_close(&b);
    loop_done(&loop);
}

/* The victim's descriptor number and memory are both used again within the batch. */
static void replace_other(struct loop_fd *s, unsigned events)
{
    struct wire *w = container_of(s, struct wire, source), *victim = w->other;

    record(s, events);
    loop_fd_stop(s);
    wire_close(victim);
    wire_open(victim);
    watch(victim, LOOP_READ, record);
}

TEST(an_event_of_the_predecessor_is_not_told_to_the_successor)
{
    struct wire a, b, *first, *second;

    CHECK_OK(loop_init(&loop, &e), e);
    wire_open(&a);
    wire_open(&b);
    a.other = &b;
    b.other = &a;
    watch(&a, LOOP_READ, replace_other);
    watch(&b, LOOP_READ, replace_other);
    poke(&a);
    poke(&b);
    CHECK_INT(once(), 1);
    first = a.called ? &a : &b;
    second = a.called ? &b : &a;
    CHECK_INT(first->called, 1);
    CHECK_INT(second->called, 0);
    CHECK_INT(once(), 0);
    poke(second);
    CHECK_INT(once(), 1);
    CHECK_INT(second->called, 1);
    wire_close(&a);
    wire_close(&b);
    loop_done(&loop);
}

static void pause_other(struct loop_fd *s, unsigned events)
{
    struct wire *w = container_of(s, struct wire, source);

    record(s, events);
    CHECK_OK(loop_fd_want(&w->other->source, 0, &e), e);
}

TEST(paused_by_another_in_the_same_batch)
{
    struct wire a, b, *told, *paused;

    CHECK_OK(loop_init(&loop, &e), e);
    wire_open(&a);
    wire_open(&b);
    a.other = &b;
    b.other = &a;
    watch(&a, LOOP_READ, pause_other);
    watch(&b, LOOP_READ, pause_other);
    poke(&a);
    poke(&b);
    CHECK_INT(once(), 1);
    CHECK_INT(a.called + b.called, 1);
    told = a.called ? &a : &b;
    paused = told->other;
    loop_fd_stop(&told->source);
    CHECK_INT(once(), 0);
    CHECK_OK(loop_fd_want(&paused->source, LOOP_READ, &e), e);
    CHECK_OK(loop_fd_start(&loop, &told->source, told->near, 0, record, &e), e);
    CHECK_INT(once(), 1);
    CHECK_INT(paused->called, 1);
    wire_close(&a);
    wire_close(&b);
    loop_done(&loop);
}

static void ask_other(struct loop_fd *s, unsigned events)
{
    struct wire *w = container_of(s, struct wire, source);

    w->called = loop_fd_was_quiet(&w->other->source);
}

TEST(quiet_is_what_nothing_happened_to)
{
    struct wire a, b;

    CHECK_OK(loop_init(&loop, &e), e);
    wire_open(&a);
    wire_open(&b);
    a.other = &b;
    CHECK(!loop_fd_was_quiet(&b.source)); /* is not watched */
    watch(&b, LOOP_READ, record);
    CHECK(!loop_fd_was_quiet(&b.source)); /* nobody looked yet */
    watch(&a, LOOP_READ, ask_other);
    poke(&a);
    CHECK_INT(once(), 1);
    CHECK_INT(a.called, 1);
    poke(&b);
    CHECK_INT(once(), 2); /* whichever is called first */
    CHECK_INT(a.called, 0);
    CHECK_OK(loop_fd_want(&b.source, LOOP_WRITE, &e), e);
    CHECK_OK(loop_fd_want(&b.source, LOOP_READ, &e), e);
    CHECK(!loop_fd_was_quiet(&b.source));
    wire_close(&a);
    wire_close(&b);
    loop_done(&loop);
}

TEST(closing_leaves_the_loop)
{
    struct wire w;

    CHECK_OK(loop_init(&loop, &e), e);
    wire_open(&w);
    watch(&w, LOOP_READ, record);
    poke(&w);
    loop_fd_stop_to_close(&w.source);
    drop_fd(&w.near);
    CHECK_INT(once(), 0);
    CHECK_INT(w.called, 0);
    loop_fd_stop_to_close(&w.source); /* harmless */
    wire_close(&w);
    wire_open(&w); /* the same number again */
    watch(&w, LOOP_READ, record);
    poke(&w);
    CHECK_INT(once(), 1);
    wire_close(&w);
    loop_done(&loop);
}

static void free_wire(struct loop_later *s)
{
    struct wire *w = container_of(s, struct wire, later);

    wire_close(w);
    free(w);
}

static void free_both(struct loop_fd *s, unsigned events)
{
    struct wire *w = container_of(s, struct wire, source), *other = w->other;

    loop_fd_stop(&w->source);
    CHECK_OK(loop_later(s->loop, &w->later, free_wire, &e), e);
    wire_close(other);
    free(other);
}

TEST(owners_are_freed_directly_and_later)
{
    struct wire *a = malloc(sizeof *a), *b = malloc(sizeof *b);

    CHECK(a && b);
    CHECK_OK(loop_init(&loop, &e), e);
    wire_open(a);
    wire_open(b);
    a->other = b;
    b->other = a;
    watch(a, LOOP_READ, free_both);
    watch(b, LOOP_READ, free_both);
    poke(a);
    poke(b);
    CHECK_INT(once(), 2); /* one source and its later */
    loop_done(&loop);
}

TEST(half_closed)
{
    struct wire w;

    CHECK_OK(loop_init(&loop, &e), e);
    wire_open(&w);
    watch(&w, LOOP_HALF, record);
    poke(&w);
    CHECK_INT(once(), 0); /* data alone is not what was asked for */
    CHECK_INT(shutdown(w.far, SHUT_WR), 0);
    CHECK_INT(once(), 1);
    CHECK_INT(w.events, LOOP_HALF);
    CHECK_OK(loop_fd_want(&w.source, LOOP_READ | LOOP_WRITE, &e), e);
    CHECK_INT(once(), 1);
    CHECK_INT(w.events, LOOP_READ | LOOP_WRITE);
    wire_close(&w);
    loop_done(&loop);
}

TEST(a_dead_peer_is_silent_while_nothing_is_wanted)
{
    struct wire w;

    CHECK_OK(loop_init(&loop, &e), e);
    wire_open(&w);
    watch(&w, LOOP_READ, record);
    CHECK_OK(loop_fd_want(&w.source, 0, &e), e);
    drop_fd(&w.far);
    CHECK_INT(once(), 0);
    CHECK_INT(loop_run_once(&loop, 5 * NS_PER_MS, &e), 0);
    CHECK_OK(loop_fd_want(&w.source, LOOP_WRITE, &e), e);
    CHECK_INT(once(), 1);
    CHECK(w.events & LOOP_HUP);
    CHECK(!(w.events & LOOP_READ));
    CHECK_OK(loop_fd_want(&w.source, 0, &e), e);
    CHECK_INT(once(), 0);
    wire_close(&w);
    loop_done(&loop);
}

TEST(an_error_is_told)
{
    struct wire w = { .near = -1, .far = -1 };
    int fds[2];

    CHECK_OK(loop_init(&loop, &e), e);
    CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
    w.near = fds[1];
    close(fds[0]);
    watch(&w, LOOP_WRITE, record);
    CHECK_INT(once(), 1);
    CHECK(w.events & LOOP_ERROR);
    wire_close(&w);
    loop_done(&loop);
}

TEST(files_are_always_ready)
{
    struct wire w = { .near = open("/dev/null", O_RDWR | O_CLOEXEC), .far = -1 };

    CHECK(w.near >= 0);
    CHECK_OK(loop_init(&loop, &e), e);
    watch(&w, LOOP_READ, record);
    CHECK_INT(loop_run_once(&loop, -1, &e), 1);
    CHECK_INT(w.events, LOOP_READ);
    CHECK_OK(loop_fd_want(&w.source, LOOP_READ | LOOP_WRITE | LOOP_HALF, &e), e);
    CHECK_INT(loop_run_once(&loop, -1, &e), 1);
    CHECK_INT(w.events, LOOP_READ | LOOP_WRITE);
    CHECK_OK(loop_fd_want(&w.source, LOOP_HALF, &e), e);
    CHECK_INT(loop_run_once(&loop, NS_PER_MS, &e), 0);
    CHECK_OK(loop_fd_want(&w.source, 0, &e), e);
    CHECK_INT(loop_run_once(&loop, NS_PER_MS, &e), 0);
    CHECK_OK(loop_fd_want(&w.source, LOOP_WRITE, &e), e);
    CHECK_INT(once(), 1);
    loop_fd_stop(&w.source);
    CHECK_INT(once(), 0);
    wire_close(&w);
    loop_done(&loop);
}

static void start_other(struct loop_fd *s, unsigned events)
{
    struct wire *w = container_of(s, struct wire, source);

    record(s, events);
    loop_fd_stop(s);
    watch(w->other, LOOP_READ, record);
}

TEST(a_callback_adds_a_source)
{
    struct wire a, b;

    CHECK_OK(loop_init(&loop, &e), e);
    wire_open(&a);
    wire_open(&b);
    a.other = &b;
    poke(&a);
    poke(&b);
    watch(&a, LOOP_READ, start_other);
    CHECK_INT(once(), 1);
    CHECK_INT(b.called, 0);
    CHECK_INT(once(), 1);
    CHECK_INT(b.called, 1);
    wire_close(&a);
    wire_close(&b);
    loop_done(&loop);
}

static void on_timeout(struct loop_timer *t)
{
    FAIL("the timeout came although the answer was there");
}

static struct loop_timer timeout;

static void answer(struct loop_fd *s, unsigned events)
{
    record(s, events);
    loop_timer_stop(&timeout);
}

TEST(an_answer_in_time_beats_its_timeout)
{
    struct wire w;

    CHECK_OK(loop_init(&loop, &e), e);
    wire_open(&w);
    watch(&w, LOOP_READ, answer);
    poke(&w);
    CHECK_OK(loop_timer_start(&loop, &timeout, 1, on_timeout, &e), e);
    CHECK_INT(once(), 1);
    CHECK_INT(once(), 1);
    CHECK_INT(w.called, 2);
    wire_close(&w);
    loop_done(&loop);
}

/* More than one batch holds: every source gets its turn. */
TEST(many_descriptors_ready_at_once)
{
    enum { MANY = 400 };
    static struct wire wires[MANY];

    CHECK_OK(loop_init(&loop, &e), e);
    for (int i = 0; i < MANY; i++) {
        wire_open(&wires[i]);
        watch(&wires[i], LOOP_READ, record);
        poke(&wires[i]);
    }
    for (int i = 0; i < MANY; i++)
        while (!wires[i].called)
            CHECK(once() > 0);
    for (int i = 0; i < MANY; i++)
        wire_close(&wires[i]);
    CHECK_INT(once(), 0);
    loop_done(&loop);
}
