/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher: what it refuses, what it goes on doing, and what it leaves when it ends. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "box.h"
#include "lib/proc/caps.h"

static void expect_answer(const struct launcher *l, int want)
{
    union launch_answer answer;
    struct err e = { 0 };
    int r = launcher_answer(l, &answer, NULL, &e);

    if (r != want)
        FAIL("the launcher answered %d, not %d: %s", r, want, e.msg);
}

static void expect_alive(const struct launcher *l)
{
    struct err e;

    CHECK_OK(launcher_destroy(l, "sbx_00000000000000000000", &e), e);
    expect_answer(l, 0);
}

static void send_raw(const struct launcher *l, const void *message, size_t n, const int *fds,
                     size_t n_fds)
{
    struct err e;

    CHECK_OK(ipc_send(l->sock, message, n, fds, n_fds, &e), e);
}

BOX_TEST(garbage_is_refused)
{
    static char noise[sizeof(struct launch_create) + 64];
    static const size_t lengths[] = {
        1, 11, 12, 100, sizeof(struct launch_named), sizeof(struct launch_create), sizeof noise
    };
    struct launcher l;
    struct err e;

    CHECK_OK(launcher_start(&l, &e), e);
    for (size_t i = 0; i < COUNT_OF(lengths); i++)
        for (int fill = 0; fill < 256; fill += 51) {
            memset(noise, fill, sizeof noise);
            send_raw(&l, noise, lengths[i], NULL, 0);
            expect_answer(&l, lengths[i] == sizeof noise ? -ERR_TOO_BIG : -ERR_INVALID);
        }
    expect_alive(&l);
    launcher_done(&l);
}

BOX_TEST(other_versions_types_and_sizes_are_refused)
{
    static const struct {
        unsigned version, type;
        size_t size;
        int want;
    } cases[] = {
        { LAUNCH_VERSION + 1, LAUNCH_DESTROY, sizeof(struct launch_named), -ERR_UNSUPPORTED },
        { LAUNCH_VERSION, 0, sizeof(struct launch_named), -ERR_INVALID },
        { LAUNCH_VERSION, 3, sizeof(struct launch_named), -ERR_INVALID },
        { LAUNCH_VERSION, 60000, sizeof(struct launch_named), -ERR_INVALID },
        { LAUNCH_VERSION, LAUNCH_DESTROY, sizeof(struct launch_named) - 1, -ERR_INVALID },
        { LAUNCH_VERSION, LAUNCH_DESTROY, sizeof(struct launch_named) + 1, -ERR_INVALID },
        { LAUNCH_VERSION, LAUNCH_CREATE, sizeof(struct launch_named), -ERR_INVALID },
        { LAUNCH_VERSION, LAUNCH_CREATED, sizeof(struct launch_created), -ERR_DENIED },
        { LAUNCH_VERSION, LAUNCH_FAILED, sizeof(struct launch_failed), -ERR_DENIED },
        { LAUNCH_VERSION, LAUNCH_DESTROYED, sizeof(struct launch_destroyed), -ERR_DENIED },
    };
    static union {
        struct launch_head head;
        char room[sizeof(struct launch_create)];
    } m;
    struct launcher l;
    struct err e;

    CHECK_OK(launcher_start(&l, &e), e);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        launch_fill(&m.head, (enum launch_type)cases[i].type, cases[i].size);
        m.head.version = (uint16_t)cases[i].version;
        send_raw(&l, &m, cases[i].size, NULL, 0);
        expect_answer(&l, cases[i].want);
    }
    expect_alive(&l);
    launcher_done(&l);
}

/* Sends a plan as it is, with a good control socket and what the caller adds. */
static int try_plan(const struct launcher *l, const struct plan *p, const int *more, size_t n)
{
    union launch_answer answer;
    int pair[2], fds[IPC_FDS_MAX], r;
    AUTO_CLOSE int pidfd = -1;
    struct err e;

    CHECK_OK(ipc_pair(pair, &e), e);
    fds[0] = pair[1];
    for (size_t i = 0; i < n; i++)
        fds[1 + i] = more[i];
    CHECK_OK(launcher_create(l, p, fds, 1 + n, &e), e);
    r = launcher_answer(l, &answer, &pidfd, &e);
    close(pair[0]);
    close(pair[1]);
    return r;
}

#define BREAK(name, statement)                                                                     \
    static void break_##name(struct plan *p)                                                       \
    {                                                                                              \
        statement;                                                                                 \
    }
BREAK(magic, p->magic++)
BREAK(version, p->version++)
BREAK(size, p->size--)
BREAK(flags, p->flags |= 1u << 31)
BREAK(id, p->id[5] = '/')
BREAK(id_dots, snprintf(p->id, sizeof p->id, "../../../etc"))
BREAK(id_end, memset(p->id, 'a', sizeof p->id))
BREAK(hostname, snprintf(p->hostname, sizeof p->hostname, "a b"))
BREAK(hostname_end, memset(p->hostname, 'a', sizeof p->hostname))
BREAK(memory, p->memory = 1)
BREAK(disk, p->disk = UINT64_MAX)
BREAK(pids, p->pids = 1)
BREAK(cpu, p->cpu_milli = 1)
BREAK(caps, p->caps = CAP_BIT(CAP_SYS_ADMIN))
BREAK(uid, p->uid = PLAN_IDS)
BREAK(layers, p->n_layers = PLAN_LAYERS_MAX + 1)
BREAK(mounts, p->n_mounts = UINT32_MAX)
BREAK(too_few_fds, p->n_mounts = 1; snprintf(p->mounts[0].target, PLAN_TARGET_MAX, "/x"))

BOX_TEST(a_plan_with_any_bad_field_is_refused)
{
    static const struct {
        void (*damage)(struct plan *p);
        int want;
    } cases[] = {
        { break_magic, -ERR_INVALID },        { break_version, -ERR_UNSUPPORTED },
        { break_size, -ERR_INVALID },         { break_flags, -ERR_INVALID },
        { break_id, -ERR_INVALID },           { break_id_dots, -ERR_INVALID },
        { break_id_end, -ERR_INVALID },       { break_hostname, -ERR_INVALID },
        { break_hostname_end, -ERR_INVALID }, { break_memory, -ERR_INVALID },
        { break_disk, -ERR_INVALID },         { break_pids, -ERR_INVALID },
        { break_cpu, -ERR_INVALID },          { break_caps, -ERR_DENIED },
        { break_uid, -ERR_INVALID },          { break_layers, -ERR_INVALID },
        { break_mounts, -ERR_INVALID },       { break_too_few_fds, -ERR_INVALID },
    };
    struct launcher l;
    struct err e;

    CHECK_OK(launcher_start(&l, &e), e);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct plan p;
        int r;

        CHECK_OK(plan_init(&p, &e), e);
        cases[i].damage(&p);
        r = try_plan(&l, &p, NULL, 0);
        if (r != cases[i].want)
            FAIL("case %zu gave %d, not %d", i, r, cases[i].want);
    }
    expect_alive(&l);
    launcher_done(&l);
}

BOX_TEST(descriptors_of_the_wrong_kind_are_refused)
{
    AUTO_CLOSE int file = open("/etc/passwd", O_PATH | O_CLOEXEC);
    AUTO_CLOSE int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    AUTO_CLOSE int stream = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct plan layers, mounts, listener, none;
    struct launcher l;
    struct err e;

    CHECK_OK(plan_init(&none, &e), e);
    layers = mounts = listener = none;
    layers.n_layers = 1;
    mounts.n_mounts = 1;
    snprintf(mounts.mounts[0].target, PLAN_TARGET_MAX, "/x");
    listener.flags = PLAN_LISTENER;
    CHECK_OK(launcher_start(&l, &e), e);
    CHECK_INT(try_plan(&l, &layers, &file, 1), -ERR_INVALID);
    CHECK_INT(try_plan(&l, &layers, &null, 1), -ERR_INVALID);
    CHECK_INT(try_plan(&l, &mounts, &null, 1), -ERR_INVALID);
    CHECK_INT(try_plan(&l, &mounts, &stream, 1), -ERR_INVALID);
    CHECK_INT(try_plan(&l, &listener, &stream, 1), -ERR_INVALID);
    CHECK_INT(try_plan(&l, &listener, &file, 1), -ERR_INVALID);
    CHECK_INT(try_plan(&l, &none, &file, 1), -ERR_INVALID); /* one too many */
    CHECK_OK(launcher_create(&l, &none, &file, 1, &e), e);  /* in the place of the control socket */
    expect_answer(&l, -ERR_INVALID);
    CHECK_OK(launcher_create(&l, &none, NULL, 0, &e), e);
    expect_answer(&l, -ERR_INVALID);
    expect_alive(&l);
    launcher_done(&l);
    drop_fd(&file);
    drop_fd(&null);
    drop_fd(&stream);
}

BOX_TEST(descriptors_with_a_destroy_are_refused)
{
    struct launch_named m = { .id = "sbx_00000000000000000000" };
    struct launcher l;
    struct err e;

    CHECK_OK(launcher_start(&l, &e), e);
    launch_fill(&m.head, LAUNCH_DESTROY, sizeof m);
    send_raw(&l, &m, sizeof m, &l.sock, 1);
    expect_answer(&l, -ERR_DENIED);
    CHECK_OK(launcher_destroy(&l, "sbx_../../../../..", &e), e);
    expect_answer(&l, -ERR_INVALID);
    memset(m.id, 'x', sizeof m.id);
    send_raw(&l, &m, sizeof m, NULL, 0);
    expect_answer(&l, -ERR_INVALID);
    expect_alive(&l);
    launcher_done(&l);
}

/* A refused request leaves no descriptor behind. */
BOX_TEST(refusals_do_not_pile_up)
{
    struct launcher l;
    struct plan p;
    struct err e;
    int before;

    if (!box_is_root())
        SKIP("a plain user's launcher lives in a namespace of its own and cannot be looked into");
    CHECK_OK(launcher_start(&l, &e), e);
    expect_alive(&l);
    before = count_descriptors(l.pid);
    CHECK_OK(plan_init(&p, &e), e);
    p.memory = 1;
    for (int i = 0; i < 100; i++)
        CHECK_INT(try_plan(&l, &p, NULL, 0), -ERR_INVALID);
    expect_alive(&l); /* so it is done with the last one */
    CHECK_INT(count_descriptors(l.pid), before);
    launcher_done(&l);
}

static void read_map(struct box *b, char *out, size_t cap)
{
    struct outcome o AUTO(outcome_done) = { 0 };

    sh_run(b, "cat /proc/self/uid_map", &o);
    CHECK(str_copy(str_trim(buf_str(&o.out)), out, cap));
}

/* The answer comes first; the sandbox is gone when the launcher is. */
BOX_TEST(a_launcher_that_is_released_destroys_what_is_ephemeral)
{
    struct pollfd dead = { .events = POLLIN };
    union launch_answer answer;
    struct box b;
    struct err e;

    box_open(&b);
    dead.fd = b.pidfd;
    CHECK_OK(launcher_release(&b.launcher, &e), e);
    CHECK_OK(launcher_answer(&b.launcher, &answer, NULL, &e), e);
    CHECK_INT(answer.head.type, LAUNCH_RELEASED);
    CHECK_INT(launcher_answer(&b.launcher, &answer, NULL, &e), -ERR_UPSTREAM);
    CHECK_INT(poll(&dead, 1, 0), 1);
    drop_fd(&b.pidfd);
    drop_fd(&b.control);
    launcher_done(&b.launcher);
    box_expect_gone(b.plan.id);
}

BOX_TEST(two_sandboxes_of_one_launcher)
{
    char first[80], second[80];
    struct box a, b;

    box_open(&a);
    box_open_beside(&b, &a);
    CHECK_SH(&a, "echo a >/tmp/x; cat /tmp/x", 0, "a\n");
    CHECK_SH(&b, "cat /tmp/x 2>/dev/null; echo none", 0, "none\n");
    CHECK_SH(&a, "exec /opt/inside count", 0, "0 0\n");
    read_map(&a, first, sizeof first);
    read_map(&b, second, sizeof second);
    if (box_is_root())
        CHECK(strcmp(first, second) != 0); /* ids of their own */
    box_destroy(&a);
    CHECK_SH(&b, "echo still here", 0, "still here\n");
    box_destroy(&b);
    launcher_done(&b.launcher);
}

BOX_TEST(the_same_id_twice_is_a_conflict)
{
    struct plan again;
    struct box b;

    box_open(&b);
    again = b.plan;
    again.n_mounts = 0;
    CHECK_INT(try_plan(&b.launcher, &again, NULL, 0), -ERR_CONFLICT);
    CHECK_SH(&b, "echo unharmed", 0, "unharmed\n");
    box_close(&b);
}

BOX_TEST(destroying_twice_and_destroying_nothing)
{
    struct err e;
    struct box b;

    box_open(&b);
    box_destroy(&b);
    CHECK_OK(launcher_destroy(&b.launcher, b.plan.id, &e), e);
    expect_answer(&b.launcher, 0);
    expect_alive(&b.launcher); /* destroys what never was */
    launcher_done(&b.launcher);
}

BOX_TEST(a_launcher_that_is_left_takes_its_ephemeral_sandboxes_along)
{
    struct box a, b;
    struct job j;

    box_open(&a);
    box_open_beside(&b, &a);
    CHECK(sh_job(&a, "exec sleep 100", &j));
    job_close(&j);
    launcher_done(&a.launcher);
    for (struct box *x = &a;; x = &b) {
        struct pollfd gone = { .fd = x->pidfd, .events = POLLIN };

        CHECK_INT(poll(&gone, 1, 0), 1);
        box_expect_gone(x->plan.id);
        drop_fd(&x->pidfd);
        drop_fd(&x->control);
        if (x == &b)
            break;
    }
}

/* Not a word of goodbye: its sandboxes end with their connections, and another launcher finds their
 * control groups by their ids. */
BOX_TEST(a_launcher_that_dies_leaves_nothing_that_stays)
{
    struct pollfd gone = { .events = POLLIN };
    struct box b;
    struct err e;

    box_open(&b);
    kill(b.launcher.pid, SIGKILL);
    launcher_done(&b.launcher);
    drop_fd(&b.control);
    gone.fd = b.pidfd;
    CHECK_INT(poll(&gone, 1, BOX_WAIT_MS), 1);
    drop_fd(&b.pidfd);
    box_reap_orphans();
    CHECK_OK(launcher_start(&b.launcher, &e), e);
    CHECK_OK(launcher_destroy(&b.launcher, b.plan.id, &e), e);
    expect_answer(&b.launcher, 0);
    launcher_done(&b.launcher);
}

/* A sandbox that is not ephemeral lives until it is destroyed, whoever goes. */
BOX_TEST(a_sandbox_that_stays_outlives_its_launcher)
{
    struct pollfd gone = { .events = POLLIN };
    struct box b;
    struct err e;

    box_prepare(&b);
    b.plan.flags = 0;
    box_build(&b);
    launcher_done(&b.launcher);
    gone.fd = b.pidfd;
    CHECK_INT(poll(&gone, 1, 100), 0);
    CHECK_SH(&b, "echo here", 0, "here\n");
    CHECK_INT(kill(b.pid, SIGKILL), 0);
    CHECK_INT(poll(&gone, 1, BOX_WAIT_MS), 1);
    drop_fd(&b.pidfd);
    drop_fd(&b.control);
    box_reap_orphans();
    CHECK_OK(launcher_start(&b.launcher, &e), e);
    CHECK_OK(launcher_destroy(&b.launcher, b.plan.id, &e), e);
    expect_answer(&b.launcher, 0);
    launcher_done(&b.launcher);
}

BOX_TEST(limits_that_cannot_be_enforced_are_told_or_refused)
{
    union launch_answer answer;
    int pair[2], pidfd = -1, r;
    struct launcher l;
    struct plan p;
    struct err e;

    CHECK_OK(launcher_start(&l, &e), e);
    CHECK_OK(plan_init(&p, &e), e);
    p.flags = PLAN_EPHEMERAL | PLAN_STRICT;
    p.memory = 64 << 20;
    p.cpu_milli = 500;
    CHECK_OK(ipc_pair(pair, &e), e);
    CHECK_OK(launcher_create(&l, &p, &pair[1], 1, &e), e);
    r = launcher_answer(&l, &answer, &pidfd, &e);
    if (r < 0) { /* here they cannot be had: without PLAN_STRICT they are missing, and named */
        CHECK_INT(r, -ERR_UNSUPPORTED);
        p.flags = PLAN_EPHEMERAL;
        CHECK_OK(launcher_create(&l, &p, &pair[1], 1, &e), e);
        CHECK_OK(launcher_answer(&l, &answer, &pidfd, &e), e);
        CHECK(answer.created.unenforced & (LAUNCH_NO_MEMORY | LAUNCH_NO_CPU));
    } else {
        CHECK_INT(answer.created.unenforced, 0);
    }
    close(pair[0]);
    close(pair[1]);
    close(pidfd);
    launcher_done(&l);
    box_expect_gone(p.id);
}

/* Each step of building, made to fail: the error names it, and nothing is left. */
BOX_TEST(a_failing_step_is_named_and_undone)
{
    static const char *const steps[] = { "identity", "limits", "clone", "namespace",
                                         "release",  "await",  "root",  "proc",
                                         "pivot",    "user",   "init" };

    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        union launch_answer answer;
        struct launcher l;
        struct plan p;
        struct err e;
        int pair[2];

        CHECK(setenv("SANDBOXER_TEST_FAIL_STEP", steps[i], 1) == 0);
        CHECK_OK(launcher_start(&l, &e), e);
        CHECK_OK(plan_init(&p, &e), e);
        CHECK_OK(ipc_pair(pair, &e), e);
        CHECK_OK(launcher_create(&l, &p, &pair[1], 1, &e), e);
        if (launcher_answer(&l, &answer, NULL, &e) != -ERR_BUSY)
            FAIL("step %s: %s", steps[i], e.msg);
        CHECK(strstr(e.msg, steps[i]));
        box_expect_gone(p.id);
        close(pair[0]);
        close(pair[1]);
        launcher_done(&l);
    }
}

static void ask_to_destroy(const struct launcher_options *o, const char *id)
{
    struct launcher l;
    union launch_answer a;
    struct err e;

    CHECK_OK(launcher_start_with(o, &l, &e), e);
    CHECK_OK(launcher_destroy(&l, id, &e), e);
    CHECK_OK(launcher_answer(&l, &a, NULL, &e), e);
    CHECK_INT(a.head.type, LAUNCH_DESTROYED);
    CHECK_INT(a.destroyed.leftover, 0);
    launcher_done(&l);
}

/* Whoever took over a control plane knows ids, and gets a launcher of its own tag. */
BOX_TEST(a_launcher_finds_no_sandboxes_of_another_tag)
{
    const struct launcher_options mine = { .tag = "fe01.1" }, theirs = { .tag = "fe01.2" };
    struct pollfd death = { .events = POLLIN };
    struct box b;

    box_prepare_with(&b, &mine);
    box_build(&b);
    ask_to_destroy(&theirs, b.plan.id);
    ask_to_destroy(&(struct launcher_options){ 0 }, b.plan.id);
    death.fd = b.pidfd;
    CHECK_INT(poll(&death, 1, 50), 0);
    CHECK_SH(&b, "echo alive", 0, "alive\n");
    if (access("/sys/fs/cgroup/unified/cgroup.procs", W_OK) == 0) {
        ask_to_destroy(&mine, b.plan.id);
        CHECK_INT(poll(&death, 1, BOX_WAIT_MS), 1);
    }
    box_close(&b);
}
