/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/ipc/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/own.h"

/* The type of lengths is size_t in glibc, socklen_t in musl. */
typedef __typeof__(((struct msghdr *)0)->msg_controllen) length_;

union ipc_cmsg {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int) * IPC_FDS_MAX)];
};

void ipc_fds_done(struct ipc_fds *f)
{
    for (size_t i = 0; i < f->n; i++)
        drop_fd(&f->fd[i]);
    f->n = 0;
}

int ipc_pair(int ret[2], struct err *e)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret) < 0)
        return err_sys(e, "making a socket pair");
    return 0;
}

static void attach_message_fds(struct msghdr *m, union ipc_cmsg *room, const int *fds, size_t n)
{
    struct cmsghdr *c;

    if (n == 0)
        return;
    m->msg_control = room;
    m->msg_controllen = (length_)CMSG_SPACE(sizeof(int) * n);
    c = &room->head;
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = (length_)CMSG_LEN(sizeof(int) * n);
    memcpy(CMSG_DATA(c), fds, sizeof(int) * n);
}

int ipc_send(int sock, const void *message, size_t n, const int *fds, size_t n_fds, struct err *e)
{
    union ipc_cmsg room = { 0 };
    struct iovec part;
    struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };
    ssize_t sent;

    if (n == 0 || n > IPC_MESSAGE_MAX || n_fds > IPC_FDS_MAX)
        return err_set(e, ERR_BUG, "a message of %zu bytes and %zu descriptors", n, n_fds);
    memcpy(&part.iov_base, &message, sizeof message); /* sendmsg() does not write to it */
    part.iov_len = n;
    attach_message_fds(&m, &room, fds, n_fds);
    do
        sent = sendmsg(sock, &m, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent == (ssize_t)n)
        return 0;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return err_set(e, ERR_BUSY, "the peer does not read its messages");
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN))
        return err_set(e, ERR_UPSTREAM, "the peer closed the connection");
    return err_sys(e, "sending a message");
}

/* The kernel puts all descriptors of a packet into the first header. */
static void collect_fds(const struct msghdr *m, struct ipc_fds *ret)
{
    const struct cmsghdr *c = m->msg_control;

    ret->n = 0;
    if (m->msg_controllen < sizeof *c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
        return;
    ret->n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    if (ret->n > IPC_FDS_MAX)
        ret->n = IPC_FDS_MAX;
    memcpy(ret->fd, CMSG_DATA(c), ret->n * sizeof(int));
}

ssize_t ipc_recv(int sock, void *message, size_t cap, struct ipc_fds *fds, struct err *e)
{
    union ipc_cmsg room;
    struct iovec part = { .iov_base = message, .iov_len = cap };
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof room
    };
    struct ipc_fds got;
    ssize_t n;

    do
        n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return err_set(e, ERR_BUSY, "no message");
    if (n < 0 && errno == ECONNRESET)
        return 0;
    if (n < 0)
        return err_sys(e, "receiving a message");
    collect_fds(&m, &got);
    if ((m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || (got.n && !fds)) {
        ipc_fds_done(&got);
        return err_set(e, ERR_TOO_BIG, "a message with more bytes or descriptors than it may have");
    }
    if (fds)
        *fds = got;
    return n;
}
