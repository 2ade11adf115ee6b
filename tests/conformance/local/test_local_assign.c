/* SPDX-License-Identifier: Apache-2.0 */
/* Prepared boxes and the launcher that made them. */
#include <glob.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conformance/rig.h"
#include "lib/proc/sys.h"
#include "sandbox/box.h"

static const struct backend_owner owner = { .key = "o-late.1", .memory = 1 << 30, .pids = 500 };

/* From `assigned` on it needs neither the launcher that made it nor the daemon. */
CONFORMANCE_LOCAL(a_box_that_was_assigned_outlives_its_launcher_and_daemon)
{
    struct subject s, again;
    struct task j;
    char id[ID_MAX];

    subject_prepare(r, &s);
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

/* It cannot get an owner any more: nobody may take it for one that can. */
CONFORMANCE_LOCAL(a_prepared_box_whose_launcher_died_is_not_alive)
{
    struct subject s;

    subject_prepare(r, &s);
    CHECK(r->ops->alive(s.b));
    rig_kill_launchers(r);
    rig_idle(r, 50 * NS_PER_MS);
    CHECK(!r->ops->alive(s.b));
    subject_end(&s);
}

CONFORMANCE_LOCAL(a_box_that_gets_no_owner_is_gone)
{
    struct subject s;

    subject_prepare(r, &s);
    rig_kill_launchers(r);
    r->ops->assign(s.b, &owner);
    AWAIT(r, s.assigned);
    CHECK(s.r < 0);
    AWAIT(r, s.gone);
    CHECK_INT(rig_count_groups("o-late.1/*"), 0);
    subject_end(&s);
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

CONFORMANCE_LOCAL(a_prepared_box_whose_launcher_hangs_ends_with_its_daemon)
{
    struct subject s;

    subject_prepare(r, &s);
    rig_hang_launchers(r);
    check_gone_with_daemon(r, &s, watch_init(r));
}

CONFORMANCE_LOCAL(a_box_that_waits_for_a_launcher_that_hangs_ends_with_its_daemon)
{
    struct subject s;

    subject_prepare(r, &s);
    rig_hang_launchers(r);
    r->ops->assign(s.b, &owner);
    rig_idle(r, 50 * NS_PER_MS);
    check_gone_with_daemon(r, &s, watch_init(r));
}
