/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/ipc/credentials.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

static struct err e;

static ssize_t receive(int sock, bool peek, struct ipc_fds *fds, struct credentials *ret)
{
    char text[16];

    return credentials_receive(sock, peek, text, sizeof text, fds, ret, &e);
}

TEST(a_packet_has_its_sender_and_its_descriptors)
{
    const struct credentials self = credentials_own();
    struct ipc_fds fds = { .n = 0 };
    struct credentials sender;
    int two[2] = { 0, 1 }, sock;

    CHECK_OK(credentials_send(&self, "text", 4, two, 2, &sock, &e), e);
    for (int i = 0; i < 2; i++) { /* a look leaves it there */
        CHECK_INT(receive(sock, true, &fds, &sender), 4);
        CHECK_INT(fds.n, 2);
        ipc_fds_done(&fds);
    }
    CHECK_INT(receive(sock, false, &fds, &sender), 4);
    CHECK(sender.pid == getpid() && sender.uid == geteuid() && sender.gid == getegid());
    ipc_fds_done(&fds);
    CHECK_INT(receive(sock, false, &fds, &sender), -ERR_DENIED);
}

TEST(packets_without_credentials_are_refused)
{
    struct ipc_fds fds = { .n = 0 };
    struct credentials sender;
    int pair[2], pipes[2];

    CHECK_OK(ipc_pair(pair, &e), e);
    CHECK_INT(receive(pair[0], false, &fds, &sender), -ERR_DENIED); /* nothing is queued */
    CHECK_OK(ipc_send(pair[1], "a text that is too long", 23, NULL, 0, &e), e);
    CHECK_INT(receive(pair[0], false, &fds, &sender), -ERR_DENIED);
    CHECK(pipe(pipes) == 0);
    CHECK_INT(receive(pipes[0], false, &fds, &sender), -ERR_DENIED);
    CHECK_INT(receive(-1, false, &fds, &sender), -ERR_DENIED);
}

/* Of a user without rights: neither another user nor another process. */
static int send_as(const struct credentials *as)
{
    pid_t pid = fork();
    int status = 0, sock;

    if (pid == 0) {
        if (geteuid() == 0 &&
            (setresgid(61999, 61999, 61999) < 0 || setresuid(61999, 61999, 61999) < 0))
            _exit(2);
        _exit(credentials_send(as, "text", 4, NULL, 0, &sock, NULL) < 0 ? 1 : 0);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    return status;
}

TEST(no_sender_names_another)
{
    CHECK(send_as(&(struct credentials){ getpid(), geteuid() == 0 ? 61999 : geteuid(),
                                         geteuid() == 0 ? 61999 : getegid() }) != 0);
    CHECK(send_as(&(struct credentials){ 1, 0, 0 }) != 0);
}
