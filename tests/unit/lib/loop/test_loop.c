/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/loop/loop.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>

#include "base/clock.h"
#include "base/own.h"
#include "harness/tap.h"
#include "lib/loop/timer.h"

static struct loop loop;
static struct err e;

struct owner {
    struct loop_later later;
    struct loop_timer timer;
    int called;
    struct owner *other;
};

static void count(struct loop_later *s)
{
    container_of(s, struct owner, later)->called++;
}

TEST(a_zeroed_loop_is_harmless)
{
    int before = fcntl(0, F_GETFD);

    loop_done(NULL);
    loop_done(&loop);
    CHECK_INT(fcntl(0, F_GETFD), before); /* descriptor 0 is not the zeroed loop's to close */
    CHECK_OK(loop_init(&loop, &e), e);
    loop_done(&loop);
    loop_done(&loop);
}

TEST(nothing_to_do)
{
    CHECK_OK(loop_init(&loop, &e), e);
    CHECK_INT(loop_run_once(&loop, 0, &e), 0);
    CHECK_INT(loop_run_once(&loop, NS_PER_MS, &e), 0);
    loop_done(&loop);
}

TEST(a_stop_before_the_run_is_not_lost)
{
    CHECK_OK(loop_init(&loop, &e), e);
    loop_stop(&loop);
    CHECK_OK(loop_run(&loop, &e), e);
    CHECK_INT(loop_run_once(&loop, 0, &e), 0);
    loop_done(&loop);
}

TEST(later_runs_once)
{
    struct owner o = { 0 };

    CHECK_OK(loop_init(&loop, &e), e);
    CHECK_OK(loop_later(&loop, &o.later, count, &e), e);
    CHECK_INT(loop_later(&loop, &o.later, count, &e), -ERR_CONFLICT);
    CHECK_INT(o.called, 0);
    CHECK_INT(loop_run_once(&loop, -1, &e), 1);
    CHECK_INT(loop_run_once(&loop, 0, &e), 0);
    CHECK_INT(o.called, 1);
    loop_done(&loop);
}

TEST(later_can_be_taken_back)
{
    struct owner o = { 0 };

    CHECK_OK(loop_init(&loop, &e), e);
    loop_later_stop(&o.later);
    CHECK_OK(loop_later(&loop, &o.later, count, &e), e);
    loop_later_stop(&o.later);
    loop_later_stop(&o.later);
    CHECK_INT(loop_run_once(&loop, 0, &e), 0);
    CHECK_INT(o.called, 0);
    loop_done(&loop);
}

static void stop_other(struct loop_later *s)
{
    struct owner *o = container_of(s, struct owner, later);

    o->called++;
    loop_later_stop(&o->other->later);
}

TEST(later_stops_later_of_the_same_batch)
{
    struct owner a = { 0 }, b = { 0 };

    a.other = &b;
    CHECK_OK(loop_init(&loop, &e), e);
    CHECK_OK(loop_later(&loop, &a.later, stop_other, &e), e);
    CHECK_OK(loop_later(&loop, &b.later, count, &e), e);
    CHECK_INT(loop_run_once(&loop, -1, &e), 1);
    CHECK_INT(loop_run_once(&loop, 0, &e), 0);
    CHECK_INT(b.called, 0);
    loop_done(&loop);
}

static void again(struct loop_later *s)
{
    struct owner *o = container_of(s, struct owner, later);

    if (++o->called < 3)
        CHECK_OK(loop_later(s->loop, s, again, &e), e);
}

TEST(later_again_waits_for_the_next_batch)
{
    struct owner o = { 0 };

    CHECK_OK(loop_init(&loop, &e), e);
    CHECK_OK(loop_later(&loop, &o.later, again, &e), e);
    CHECK_INT(loop_run_once(&loop, -1, &e), 1);
    CHECK_INT(o.called, 1);
    loop_stop(&loop);
    CHECK_OK(loop_run(&loop, &e), e); /* does not leave anything pending */
    CHECK_INT(o.called, 3);
    loop_done(&loop);
}

static void free_owner(struct loop_later *s)
{
    free(container_of(s, struct owner, later));
    loop_stop(&loop);
}

static void end_owner(struct loop_timer *t)
{
    struct owner *o = container_of(t, struct owner, timer);

    CHECK_OK(loop_later(t->loop, &o->later, free_owner, &e), e);
    CHECK_INT(loop_later(t->loop, &o->later, free_owner, &e), -ERR_CONFLICT);
    o->called++; /* still there */
}

TEST(an_owner_frees_itself)
{
    struct owner *o = calloc(1, sizeof *o);

    CHECK(o);
    CHECK_OK(loop_init(&loop, &e), e);
    CHECK_OK(loop_timer_start(&loop, &o->timer, 0, end_owner, &e), e);
    CHECK_OK(loop_run(&loop, &e), e);
    loop_done(&loop);
}

static void nest(struct loop_later *s)
{
    struct err inner;

    CHECK_INT(loop_run_once(s->loop, 0, &inner), -ERR_BUG);
    CHECK_INT(loop_run(s->loop, &inner), -ERR_BUG);
    loop_stop(s->loop);
    CHECK_INT(loop_run(s->loop, &inner), -ERR_BUG);
}

TEST(loops_do_not_nest)
{
    struct owner o = { 0 };

    CHECK_OK(loop_init(&loop, &e), e);
    CHECK_OK(loop_later(&loop, &o.later, nest, &e), e);
    CHECK_OK(loop_run(&loop, &e), e);
    loop_done(&loop);
}

static volatile sig_atomic_t alarms;

static void on_alarm(int signo)
{
    alarms++;
}

static void stop_loop(struct loop_timer *t)
{
    loop_stop(t->loop);
}

TEST(signal_handlers_do_not_end_a_wait)
{
    struct itimerval every_ms = { { 0, 1000 }, { 0, 1000 } };
    struct sigaction act = { .sa_handler = on_alarm };
    int64_t start = clock_mono();

    CHECK_OK(loop_init(&loop, &e), e);
    CHECK_INT(sigaction(SIGALRM, &act, NULL), 0);
    CHECK_INT(setitimer(ITIMER_REAL, &every_ms, NULL), 0);
    CHECK_INT(loop_run_once(&loop, 20 * NS_PER_MS, &e), 0);
    CHECK(clock_mono() - start >= 20 * NS_PER_MS);
    CHECK(alarms > 0);
    loop_done(&loop);
}

TEST(extreme_timeouts)
{
    struct owner o = { 0 };

    CHECK_OK(loop_init(&loop, &e), e);
    CHECK_OK(loop_timer_start(&loop, &o.timer, clock_mono() + NS_PER_MS, stop_loop, &e), e);
    CHECK_INT(loop_run_once(&loop, INT64_MAX, &e), 1);
    CHECK_OK(loop_timer_start(&loop, &o.timer, clock_mono() + NS_PER_MS, stop_loop, &e), e);
    CHECK_INT(loop_run_once(&loop, INT64_MIN, &e), 1);
    loop_done(&loop);
}
