/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds a socket, as PID 1 tells it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "box.h"

static union supervisor_message m;

/* A program that holds a socket and has said which; it goes on until `in` is closed. */
struct holder {
    struct job job;
    uint64_t inode;
};

static void start_holder(struct box *b, const char *const *argv, const char *user,
                         struct holder *ret)
{
    struct process_start s = {
        .what = START_PROGRAM, .argv = argv, .flags = START_STDIN, .cwd = "/tmp", .user = user
    };
    char text[32] = "";
    size_t n = 0;

    CHECK(job_start(b, &s, &ret->job, NULL));
    while (n < sizeof text - 1 && read_some(ret->job.out, text + n, 1) == 1 && text[n] != '\n')
        n++;
    ret->inode = strtoull(text, NULL, 10);
    CHECK(ret->inode > 0);
}

static void end_holder(struct box *b, struct holder *h)
{
    struct outcome o AUTO(outcome_done) = { 0 };

    job_finish(b, &h->job, STR(""), &o);
}

static int ask(struct box *b, uint64_t inode, struct ipc_fds *ret_fds)
{
    uint32_t tag = ++b->tag;
    struct err e;

    CHECK_OK(supervisor_query_socket_owner(b->control, tag, inode, &e), e);
    return box_hear(b, tag, &m, ret_fds);
}

enum { LOOKS_ON_A_BUSY_MACHINE = 5 };

/* The answer is a good one with so many holders. A look has a deadline, and says when to ask
 * again. */
static void expect_holders(struct box *b, uint64_t inode, uint32_t n, struct ipc_fds *ret_fds)
{
    unsigned looks = 0;

    while (ask(b, inode, ret_fds) != CONTROL_WHO_IS)
        if (m.failed.code != ERR_BUSY || ++looks == LOOKS_ON_A_BUSY_MACHINE)
            FAIL("%s", m.failed.msg);
    CHECK_INT(m.who_is.n_holders, n);
}

/* There is more to look at than is allowed, in number or, on a slow machine, in time. */
static void expect_too_much(struct box *b, uint64_t inode)
{
    struct ipc_fds fds;

    CHECK_INT(ask(b, inode, &fds), CONTROL_FAILED);
    if (m.failed.code != ERR_BUSY)
        CHECK_INT(m.failed.code, ERR_TOO_BIG);
    CHECK_INT(fds.n, 0);
}

static void expect_path(uint32_t exe, const char *want)
{
    struct control_exe x;

    CHECK_STR(str_from(control_exe_at(&m.who_is, exe, &x)), want);
}

static struct control_holder first_holder(void)
{
    struct control_holder h;

    control_holder_at(&m.who_is, 0, &h);
    return h;
}

/* The descriptor is for reading, and of a program. */
static void expect_program(int fd)
{
    char head[4];

    CHECK_INT(pread(fd, head, sizeof head, 0), sizeof head);
    CHECK(memcmp(head, "\177ELF", sizeof head) == 0);
    CHECK(write(fd, head, 1) < 0 && errno == EBADF);
}

#define HOLD(way, n) ((const char *const[]){ "/opt/inside", "hold", (way), (n), NULL })

BOX_TEST(a_program_and_its_file)
{
    struct control_holder h;
    struct ipc_fds fds;
    struct holder p;
    struct box b;

    box_open(&b);
    start_holder(&b, HOLD("plain", "0"), "0", &p);
    expect_holders(&b, p.inode, 1, &fds);
    h = first_holder();
    CHECK_INT(h.pid, p.job.pid);
    CHECK_INT(h.uid, 0);
    CHECK_INT(h.n_ancestors, 0);
    CHECK_INT(h.flags, 0);
    expect_path(h.exe, "/opt/inside");
    CHECK_INT(fds.n, 1);
    expect_program(fds.fd[0]);
    ipc_fds_done(&fds);
    end_holder(&b, &p);
    expect_holders(&b, p.inode, 0, &fds); /* and then nobody does */
    CHECK_INT(m.who_is.n_exes, 0);
    box_close(&b);
}

/* A start whose argv is a script, told apart from /opt/inside by its own path. */
static void start_script(struct box *b, const char *script, struct holder *ret)
{
    start_holder(b, (const char *const[]){ "/bin/sh", "-c", script, NULL }, "0", ret);
}

static void expect_one(struct box *b, struct holder *h, const char *path)
{
    struct ipc_fds fds;

    expect_holders(b, h->inode, 1, &fds);
    expect_path(first_holder().exe, path);
    CHECK(fds.n >= 1);
    expect_program(fds.fd[0]);
    ipc_fds_done(&fds);
    end_holder(b, h);
}

BOX_TEST(names_as_the_workload_likes_them)
{
    struct holder h;
    struct box b;

    box_open(&b);
    start_script(&b, "cp /opt/inside 'a\nb '; exec './a\nb ' hold plain 0", &h);
    expect_one(&b, &h, "/tmp/a\nb ");
    start_script(&b, "mkdir x; cp /opt/inside x/y; ln -s x/y link; exec ./link hold plain 0", &h);
    expect_one(&b, &h, "/tmp/x/y");
    /* What has no name any more has none, and what looks so neither. */
    start_script(&b, "cp /opt/inside gone; exec ./gone hold plain 0", &h);
    CHECK_SH(&b, "rm /tmp/gone", 0, "");
    expect_one(&b, &h, "");
    start_script(&b, "cp /opt/inside 'x (deleted)'; exec './x (deleted)' hold plain 0", &h);
    expect_one(&b, &h, "");
    box_close(&b);
}

/* Longer than the kernel tells: not known. */
BOX_TEST(a_path_without_end)
{
    struct holder h;
    struct box b;

    box_open(&b);
    start_script(&b,
                 "d=dddddddddddddddddddddddddddddddddddddddddddddddddd; d=$d$d; i=0; cd /tmp;"
                 " while [ $i -lt 45 ]; do mkdir $d; cd -P $d 2>/dev/null || cd ./$d;"
                 " i=$((i+1)); done; cp /opt/inside x; exec ./x hold plain 0",
                 &h);
    expect_one(&b, &h, "");
    box_close(&b);
}

BOX_TEST(its_ancestors_in_order)
{
    struct control_holder h;
    struct ipc_fds fds;
    struct holder p;
    struct box b;

    box_open(&b);
    start_script(&b,
                 "cp /bin/sh /tmp/one; cp /bin/sh /tmp/two;"
                 "exec /tmp/one -c '/tmp/two -c \"/opt/inside hold plain 0; :\"; :'",
                 &p);
    expect_holders(&b, p.inode, 1, &fds);
    h = first_holder();
    expect_path(h.exe, "/opt/inside");
    CHECK_INT(h.n_ancestors, 2);
    CHECK_INT(h.flags, 0);
    expect_path(h.ancestors[0], "/tmp/two");
    expect_path(h.ancestors[1], "/tmp/one");
    CHECK_INT(m.who_is.n_exes, 3);
    CHECK_INT(fds.n, 3);
    ipc_fds_done(&fds);
    end_holder(&b, &p);
    box_close(&b);
}

static void expect_depth(struct box *b, const char *depth, uint32_t ancestors, uint32_t flags)
{
    struct ipc_fds fds;
    struct holder p;

    start_holder(b, HOLD("below", depth), "0", &p);
    expect_holders(b, p.inode, 1, &fds);
    CHECK_INT(first_holder().n_ancestors, ancestors);
    CHECK_INT(first_holder().flags, flags);
    CHECK_INT(m.who_is.n_exes, 1);
    ipc_fds_done(&fds);
    end_holder(b, &p);
}

BOX_TEST(ancestors_without_end_are_cut)
{
    struct box b;

    box_open(&b);
    expect_depth(&b, "16", 16, 0);
    expect_depth(&b, "17", 16, CONTROL_HOLDER_CUT);
    expect_depth(&b, "60", 16, CONTROL_HOLDER_CUT);
    box_close(&b);
}

BOX_TEST(several_holders_but_not_too_many)
{
    struct ipc_fds fds;
    struct holder p;
    struct box b;

    box_open(&b);
    start_holder(&b, HOLD("together", "8"), "0", &p);
    expect_holders(&b, p.inode, 8, &fds);
    CHECK_INT(fds.n, 1);
    ipc_fds_done(&fds);
    end_holder(&b, &p);
    start_holder(&b, HOLD("together", "9"), "0", &p);
    expect_too_much(&b, p.inode);
    end_holder(&b, &p);
    box_close(&b);
}

/* Threads with tables of their own, leaders that have ended, processes that are not dumpable. */
BOX_TEST(holders_that_hide)
{
    static const char *const ways[] = { "thread", "leader", "hidden" };
    struct ipc_fds fds;
    struct holder p;
    struct box b;

    box_open(&b);
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        start_holder(&b, HOLD(ways[i], "0"), "0", &p);
        if (strcmp(ways[i], "leader") == 0)
            CHECK_SH(&b, "sleep 0.1", 0, ""); /* it ends after the thread has begun */
        expect_holders(&b, p.inode, 1, &fds);
        expect_path(first_holder().exe, "/opt/inside");
        CHECK_INT(first_holder().pid, p.job.pid);
        CHECK_INT(fds.n, 1);
        ipc_fds_done(&fds);
        end_holder(&b, &p);
    }
    box_close(&b);
}

TEST(other_users_as_root)
{
    struct ipc_fds fds;
    struct holder p;
    struct box b;

    if (!box_is_root())
        SKIP("only root's sandboxes have other users");
    box_open(&b);
    for (size_t i = 0; i < 2; i++) {
        start_holder(&b, HOLD(i ? "hidden" : "plain", "0"), "1234", &p);
        expect_holders(&b, p.inode, 1, &fds);
        CHECK_INT(first_holder().uid, 1234);
        expect_path(first_holder().exe, "/opt/inside");
        CHECK_INT(fds.n, 1);
        ipc_fds_done(&fds);
        end_holder(&b, &p);
    }
    /* A program that only its user may read. */
    start_holder(&b,
                 (const char *const[]){ "/bin/sh", "-c",
                                        "cp /opt/inside own; chmod 700 own;"
                                        "exec ./own hold plain 0",
                                        NULL },
                 "1234", &p);
    expect_one(&b, &p, "/tmp/own");
    box_close(&b);
}

static int ask_among_pings(struct box *b, uint64_t inode, struct ipc_fds *fds)
{
    uint32_t tag = ++b->tag;
    struct err e;

    CHECK_OK(supervisor_query_socket_owner(b->control, tag, inode, &e), e);
    for (int i = 0; i < 20; i++)
        box_ping(b);
    return box_hear(b, tag, &m, fds);
}

/* However much there is to look at, PID 1 goes on answering others. On a machine that is busy with
 * something else, a look may be given up: then it is asked for again. */
BOX_TEST(ten_thousand_descriptors)
{
    struct ipc_fds fds;
    struct holder p;
    struct box b;
    int type;

    box_open(&b);
    start_holder(&b, HOLD("many", "4"), "0", &p);
    do
        type = ask_among_pings(&b, p.inode, &fds);
    while (type == CONTROL_FAILED && m.failed.code == ERR_BUSY);
    CHECK_INT(type, CONTROL_WHO_IS);
    CHECK_INT(m.who_is.n_holders, 1);
    ipc_fds_done(&fds);
    end_holder(&b, &p);
    start_holder(&b, HOLD("many", "8"), "0", &p);
    expect_too_much(&b, 1);
    end_holder(&b, &p);
    box_close(&b);
}

/* The workload may stop the child that looks, but not for ever. */
BOX_TEST(a_look_that_is_stopped)
{
    struct ipc_fds fds;
    struct holder p;
    struct box b;
    uint32_t tag;
    struct err e;
    int type;

    box_open(&b);
    start_holder(&b, HOLD("many", "4"), "0", &p);
    tag = ++b.tag;
    CHECK_OK(supervisor_query_socket_owner(b.control, tag, p.inode, &e), e);
    CHECK_SH(&b, "kill -STOP -1", 0, "");
    type = box_hear(&b, tag, &m, &fds);
    if (type == CONTROL_FAILED)
        CHECK_INT(m.failed.code, ERR_BUSY);
    else
        CHECK_INT(type, CONTROL_WHO_IS); /* it was quicker */
    ipc_fds_done(&fds);
    CHECK_SH(&b, "kill -CONT -1", 0, "");
    end_holder(&b, &p);
    CHECK_SH(&b, "exec /opt/inside count", 0, "0 0\n");
    box_close(&b);
}

/* More than look at the same time, and more than can wait. */
BOX_TEST(many_questions_at_once)
{
    enum { ASKED = CONTROL_WHO_MAX + 100 };
    uint32_t first, answered = 0, busy = 0;
    struct ipc_fds fds;
    struct holder p;
    struct box b;
    struct err e;

    box_open(&b);
    start_holder(&b, HOLD("plain", "0"), "0", &p);
    first = b.tag + 1;
    for (int i = 0; i < ASKED; i++)
        CHECK_OK(supervisor_query_socket_owner(b.control, ++b.tag, p.inode, &e), e);
    for (uint32_t i = 0; i < ASKED; i++) {
        int type = box_hear(&b, first + i, &m, &fds);

        if (type == CONTROL_WHO_IS) {
            CHECK_INT(m.who_is.n_holders, 1);
            answered++;
        } else {
            CHECK_INT(m.failed.code, ERR_BUSY);
            busy++;
        }
        ipc_fds_done(&fds);
    }
    CHECK(answered >= CONTROL_WHO_MAX && answered + busy == ASKED);
    end_holder(&b, &p);
    CHECK_SH(&b, "exec /opt/inside count", 0, "0 0\n"); /* no child of PID 1 is left */
    box_close(&b);
}

/* A client that asks, does not read, and dies. */
BOX_TEST(clients_that_go_without_an_answer)
{
    struct ipc_fds fds;
    struct place p;
    struct holder h;
    struct box b;
    struct err e;

    place_init(&p);
    box_open_listening(&b, &p, 0);
    start_holder(&b, HOLD("plain", "0"), "0", &h);
    for (int round = 0; round < 20; round++) {
        int other = place_connect(&p);

        /* PID 1 takes no more connections than it has places, and may still read from the dead. */
        for (int i = 0; i < round * 5; i++)
            if (supervisor_query_socket_owner(other, (uint32_t)i, h.inode, &e) < 0)
                CHECK_INT(e.code, ERR_UPSTREAM);
        close(other);
    }
    expect_holders(&b, h.inode, 1, &fds);
    ipc_fds_done(&fds);
    end_holder(&b, &h);
    box_close(&b);
    place_done(&p);
}

/* Processes, and with them everything in /proc, come and go. */
BOX_TEST(a_world_that_changes_while_it_is_looked_at)
{
    struct ipc_fds fds;
    struct holder p;
    struct job noise;
    struct box b;

    box_open(&b);
    start_holder(&b, HOLD("plain", "0"), "0", &p);
    CHECK(sh_job(&b, "while :; do (exec true) & (exec true 3</dev/null) & wait; done", &noise));
    for (int i = 0; i < 200; i++) {
        expect_holders(&b, p.inode, 1, &fds);
        expect_path(first_holder().exe, "/opt/inside");
        ipc_fds_done(&fds);
    }
    CHECK_INT(box_kill(&b, noise.proc, SIGKILL, true), 0);
    job_end(&b, &noise, NULL);
    job_close(&noise);
    end_holder(&b, &p);
    box_close(&b);
}

BOX_TEST(sockets_that_are_nobodys)
{
    static const uint64_t inodes[] = { 0, 1, UINT64_MAX };
    struct ipc_fds fds;
    struct box b;

    box_open(&b);
    for (size_t i = 0; i < COUNT_OF(inodes); i++) {
        expect_holders(&b, inodes[i], 0, &fds);
        CHECK_INT(fds.n, 0);
    }
    box_close(&b);
}
