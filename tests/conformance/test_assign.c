/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes that are prepared, and get an owner later. */
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conformance/rig.h"
#include "lib/proc/sys.h"
#include "sandbox/box.h"

static const struct backend_owner owner = { .key = "o-late.1", .memory = 1 << 30, .pids = 500 };

static void ready_prepared(struct rig *r, struct subject *s)
{
    subject_init(r, s);
    s->prepared = true;
    subject_provision(s);
    r->ops->wait_ready(s->b);
    AWAIT(r, s->ready);
    CHECK(s->r >= 0);
}

/* The groups of this test that match, in hierarchies with limits. */
static size_t count_groups(const char *pattern)
{
    char path[256];
    glob_t found = { 0 };
    size_t n;

    snprintf(path, sizeof path, "/sys/fs/cgroup/{memory,pids,cpu}/sandboxer-%s/%s", rig_tag(),
             pattern);
    n = glob(path, GLOB_NOSORT | GLOB_BRACE, NULL, &found) == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return n;
}

static bool has_v1(void)
{
    return geteuid() == 0 && access("/sys/fs/cgroup/memory/memory.limit_in_bytes", F_OK) == 0 &&
           access("/sys/fs/cgroup/pids", F_OK) == 0 && access("/sys/fs/cgroup/cpu", F_OK) == 0;
}

CONFORMANCE(a_prepared_box_starts_nothing_before_it_has_an_owner)
{
    struct subject s;
    struct task j;

    ready_prepared(r, &s);
    task_sh(&s, &j, "true");
    CHECK(j.r < 0 && strstr(j.e.msg, "no owner"));
    task_done(&j);
    if (has_v1())
        CHECK_INT(count_groups("*/sbx_*"), 0);
    subject_end(&s);
}

CONFORMANCE(a_prepared_box_enters_the_groups_of_its_owner)
{
    char pattern[64 + ID_MAX];
    struct subject s;
    struct task j;

    ready_prepared(r, &s);
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
        CHECK_INT(count_groups(pattern), 3);
    }
    CHECK_INT(s.assigned, 1);
    subject_end(&s);
    CHECK_INT(s.gone, 0);
}

/* From `assigned` on it needs neither the launcher that made it nor the daemon. */
CONFORMANCE(a_box_that_was_assigned_outlives_its_launcher_and_daemon)
{
    struct subject s, again;
    struct task j;
    char id[ID_MAX];

    ready_prepared(r, &s);
    r->ops->assign(s.b, &owner);
    AWAIT(r, s.assigned);
    CHECK(s.r >= 0);
    memcpy(id, s.id, sizeof id);
    rig_kill_launchers(r);
    subject_free(&s);
    rig_restart(r);
    subject_init_id(r, &again, id);
    r->ops->adopt(again.b, NULL);
    AWAIT(r, again.adopted);
    CHECK(again.r >= 0);
    task_sh(&again, &j, "true");
    CHECK_ENDED(&j, BACKEND_EXITED, 0);
    task_done(&j);
    subject_end(&again);
}

/* Its teardown tells everything that is waited for before the end. */
CONFORMANCE(a_box_that_is_torn_down_is_not_assigned)
{
    struct subject s;

    ready_prepared(r, &s);
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

    ready_prepared(r, &s);
    r->ops->assign(s.b, &owner);
    r->ops->assign(s.b, &other);
    task_sh(&s, &j, "true");
    CHECK_ENDED(&j, BACKEND_EXITED, 0);
    task_done(&j);
    CHECK_INT(count_groups("o-other.1"), 0);
    subject_end(&s);
}

/* Not even while PID 1 is on its way into the group that is to be frozen. */
CONFORMANCE(a_box_is_frozen_right_after_it_got_its_owner)
{
    struct subject s;
    struct task j;

    if (!(r->ops->can & BACKEND_CAN_PAUSE))
        SKIP("it cannot be frozen");
    ready_prepared(r, &s);
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

/* It cannot get an owner any more: nobody may take it for one that can. */
CONFORMANCE(a_prepared_box_whose_launcher_died_is_not_alive)
{
    struct subject s;

    ready_prepared(r, &s);
    CHECK(r->ops->alive(s.b));
    rig_kill_launchers(r);
    rig_idle(r, 50 * NS_PER_MS);
    CHECK(!r->ops->alive(s.b));
    subject_end(&s);
}

CONFORMANCE(a_box_that_gets_no_owner_is_gone)
{
    struct subject s;

    ready_prepared(r, &s);
    rig_kill_launchers(r);
    r->ops->assign(s.b, &owner);
    AWAIT(r, s.assigned);
    CHECK(s.r < 0);
    AWAIT(r, s.gone);
    CHECK_INT(count_groups("o-late.1/*"), 0);
    subject_end(&s);
}

/* The daemon that comes next does not find it usable, and removes it. */
CONFORMANCE(a_prepared_box_does_not_outlive_its_daemon)
{
    struct subject s, again;
    char id[ID_MAX];

    ready_prepared(r, &s);
    memcpy(id, s.id, sizeof id);
    subject_free(&s);
    rig_restart(r);
    subject_init_id(r, &again, id);
    r->ops->adopt(again.b, NULL);
    AWAIT(r, again.adopted);
    CHECK(again.r < 0);
    subject_end(&again);
}

static pid_t parent_of(const char *stat_path)
{
    FILE *f = fopen(stat_path, "re");
    int parent = 0;

    if (f && fscanf(f, "%*d (%*[^)]) %*c %d", &parent) != 1)
        parent = 0;
    if (f)
        fclose(f);
    return parent;
}

/* The one process that this launcher has started; 0: none. */
static int child_of(pid_t launcher)
{
    glob_t all = { 0 };
    int found = 0;

    CHECK_INT(glob("/proc/[0-9]*/stat", GLOB_NOSORT, NULL, &all), 0);
    for (size_t i = 0; i < all.gl_pathc && !found; i++)
        if (parent_of(all.gl_pathv[i]) == launcher)
            CHECK_INT(sscanf(all.gl_pathv[i], "/proc/%d/", &found), 1);
    globfree(&all);
    return found;
}

/* A pidfd of the only sandbox's PID 1. */
static int watch_init(struct rig *r)
{
    int pid = 0;

    for (size_t i = 0; i < r->n_launchers && !pid; i++)
        pid = child_of(r->launchers[i].pid);
    return sys_pidfd_open(pid);
}

/* The next daemon looks for the box of a launcher that hangs, and need not wait for its end. */
static void check_gone_with_daemon(struct rig *r, struct subject *s, int init)
{
    struct pollfd dead = { .fd = init, .events = POLLIN };
    int64_t begin = clock_mono();
    struct subject again;
    char id[ID_MAX];

    CHECK(init >= 0);
    memcpy(id, s->id, sizeof id);
    subject_free(s);
    rig_restart(r);
    subject_init_id(r, &again, id);
    r->ops->adopt(again.b, NULL);
    AWAIT(r, again.adopted);
    CHECK(again.r < 0);
    subject_end(&again);
    CHECK(clock_mono() - begin < 4 * NS_PER_S);
    CHECK_INT(poll(&dead, 1, 1000), 1);
    close(init);
    rig_wake_launchers(r);
    box_expect_gone(id);
}

CONFORMANCE(a_prepared_box_whose_launcher_hangs_ends_with_its_daemon)
{
    struct subject s;

    ready_prepared(r, &s);
    rig_hang_launchers(r);
    check_gone_with_daemon(r, &s, watch_init(r));
}

CONFORMANCE(a_box_that_waits_for_a_launcher_that_hangs_ends_with_its_daemon)
{
    struct subject s;

    ready_prepared(r, &s);
    rig_hang_launchers(r);
    r->ops->assign(s.b, &owner);
    rig_idle(r, 50 * NS_PER_MS);
    check_gone_with_daemon(r, &s, watch_init(r));
}
