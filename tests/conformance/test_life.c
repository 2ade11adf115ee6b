/* SPDX-License-Identifier: Apache-2.0 */
/* From provision to torn_down, and every way out in between. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "conformance/rig.h"
#include "sandbox/box.h"

CONFORMANCE(a_box_becomes_ready_and_goes)
{
    struct subject s;

    subject_ready(r, &s);
    CHECK(rig_has_dir(r, s.id));
    CHECK(s.b->handle[0]);
    subject_end(&s);
    CHECK_INT(s.provisioned, 1);
    CHECK_INT(s.ready, 1);
    CHECK_INT(s.torn_down, 1);
    CHECK_INT(s.gone, 0);
}

CONFORMANCE(ready_can_be_asked_before_provisioned_and_again)
{
    struct subject s;

    subject_init(r, &s);
    subject_provision(&s);
    r->ops->wait_ready(s.b);
    AWAIT(r, s.ready);
    CHECK(s.r >= 0);
    CHECK_INT(s.provisioned, 1);
    r->ops->wait_ready(s.b);
    rig_await(r, &s.ready, 2, "ready again");
    CHECK(s.r >= 0);
    subject_end(&s);
}

CONFORMANCE(teardown_of_what_never_was_is_fine)
{
    struct subject s;

    subject_init(r, &s);
    subject_teardown(&s);
    subject_teardown(&s);
    subject_free(&s);
    CHECK_INT(r->n_launchers, 0);
}

CONFORMANCE(teardown_right_after_provision)
{
    struct subject s;

    subject_init(r, &s);
    subject_provision(&s);
    subject_end(&s);
    CHECK_INT(s.provisioned, 0);
}

/* At many moments of the making, and told twice. */
CONFORMANCE(teardown_while_it_is_made)
{
    for (int us = 0; us < 8000; us += 400) {
        struct subject s;

        subject_init(r, &s);
        subject_provision(&s);
        r->ops->wait_ready(s.b);
        rig_idle(r, us * NS_PER_US);
        r->ops->teardown(s.b);
        subject_end(&s);
        CHECK_INT(s.torn_down, 1);
        CHECK(s.provisioned <= 1 && s.ready == 1);
        CHECK_INT(s.gone, 0);
    }
}

CONFORMANCE(teardown_loses_what_runs_before_it_is_done)
{
    struct process_start start = sh("sleep 1000");
    struct subject s;
    struct task a, b;

    subject_ready(r, &s);
    task_start(&s, &a, &start);
    AWAIT(r, a.started);
    task_start(&s, &b, &start);
    r->ops->teardown(s.b);
    CHECK_INT(a.ended, 0);
    subject_teardown(&s);
    CHECK_INT(a.ended, 1);
    CHECK_INT(a.end.how, BACKEND_LOST);
    CHECK(b.started == 1 && (b.r < 0 ? b.ended == 0 : b.ended == 1));
    CHECK_INT(s.torn_down, 1);
    task_done(&a);
    task_done(&b);
    subject_free(&s);
}

static void free_it(struct subject *s)
{
    s->rig->ops->teardown(s->b);
    subject_free(s);
}

CONFORMANCE(a_box_may_be_freed_from_inside_its_event)
{
    struct subject s, again;

    subject_init(r, &s);
    s.on_provisioned = free_it;
    subject_provision(&s);
    AWAIT(r, s.provisioned);
    rig_idle(r, 200 * NS_PER_MS);
    subject_init_id(r, &again, s.id); /* what it left is found by its id */
    subject_end(&again);
}

CONFORMANCE(a_bad_request_leaves_nothing)
{
    static const struct backend_mount bad[] = {
        { "/nonexistent/source", "/mnt/x", false },
        { "relative", "/mnt/x", false },
        { "/tmp", "/proc/x", false },
    };

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct subject s;
        struct backend_spec spec = subject_spec(r);

        subject_init(r, &s);
        spec.mounts = &bad[i];
        spec.n_mounts = 1;
        r->ops->provision(s.b, &spec);
        CHECK_INT(s.provisioned, 0);
        AWAIT(r, s.provisioned);
        CHECK(s.r < 0);
        CHECK(strstr(s.e.msg, "mount"));
        CHECK(!rig_has_dir(r, s.id));
        r->ops->wait_ready(s.b);
        AWAIT(r, s.ready);
        CHECK(s.r < 0);
        subject_end(&s);
    }
}

CONFORMANCE(a_step_that_fails_is_named)
{
    struct subject s;

    setenv("SANDBOXER_TEST_FAIL_STEP", "pivot", 1);
    subject_init(r, &s);
    subject_provision(&s);
    AWAIT(r, s.provisioned);
    CHECK(s.r < 0);
    CHECK_STR(str_from(s.b->step), "pivot");
    CHECK(!rig_has_dir(r, s.id));
    subject_end(&s);
    unsetenv("SANDBOXER_TEST_FAIL_STEP");
}

CONFORMANCE(mounts_show_host_directories)
{
    char dir[] = "/tmp/conformance-mount-XXXXXX", file[64];
    struct backend_spec spec = subject_spec(r);
    struct backend_mount mount = { dir, "/mnt/host", true };
    struct subject s;
    struct task j;

    CHECK(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/from-inside", dir);
    spec.mounts = &mount;
    spec.n_mounts = 1;
    subject_init(r, &s);
    r->ops->provision(s.b, &spec);
    AWAIT(r, s.provisioned);
    CHECK_OK(s.r, s.e);
    task_sh(&s, &j, "echo hi >/mnt/host/from-inside");
    CHECK_ENDED(&j, BACKEND_EXITED, 0);
    task_done(&j);
    subject_end(&s);
    CHECK(unlink(file) == 0 && rmdir(dir) == 0);
}

/* The sandbox's PID 1 as we see it: it listens. */
static pid_t supervisor_of(struct subject *s)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    AUTO_CLOSE int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct ucred peer;
    socklen_t n = sizeof peer;

    snprintf(address.sun_path, sizeof address.sun_path, "%s/run/%s/control", s->rig->path, s->id);
    CHECK(connect(sock, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && peer.pid > 1);
    return peer.pid;
}

CONFORMANCE(a_box_that_dies_is_told_once)
{
    struct process_start start = sh("sleep 1000");
    struct subject s;
    struct task a, b;

    subject_ready(r, &s);
    task_start(&s, &a, &start);
    AWAIT(r, a.started);
    CHECK(kill(supervisor_of(&s), SIGKILL) == 0);
    AWAIT(r, s.gone);
    CHECK_INT(a.ended, 1);
    CHECK_INT(a.end.how, BACKEND_LOST);
    CHECK(s.reason[0]);
    task_start(&s, &b, &start);
    AWAIT(r, b.started);
    CHECK(b.r < 0);
    r->ops->usage(s.b);
    AWAIT(r, s.used);
    CHECK(s.r < 0);
    rig_idle(r, 20 * NS_PER_MS);
    subject_end(&s);
    CHECK_INT(s.gone, 1);
    task_done(&a);
    task_done(&b);
}

CONFORMANCE(teardown_of_a_box_that_dies_meanwhile)
{
    struct subject s;

    subject_ready(r, &s);
    CHECK(kill(supervisor_of(&s), SIGKILL) == 0);
    subject_end(&s);
    CHECK_INT(s.gone, 0);
}

static bool knows(void *user, const char *id)
{
    return strcmp(user, id) == 0;
}

static int n_stale;
static void count_stale(void *user, const char *id, const char *what)
{
    CHECK(what[0]);
    n_stale++;
}

CONFORMANCE(sweep_removes_what_nobody_knows)
{
    struct subject kept, lost[3], again;
    struct err e;
    int64_t end = clock_mono() + RIG_PATIENCE;

    subject_ready(r, &kept);
    for (size_t i = 0; i < COUNT_OF(lost); i++) {
        subject_ready(r, &lost[i]);
        subject_free(&lost[i]);
    }
    subject_free(&kept);
    rig_restart(r);
    CHECK_OK(r->ops->stale(r->x, knows, count_stale, kept.id, &e), e);
    CHECK_INT(n_stale, 3);
    for (int again_too = 0; again_too < 2;
         again_too++) { /* the second time nothing is left to do */
        n_stale = 0;
        CHECK_OK(r->ops->sweep(r->x, knows, count_stale, kept.id, &e), e);
        CHECK_INT(n_stale, again_too ? 0 : 3);
    }
    n_stale = 0;
    CHECK_OK(r->ops->stale(r->x, knows, count_stale, kept.id, &e), e);
    CHECK_INT(n_stale, 3); /* they are still there */
    for (size_t i = 0; i < COUNT_OF(lost); i++) {
        while (rig_has_dir(r, lost[i].id) && clock_mono() < end)
            rig_idle(r, NS_PER_MS);
        CHECK(!rig_has_dir(r, lost[i].id));
        box_expect_gone(lost[i].id);
    }
    subject_adopt(r, &again, kept.id);
    CHECK_OK(again.r, again.e);
    subject_end(&again);
}

CONFORMANCE(sweep_leaves_another_state_directory_alone)
{
    struct rig *other = calloc(1, sizeof *other);
    struct subject s;
    struct task j;
    struct err e;

    CHECK(other);
    subject_ready(r, &s);
    rig_open(other, r->ops);
    {
        char nobody[] = "";

        CHECK_OK(other->ops->sweep(other->x, knows, count_stale, nobody, &e), e);
        CHECK_INT(n_stale, 0);
    }
    rig_idle(other, 100 * NS_PER_MS);
    task_sh(&s, &j, "exit 3");
    CHECK_ENDED(&j, BACKEND_EXITED, 3);
    task_done(&j);
    subject_end(&s);
    rig_close(other);
    free(other);
}
