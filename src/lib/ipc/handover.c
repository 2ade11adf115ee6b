/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/ipc/handover.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/ipc/channel.h"

enum { HANDOVER_MAGIC = 0x44484f53 /* "SOHD" */, HANDOVER_VERSION = 1 };

struct handover_message {
    uint32_t magic, version, writable, pad;
};

/* The type of lengths differs between glibc and musl. */
typedef __typeof__(((struct msghdr *)0)->msg_controllen) handover_length_;

union handover_control {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
};

static int send_handover(int sock, int dir, bool writable, struct err *e)
{
    const struct ucred self = { .pid = getpid(), .uid = geteuid(), .gid = getegid() };
    struct handover_message m = { HANDOVER_MAGIC, HANDOVER_VERSION, writable, 0 };
    union handover_control control = { 0 };
    struct iovec part = { &m, sizeof m };
    struct msghdr h = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
    };
    struct cmsghdr *c = CMSG_FIRSTHDR(&h);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = (handover_length_)CMSG_LEN(sizeof dir);
    memcpy(CMSG_DATA(c), &dir, sizeof dir);
    c = (struct cmsghdr *)(void *)(control.room + CMSG_SPACE(sizeof(int)));
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_CREDENTIALS;
    c->cmsg_len = (handover_length_)CMSG_LEN(sizeof self);
    memcpy(CMSG_DATA(c), &self, sizeof self);
    return sendmsg(sock, &h, MSG_NOSIGNAL) == (ssize_t)sizeof m
               ? 0
               : err_sys(e, "handing over a directory");
}

int handover_make(int dir, bool writable, int *ret, struct err *e)
{
    AUTO_CLOSE int ours = -1, theirs = -1;
    int pair[2], r = ipc_pair(pair, e);

    if (r < 0)
        return r;
    ours = pair[0];
    theirs = pair[1];
    r = send_handover(ours, dir, writable, e);
    if (r >= 0)
        *ret = take_fd(&theirs);
    return r;
}

/* Reads the control data of a message: false unless it is one descriptor and the credentials. */
static bool collect_control_data(const struct msghdr *h, int *ret_dir, struct handover_sender *ret)
{
    size_t n_fds = 0, n_senders = 0, at = 0;

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
            *ret = (struct handover_sender){ sender.uid, sender.gid };
            n_senders++;
        }
        for (size_t i = 0; c->cmsg_type == SCM_RIGHTS && i < n / sizeof(int); i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (n_fds++ == 0)
                *ret_dir = fd;
            else
                close(fd);
        }
    }
    return n_fds == 1 && n_senders == 1;
}

static int receive_handover(int sock, int flags, int *ret_dir, bool *ret_writable,
                            struct handover_sender *ret, struct err *e)
{
    struct handover_message m = { 0 };
    union handover_control control = { 0 };
    struct iovec part = { &m, sizeof m };
    struct msghdr h = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
    };
    struct handover_sender sender = { (uid_t)-1, (gid_t)-1 };
    AUTO_CLOSE int dir = -1;
    struct stat st;
    int on = 1;
    ssize_t n;
    bool whole;

    if (setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0)
        return err_set(e, ERR_DENIED, "the descriptor is not the socket of a client");
    n = recvmsg(sock, &h, flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    whole = n >= 0 && collect_control_data(&h, &dir, &sender);
    if (n != (ssize_t)sizeof m || !whole || (h.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ||
        m.magic != HANDOVER_MAGIC || m.version != HANDOVER_VERSION || m.writable > 1)
        return err_set(e, ERR_DENIED, "the client handed over no directory");
    if (fstat(dir, &st) < 0 || !S_ISDIR(st.st_mode))
        return err_set(e, ERR_INVALID, "the client handed over something that is no directory");
    *ret = sender;
    *ret_writable = m.writable;
    *ret_dir = take_fd(&dir);
    return 0;
}

int handover_take(int sock, int *ret_dir, bool *ret_writable, struct handover_sender *ret,
                  struct err *e)
{
    return receive_handover(sock, 0, ret_dir, ret_writable, ret, e);
}

int handover_peek(int sock, int *ret_dir, bool *ret_writable, struct handover_sender *ret,
                  struct err *e)
{
    return receive_handover(sock, MSG_PEEK, ret_dir, ret_writable, ret, e);
}
