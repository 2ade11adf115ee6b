/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/ipc/credentials.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"

/* The type of lengths differs between glibc and musl. */
typedef __typeof__(((struct msghdr *)0)->msg_controllen) credentials_length_;

enum { FDS_ROOM = CMSG_SPACE(sizeof(int) * IPC_FDS_MAX) };

union credentials_control {
    struct cmsghdr head;
    char room[FDS_ROOM + CMSG_SPACE(sizeof(struct ucred))];
};

struct credentials credentials_own(void)
{
    return (struct credentials){ getpid(), geteuid(), getegid() };
}

/* Appends a header with its data at `at`; returns the place behind it. */
static size_t put_control_data(union credentials_control *control, size_t at, int type,
                               const void *data, size_t n)
{
    struct cmsghdr *c = (struct cmsghdr *)(void *)(control->room + at);

    if (n == 0)
        return at;
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = type;
    c->cmsg_len = (credentials_length_)CMSG_LEN(n);
    memcpy(CMSG_DATA(c), data, n);
    return at + CMSG_SPACE(n);
}

int credentials_send(const struct credentials *as, const void *message, size_t n, const int *fds,
                     size_t n_fds, int *ret_sock, struct err *e)
{
    const struct ucred sender = { .pid = as->pid, .uid = as->uid, .gid = as->gid };
    union credentials_control control = { 0 };
    AUTO_CLOSE int ours = -1, theirs = -1;
    struct iovec part = { .iov_len = n };
    struct msghdr h = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control };
    size_t used;
    int pair[2], r;

    if (n == 0 || n > IPC_MESSAGE_MAX || n_fds > IPC_FDS_MAX)
        return err_set(e, ERR_BUG, "a packet of %zu bytes and %zu descriptors", n, n_fds);
    r = ipc_pair(pair, e);
    if (r < 0)
        return r;
    ours = pair[0];
    theirs = pair[1];
    memcpy(&part.iov_base, &message, sizeof message); /* sendmsg() does not write to it */
    used = put_control_data(&control, 0, SCM_RIGHTS, fds, n_fds * sizeof *fds);
    used = put_control_data(&control, used, SCM_CREDENTIALS, &sender, sizeof sender);
    h.msg_controllen = (credentials_length_)used;
    if (sendmsg(ours, &h, MSG_NOSIGNAL) != (ssize_t)n)
        return err_sys(e, "sending a packet with credentials");
    *ret_sock = take_fd(&theirs);
    return 0;
}

/* Reads the control data of a packet: false unless the credentials are there once. */
static bool collect_control_data(const struct msghdr *h, struct ipc_fds *fds,
                                 struct credentials *ret)
{
    size_t n_senders = 0, at = 0;

    while (at + sizeof(struct cmsghdr) <= (size_t)h->msg_controllen) {
        const struct cmsghdr *c = (const void *)((const char *)h->msg_control + at);
        size_t n = (size_t)c->cmsg_len - CMSG_LEN(0);
        struct ucred sender;

        if (c->cmsg_len < sizeof *c)
            break;
        at += CMSG_ALIGN((size_t)c->cmsg_len);
        if (c->cmsg_level != SOL_SOCKET)
            continue;
        if (c->cmsg_type == SCM_CREDENTIALS && n == sizeof sender) {
            memcpy(&sender, CMSG_DATA(c), sizeof sender);
            *ret = (struct credentials){ sender.pid, sender.uid, sender.gid };
            n_senders++;
        }
        for (size_t i = 0; c->cmsg_type == SCM_RIGHTS && i < n / sizeof(int); i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (fds->n < IPC_FDS_MAX)
                fds->fd[fds->n++] = fd;
            else
                close(fd);
        }
    }
    return n_senders == 1;
}

ssize_t credentials_receive(int sock, bool peek, void *message, size_t cap, struct ipc_fds *fds,
                            struct credentials *ret, struct err *e)
{
    union credentials_control control = { 0 };
    struct iovec part = { message, cap };
    struct msghdr h = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
    };
    struct credentials sender = { 0, (uid_t)-1, (gid_t)-1 };
    int on = 1;
    ssize_t n;
    bool whole;

    fds->n = 0;
    if (setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0)
        return err_set(e, ERR_DENIED, "the descriptor is not a socket with credentials");
    n = recvmsg(sock, &h, (peek ? MSG_PEEK : 0) | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    whole = n > 0 && collect_control_data(&h, fds, &sender);
    if (!whole || (h.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
        ipc_fds_done(fds);
        return err_set(e, ERR_DENIED, "no whole packet with credentials is queued");
    }
    *ret = sender;
    return n;
}
