/* SPDX-License-Identifier: Apache-2.0 */
/* Launchers die; sandboxes that live do not notice, and nothing is left of those that do not. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conformance/rig.h"
#include "sandbox/box.h"

CONFORMANCE_LOCAL(boxes_outlive_their_launchers)
{
    struct process_start start = sh("read x; exit 8");
    struct subject s, next;
    struct task t;

    subject_ready(r, &s);
    start.flags = START_STDIN;
    task_start(&s, &t, &start);
    AWAIT(r, t.started);
    rig_kill_launchers(r);
    rig_idle(r, 50 * NS_PER_MS);
    CHECK_INT(s.gone + t.ended, 0);
    drop_fd(&t.p.stdio[0]);
    task_follow(&t);
    CHECK_ENDED(&t, BACKEND_EXITED, 8);
    task_done(&t);
    subject_ready(r, &next); /* there is another one */
    subject_end(&next);
    subject_end(&s);
    CHECK_INT(s.gone, 0);
}

/* At every step of the launcher's own. */
CONFORMANCE_LOCAL(a_launcher_that_dies_while_it_builds)
{
    static const char *const steps[] = { "open",   "ids",     "group",     "clone",   "identity",
                                         "limits", "program", "namespace", "release", "await" };

    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        struct subject s, next;

        rig_kill_launchers(r);
        rig_idle(r, 5 * NS_PER_MS);
        r->die_step = steps[i];
        r->die_times = 1;
        subject_init(r, &s);
        subject_provision(&s);
        r->ops->wait_ready(s.b);
        AWAIT(r, s.provisioned);
        if (s.r != -ERR_UPSTREAM || !strstr(s.e.msg, "launcher died"))
            FAIL("at step %s: %d %s", steps[i], s.r, s.e.msg);
        CHECK_INT(s.provisioned, 1);
        AWAIT(r, s.ready);
        CHECK(!rig_has_dir(r, s.id));
        box_expect_gone(s.id);
        subject_end(&s);
        subject_ready(r, &next);
        subject_end(&next);
    }
}

/* … and while teardown was asked for already. */
CONFORMANCE_LOCAL(a_launcher_that_dies_while_it_builds_what_nobody_wants_any_more)
{
    for (int us = 0; us < 6000; us += 500) {
        struct subject s;

        subject_init(r, &s);
        subject_provision(&s);
        rig_idle(r, us * NS_PER_US);
        r->ops->teardown(s.b);
        rig_kill_launchers(r);
        subject_end(&s);
        CHECK_INT(s.torn_down, 1);
    }
}

CONFORMANCE_LOCAL(a_launcher_that_dies_while_it_destroys)
{
    for (int us = 0; us < 3000; us += 300) {
        struct subject s;

        subject_ready(r, &s);
        r->ops->teardown(s.b);
        rig_idle(r, us * NS_PER_US);
        rig_kill_launchers(r);
        AWAIT(r, s.torn_down);
        CHECK_OK(s.r, s.e);
        CHECK(!rig_has_dir(r, s.id));
        box_expect_gone(s.id);
        CHECK_INT(s.torn_down, 1);
        subject_free(&s);
    }
}

CONFORMANCE_LOCAL(launchers_that_come_late_are_waited_for)
{
    struct subject s;

    r->refuse_launchers = 3;
    subject_ready(r, &s);
    subject_end(&s);
}

CONFORMANCE_LOCAL(without_a_launcher_everything_fails_and_can_be_tried_again)
{
    struct subject s, lost;

    r->refuse_launchers = 1000;
    subject_init(r, &lost);
    subject_provision(&lost);
    AWAIT(r, lost.provisioned);
    CHECK_INT(lost.r, -ERR_UPSTREAM);
    CHECK(strstr(lost.e.msg, "today"));
    CHECK(!rig_has_dir(r, lost.id));
    subject_end(&lost);

    r->refuse_launchers = 0;
    subject_ready(r, &s);
    rig_kill_launchers(r);
    rig_idle(r, 5 * NS_PER_MS);
    r->refuse_launchers = 1000;
    r->ops->teardown(s.b);
    AWAIT(r, s.torn_down);
    CHECK_INT(s.r, -ERR_UPSTREAM);
    CHECK(rig_has_dir(r, s.id)); /* whatever is left of it is still found */
    r->refuse_launchers = 0;
    subject_end(&s);
}

static struct subject *unwanted;

static void want_no_more(struct rig *r)
{
    r->ops->teardown(unwanted->b);
}

/* Nobody waits when the launcher is found dead, and somebody asks again at once. */
CONFORMANCE_LOCAL(launchers_that_die_while_nobody_waits_are_not_started_without_a_rest)
{
    struct subject s;

    r->dead_launchers = 1 << 20;
    r->on_take = want_no_more;
    unwanted = &s;
    for (int64_t end = clock_mono() + 400 * NS_PER_MS; clock_mono() < end;) {
        subject_init(r, &s);
        subject_provision(&s);
        rig_idle(r, 2 * NS_PER_MS);
        subject_end(&s);
    }
    CHECK(r->taken < 20);
    r->on_take = NULL;
    r->dead_launchers = 0;
    subject_ready(r, &s);
    subject_end(&s);
}
