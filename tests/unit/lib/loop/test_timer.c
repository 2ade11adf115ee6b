/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/loop/timer.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "harness/tap.h"

enum { MANY = 10000 };

static struct loop loop;
static struct err e;

struct alarm_clock {
    struct loop_timer timer;
    int called;
    struct alarm_clock *other;
};

static struct alarm_clock clocks[MANY];
static int order[MANY];
static int fired;

static void record(struct loop_timer *t)
{
    struct alarm_clock *c = container_of(t, struct alarm_clock, timer);

    CHECK(t->deadline <= clock_mono());
    CHECK(!loop_timer_started(t));
    c->called++;
    order[fired++] = (int)(c - clocks);
}

/* From 0 to below n, the same sequence in every run: a failure can be repeated. */
static int pick(int n)
{
    static uint32_t state = 1;

    state = state * 1664525 + 1013904223;
    return (int)((state >> 8) % (uint32_t)n);
}

static void start(int i, int64_t deadline, loop_timer_fn *call)
{
    CHECK_OK(loop_timer_start(&loop, &clocks[i].timer, deadline, call, &e), e);
}

static void init(void)
{
    CHECK_OK(loop_init(&loop, &e), e);
}

TEST(one_shot)
{
    init();
    start(0, clock_mono() + 2 * NS_PER_MS, record);
    CHECK(loop_timer_started(&clocks[0].timer));
    while (!fired)
        CHECK_OK(loop_run_once(&loop, -1, &e), e);
    CHECK_INT(loop_run_once(&loop, 5 * NS_PER_MS, &e), 0);
    CHECK_INT(fired, 1);
    loop_done(&loop);
}

TEST(starting_and_stopping_twice)
{
    struct loop_timer zeroed = { 0 };

    init();
    loop_timer_stop(&zeroed);
    start(0, 1, record);
    CHECK_INT(loop_timer_start(&loop, &clocks[0].timer, 2, record, &e), -ERR_CONFLICT);
    CHECK_INT(clocks[0].timer.deadline, 1);
    loop_timer_stop(&clocks[0].timer);
    loop_timer_stop(&clocks[0].timer);
    CHECK(!loop_timer_started(&clocks[0].timer));
    CHECK_INT(loop_run_once(&loop, 0, &e), 0);
    start(0, 1, record);
    CHECK_INT(loop_run_once(&loop, 0, &e), 1);
    loop_done(&loop);
}

TEST(deadlines_without_sense_are_due_at_once)
{
    init();
    start(0, 0, record);
    start(1, -1, record);
    start(2, INT64_MIN, record);
    CHECK_INT(loop_run_once(&loop, -1, &e), 3);
    CHECK_INT(order[0], 2);
    start(0, INT64_MAX, record);
    CHECK_INT(loop_run_once(&loop, NS_PER_MS, &e), 0);
    loop_done(&loop);
}

TEST(in_order_of_deadlines)
{
    static const int64_t deadlines[] = { 50, 10, 40, 20, 30, 10, 60, 10 };
    static const int want[] = { 1, 5, 7, 3, 4, 2, 0, 6 };

    init();
    for (int i = 0; i < (int)COUNT_OF(deadlines); i++)
        start(i, deadlines[i], record);
    CHECK_INT(loop_run_once(&loop, -1, &e), COUNT_OF(deadlines));
    for (size_t i = 0; i < COUNT_OF(want); i++)
        CHECK_INT(order[i], want[i]);
    loop_done(&loop);
}

static void stop_other(struct loop_timer *t)
{
    struct alarm_clock *c = container_of(t, struct alarm_clock, timer);

    record(t);
    loop_timer_stop(&c->other->timer);
}

TEST(stopped_by_another_in_the_same_batch)
{
    init();
    clocks[0].other = &clocks[1];
    start(0, 1, stop_other);
    start(1, 2, record);
    start(2, 3, record);
    CHECK_INT(loop_run_once(&loop, -1, &e), 2);
    CHECK_INT(clocks[1].called, 0);
    CHECK_INT(clocks[2].called, 1);
    CHECK_INT(loop_run_once(&loop, 0, &e), 0);
    loop_done(&loop);
}

static void postpone_other(struct loop_timer *t)
{
    struct alarm_clock *c = container_of(t, struct alarm_clock, timer);

    record(t);
    loop_timer_stop(&c->other->timer);
    start((int)(c->other - clocks), INT64_MAX / 2, record);
}

TEST(postponed_by_another_in_the_same_batch)
{
    init();
    clocks[0].other = &clocks[1];
    start(0, 1, postpone_other);
    start(1, 2, record);
    CHECK_INT(loop_run_once(&loop, -1, &e), 1);
    CHECK(loop_timer_started(&clocks[1].timer));
    loop_timer_stop(&clocks[1].timer);
    loop_done(&loop);
}

static void again(struct loop_timer *t)
{
    record(t);
    CHECK_OK(loop_timer_start(t->loop, t, 0, again, &e), e);
}

TEST(one_that_starts_itself_again_does_not_starve_the_others)
{
    init();
    start(0, 0, again);
    start(1, 1, record);
    CHECK_INT(loop_run_once(&loop, -1, &e), 2);
    CHECK_INT(clocks[0].called, 1);
    CHECK_INT(clocks[1].called, 1);
    CHECK_INT(loop_run_once(&loop, -1, &e), 1);
    loop_timer_stop(&clocks[0].timer);
    loop_done(&loop);
}

static void free_both(struct loop_timer *t)
{
    struct alarm_clock *c = container_of(t, struct alarm_clock, timer), *other = c->other;

    loop_timer_stop(&other->timer);
    free(other);
    free(c);
}

TEST(memory_is_free_once_stopped)
{
    struct alarm_clock *a = calloc(1, sizeof *a), *b = calloc(1, sizeof *b);

    CHECK(a && b);
    init();
    a->other = b;
    CHECK_OK(loop_timer_start(&loop, &a->timer, 1, free_both, &e), e);
    CHECK_OK(loop_timer_start(&loop, &b->timer, 2, record, &e), e);
    CHECK_INT(loop_run_once(&loop, -1, &e), 1);
    CHECK_INT(loop_run_once(&loop, 0, &e), 0);
    loop_done(&loop);
}

TEST(ten_thousand)
{
    init();
    for (int i = 0; i < MANY; i++)
        start(i, 1 + pick(1000), record);
    CHECK_INT(loop_run_once(&loop, -1, &e), MANY);
    for (int i = 1; i < MANY; i++) {
        const struct loop_timer *a = &clocks[order[i - 1]].timer, *b = &clocks[order[i]].timer;

        CHECK(a->deadline <= b->deadline);
        if (a->deadline == b->deadline)
            CHECK(order[i - 1] < order[i]);
    }
    loop_done(&loop);
}

/* What idle timeouts of connections do: nearly all are stopped and started anew, few ever fire. */
TEST(ten_thousand_with_cancellation)
{
    bool want[MANY];
    int expected = 0;

    init();
    for (int i = 0; i < MANY; i++)
        start(i, 1 + pick(1000), record);
    for (int round = 0; round < 10 * MANY; round++) {
        int i = pick(MANY);

        loop_timer_stop(&clocks[i].timer);
        if (pick(4))
            start(i, 1 + pick(1000), record);
    }
    for (int i = 0; i < MANY; i++)
        expected += want[i] = loop_timer_started(&clocks[i].timer);
    CHECK_INT(loop_run_once(&loop, -1, &e), expected);
    for (int i = 0; i < MANY; i++)
        CHECK_INT(clocks[i].called, want[i]);
    for (int i = 1; i < fired; i++)
        CHECK(clocks[order[i - 1]].timer.deadline <= clocks[order[i]].timer.deadline);
    CHECK(!loop.timers_);
    loop_done(&loop);
}

/* A chain as long as the heap has members: nothing may recurse along it. */
TEST(ten_thousand_in_the_worst_order)
{
    init();
    for (int i = 0; i < MANY; i++)
        start(i, MANY - i, record);
    for (int i = 0; i < MANY; i += 2)
        loop_timer_stop(&clocks[i].timer);
    CHECK_INT(loop_run_once(&loop, -1, &e), MANY / 2);
    CHECK_INT(order[0], MANY - 1);
    loop_done(&loop);
}
