/* SPDX-License-Identifier: Apache-2.0 */
/* Ending: timeouts and kills reach everything that one start has set free, and nothing else. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "box.h"
#include "lib/proc/spawn.h"

enum { MS = 1000000 };

static struct process_start inside(const char *verb)
{
    static const char *argv[3];

    argv[0] = "/opt/inside";
    argv[1] = verb;
    return (struct process_start){ .what = START_PROGRAM, .argv = argv };
}

/* Until it is so: a process that has just ended may still be seen. */
static void await_count(struct box *b, const char *want)
{
    struct process_start s = inside("count");
    struct outcome o AUTO(outcome_done) = { 0 };

    for (int i = 0; i < 100; i++) {
        box_run(b, &s, STR(""), &o);
        if (str_eq(buf_str(&o.out), str_from(want)))
            return;
        usleep(10000);
    }
    CHECK_STR(buf_str(&o.out), want);
}

/* Nothing but PID 1 and the program that looks. */
static void expect_empty(struct box *b)
{
    struct process_start s = inside("count");
    struct outcome o AUTO(outcome_done) = { 0 };

    box_run(b, &s, STR(""), &o);
    CHECK_STR(buf_str(&o.out), "0 0\n");
}

BOX_TEST(a_timeout_is_told_as_one)
{
    struct process_start s = sh_start("exec sleep 100");
    struct outcome o AUTO(outcome_done) = { 0 };
    int64_t begin;
    struct box b;

    box_open(&b);
    s.timeout_ns = 50 * MS;
    s.grace_ns = 30 * NS_PER_S;
    begin = clock_mono();
    box_run(&b, &s, STR(""), &o);
    CHECK_INT(o.end.how, CONTROL_BY_TIMEOUT);
    CHECK_INT(o.end.status, SIGTERM);
    CHECK(clock_mono() - begin < 20 * NS_PER_S);
    CHECK(clock_mono() - begin >= 50 * MS);
    expect_empty(&b);
    box_close(&b);
}

BOX_TEST(a_program_may_use_its_grace)
{
    struct process_start s =
        sh_start("trap 'sleep 0.1; echo bye; exit 9' TERM; while :; do sleep 0.02; done");
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;

    box_open(&b);
    s.timeout_ns = NS_PER_S;
    s.grace_ns = 10 * NS_PER_S;
    box_run(&b, &s, STR(""), &o);
    CHECK_INT(o.end.how, CONTROL_BY_TIMEOUT);
    CHECK_INT(o.end.status, 9);
    CHECK_STR(buf_str(&o.out), "bye\n");
    box_close(&b);
}

/* One that ignores SIGTERM, with a child, a session of its own and a daemon. */
static void run_escaping(struct box *b, int64_t timeout, int64_t grace, struct job *ret)
{
    struct process_start s = inside("escape");

    s.timeout_ns = timeout;
    s.grace_ns = grace;
    CHECK(job_start(b, &s, ret, NULL));
    await_word(ret->out, "ready");
}

BOX_TEST(a_timeout_ends_the_whole_tree)
{
    struct control_exited end;
    struct box b;
    struct job j;

    box_open(&b);
    run_escaping(&b, 3 * NS_PER_S, 100 * MS, &j);
    await_count(&b, "4 0\n");
    job_end(&b, &j, &end);
    CHECK_INT(end.how, CONTROL_BY_TIMEOUT);
    CHECK_INT(end.status, SIGKILL);
    expect_empty(&b);
    run_escaping(&b, NS_PER_S, 0, &j); /* no grace */
    job_end(&b, &j, &end);
    CHECK_INT(end.status, SIGKILL);
    expect_empty(&b);
    box_close(&b);
}

BOX_TEST(a_timeout_before_the_start_is_one_too)
{
    struct box b;

    box_open(&b);
    for (int64_t ns = 1; ns < 4 * MS; ns = ns * 2 + 1) {
        struct process_start s = sh_start("exec sleep 100");
        static union supervisor_message m;
        struct ipc_fds fds;
        struct err e;

        s.timeout_ns = ns;
        CHECK_OK(supervisor_start(b.control, ++b.tag, &s, &e), e);
        if (box_hear(&b, b.tag, &m, &fds) == CONTROL_STARTED) {
            CHECK_INT(fds.n, 2);
            ipc_fds_done(&fds);
            box_hear(&b, b.tag, &m, &fds);
        }
        CHECK_INT(m.head.type, CONTROL_EXITED);
        CHECK_INT(m.exited.how, CONTROL_BY_TIMEOUT);
    }
    CHECK_INT(box_count_procs(&b), 0);
    box_close(&b);
}

BOX_TEST(a_kill_ends_its_tree_and_no_other)
{
    struct job first, second, plain;
    struct control_exited end;
    struct box b;

    box_open(&b);
    run_escaping(&b, 0, 0, &first);
    run_escaping(&b, 0, 0, &second);
    CHECK(sh_job(&b, "exec sleep 100", &plain));
    await_count(&b, "9 0\n");
    CHECK_INT(box_kill(&b, first.proc, SIGKILL, true), 0);
    job_end(&b, &first, &end);
    CHECK_INT(end.how, CONTROL_BY_SIGNAL);
    CHECK_INT(end.status, SIGKILL);
    CHECK_SH(&b, "exec /opt/inside count", 0, "5 0\n");
    CHECK_INT(box_kill(&b, second.proc, SIGKILL, false), 0); /* SIGKILL means the tree */
    job_end(&b, &second, &end);
    CHECK_SH(&b, "exec /opt/inside count", 0, "1 0\n");
    CHECK_INT(box_kill(&b, plain.proc, SIGTERM, false), 0);
    job_end(&b, &plain, &end);
    CHECK_INT(end.status, SIGTERM);
    expect_empty(&b);
    box_close(&b);
}

BOX_TEST(signals_to_one_or_to_all)
{
    struct control_exited end;
    struct box b;
    struct job j;

    box_open(&b);
    CHECK(sh_job(&b, "trap 'echo got; exit 3' USR1; sleep 100 & echo ready; wait", &j));
    await_word(j.out, "ready");
    CHECK_INT(box_kill(&b, j.proc, 0, false), 0);
    CHECK_INT(box_kill(&b, j.proc, SIGUSR1, false), 0);
    await_word(j.out, "got");
    job_end(&b, &j, &end);
    CHECK_INT(end.status, 3);
    CHECK_SH(&b, "exec /opt/inside count; ", 0, "1 0\n"); /* the sleep was not asked to go */
    CHECK(sh_job(&b, "sleep 100 & echo ready; wait", &j));
    await_word(j.out, "ready");
    CHECK_INT(box_kill(&b, j.proc, SIGTERM, true), 0);
    job_end(&b, &j, &end);
    CHECK_INT(end.status, SIGTERM);
    await_count(&b, "1 0\n");
    CHECK_INT(box_kill(&b, j.proc, SIGTERM, true), ESRCH);
    CHECK_INT(box_kill(&b, 4711, SIGKILL, true), ESRCH);
    box_close(&b);
}

/* What marks a tree is a number the kernel gives to somebody else when the tree is gone. */
BOX_TEST(a_kill_does_not_reach_what_starts_right_after_it)
{
    struct process_start next;
    struct box b;

    box_open(&b);
    for (int i = 0; i < 150; i++) {
        struct job j, after = { .in = -1, .out = -1, .err = -1, .tag = 1000000 + (uint32_t)i };
        struct outcome o AUTO(outcome_done) = { 0 };
        static union supervisor_message m;
        struct ipc_fds fds;
        struct err e;

        CHECK(sh_job(&b, "exec sleep 100", &j));
        CHECK_OK(supervisor_kill(b.control, 999999, j.proc, SIGKILL, true, &e), e);
        if (i % 2)
            usleep((useconds_t)(i * 20));
        next = sh_start("sleep 0.01; echo lived");
        CHECK_OK(supervisor_start(b.control, after.tag, &next, &e), e);
        CHECK_INT(box_hear(&b, 999999, &m, &fds), CONTROL_KILLED);
        job_end(&b, &j, NULL);
        CHECK_INT(box_hear(&b, after.tag, &m, &fds), CONTROL_STARTED);
        CHECK_INT(fds.n, 2);
        after.proc = m.started.proc;
        after.out = fds.fd[0];
        after.err = fds.fd[1];
        job_finish(&b, &after, STR(""), &o);
        if (o.end.how != CONTROL_BY_EXIT || o.end.status != 0)
            FAIL("round %d: the next program ended %u/%d", i, o.end.how, o.end.status);
        CHECK_STR(buf_str(&o.out), "lived\n");
    }
    box_close(&b);
}

BOX_TEST(a_fork_bomb_is_killed)
{
    struct process_start bomb = inside("bomb");
    struct control_exited end;
    struct job j, quiet;
    struct box b;

    box_prepare(&b);
    b.plan.pids = 120;
    box_build(&b);
    CHECK(sh_job(&b, "exec sleep 100", &quiet));
    CHECK(job_start(&b, &bomb, &j, NULL));
    await_word(j.out, "ready");
    usleep(200000);
    CHECK_INT(box_kill(&b, j.proc, SIGKILL, true), 0);
    job_end(&b, &j, &end);
    CHECK_INT(end.status, SIGKILL);
    CHECK_SH(&b, "exec /opt/inside count", 0, "1 0\n");
    CHECK_INT(box_kill(&b, quiet.proc, SIGTERM, false), 0);
    job_end(&b, &quiet, NULL);
    box_close(&b);
}

BOX_TEST(a_fork_bomb_runs_into_its_timeout)
{
    struct process_start bomb = inside("bomb");
    struct control_exited end;
    struct box b;
    struct job j;

    bomb.timeout_ns = NS_PER_S;
    bomb.grace_ns = 50 * MS;
    box_prepare(&b);
    b.plan.pids = 120;
    box_build(&b);
    CHECK(job_start(&b, &bomb, &j, NULL));
    await_word(j.out, "ready");
    job_end(&b, &j, &end);
    CHECK_INT(end.how, CONTROL_BY_TIMEOUT);
    expect_empty(&b);
    box_close(&b);
}

/* Runs the program, kills it, or lets its timeout do that; its processes hold our pipe, so its end
 * shows that none is left. */
static void kill_hidden(struct box *b, const char *program)
{
    const char *argv[] = { program, "escape", NULL };
    struct process_start s = { .what = START_PROGRAM, .argv = argv };
    struct control_exited end;
    char rest[2];
    struct job j;

    CHECK(job_start(b, &s, &j, NULL));
    await_word(j.out, "ready");
    CHECK_SH(b, "exec /opt/inside count", 0, "1 0\n");
    CHECK_INT(box_kill(b, j.proc, SIGKILL, true), 0);
    CHECK_INT(read_some(j.out, rest, 2), 1); /* the line's end, and then nobody is left */
    job_end(b, &j, &end);
    CHECK_INT(end.status, SIGKILL);
    s.timeout_ns = NS_PER_S;
    s.grace_ns = 50 * MS;
    CHECK(job_start(b, &s, &j, NULL));
    await_word(j.out, "ready");
    CHECK_INT(read_some(j.out, rest, 2), 1);
    job_end(b, &j, &end);
    CHECK_INT(end.how, CONTROL_BY_TIMEOUT);
}

/* Its user may not read it, so its processes hide from the others'. */
BOX_TEST(a_kill_reaches_what_hides)
{
    struct box b;
    struct job other;

    box_open(&b);
    CHECK_SH(&b, "cp /opt/inside /tmp/hidden && chmod 0111 /tmp/hidden", 0, "");
    CHECK(sh_job(&b, "exec sleep 100", &other));
    kill_hidden(&b, "/tmp/hidden");
    CHECK_SH(&b, "exec /opt/inside count", 0, "1 0\n");
    CHECK_INT(box_kill(&b, other.proc, SIGTERM, false), 0);
    job_end(&b, &other, NULL);
    box_close(&b);
}

/* It belongs to nobody whom the sandbox knows: its processes hide from PID 1 as well. */
BOX_TEST(a_kill_reaches_what_hides_from_pid_1)
{
    enum { STRANGER = 70000 };
    char path[] = "/tmp/sandboxer-test-XXXXXX", inside_path[4096], command[4200];
    struct job other;
    struct box b;
    struct err e;
    int fd;

    if (!box_is_root())
        SKIP("only root can make a file of somebody whom its sandbox does not know");
    fd = mkstemp(path);
    CHECK(fd >= 0 && close(fd) == 0);
    CHECK_OK(spawn_find("sandbox/inside", inside_path, sizeof inside_path, &e), e);
    snprintf(command, sizeof command, "cp '%s' %s", inside_path, path);
    CHECK_INT(system(command), 0);
    CHECK(chown(path, STRANGER, STRANGER) == 0 && chmod(path, 0111) == 0);
    box_prepare(&b);
    box_mount(&b, path, "/opt/hidden", false);
    box_build(&b);
    CHECK(sh_job(&b, "exec sleep 100", &other));
    kill_hidden(&b, "/opt/hidden");
    CHECK_SH(&b, "exec /opt/inside count", 0, "1 0\n");
    CHECK_INT(box_kill(&b, other.proc, SIGTERM, false), 0);
    job_end(&b, &other, NULL);
    box_close(&b);
    CHECK(unlink(path) == 0);
}

BOX_TEST(destroying_ends_everything)
{
    struct box b;
    struct job j;

    box_open(&b);
    run_escaping(&b, 0, 0, &j);
    job_close(&j);
    box_destroy(&b);
    CHECK_INT(kill(b.pid, 0), -1);
    launcher_done(&b.launcher);
}

static void kill_all(struct box *b, int sig, int64_t grace_ns, int want)
{
    static union supervisor_message m;
    struct ipc_fds fds;
    uint32_t tag = ++b->tag;
    struct err e;

    CHECK_OK(supervisor_kill_all(b->control, tag, sig, grace_ns, &e), e);
    CHECK_INT(box_hear(b, tag, &m, &fds), CONTROL_KILLED);
    CHECK(m.killed.proc == 0 && m.killed.sys == want);
}

/* Programs, what they left behind, and what hides; a file operation goes on. */
BOX_TEST(everything_inside_is_killed_at_once)
{
    static const char *const path[] = { "/tmp", NULL };
    struct process_start watch = { .what = START_WATCH, .argv = path, .cwd = "/" };
    struct control_exited end;
    struct job watcher, first, second;
    struct box b;

    box_open(&b);
    kill_all(&b, SIGTERM, 0, ESRCH);
    CHECK(job_start(&b, &watch, &watcher, NULL));
    CHECK_SH(&b, "setsid sleep 100 >/dev/null 2>&1 & setsid -f sleep 100 >/dev/null 2>&1", 0, "");
    CHECK(sh_job(&b, "trap '' TERM; echo ready; while :; do sleep 0.01; done", &first));
    CHECK(sh_job(&b, "exec sleep 100", &second));
    await_word(first.out, "ready");
    kill_all(&b, SIGKILL, 0, 0);
    job_end(&b, &first, &end);
    CHECK(end.how == CONTROL_BY_SIGNAL && end.status == SIGKILL);
    job_end(&b, &second, &end);
    CHECK(end.how == CONTROL_BY_SIGNAL && end.status == SIGKILL);
    await_count(&b, "0 0\n");
    CHECK_INT(box_count_procs(&b), 1); /* the watcher, which nobody inside sees */
    CHECK_INT(box_kill(&b, watcher.proc, SIGKILL, true), 0);
    job_end(&b, &watcher, NULL);
    CHECK_SH(&b, "echo as before", 0, "as before\n");
    box_close(&b);
}

BOX_TEST(everything_inside_has_time_to_end)
{
    struct control_exited end;
    struct job polite, stubborn;
    struct box b;

    box_open(&b);
    CHECK(sh_job(&b,
                 "exec 2>/dev/null; trap 'exit 4' TERM; echo ready; while :; do sleep 0.01; done",
                 &polite));
    CHECK(sh_job(&b, "trap '' TERM; echo ready; while :; do sleep 0.01; done", &stubborn));
    await_word(polite.out, "ready");
    await_word(stubborn.out, "ready");
    kill_all(&b, SIGTERM, 2 * NS_PER_S, 0);
    job_end(&b, &polite, &end);
    if (end.how != CONTROL_BY_EXIT || end.status != 4)
        FAIL("it ended %u/%d", end.how, end.status);
    job_end(&b, &stubborn, &end);
    CHECK(end.how == CONTROL_BY_SIGNAL && end.status == SIGKILL);
    await_count(&b, "0 0\n");
    box_close(&b);
}

BOX_TEST(what_forks_as_fast_as_it_can_is_killed_with_everything)
{
    struct job j;
    struct box b;

    box_open(&b);
    CHECK(sh_job(&b, "f() { while :; do (f) >/dev/null 2>&1 & done; }; echo ready; f", &j));
    await_word(j.out, "ready");
    usleep(50000);
    kill_all(&b, SIGKILL, 0, 0);
    job_end(&b, &j, NULL);
    await_count(&b, "0 0\n");
    box_close(&b);
}
