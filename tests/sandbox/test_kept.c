/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that survive their client: what a daemon finds again after its own SIGKILL. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "box.h"

enum { COOKIE = 0x5eed };

static struct process_start kept(const char *script, uint32_t flags)
{
    struct process_start s = sh_start(script);

    s.flags = START_KEEP | flags;
    s.cookie = COOKIE;
    return s;
}

static bool start_kept(struct box *b, const char *script, uint32_t flags, struct job *ret)
{
    struct process_start s = kept(script, flags);

    return job_start(b, &s, ret, NULL);
}

/* The one row that a list has; what it adopts is told under tag 0 from now on. */
static struct control_proc list_one(struct box *b)
{
    static union supervisor_message m;
    struct control_proc row;
    struct ipc_fds fds;
    uint32_t tag = ++b->tag;
    struct err e;

    CHECK_OK(supervisor_request(b->control, tag, CONTROL_LIST, &e), e);
    CHECK_INT(box_hear(b, tag, &m, &fds), CONTROL_PROCS);
    CHECK_INT(m.procs.count, 1);
    control_procs_at(&m.procs, 0, &row);
    return row;
}

/* Asks about one: the answer's type; the code of a CONTROL_FAILED is in *ret. */
static int ask(struct box *b, enum control_type type, uint32_t proc, union supervisor_message *ret,
               struct ipc_fds *ret_fds)
{
    uint32_t tag = ++b->tag;
    struct err e;

    CHECK_OK(supervisor_request_one(b->control, tag, type, proc, &e), e);
    return box_hear(b, tag, ret, ret_fds);
}

static void expect_refused(struct box *b, enum control_type type, uint32_t proc, unsigned code)
{
    static union supervisor_message m;
    struct ipc_fds fds;

    CHECK_INT(ask(b, type, proc, &m, &fds), CONTROL_FAILED);
    CHECK_INT(m.failed.code, code);
}

static void expect_done(struct box *b, enum control_type type, uint32_t proc)
{
    static union supervisor_message m;
    struct ipc_fds fds;

    CHECK_INT(ask(b, type, proc, &m, &fds), CONTROL_DONE);
    CHECK_INT(m.done.proc, proc);
}

/* Its descriptors again, into a job that this connection knows under tag 0. */
static void attach(struct box *b, uint32_t proc, uint32_t flags, struct job *ret)
{
    static union supervisor_message m;
    struct ipc_fds fds;
    size_t at = 0;

    CHECK_INT(ask(b, CONTROL_ATTACH, proc, &m, &fds), CONTROL_ATTACHED);
    CHECK_INT(m.attached.proc, proc);
    CHECK_INT(m.attached.flags, flags);
    *ret = (struct job){ .proc = proc, .in = -1, .out = -1, .err = -1 };
    CHECK_INT(fds.n, flags & START_TTY ? 1 : flags & START_STDIN ? 3 : 2);
    if (flags & START_STDIN)
        ret->in = fds.fd[at++];
    ret->out = fds.fd[at++];
    if (at < fds.n)
        ret->err = fds.fd[at];
}

static void expect_end(struct box *b, uint32_t tag, uint32_t proc, int status)
{
    static union supervisor_message m;
    struct ipc_fds fds;

    CHECK_INT(box_hear(b, tag, &m, &fds), CONTROL_EXITED);
    CHECK(m.exited.proc == proc && m.exited.status == status && m.exited.cookie == COOKIE);
}

BOX_TEST(a_client_that_comes_back_finds_everything)
{
    struct control_proc row;
    struct place p;
    struct job j;
    struct box b;

    place_init(&p);
    box_open_listening(&b, &p, 0);
    CHECK(start_kept(&b, "echo before; read line; echo \"$line\"; echo oops >&2; exit 7",
                     START_STDIN, &j));
    job_close(&j); /* as if killed: unread output, open input */
    box_reconnect(&b, &p);
    row = list_one(&b);
    CHECK(row.proc == j.proc && row.pid == j.pid && row.cookie == COOKIE);
    CHECK_INT(row.flags, START_KEEP | START_STDIN);
    CHECK_INT(row.state, CONTROL_RUNNING);
    attach(&b, row.proc, START_STDIN, &j);
    await_word(j.out, "before");
    CHECK(write(j.in, "again\n", 6) == 6);
    await_word(j.out, "again");
    await_word(j.err, "oops");
    job_close(&j);
    expect_end(&b, 0, row.proc, 7);
    box_close(&b);
    place_done(&p);
}

/* Killed again and again: after the end, and after the end was told. */
BOX_TEST(an_end_is_told_until_it_is_forgotten)
{
    struct control_proc row;
    struct place p;
    struct job j;
    struct box b;

    place_init(&p);
    box_open_listening(&b, &p, 0);
    CHECK(start_kept(&b, "echo whole; exit 9", 0, &j));
    job_close(&j);
    expect_end(&b, j.tag, j.proc, 9);
    CHECK_INT(list_one(&b).flags, START_KEEP | (uint32_t)CONTROL_TOLD);
    for (int i = 0; i < 3; i++) {
        box_reconnect(&b, &p);
        row = list_one(&b);
        CHECK(row.proc == j.proc && row.state == CONTROL_ENDED && row.cookie == COOKIE);
        CHECK(row.how == CONTROL_BY_EXIT && row.status == 9 && row.peak_bytes > 0);
        expect_end(&b, 0, row.proc, 9);
    }
    attach(&b, row.proc, 0, &j);
    CHECK(read_some(j.out, (char[8]){ 0 }, 6) == 6); /* and not a byte is lost */
    job_close(&j);
    expect_done(&b, CONTROL_FORGET, row.proc);
    expect_refused(&b, CONTROL_FORGET, row.proc, ERR_NOT_FOUND);
    expect_refused(&b, CONTROL_ATTACH, row.proc, ERR_NOT_FOUND);
    CHECK_INT(box_count_procs(&b), 0);
    box_close(&b);
    place_done(&p);
}

BOX_TEST(an_end_that_nobody_heard)
{
    struct control_proc row;
    struct place p;
    struct job j;
    struct box b;

    place_init(&p);
    box_open_listening(&b, &p, 0);
    CHECK(start_kept(&b, "read x; exit 5", START_STDIN, &j));
    drop_fd(&b.control);
    CHECK(write(j.in, "go\n", 3) == 3);
    while (read(j.out, (char[1]){ 0 }, 1) != 0) /* end of file: it has ended, or is about to */
        usleep(1000);
    b.control = place_connect(&p);
    row = list_one(&b);
    if (row.state == CONTROL_ENDED)
        CHECK_INT(row.status, 5);
    expect_end(&b, 0, j.proc, 5);
    job_close(&j);
    box_close(&b);
    place_done(&p);
}

/* A second connection sees everything and takes over nothing. */
BOX_TEST(whoever_lists_does_not_take_what_is_anothers)
{
    struct place p;
    struct job j;
    struct box b, other;

    place_init(&p);
    box_open_listening(&b, &p, 0);
    CHECK(start_kept(&b, "read x; exit 5", START_STDIN, &j));
    other = b;
    other.control = place_connect(&p);
    CHECK_INT(list_one(&other).proc, j.proc);
    CHECK(write(j.in, "go\n", 3) == 3);
    expect_end(&b, j.tag, j.proc, 5);
    CHECK_INT(list_one(&other).status, 5);
    box_ping(&other);
    CHECK(!other.stash);
    job_close(&j);
    close(other.control);
    box_close(&b);
    place_done(&p);
}

BOX_TEST(input_ends_when_it_is_closed_here_and_there)
{
    struct box b;
    struct job j, again;

    box_open(&b);
    CHECK(start_kept(&b, "cat; echo end", START_STDIN, &j));
    CHECK(write(j.in, "x\n", 2) == 2);
    await_word(j.out, "x");
    drop_fd(&j.in);
    usleep(20000);
    CHECK_INT(list_one(&b).state, CONTROL_RUNNING); /* PID 1 has a write end too */
    expect_done(&b, CONTROL_CLOSE_STDIN, j.proc);
    expect_done(&b, CONTROL_CLOSE_STDIN, j.proc);
    await_word(j.out, "end");
    attach(&b, j.proc, 0, &again);
    job_close(&again);
    job_close(&j);
    expect_end(&b, j.tag, j.proc, 0);
    box_close(&b);
}

BOX_TEST(a_terminal_can_be_taken_again)
{
    struct place p;
    struct job j;
    struct box b;

    place_init(&p);
    box_open_listening(&b, &p, 0);
    CHECK(start_kept(&b, "stty -echo; echo ready; read x; echo \"got $x\"; exit 3", START_TTY, &j));
    await_word(j.out, "ready");
    job_close(&j); /* no hangup: PID 1 holds the terminal too */
    box_reconnect(&b, &p);
    CHECK_INT(list_one(&b).flags, START_KEEP | START_TTY);
    expect_refused(&b, CONTROL_CLOSE_STDIN, j.proc, ERR_INVALID);
    attach(&b, j.proc, START_TTY, &j);
    CHECK(write(j.out, "this\n", 5) == 5);
    await_word(j.out, "got this");
    job_close(&j);
    expect_end(&b, 0, j.proc, 3);
    box_close(&b);
    place_done(&p);
}

BOX_TEST(what_is_not_kept_is_not_given_again)
{
    struct job j;
    struct box b;

    box_open(&b);
    CHECK(sh_job(&b, "exec sleep 100", &j));
    expect_refused(&b, CONTROL_ATTACH, j.proc, ERR_INVALID);
    expect_refused(&b, CONTROL_CLOSE_STDIN, j.proc, ERR_INVALID);
    expect_refused(&b, CONTROL_FORGET, j.proc, ERR_CONFLICT);
    expect_refused(&b, CONTROL_ATTACH, 4711, ERR_NOT_FOUND);
    CHECK_INT(box_kill(&b, j.proc, SIGKILL, true), 0);
    job_end(&b, &j, NULL);
    box_close(&b);
}

BOX_TEST(a_start_that_fails_is_not_kept)
{
    static const char *const argv[] = { "/no/such/program", NULL };
    struct process_start s = {
        .what = START_PROGRAM, .argv = argv, .flags = START_KEEP, .cookie = COOKIE
    };
    struct control_failed why;
    struct job j;
    struct box b;

    box_open(&b);
    CHECK(!job_start(&b, &s, &j, &why));
    CHECK(why.cookie == COOKIE && why.sys == ENOENT);
    CHECK_INT(box_count_procs(&b), 0);
    box_close(&b);
}

/* What an ended one left behind is still its tree. */
BOX_TEST(the_tree_of_an_ended_one_can_be_killed)
{
    struct job j;
    struct box b;

    box_open(&b);
    CHECK(start_kept(&b, "sleep 100 >/dev/null 2>&1 & exit 2", 0, &j));
    job_close(&j);
    expect_end(&b, j.tag, j.proc, 2);
    CHECK_INT(box_kill(&b, j.proc, SIGTERM, false), ESRCH);
    CHECK_INT(box_kill(&b, j.proc, SIGKILL, true), 0);
    while (box_kill(&b, j.proc, SIGKILL, true) == 0)
        usleep(1000);
    expect_done(&b, CONTROL_FORGET, j.proc);
    box_close(&b);
}

/* The table is full of ended ones: a start says so, and one that is forgotten makes room. What runs
 * has no more descriptors than ever, though PID 1 has. */
BOX_TEST(a_full_table)
{
    static const char *const argv[] = { "/bin/true", NULL };
    struct process_start s = {
        .what = START_PROGRAM, .argv = argv, .flags = START_KEEP, .cookie = COOKIE
    };
    static union supervisor_message m;
    struct control_failed why;
    struct control_proc row;
    struct ipc_fds fds;
    struct rlimit files;
    struct err e;
    struct job j;
    struct box b;
    uint32_t n;

    CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    box_open(&b);
    for (n = 0; n <= CONTROL_PROCS_MAX && job_start(&b, &s, &j, &why); n++) {
        job_close(&j);
        expect_end(&b, j.tag, j.proc, 0);
    }
    CHECK_INT(why.code, ERR_BUSY);
    if (files.rlim_max > 3 * CONTROL_PROCS_MAX)
        CHECK_INT(n, CONTROL_PROCS_MAX);
    CHECK_OK(supervisor_request(b.control, 1, CONTROL_LIST, &e), e);
    CHECK_INT(box_hear(&b, 1, &m, &fds), CONTROL_PROCS);
    CHECK_INT(m.procs.count, n);
    control_procs_at(&m.procs, n - 1, &row);
    CHECK(row.state == CONTROL_ENDED && row.cookie == COOKIE);
    expect_done(&b, CONTROL_FORGET, row.proc);
    if (files.rlim_max >= 4096) /* PID 1 has raised its own; programs have the usual one */
        CHECK_SH(&b, "ulimit -n", 0, "4096\n");
    box_close(&b);
}

static struct control_used usage(struct box *b)
{
    static union supervisor_message m;
    struct ipc_fds fds;
    uint32_t tag = ++b->tag;
    struct err e;

    CHECK_OK(supervisor_request(b->control, tag, CONTROL_USAGE, &e), e);
    CHECK_INT(box_hear(b, tag, &m, &fds), CONTROL_USED);
    return m.used;
}

/* Whoever works, whether it lives or is reaped, by us, its parent or nobody. */
BOX_TEST(usage_grows_with_work_and_never_shrinks)
{
    static const char *const work = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    struct control_used before, now;
    char script[512];
    struct box b;
    struct job j;

    box_open(&b);
    before = usage(&b);
    CHECK(before.processes == 0 && before.programs == 0);
    snprintf(script, sizeof script, "%s; (%s); echo done; sleep 100 & exec sleep 100", work, work);
    CHECK(sh_job(&b, script, &j));
    now = usage(&b);
    CHECK_INT(now.programs, 1);
    await_word(j.out, "done");
    /* The kernel counts the pages of a new program roughly, and may say none at first. */
    while (now.processes < 2 || now.memory == 0 || now.mapped == 0) {
        usleep(1000);
        now = usage(&b);
    }
    CHECK(now.cpu_ns >= before.cpu_ns + 20 * NS_PER_MS);
    CHECK(now.disk <= now.disk_max);
    before = now;
    for (int i = 0; i < 20; i++) {
        now = usage(&b);
        CHECK(now.cpu_ns >= before.cpu_ns);
        before = now;
    }
    CHECK_INT(box_kill(&b, j.proc, SIGKILL, true), 0);
    job_end(&b, &j, NULL);
    while (usage(&b).processes > 0)
        usleep(1000);
    now = usage(&b);
    CHECK(now.cpu_ns >= before.cpu_ns && now.programs == 0);
    box_close(&b);
}

static void body_usage_counts_children_that_no_parent_waits_for(void)
{
    static const char *const argv[] = { "/opt/inside", "work", NULL };
    const struct process_start s = { .what = START_PROGRAM, .argv = argv };
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;
    int64_t before;

    box_open(&b);
    before = usage(&b).cpu_ns;
    box_run(&b, &s, STR(""), &o);
    CHECK_STR(buf_str(&o.out), "done\n");
    CHECK(usage(&b).cpu_ns >= before + 150 * NS_PER_MS);
    box_close(&b);
}

/* By the control group: a plain user may have none. */
TEST(usage_counts_children_that_no_parent_waits_for)
{
    if (access("/sys/fs/cgroup/unified/cgroup.procs", F_OK) < 0 &&
        access("/sys/fs/cgroup/cgroup.controllers", F_OK) < 0)
        SKIP("this machine has no control groups of version 2");
    box_test_(body_usage_counts_children_that_no_parent_waits_for, true);
}

BOX_TEST(a_sandbox_can_be_ended_by_its_control_connection)
{
    struct place p;
    struct job j;
    struct box b;
    struct err e;

    place_init(&p);
    box_open_listening(&b, &p, 0);
    CHECK(start_kept(&b, "exec sleep 100", 0, &j));
    job_close(&j);
    CHECK_OK(supervisor_request(b.control, 1, CONTROL_END, &e), e);
    CHECK_INT(read_some(b.control, (char[1]){ 0 }, 1), 0);
    box_close(&b);
    place_done(&p);
}
