/* PID 1 and what clients should not send it. */
#include <fcntl.h>
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
        { CONTROL_VERSION, 0, 16, ERR_INVALID },
        { CONTROL_VERSION, 63, 16, ERR_INVALID },
        { CONTROL_VERSION, 9999, 16, ERR_INVALID },
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
    } m = { .start = { .what = CONTROL_PROGRAM, .argc = 1, .text_size = sizeof text } };
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

/* Its queue is full long before the last answer; nothing that matters is lost when it reads again,
 * and meanwhile PID 1 goes on reaping and killing. */
BOX_TEST(a_client_that_does_not_read_stops_nobody)
{
    enum { PROGRAMS = 60, PINGS = 4000 };
    static const char *const argv[] = { "/bin/true", NULL };
    struct supervisor_start s = { .what = CONTROL_PROGRAM, .argv = argv };
    static union supervisor_message m;
    int flags, started = 0, exited = 0;
    struct box b;
    struct err e;

    box_open(&b);
    flags = fcntl(b.control, F_GETFL);
    CHECK(fcntl(b.control, F_SETFL, flags | O_NONBLOCK) == 0);
    for (int i = 0, sent = 0; i < PINGS && sent < 1000; i++) {
        sent = supervisor_ask(b.control, 1, CONTROL_PING, &e) < 0 ? sent + 1 : 0;
        if (sent)
            usleep(100);
    }
    CHECK(fcntl(b.control, F_SETFL, flags) == 0);
    for (uint32_t i = 0; i < PROGRAMS; i++)
        CHECK_OK(supervisor_start(b.control, 2, &s, &e), e);
    usleep(500000);
    while (exited < PROGRAMS) {
        struct ipc_fds fds AUTO(ipc_fds_done) = { .n = 0 };
        int r = supervisor_next(b.control, &m, &fds, &e);

        CHECK_OK(r, e);
        CHECK(r > 0);
        started += m.head.type == CONTROL_STARTED;
        exited += m.head.type == CONTROL_EXITED;
        if (m.head.type == CONTROL_STARTED)
            CHECK_INT(fds.n, 2);
        CHECK(exited <= started);
    }
    CHECK_INT(started, PROGRAMS);
    CHECK_INT(box_count_procs(&b), 0);
    box_close(&b);
}

BOX_TEST(as_many_starts_as_the_table_holds)
{
    struct supervisor_start s;
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
