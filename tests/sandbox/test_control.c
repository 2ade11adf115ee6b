/* SPDX-License-Identifier: Apache-2.0 */
/* PID 1 and what clients should not send it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "box.h"

static uint32_t send_raw(struct box *b, const void *message, size_t n, const int *fds, size_t n_fds)
{
    struct err e;

    CHECK_OK(ipc_send(b->control, message, n, fds, n_fds, &e), e);
    return n >= sizeof(struct control_head) ? ((const struct control_head *)message)->tag : 0;
}

/* It says what was wrong, under the request's tag where there is one, and lives. */
static void expect_refused(struct box *b, uint32_t tag, unsigned code)
{
    static union supervisor_message m;
    struct ipc_fds fds;

    CHECK_INT(box_hear(b, tag, &m, &fds), CONTROL_FAILED);
    CHECK_INT(m.failed.code, code);
    CHECK(m.failed.msg[0]);
    box_ping(b);
}

BOX_TEST(garbage_is_refused)
{
    static char noise[IPC_MESSAGE_MAX];
    static const size_t lengths[] = { 1, 15, 16, 17, 100, 4096, IPC_MESSAGE_MAX };
    struct box b;

    box_open(&b);
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        memset(noise, 0x5a, sizeof noise);
        expect_refused(&b, send_raw(&b, noise, lengths[i], NULL, 0), ERR_INVALID);
        memset(noise, 0, sizeof noise);
        expect_refused(&b, send_raw(&b, noise, lengths[i], NULL, 0), ERR_INVALID);
    }
    box_close(&b);
}

BOX_TEST(a_packet_that_is_too_long_is_refused)
{
    static char noise[IPC_MESSAGE_MAX + 1];
    struct box b;

    box_open(&b);
    CHECK(send(b.control, noise, sizeof noise, 0) == (ssize_t)sizeof noise);
    expect_refused(&b, 0, ERR_TOO_BIG);
    box_close(&b);
}

BOX_TEST(other_versions_types_and_sizes_are_refused)
{
    static const struct {
        unsigned version, type, size, code;
    } cases[] = {
        { CONTROL_VERSION + 1, CONTROL_PING, 16, ERR_UNSUPPORTED },
        { 0, CONTROL_PING, 16, ERR_UNSUPPORTED },
        { CONTROL_VERSION, 0, 16, ERR_UNSUPPORTED },
        { CONTROL_VERSION, 63, 16, ERR_UNSUPPORTED }, /* perhaps a newer client knows it */
        { CONTROL_VERSION, 9999, 16, ERR_UNSUPPORTED },
        { CONTROL_VERSION, CONTROL_PING, 17, ERR_INVALID },
        { CONTROL_VERSION, CONTROL_START, 16, ERR_INVALID },
        { CONTROL_VERSION, CONTROL_PONG, 16, ERR_DENIED }, /* an answer, not a request */
    };
    struct box b;

    box_open(&b);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct control_head h;

        control_fill(&h, (enum control_type)cases[i].type, 77, cases[i].size);
        h.version = (uint16_t)cases[i].version;
        expect_refused(&b, send_raw(&b, &h, sizeof h, NULL, 0), cases[i].code);
    }
    box_close(&b);
}

BOX_TEST(descriptors_nobody_asked_for_do_not_stay)
{
    static const char text[] = "/\0/bin/true";
    static union {
        struct control_start start;
        char room[sizeof(struct control_start) + sizeof text];
    } m = { .start = { .what = START_PROGRAM,
                       .argc = 1,
                       .text_size = sizeof text,
                       .text_at = sizeof(struct control_start) } };
    struct control_head ping;
    static union supervisor_message said;
    AUTO_CLOSE int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int fds[IPC_FDS_MAX], before = 0;
    struct ipc_fds got;
    struct box b;

    for (size_t i = 0; i < COUNT_OF(fds); i++)
        fds[i] = null;
    box_open(&b);
    if (box_is_root())
        before = count_descriptors(b.pid);
    memcpy(m.room + sizeof m.start, text, sizeof text);
    control_fill(&m.start.head, CONTROL_START, 5, sizeof m.start + sizeof text);
    expect_refused(&b, send_raw(&b, &m, m.start.head.size, fds, 1), ERR_INVALID);
    expect_refused(&b, send_raw(&b, &m, m.start.head.size, fds, IPC_FDS_MAX), ERR_INVALID);
    m.start.flags = CONTROL_TEXT_FD; /* and now it does not come */
    control_fill(&m.start.head, CONTROL_START, 6, sizeof m.start);
    expect_refused(&b, send_raw(&b, &m, sizeof m.start, NULL, 0), ERR_INVALID);
    expect_refused(&b, send_raw(&b, &m, sizeof m.start, fds, 2), ERR_INVALID);
    control_fill(&ping, CONTROL_PING, 7, sizeof ping);
    send_raw(&b, &ping, sizeof ping, fds, 3);
    CHECK_INT(box_hear(&b, 7, &said, &got), CONTROL_PONG);
    box_ping(&b);
    if (box_is_root())
        CHECK_INT(count_descriptors(b.pid), before);
    box_close(&b);
}

/* More than the channel takes: the kernel cuts them, and the request is refused. */
BOX_TEST(too_many_descriptors_are_refused)
{
    enum { MANY = IPC_FDS_MAX + 1 };
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int) * MANY)];
    } control = { 0 };
    struct control_head ping;
    struct iovec part = { &ping, sizeof ping };
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
    };
    AUTO_CLOSE int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct box b;

    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    control.head.cmsg_len = CMSG_LEN(sizeof(int) * MANY);
    for (size_t i = 0; i < MANY; i++)
        memcpy(CMSG_DATA(&control.head) + i * sizeof null, &null, sizeof null);
    box_open(&b);
    control_fill(&ping, CONTROL_PING, 9, sizeof ping);
    CHECK(sendmsg(b.control, &m, 0) == (ssize_t)sizeof ping);
    expect_refused(&b, 0, ERR_TOO_BIG);
    box_close(&b);
}

/* As many requests as both queues take, with nobody reading the answers. */
static uint32_t flood(struct box *b, uint32_t most, int (*ask)(struct box *b, uint32_t tag))
{
    int flags = fcntl(b->control, F_GETFL);
    uint32_t sent = 0;

    CHECK(fcntl(b->control, F_SETFL, flags | O_NONBLOCK) == 0);
    for (int stuck = 0; sent < most && stuck < 1000; stuck++)
        if (ask(b, sent) >= 0) {
            sent++;
            stuck = 0;
        } else
            usleep(100);
    CHECK(fcntl(b->control, F_SETFL, flags) == 0);
    return sent;
}

static int ask_ping(struct box *b, uint32_t tag)
{
    return supervisor_request(b->control, 1000 + tag, CONTROL_PING, NULL);
}

static int ask_mixed(struct box *b, uint32_t tag)
{
    static const enum control_type types[] = { CONTROL_PING, CONTROL_LIST, CONTROL_USAGE };

    return tag % 4 == 3 ? supervisor_request_one(b->control, 1000 + tag, CONTROL_ATTACH, 1, NULL)
                        : supervisor_request(b->control, 1000 + tag, types[tag % 4], NULL);
}

/* Every request that was taken is answered, in order, and every start has its news; meanwhile PID 1
 * goes on reaping and killing. */
static void expect_all(struct box *b, uint32_t programs, uint32_t asked)
{
    static union supervisor_message m;
    uint32_t started = 0, exited = 0, answered = 0;
    struct err e;

    while (exited < programs || answered < asked) {
        struct pollfd in = { .fd = b->control, .events = POLLIN };
        struct ipc_fds fds AUTO(ipc_fds_done) = { .n = 0 };

        if (poll(&in, 1, BOX_WAIT_MS) != 1)
            FAIL("%u of %u answers and %u of %u ends", answered, asked, exited, programs);
        CHECK_INT(supervisor_next(b->control, &m, &fds, &e), 1);
        started += m.head.type == CONTROL_STARTED;
        exited += m.head.type == CONTROL_EXITED;
        if (m.head.type == CONTROL_STARTED || m.head.type == CONTROL_ATTACHED)
            CHECK_INT(fds.n, 2);
        if (m.head.tag >= 1000)
            CHECK_INT(m.head.tag, 1000 + answered++);
        CHECK(exited <= started);
    }
    CHECK_INT(started, programs);
    box_ping(b);
}

BOX_TEST(a_client_that_does_not_read_loses_nothing)
{
    enum { PROGRAMS = 60, PINGS = 4000 };
    static const char *const argv[] = { "/bin/true", NULL };
    struct process_start s = { .what = START_PROGRAM, .argv = argv };
    uint32_t pings;
    struct box b;
    struct err e;

    box_open(&b);
    for (uint32_t i = 0; i < PROGRAMS; i++)
        CHECK_OK(supervisor_start(b.control, 2, &s, &e), e);
    pings = flood(&b, PINGS, ask_ping);
    CHECK(pings > 200);
    usleep(500000);
    expect_all(&b, PROGRAMS, pings);
    CHECK_INT(box_count_procs(&b), 0);
    box_close(&b);
}

/* The same with answers that are large, or carry descriptors. */
BOX_TEST(answers_of_every_size_wait_for_a_client_that_does_not_read)
{
    enum { PROGRAMS = 200, REQUESTS = 400 };
    struct process_start s;
    static union supervisor_message m;
    struct ipc_fds fds;
    struct box b;
    struct job j;
    uint32_t asked;

    box_open(&b);
    s = sh_start("exec sleep 100");
    s.flags = START_KEEP;
    for (uint32_t n = 0; n < PROGRAMS; n++) {
        CHECK(job_start(&b, &s, &j, NULL));
        job_close(&j);
    }
    asked = flood(&b, REQUESTS, ask_mixed);
    CHECK(asked > 20);
    expect_all(&b, 0, asked);
    CHECK(supervisor_kill_all(b.control, 9, SIGKILL, 0, NULL) >= 0);
    CHECK_INT(box_hear(&b, 9, &m, &fds), CONTROL_KILLED);
    box_close(&b);
}

BOX_TEST(as_many_starts_as_the_table_holds)
{
    struct process_start s;
    struct box b;
    struct job j;
    uint32_t n;

    box_open(&b);
    s = sh_start("exec sleep 100");
    for (n = 0; n < 200 && job_start(&b, &s, &j, NULL); n++)
        job_close(&j);
    CHECK_INT(n, 200);
    CHECK_INT(box_count_procs(&b), 200);
    box_close(&b);
}

/* Messages as an older and a newer build of a client would make them. */
struct aged_start {
    struct control_start start;
    char future[24];
    char text[sizeof "/\0/bin/sh\0-c\0exit 3"];
};

static int run_aged(struct box *b, size_t text_at, uint32_t flags, union supervisor_message *ret)
{
    static const char text[] = "/\0/bin/sh\0-c\0exit 3";
    struct aged_start m = { .start = { .what = START_PROGRAM,
                                       .flags = flags,
                                       .argc = 3,
                                       .text_size = sizeof text,
                                       .text_at = (uint32_t)text_at,
                                       .cookie = 0xc00c1e } };
    struct ipc_fds fds;
    int type;

    memcpy((char *)&m + text_at, text, sizeof text);
    control_fill(&m.start.head, CONTROL_START, ++b->tag, text_at + sizeof text);
    send_raw(b, &m, text_at + sizeof text, NULL, 0);
    type = box_hear(b, m.start.head.tag, ret, &fds);
    ipc_fds_done(&fds);
    return type == CONTROL_STARTED ? box_hear(b, m.start.head.tag, ret, &fds) : type;
}

BOX_TEST(clients_of_other_ages_are_understood)
{
    static union supervisor_message m;
    struct {
        struct control_kill kill;
        char future[32];
    } kill = { .kill = { .proc = 4711, .sig = SIGTERM } };
    struct ipc_fds fds;
    struct box b;

    box_open(&b);
    CHECK_INT(run_aged(&b, offsetof(struct control_start, cookie), 0, &m), CONTROL_EXITED);
    CHECK(m.exited.status == 3 && m.exited.cookie == 0); /* it had none, whatever was there */
    CHECK_INT(run_aged(&b, sizeof(struct control_start), 0, &m), CONTROL_EXITED);
    CHECK(m.exited.status == 3 && m.exited.cookie == 0xc00c1e);
    CHECK_INT(run_aged(&b, offsetof(struct aged_start, text), 0, &m), CONTROL_EXITED);
    CHECK(m.exited.status == 3 && m.exited.cookie == 0xc00c1e);
    CHECK_INT(run_aged(&b, sizeof(struct control_start), 1u << 30, &m), CONTROL_FAILED);
    CHECK_INT(m.failed.code, ERR_UNSUPPORTED);
    for (size_t n = offsetof(struct control_kill, grace_ns); n <= sizeof kill; n += 8) {
        control_fill(&kill.kill.head, CONTROL_KILL, 9, n);
        send_raw(&b, &kill, n, NULL, 0);
        CHECK_INT(box_hear(&b, 9, &m, &fds), CONTROL_KILLED);
        CHECK_INT(m.killed.sys, ESRCH);
    }
    box_close(&b);
}
