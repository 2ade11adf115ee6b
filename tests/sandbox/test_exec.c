/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: how they are started, what they find, how they end. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "box.h"
#include "lib/proc/sealed.h"
#include "lib/proc/sys.h"

BOX_TEST(exit_statuses_and_both_outputs)
{
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;

    box_open(&b);
    CHECK_SH(&b, "true", 0, "");
    CHECK_SH(&b, "exit 1", 1, "");
    CHECK_SH(&b, "exit 255", 255, "");
    sh_run(&b, "echo out; echo err >&2; exit 7", &o);
    CHECK_INT(o.end.status, 7);
    CHECK_STR(buf_str(&o.out), "out\n");
    CHECK_STR(buf_str(&o.err), "err\n");
    CHECK(o.end.cpu_ns > 0 && o.end.peak_bytes > 0);
    CHECK_INT(o.end.sys, 0);
    box_close(&b);
}

BOX_TEST(a_signal_is_no_exit_status)
{
    static const int signals[] = { SIGTERM, SIGKILL, SIGSEGV, SIGABRT, SIGPIPE };
    struct box b;

    box_open(&b);
    for (size_t i = 0; i < COUNT_OF(signals); i++) {
        struct outcome o AUTO(outcome_done) = { 0 };
        char script[32];

        snprintf(script, sizeof script, "kill -%d $$; sleep 9", signals[i]);
        sh_run(&b, script, &o);
        CHECK_INT(o.end.how, CONTROL_BY_SIGNAL);
        CHECK_INT(o.end.status, signals[i]);
    }
    box_close(&b);
}

BOX_TEST(environment_is_what_was_asked_for_and_defaults)
{
    static const char *const argv[] = { "/usr/bin/env", NULL };
    static const char *const envp[] = { "B=2", "EMPTY=", "HOME=/elsewhere", NULL };
    struct process_start s = { .what = START_PROGRAM, .argv = argv, .envp = envp };
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;

    box_open(&b);
    box_run(&b, &s, STR(""), &o);
    CHECK_STR(buf_str(&o.out),
              "B=2\nEMPTY=\nHOME=/elsewhere\nUSER=root\nLOGNAME=root\n"
              "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n");
    box_close(&b);
}

BOX_TEST(the_program_is_found_by_the_path_it_is_given)
{
    static const char *const argv[] = { "env", NULL };
    static const char *const envp[] = { "PATH=/nowhere", NULL };
    struct process_start s = { .what = START_PROGRAM, .argv = argv };
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;

    box_open(&b);
    box_run(&b, &s, STR(""), &o);
    CHECK(!o.failed && o.end.status == 0);
    s.envp = envp;
    box_run(&b, &s, STR(""), &o);
    CHECK(o.failed);
    CHECK_STR(str_from(o.failure.step), "program");
    CHECK_INT(o.failure.sys, ENOENT);
    box_close(&b);
}

BOX_TEST(starts_that_cannot_work_name_their_step)
{
    static const char *const nothing[] = { "/no/such/program", NULL };
    static const char *const no_program[] = { "/etc/passwd", NULL };
    static const char *const good[] = { "/bin/true", NULL };
    static const struct {
        struct process_start start;
        const char *step;
        int sys;
        unsigned code;
    } cases[] = {
        { { .argv = nothing }, "program", ENOENT, ERR_SYS },
        { { .argv = no_program }, "program", EACCES, ERR_SYS },
        { { .argv = good, .cwd = "/no/such/place" }, "workdir", ENOENT, ERR_SYS },
        { { .argv = good, .cwd = "/etc/passwd" }, "workdir", ENOTDIR, ERR_SYS },
        { { .argv = good, .user = "nobody-here" }, "user", 0, ERR_NOT_FOUND },
    };
    struct box b;

    box_open(&b);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct control_failed f = { 0 };
        struct job j;

        if (job_start(&b, &cases[i].start, &j, &f))
            FAIL("case %zu started", i);
        if (strcmp(f.step, cases[i].step) || f.sys != cases[i].sys || f.code != cases[i].code)
            FAIL("case %zu failed at '%s' with %u/%d: %s", i, f.step, f.code, f.sys, f.msg);
    }
    CHECK_INT(box_count_procs(&b), 0);
    CHECK_SH(&b, "echo still here", 0, "still here\n");
    box_close(&b);
}

/* A start with a user that our own client would not send. */
static uint32_t start_as(struct box *b, uint32_t uid, uint32_t gid, bool nameless)
{
    static const char text[] = "\0\0/bin/true";
    struct {
        struct control_start start;
        char text[sizeof text];
    } m = { .start = { .what = START_PROGRAM,
                       .flags = nameless ? CONTROL_USER_NAME : 0,
                       .uid = uid,
                       .gid = gid,
                       .argc = 1,
                       .text_size = sizeof text - (nameless ? 0 : 1),
                       .text_at = sizeof m.start } };
    size_t size = sizeof m.start + m.start.text_size;
    static union supervisor_message said;
    struct ipc_fds fds;
    struct err e;

    memcpy(m.text, text + sizeof text - m.start.text_size, m.start.text_size);
    control_fill(&m.start.head, CONTROL_START, ++b->tag, size);
    CHECK_OK(ipc_send(b->control, &m, size, NULL, 0, &e), e);
    CHECK_INT(box_hear(b, m.start.head.tag, &said, &fds), CONTROL_FAILED);
    CHECK_STR(str_from(said.failed.step), "user");
    return said.failed.code;
}

BOX_TEST(users_that_cannot_be_are_refused_inside)
{
    struct box b;

    box_open(&b);
    CHECK_INT(start_as(&b, 0, 0, true), ERR_NOT_FOUND);
    CHECK_INT(start_as(&b, 4000000000, 7, false), ERR_UNSUPPORTED);
    box_close(&b);
}

BOX_TEST(working_directory)
{
    struct outcome o AUTO(outcome_done) = { 0 };
    struct process_start s = sh_start("pwd");
    struct box b;

    box_open(&b);
    s.cwd = "/usr/bin";
    box_run(&b, &s, STR(""), &o);
    CHECK_STR(buf_str(&o.out), "/usr/bin\n");
    s.cwd = NULL;
    box_run(&b, &s, STR(""), &o);
    CHECK_STR(buf_str(&o.out), "/root\n");
    box_close(&b);
}

/* A plain caller's sandbox has one identity; root's has many. */
BOX_TEST(users_by_number_and_by_name)
{
    struct outcome o AUTO(outcome_done) = { 0 };
    struct process_start s = sh_start("echo $(id -u) $(id -g) $(id -G)");
    struct box b;

    box_open(&b);
    box_run(&b, &s, STR(""), &o);
    CHECK(str_starts(buf_str(&o.out), STR("0 0 0")));
    s.user = "root";
    box_run(&b, &s, STR(""), &o);
    CHECK(str_starts(buf_str(&o.out), STR("0 0 0")));
    s.user = "1234:4321";
    box_run(&b, &s, STR(""), &o);
    if (box_is_root()) {
        CHECK_STR(buf_str(&o.out), "1234 4321 4321\n");
    } else {
        CHECK(o.failed && o.failure.code == ERR_UNSUPPORTED);
        CHECK_STR(str_from(o.failure.step), "user");
    }
    box_close(&b);
}

BOX_TEST(stdin_is_fed_to_its_end)
{
    static const char *const cat[] = { "cat", NULL };
    struct process_start s = { .what = START_PROGRAM, .argv = cat };
    struct outcome o AUTO(outcome_done) = { 0 };
    AUTO_FREE char *big = calloc(1, 3 << 20);
    struct box b;

    CHECK(big);
    for (size_t i = 0; i < 3 << 20; i++)
        big[i] = (char)(i * 7 + (i >> 11));
    box_open(&b);
    box_run(&b, &s, STR("not fed"), &o); /* without START_STDIN it is at its end at once */
    CHECK(o.end.status == 0 && o.out.n == 0);
    s.flags = START_STDIN;
    box_run(&b, &s, STR("fed"), &o);
    CHECK_STR(buf_str(&o.out), "fed");
    box_run(&b, &s, (struct str){ big, 3 << 20 }, &o);
    CHECK(o.end.status == 0 && o.out.n == 3 << 20);
    CHECK(memcmp(o.out.p, big, o.out.n) == 0);
    box_close(&b);
}

BOX_TEST(standard_streams_can_be_opened_again)
{
    struct box b;

    box_open(&b);
    CHECK_SH(&b, "echo one >/dev/stdout; echo two >/dev/stderr 2>/dev/null; echo three >/dev/fd/1",
             0, "one\nthree\n");
    box_close(&b);
}

BOX_TEST(a_program_has_its_three_descriptors_and_clean_signals)
{
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;

    box_open(&b);
    CHECK_SH(&b, "exec /opt/inside descriptors", 0, "3\n");
    sh_run(&b, "exec /opt/inside signals", &o);
    CHECK_STR(buf_str(&o.out), "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    box_close(&b);
}

/* More text than a packet takes: in a sealed memfd. */
BOX_TEST(a_megabyte_of_arguments)
{
    enum { ARGUMENTS = 16, BYTES = 64 << 10 };
    static char text[ARGUMENTS][BYTES];
    const char *argv[ARGUMENTS + 5] = { "/bin/sh", "-c",
                                        "printf %s \"$@\" | wc -c; printf %s \"$9\"", "sh" };
    struct process_start s = { .what = START_PROGRAM, .argv = argv };
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;

    for (size_t i = 0; i < ARGUMENTS; i++) {
        memset(text[i], 'a' + (int)i, BYTES - 1);
        argv[4 + i] = text[i];
    }
    box_open(&b);
    box_run(&b, &s, STR(""), &o);
    CHECK(!o.failed && o.end.status == 0);
    CHECK(str_starts(buf_str(&o.out), STR("1048560\niiiii")));
    CHECK_INT(o.out.n, 8 + BYTES - 1);
    box_close(&b);
}

BOX_TEST(more_arguments_than_a_sandbox_takes)
{
    static char text[CONTROL_TEXT_MAX + 2];
    const char *argv[] = { "/bin/true", text, NULL };
    struct process_start s = { .what = START_PROGRAM, .argv = argv };
    struct box b;
    struct err e;

    memset(text, 'x', sizeof text - 1);
    box_open(&b);
    CHECK_INT(supervisor_start(b.control, 99, &s, &e), -ERR_TOO_BIG);
    box_ping(&b);
    box_close(&b);
}

/* As many as there may be, at their numbers, beside a text that is in memory too. */
BOX_TEST(a_program_finds_what_it_is_lent)
{
    static char filler[IPC_MESSAGE_MAX];
    static const char *const argv[] = {
        "/bin/sh", "-c", "cat /proc/self/fd/4 /proc/self/fd/43; ls /proc/self/fd | wc -l", filler,
        NULL
    };
    struct process_start s = { .what = START_PROGRAM, .argv = argv };
    int lent[START_LENT_MAX + 1];
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;
    struct err e;

    memset(filler, 'x', sizeof filler - 1);
    for (int i = 0; i <= START_LENT_MAX; i++)
        CHECK_OK(sealed_text(i == 0 ? STR("first\n") : STR("other\n"), "lent", &lent[i], &e), e);
    box_open(&b);
    s.lent = lent;
    s.n_lent = START_LENT_MAX;
    box_run(&b, &s, STR(""), &o);
    CHECK_STR(buf_str(&o.out), "first\nother\n44\n"); /* 0 to 2, the directory's, and all of them */
    s.n_lent++;
    CHECK_INT(supervisor_start(b.control, 99, &s, &e), -ERR_TOO_BIG);
    box_close(&b);
    for (int i = 0; i <= START_LENT_MAX; i++)
        close(lent[i]);
}

BOX_TEST(an_end_can_be_that_of_all)
{
    struct process_start s = sh_start("setsid sleep 1000 >/dev/null 2>&1 & exit 3");
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;

    box_open(&b);
    s.flags |= START_WHOLE;
    box_run(&b, &s, STR(""), &o);
    CHECK_INT(o.end.status, 3);
    CHECK_SH(&b, "grep -lx sleep /proc/[0-9]*/comm", 1, "");
    box_close(&b);
}

/* The text of a request in a memfd, however short: every operation must take it. */
static bool start_with_memfd(struct box *b, enum start_what what, struct str text, uint32_t argc,
                             unsigned seals, struct control_exited *ret_end)
{
    struct control_start m = { .what = what,
                               .flags = CONTROL_TEXT_FD,
                               .argc = argc,
                               .text_size = (uint32_t)text.n,
                               .text_at = sizeof m };
    AUTO_CLOSE int fd = memfd_create("text", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    static union supervisor_message said;
    struct ipc_fds fds;
    struct err e;

    CHECK(write(fd, text.p, text.n) == (ssize_t)text.n);
    CHECK(!seals || fcntl(fd, F_ADD_SEALS, seals) == 0);
    control_fill(&m.head, CONTROL_START, ++b->tag, sizeof m);
    CHECK_OK(ipc_send(b->control, &m, sizeof m, &fd, 1, &e), e);
    if (box_hear(b, m.head.tag, &said, &fds) == CONTROL_FAILED)
        return false;
    CHECK_INT(said.head.type, CONTROL_STARTED);
    ipc_fds_done(&fds);
    CHECK_INT(box_hear(b, m.head.tag, &said, &fds), CONTROL_EXITED);
    *ret_end = said.exited;
    return true;
}

BOX_TEST(text_in_memory_must_be_sealed_and_as_long_as_it_says)
{
    static const char text[] = "\0/bin/true";
    struct str good = { text, sizeof text };
    struct control_exited end;
    struct box b;

    box_open(&b);
    CHECK(start_with_memfd(&b, START_PROGRAM, good, 1, F_SEAL_WRITE | F_SEAL_SHRINK, &end));
    CHECK(end.how == CONTROL_BY_EXIT && end.status == 0);
    CHECK(!start_with_memfd(&b, START_PROGRAM, good, 1, 0, &end));
    CHECK(!start_with_memfd(&b, START_PROGRAM, good, 1, F_SEAL_WRITE, &end));
    CHECK(!start_with_memfd(&b, START_PROGRAM, good, 2, F_SEAL_WRITE | F_SEAL_SHRINK, &end));
    CHECK(!start_with_memfd(&b, START_PROGRAM, (struct str){ text, 5 }, 1,
                            F_SEAL_WRITE | F_SEAL_SHRINK, &end));
    CHECK(!start_with_memfd(&b, START_PROGRAM, STR(""), 1, F_SEAL_WRITE | F_SEAL_SHRINK, &end));
    box_close(&b);
}

BOX_TEST(a_directory_is_made_from_text_in_memory)
{
    static const char text[] = "/\0/tmp/a/b/c";
    struct control_exited end;
    struct box b;

    box_open(&b);
    CHECK(start_with_memfd(&b, START_MKDIR, (struct str){ text, sizeof text }, 1,
                           F_SEAL_WRITE | F_SEAL_SHRINK, &end));
    CHECK_INT(end.how, CONTROL_BY_EXIT);
    CHECK_INT(end.status, 0);
    CHECK_SH(&b, "ls -d /tmp/a/b/c", 0, "/tmp/a/b/c\n");
    box_close(&b);
}

/* Not a timeout that has passed already. */
BOX_TEST(the_longest_timeout_is_a_long_time)
{
    struct process_start s = sh_start("sleep 0.1");
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;

    s.timeout_ns = s.grace_ns = INT64_MAX;
    box_open(&b);
    box_run(&b, &s, STR(""), &o);
    CHECK_INT(o.end.how, CONTROL_BY_EXIT);
    CHECK_INT(o.end.status, 0);
    box_close(&b);
}

BOX_TEST(the_end_of_the_first_connection_ends_the_sandbox)
{
    struct pollfd gone = { .events = POLLIN };
    struct box b;
    struct job j;

    box_open(&b);
    CHECK(sh_job(&b, "sleep 100", &j));
    job_close(&j);
    drop_fd(&b.control);
    gone.fd = b.pidfd;
    CHECK_INT(poll(&gone, 1, BOX_WAIT_MS), 1);
    box_close(&b);
}

/* Whatever limits the caller has, programs have no more than these. */
BOX_TEST(limits_are_those_of_the_table)
{
    static const char script[] =
        "awk '/open files/ && $4 <= 4096 && $5 <= 65536 || /pending/ && $5 <= 4096 ||"
        "     /locked/ && $5 <= 8388608 || /msgqueue/ && $5 <= 819200 ||"
        "     /nice/ && $5 == 0 || /realtime priority/ && $5 == 0 ||"
        "     /realtime timeout/ && $5 <= 200000 || /core file/ && $6 == 1 ||"
        "     /stack/ && $4 <= 8388608 { n++ } END { print n }' /proc/self/limits";
    struct box b;

    box_open(&b);
    CHECK_SH(&b, script, 0, "9\n");
    box_close(&b);
}

BOX_TEST(a_one_shot_ends_when_it_has_told_how_its_program_ended)
{
    struct pollfd gone = { .events = POLLIN };
    struct box b;

    box_prepare(&b);
    b.plan.flags |= PLAN_ONE_SHOT;
    box_build(&b);
    gone.fd = b.pidfd;
    CHECK_INT(poll(&gone, 1, 50), 0);
    CHECK_SH(&b, "sleep 0.1; echo done; exit 3", 3, "done\n");
    CHECK_INT(poll(&gone, 1, BOX_WAIT_MS), 1);
    box_close(&b);
}

/* Whether a sandbox for one program says that nothing but PID 1 is left in it. */
static void check_alone(const char *script, bool alone)
{
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;

    box_prepare(&b);
    b.plan.flags |= PLAN_ONE_SHOT;
    box_build(&b);
    sh_run(&b, script, &o);
    CHECK_INT(o.end.how, CONTROL_BY_EXIT);
    if ((o.end.alone != 0) != alone)
        FAIL("after '%s' PID 1 is %salone", script, alone ? "not " : "");
    box_close(&b);
}

/* The client of such a sandbox leaves before it is taken down: no process may be left that could
 * still do something. */
BOX_TEST(a_one_shot_sandbox_tells_whether_processes_are_left)
{
    check_alone("true", true);
    check_alone("sleep 0.01 & sleep 0.01 & wait", true);
    check_alone("sleep 1000 >/dev/null 2>&1 & true", false);
    check_alone("setsid sleep 1000 </dev/null >/dev/null 2>&1 & exit 3", false);
    check_alone("(sleep 1000 & kill -STOP $!) >/dev/null 2>&1; true", false);
    check_alone("(sh -c 'kill -9 $$' &) >/dev/null 2>&1; sleep 0.1", true);
}
