/* SPDX-License-Identifier: Apache-2.0 */
/* What runs in a box. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conformance/rig.h"
#include "lib/ipc/control.h"

#define CHECK_OUT(t, text) CHECK_STR(buf_str(&(t)->out), (text))

CONFORMANCE(programs_end_as_they_end)
{
    static const struct {
        const char *script;
        enum backend_how how;
        int status;
        const char *out;
    } cases[] = {
        { "true", BACKEND_EXITED, 0, "" },
        { "exit 7", BACKEND_EXITED, 7, "" },
        { "kill -TERM $$", BACKEND_SIGNALLED, SIGTERM, "" },
        { "echo out; echo err >&2", BACKEND_EXITED, 0, "out\n" },
        { "cat", BACKEND_EXITED, 0, "" }, /* without stdin there is nothing to read */
        { "pwd", BACKEND_EXITED, 0, "/tmp\n" },
    };
    struct subject s;

    subject_ready(r, &s);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct task t;

        task_sh(&s, &t, cases[i].script);
        CHECK_ENDED(&t, cases[i].how, cases[i].status);
        CHECK_OUT(&t, cases[i].out);
        CHECK(t.p.proc && t.p.pid > 1);
        task_done(&t);
    }
    subject_end(&s);
}

CONFORMANCE(a_start_that_cannot_be_says_why)
{
    static const char *const missing[] = { "/nonexistent/program", NULL }, *const fine[] = {
        "/bin/true", NULL
    };
    const struct process_start starts[] = {
        { .what = START_PROGRAM, .argv = missing },
        { .what = START_PROGRAM, .argv = fine, .user = "nobody-of-that-name" },
        { .what = START_PROGRAM, .argv = fine, .user = "70000" },
        { .what = START_PROGRAM, .argv = fine, .user = "1:2:3" },
        { .what = START_PROGRAM, .argv = fine, .user = "" },
        { .what = START_PROGRAM, .argv = fine, .cwd = "/nonexistent" },
        { .what = START_WHAT_COUNT_, .argv = fine },
    };
    struct subject s;

    subject_ready(r, &s);
    for (size_t i = 0; i < COUNT_OF(starts); i++) {
        struct task t;

        task_start(&s, &t, &starts[i]);
        task_follow(&t);
        CHECK(t.r < 0 && t.ended == 0 && t.started == 1);
        task_done(&t);
    }
    subject_end(&s);
}

CONFORMANCE(the_environment_is_merged)
{
    static const char *const mine[] = { "BOTH=request", "MINE=too", NULL };
    struct process_start start =
        sh("echo $FROM_PROFILE $BOTH $MINE $LANG; test -n \"$PATH\" -a -n \"$HOME\"");
    struct subject s;
    struct task t;

    subject_ready(r, &s);
    start.envp = mine;
    task_start(&s, &t, &start);
    task_follow(&t);
    CHECK_ENDED(&t, BACKEND_EXITED, 0);
    CHECK_OUT(&t, "yes-it-is request too C.UTF-8\n");
    task_done(&t);
    subject_end(&s);
}

CONFORMANCE(stdin_reaches_a_program)
{
    struct process_start start = sh("tr a-z A-Z");
    struct subject s;
    struct task t;

    subject_ready(r, &s);
    start.flags = START_STDIN;
    task_start(&s, &t, &start);
    AWAIT(r, t.started);
    CHECK_OK(t.r, t.e);
    CHECK(write(t.p.stdio[0], "hello", 5) == 5);
    drop_fd(&t.p.stdio[0]);
    task_follow(&t);
    CHECK_ENDED(&t, BACKEND_EXITED, 0);
    CHECK_OUT(&t, "HELLO");
    task_done(&t);
    subject_end(&s);
}

CONFORMANCE(a_terminal_is_one_descriptor)
{
    struct process_start start = sh("stty size; test -t 0 -a -t 1 -a -t 2 && echo $TERM");
    struct subject s;
    struct task t;

    subject_ready(r, &s);
    start.flags = START_TTY;
    start.rows = 33;
    start.cols = 77;
    task_start(&s, &t, &start);
    AWAIT(r, t.started);
    CHECK_OK(t.r, t.e);
    CHECK(t.p.stdio[0] >= 0 && t.p.stdio[1] < 0 && t.p.stdio[2] < 0);
    task_follow(&t);
    CHECK_ENDED(&t, BACKEND_EXITED, 0);
    CHECK_OUT(&t, "33 77\r\nxterm-256color\r\n");
    task_done(&t);
    subject_end(&s);
}

CONFORMANCE(a_timeout_ends_a_program)
{
    struct process_start start = sh("trap '' TERM; sleep 1000 & wait; sleep 1000");
    struct subject s;
    struct task t;

    subject_ready(r, &s);
    start.timeout_ns = 50 * NS_PER_MS;
    start.grace_ns = 50 * NS_PER_MS;
    task_start(&s, &t, &start);
    task_follow(&t);
    CHECK_INT(t.end.how, BACKEND_TIMED_OUT);
    task_done(&t);
    subject_end(&s);
}

CONFORMANCE(signals_reach_one_and_all)
{
    struct process_start start = sh("sleep 1000");
    struct subject s;
    struct task t[3];

    subject_ready(r, &s);
    for (size_t i = 0; i < COUNT_OF(t); i++)
        task_start(&s, &t[i], &start);
    r->ops->signal(&t[0].p, SIGKILL, BACKEND_SCOPE_TREE); /* before it has started */
    AWAIT(r, t[0].started);
    if (t[0].r >= 0) {
        AWAIT(r, t[0].ended);
        CHECK_INT(t[0].end.how, BACKEND_SIGNALLED);
    }
    AWAIT(r, t[1].started);
    AWAIT(r, t[2].started);
    CHECK_INT(t[1].ended + t[2].ended, 0);
    r->ops->signal_all(s.b, SIGTERM);
    AWAIT(r, t[1].ended);
    AWAIT(r, t[2].ended);
    CHECK_INT(t[1].end.status, SIGTERM);
    for (size_t i = 0; i < COUNT_OF(t); i++)
        task_done(&t[i]);
    subject_end(&s);
}

CONFORMANCE(each_delivered_signal_is_reported)
{
    struct process_start start = sh("sleep 1000");
    struct subject s;
    struct task t;

    subject_ready(r, &s);
    task_start(&s, &t, &start);
    AWAIT(r, t.started);
    CHECK_INT(t.signalled, 0);
    r->ops->signal(&t.p, SIGCONT, BACKEND_SCOPE_ONE);
    AWAIT(r, t.signalled);
    r->ops->signal(&t.p, SIGCONT, BACKEND_SCOPE_TREE);
    rig_await(r, &t.signalled, 2, "signalled");
    CHECK_INT(t.ended, 0);
    r->ops->signal(&t.p, SIGKILL, BACKEND_SCOPE_TREE);
    AWAIT(r, t.ended);
    task_done(&t);
    subject_end(&s);
}

static uint32_t processes_inside(struct rig *r, struct subject *s)
{
    int before = s->used;

    r->ops->usage(s->b);
    rig_await(r, &s->used, before + 1, "usage");
    CHECK(s->r >= 0);
    return s->usage.processes;
}

/* Dropped at once, soon after, and when it runs: nothing is told, and nothing stays. */
CONFORMANCE(a_dropped_process_is_not_told_of_and_ends)
{
    struct process_start start = sh("sleep 1000");
    int64_t end = clock_mono() + RIG_PATIENCE;
    struct subject s;

    subject_ready(r, &s);
    for (int us = 0; us < 5000; us += 500) {
        struct task t;

        task_start(&s, &t, &start);
        rig_idle(r, us * NS_PER_US);
        r->ops->drop(&t.p);
        CHECK(!t.p.box);
        rig_idle(r, 2 * NS_PER_MS);
        CHECK_INT(t.ended, 0);
        task_done(&t);
    }
    while (processes_inside(r, &s) > 0)
        CHECK(clock_mono() < end);
    subject_end(&s);
}

CONFORMANCE(usage_grows)
{
    struct subject s;
    struct task t;
    int64_t first;

    subject_ready(r, &s);
    processes_inside(r, &s);
    first = s.usage.cpu_ns;
    task_sh(&s, &t, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done");
    CHECK_ENDED(&t, BACKEND_EXITED, 0);
    CHECK(t.end.cpu_ns > 0);
    processes_inside(r, &s);
    CHECK(s.usage.cpu_ns > first);
    task_done(&t);
    first = s.usage.cpu_ns;
    subject_end(&s);
    CHECK(s.report.cpu_ns >= first);
}

static void file_task(struct subject *s, struct task *t, enum start_what what, const char *path,
                      const char *to)
{
    const char *const argv[] = { path, to, NULL };

    task_start(s, t,
               &(struct process_start){ .what = what, .argv = argv, .cwd = "/", .mode = 0755 });
    task_follow(t);
}

static void write_file(struct rig *r, struct subject *s, const char *path, const char *text)
{
    const char *const argv[] = { path, NULL };
    uint32_t n = (uint32_t)strlen(text), end = 0;
    struct task t;

    task_start(
        s, &t,
        &(struct process_start){
            .what = START_WRITE, .flags = START_STDIN, .argv = argv, .cwd = "/", .mode = 0644 });
    AWAIT(r, t.started);
    CHECK_OK(t.r, t.e);
    CHECK(write(t.p.stdio[0], &n, sizeof n) == sizeof n);
    CHECK(write(t.p.stdio[0], text, n) == (ssize_t)n);
    CHECK(write(t.p.stdio[0], &end, sizeof end) == sizeof end);
    drop_fd(&t.p.stdio[0]);
    task_follow(&t);
    CHECK_ENDED(&t, BACKEND_EXITED, 0);
    task_done(&t);
}

CONFORMANCE(files_are_written_moved_read_and_removed)
{
    struct subject s;
    struct task t;

    subject_ready(r, &s);
    file_task(&s, &t, START_MKDIR, "/tmp/a/b", NULL);
    CHECK_ENDED(&t, BACKEND_EXITED, 0);
    task_done(&t);
    write_file(r, &s, "/tmp/a/b/file", "content");
    file_task(&s, &t, START_RENAME, "/tmp/a/b/file", "/tmp/a/moved");
    CHECK_ENDED(&t, BACKEND_EXITED, 0);
    task_done(&t);
    file_task(&s, &t, START_READ, "/tmp/a/moved", NULL);
    CHECK_ENDED(&t, BACKEND_EXITED, 0);
    CHECK_OUT(&t, "content");
    task_done(&t);
    file_task(&s, &t, START_STAT, "/tmp/a/moved", NULL);
    CHECK_ENDED(&t, BACKEND_EXITED, 0);
    CHECK(t.out.n >= sizeof(struct control_entry));
    task_done(&t);
    file_task(&s, &t, START_HOME, NULL, NULL);
    CHECK_ENDED(&t, BACKEND_EXITED, 0);
    CHECK(t.out.n && t.out.p[0] == '/');
    task_done(&t);
    file_task(&s, &t, START_REMOVE, "/tmp/a", NULL);
    CHECK_ENDED(&t, BACKEND_EXITED, 0);
    task_done(&t);
    file_task(&s, &t, START_READ, "/tmp/a/moved", NULL);
    CHECK(t.r < 0 || (t.end.status != 0 && t.end.sys != 0 && t.msg[0]));
    task_done(&t);
    subject_end(&s);
}

/* Many at once, so that the table grows while others are in it. */
CONFORMANCE(many_processes_keep_apart)
{
    enum { MANY = 40 };
    static struct task t[MANY];
    struct subject s;

    subject_ready(r, &s);
    for (int i = 0; i < MANY; i++) {
        char script[32];
        struct process_start start;

        snprintf(script, sizeof script, "exit %d", i);
        start = sh(script);
        task_start(&s, &t[i], &start);
    }
    for (int i = 0; i < MANY; i++) {
        task_follow(&t[i]);
        CHECK_ENDED(&t[i], BACKEND_EXITED, i);
        task_done(&t[i]);
    }
    subject_end(&s);
}
