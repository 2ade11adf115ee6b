/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/ipc/channel.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

static int pair[2];

static void open_pair(void)
{
    struct err e;

    CHECK_OK(ipc_pair(pair, &e), e);
}

static int count_open(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* As ipc_send(), without its limits. */
static void send_anything(const void *data, size_t n, int fd, size_t times)
{
    static union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int) * 253)];
    } control;
    char copy[4096];
    struct iovec part = { copy, n };
    struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };

    CHECK(n <= sizeof copy && times <= 253);
    memcpy(copy, data, n);
    if (times) {
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE(sizeof(int) * times);
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof(int) * times);
        for (size_t i = 0; i < times; i++)
            memcpy(CMSG_DATA(&control.head) + i * sizeof fd, &fd, sizeof fd);
    }
    CHECK(sendmsg(pair[0], &m, 0) == (ssize_t)n);
}

TEST(both_ends_close_on_exec)
{
    open_pair();
    CHECK(fcntl(pair[0], F_GETFD) == FD_CLOEXEC && fcntl(pair[1], F_GETFD) == FD_CLOEXEC);
}

TEST(messages_keep_their_bounds)
{
    struct ipc_fds fds;
    char got[16];
    struct err e;

    open_pair();
    CHECK_OK(ipc_send(pair[0], "one", 3, NULL, 0, &e), e);
    CHECK_OK(ipc_send(pair[0], "three", 5, NULL, 0, &e), e);
    CHECK_INT(ipc_recv(pair[1], got, sizeof got, &fds, &e), 3);
    CHECK_INT(ipc_recv(pair[1], got, sizeof got, &fds, &e), 5);
    CHECK(memcmp(got, "three", 5) == 0 && fds.n == 0);
}

TEST(the_longest_message_passes)
{
    static char out[IPC_MESSAGE_MAX + 1], in[IPC_MESSAGE_MAX];
    struct err e;

    open_pair();
    memset(out, 'x', sizeof out);
    CHECK_OK(ipc_send(pair[0], out, IPC_MESSAGE_MAX, NULL, 0, &e), e);
    CHECK_INT(ipc_recv(pair[1], in, sizeof in, NULL, &e), IPC_MESSAGE_MAX);
    CHECK(memcmp(in, out, sizeof in) == 0);
    CHECK_INT(ipc_send(pair[0], out, sizeof out, NULL, 0, &e), -ERR_BUG);
    CHECK_INT(ipc_send(pair[0], out, 0, NULL, 0, &e), -ERR_BUG);
}

TEST(descriptors_arrive_as_themselves_and_close_on_exec)
{
    int sent[IPC_FDS_MAX + 1];
    struct stat a, b;
    struct ipc_fds fds = { .n = 0 };
    struct err e;
    char byte;

    open_pair();
    for (size_t i = 0; i < COUNT_OF(sent); i++)
        sent[i] = open(i % 2 ? "/dev/null" : "/dev/zero", O_RDONLY);
    CHECK_OK(ipc_send(pair[0], "x", 1, sent, IPC_FDS_MAX, &e), e);
    CHECK_INT(ipc_recv(pair[1], &byte, 1, &fds, &e), 1);
    CHECK_INT(fds.n, IPC_FDS_MAX);
    for (size_t i = 0; i < fds.n; i++) {
        CHECK(fstat(sent[i], &a) == 0 && fstat(fds.fd[i], &b) == 0 && a.st_rdev == b.st_rdev);
        CHECK(fds.fd[i] != sent[i] && fcntl(fds.fd[i], F_GETFD) == FD_CLOEXEC);
    }
    CHECK_INT(ipc_send(pair[0], "x", 1, sent, IPC_FDS_MAX + 1, &e), -ERR_BUG);
    ipc_fds_done(&fds);
    CHECK_INT(fds.n, 0);
}

TEST(taken_descriptors_stay_and_the_rest_closes)
{
    struct ipc_fds fds = { .n = 0 };
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC), before, kept;
    int twice[] = { null, null };
    struct err e;
    char byte;

    open_pair();
    before = count_open();
    CHECK_OK(ipc_send(pair[0], "x", 1, twice, 2, &e), e);
    CHECK_INT(ipc_recv(pair[1], &byte, 1, &fds, &e), 1);
    kept = take_fd(&fds.fd[1]);
    ipc_fds_done(&fds);
    CHECK_INT(count_open(), before + 1);
    CHECK(fcntl(kept, F_GETFD) >= 0);
}

TEST(a_message_that_was_cut_is_refused_with_its_descriptors)
{
    struct ipc_fds fds = { .n = 0 };
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC), before;
    char got[4];
    struct err e;

    open_pair();
    before = count_open();
    send_anything("12345", 5, null, 3);
    CHECK_INT(ipc_recv(pair[1], got, sizeof got, &fds, &e), -ERR_TOO_BIG);
    CHECK_INT(fds.n, 0);
    CHECK_INT(count_open(), before);
    send_anything("1234", 4, null, IPC_FDS_MAX + 1);
    CHECK_INT(ipc_recv(pair[1], got, sizeof got, &fds, &e), -ERR_TOO_BIG);
    CHECK_INT(count_open(), before);
    send_anything("1234", 4, null, 253);
    CHECK_INT(ipc_recv(pair[1], got, sizeof got, &fds, &e), -ERR_TOO_BIG);
    CHECK_INT(count_open(), before);
    send_anything("1234", 4, null, 1); /* and the next one is read as ever */
    CHECK_INT(ipc_recv(pair[1], got, sizeof got, &fds, &e), 4);
    CHECK_INT(fds.n, 1);
}

TEST(who_takes_no_descriptors_gets_none)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC), before;
    char got[4];
    struct err e;

    open_pair();
    before = count_open();
    send_anything("12", 2, null, 1);
    CHECK_INT(ipc_recv(pair[1], got, sizeof got, NULL, &e), -ERR_TOO_BIG);
    CHECK_INT(count_open(), before);
}

TEST(an_empty_socket_and_a_full_one_are_busy)
{
    static char block[4096];
    struct ipc_fds fds;
    struct err e;
    int r = 0;

    open_pair();
    CHECK(fcntl(pair[0], F_SETFL, O_NONBLOCK) == 0 && fcntl(pair[1], F_SETFL, O_NONBLOCK) == 0);
    CHECK_INT(ipc_recv(pair[1], block, sizeof block, &fds, &e), -ERR_BUSY);
    for (int i = 0; i < 10000 && r == 0; i++)
        r = ipc_send(pair[0], block, sizeof block, NULL, 0, &e);
    CHECK_INT(r, -ERR_BUSY);
    CHECK_INT(ipc_recv(pair[1], block, sizeof block, &fds, &e), sizeof block);
    CHECK_OK(ipc_send(pair[0], block, sizeof block, NULL, 0, &e), e);
}

/* SIGPIPE would end this test. */
TEST(a_peer_that_is_gone)
{
    struct ipc_fds fds;
    char byte;
    struct err e;

    open_pair();
    CHECK_OK(ipc_send(pair[0], "x", 1, NULL, 0, &e), e);
    close(pair[0]);
    CHECK_INT(ipc_recv(pair[1], &byte, 1, &fds, &e), 1); /* what it said before */
    CHECK_INT(ipc_recv(pair[1], &byte, 1, &fds, &e), 0);
    CHECK_INT(ipc_send(pair[1], "x", 1, NULL, 0, &e), -ERR_UPSTREAM);
}

/* Its unread messages make it a reset, which is an end like any other. */
TEST(a_peer_that_left_without_reading)
{
    struct ipc_fds fds;
    char byte;
    struct err e;

    open_pair();
    CHECK_OK(ipc_send(pair[1], "x", 1, NULL, 0, &e), e);
    close(pair[0]);
    CHECK_INT(ipc_recv(pair[1], &byte, 1, &fds, &e), 0);
}

TEST(what_is_no_socket)
{
    struct ipc_fds fds;
    char byte;
    struct err e;

    CHECK_INT(ipc_send(-1, "x", 1, NULL, 0, &e), -ERR_SYS);
    CHECK_INT(ipc_recv(-1, &byte, 1, &fds, &e), -ERR_SYS);
}
