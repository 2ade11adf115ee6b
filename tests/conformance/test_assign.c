/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes that are prepared, and get an owner later. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conformance/rig.h"

static const struct backend_owner owner = { .key = "o-late.1", .memory = 1 << 30, .pids = 500 };

static bool has_v1(void)
{
    return geteuid() == 0 && access("/sys/fs/cgroup/memory/memory.limit_in_bytes", F_OK) == 0 &&
           access("/sys/fs/cgroup/pids", F_OK) == 0 && access("/sys/fs/cgroup/cpu", F_OK) == 0;
}

CONFORMANCE(a_prepared_box_starts_nothing_before_it_has_an_owner)
{
    struct subject s;
    struct task j;

    subject_prepare(r, &s);
    task_sh(&s, &j, "true");
    CHECK(j.r < 0 && strstr(j.e.msg, "no owner"));
    task_done(&j);
    if (has_v1())
        CHECK_INT(rig_count_groups("*/sbx_*"), 0);
    subject_end(&s);
}

CONFORMANCE(a_prepared_box_enters_the_groups_of_its_owner)
{
    char pattern[64 + ID_MAX];
    struct subject s;
    struct task j;

    subject_prepare(r, &s);
    r->ops->assign(s.b, &owner);
    CHECK_INT(s.assigned, 0); /* told from the loop … */
    /* … and nothing waits: the start comes behind it. */
    task_sh(&s, &j, "cat /proc/self/cgroup; exit 7");
    CHECK_ENDED(&j, BACKEND_EXITED, 7);
    /* What it sees is its own group: no owner, no tag, no way up. */
    CHECK(!strstr(buf_str(&j.out).p, "late") && !strstr(buf_str(&j.out).p, ".."));
    task_done(&j);
    if (has_v1()) {
        snprintf(pattern, sizeof pattern, "o-late.1/%s", s.id);
        CHECK_INT(rig_count_groups(pattern), 3);
    }
    CHECK_INT(s.assigned, 1);
    subject_end(&s);
    CHECK_INT(s.gone, 0);
}

/* Its teardown tells everything that is waited for before the end. */
CONFORMANCE(a_box_that_is_torn_down_is_not_assigned)
{
    struct subject s;

    subject_prepare(r, &s);
    r->ops->assign(s.b, &owner);
    r->ops->teardown(s.b);
    AWAIT(r, s.torn_down);
    CHECK_INT(s.assigned, 1);
    CHECK_INT(s.gone, 0);
    subject_free(&s);
}

CONFORMANCE(an_owner_is_given_once)
{
    static const struct backend_owner other = { .key = "o-other.1" };
    struct subject s;
    struct task j;

    subject_prepare(r, &s);
    r->ops->assign(s.b, &owner);
    r->ops->assign(s.b, &other);
    task_sh(&s, &j, "true");
    CHECK_ENDED(&j, BACKEND_EXITED, 0);
    task_done(&j);
    CHECK_INT(rig_count_groups("o-other.1"), 0);
    subject_end(&s);
}

/* Not even while PID 1 is on its way into the group that is to be frozen. */
CONFORMANCE(a_box_is_frozen_right_after_it_got_its_owner)
{
    struct subject s;
    struct task j;

    if (!(r->ops->can & BACKEND_CAN_PAUSE))
        SKIP("it cannot be frozen");
    subject_prepare(r, &s);
    r->ops->assign(s.b, &owner);
    r->ops->freeze(s.b);
    AWAIT(r, s.held);
    CHECK(s.r >= 0 && s.frozen);
    r->ops->thaw(s.b);
    rig_await(r, &s.held, 2, "thawed");
    task_sh(&s, &j, "true");
    CHECK_ENDED(&j, BACKEND_EXITED, 0);
    task_done(&j);
    subject_end(&s);
}

/* The daemon that comes next does not find it usable, and removes it. */
CONFORMANCE(a_prepared_box_does_not_outlive_its_daemon)
{
    struct subject s, again;
    char id[ID_MAX];

    subject_prepare(r, &s);
    memcpy(id, s.id, sizeof id);
    subject_free(&s);
    rig_restart(r);
    subject_init_id(r, &again, id);
    r->ops->adopt(again.b, NULL);
    AWAIT(r, again.adopted);
    CHECK(again.r < 0);
    subject_end(&again);
}
