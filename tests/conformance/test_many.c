/* SPDX-License-Identifier: Apache-2.0 */
/* Many at once. With MEASURE set, says how long things take. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/rig.h"

enum { MANY = 100, ROUNDS = 40 };

static void say(const char *what, int64_t ns)
{
    if (getenv("MEASURE"))
        fprintf(stderr, "# %s: %.2f ms\n", what, (double)ns / NS_PER_MS);
}

CONFORMANCE(a_hundred_at_once)
{
    static struct subject s[MANY];
    int64_t began = clock_mono();

    for (int i = 0; i < MANY; i++) {
        subject_init(r, &s[i]);
        subject_provision(&s[i]);
        r->ops->wait_ready(s[i].b);
    }
    for (int i = 0; i < MANY; i++) {
        AWAIT(r, s[i].ready);
        CHECK_OK(s[i].r, s[i].e);
    }
    say("100 creates at once, all ready", clock_mono() - began);
    for (int i = 0; i < MANY; i++) {
        struct task t;

        task_sh(&s[i], &t, "exit 7");
        CHECK_ENDED(&t, BACKEND_EXITED, 7);
        task_done(&t);
    }
    began = clock_mono();
    for (int i = 0; i < MANY; i++)
        r->ops->teardown(s[i].b);
    for (int i = 0; i < MANY; i++) {
        AWAIT(r, s[i].torn_down);
        CHECK_OK(s[i].r, s[i].e);
        CHECK(!rig_has_dir(r, s[i].id));
        subject_free(&s[i]);
    }
    say("100 teardowns at once", clock_mono() - began);
}

/* The launcher dies in the middle: some fail with that reason, the others are made. */
CONFORMANCE(many_creates_survive_the_death_of_launchers)
{
    static struct subject s[MANY];
    int made = 0, lost = 0;

    for (int i = 0; i < MANY; i++) {
        subject_init(r, &s[i]);
        subject_provision(&s[i]);
    }
    for (int i = 0; i < 3; i++) {
        rig_await(r, &s[10 * i].provisioned, 1, "some of them");
        rig_kill_launchers(r);
    }
    for (int i = 0; i < MANY; i++) {
        AWAIT(r, s[i].provisioned);
        made += s[i].r >= 0;
        lost += s[i].r < 0;
        if (s[i].r < 0)
            CHECK(strstr(s[i].e.msg, "launcher died"));
    }
    CHECK(made > 0 && lost > 0);
    for (int i = 0; i < MANY; i++)
        r->ops->teardown(s[i].b);
    for (int i = 0; i < MANY; i++) {
        AWAIT(r, s[i].torn_down);
        CHECK_OK(s[i].r, s[i].e);
        subject_free(&s[i]);
    }
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

CONFORMANCE(one_after_the_other)
{
    int64_t ready[ROUNDS], down[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        struct subject s;
        int64_t began = clock_mono();

        subject_init(r, &s);
        subject_provision(&s);
        r->ops->wait_ready(s.b);
        AWAIT(r, s.ready);
        CHECK_OK(s.r, s.e);
        ready[i] = clock_mono() - began;
        began = clock_mono();
        r->ops->teardown(s.b);
        AWAIT(r, s.torn_down);
        down[i] = clock_mono() - began;
        subject_free(&s);
    }
    qsort(ready, ROUNDS, sizeof ready[0], by_size);
    qsort(down, ROUNDS, sizeof down[0], by_size);
    say("create to ready, median", ready[ROUNDS / 2]);
    say("teardown, median", down[ROUNDS / 2]);
}
