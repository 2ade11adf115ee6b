/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/init/init.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"

/* A connection of a client outside. One pending answer is enough, because no further request is
 * read before it is sent: either the message itself, or a function that makes it. */
struct conn {
    int fd;    /* 0: a free slot; never a connection, since it is PID 1's stdin */
    bool full; /* its queue was full: it is not read from until there is room */
    size_t n;  /* of answer */
    union {
        struct control_head head;
        struct control_failed failed;
        struct control_used used;
    } answer;
    conn_answer_fn *again;
    struct control_one request;
};

static struct conn conns[INIT_CONNECTIONS_MAX];
static int epoll_fd;

static struct conn *find_conn(int fd)
{
    for (size_t i = 0; i < COUNT_OF(conns); i++)
        if (conns[i].fd == fd)
            return &conns[i];
    return NULL;
}

static void set_epoll_events(int fd, int op, uint32_t what)
{
    struct epoll_event event = { .events = what, .data.fd = fd };

    epoll_ctl(epoll_fd, op, fd, &event);
}

void conns_init(int epoll)
{
    epoll_fd = epoll;
}

/* Processes outside have no pid in this pid namespace; a peer that has one is inside and is
 * refused. */
static bool is_outsider(int fd)
{
    struct ucred peer;
    socklen_t n = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && peer.pid == 0;
}

bool conns_add(int fd)
{
    struct conn *c = find_conn(0);

    if (!c || !is_outsider(fd))
        return false;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    *c = (struct conn){ .fd = fd };
    set_epoll_events(fd, EPOLL_CTL_ADD, EPOLLIN);
    return true;
}

void conns_accept(void)
{
    int fd = accept(INIT_LISTENER, NULL, NULL); /* conns_add() makes it close-on-exec */

    /* A second connection comes from a later daemon or from a teardown: a sandbox that had no owner
     * by then never gets one. */
    if (fd >= 0 && groups_pending())
        _exit(125);
    if (fd >= 0 && !conns_add(fd))
        close(fd);
}

bool conns_has(int fd)
{
    return find_conn(fd) != NULL;
}

void conns_drop(int fd)
{
    struct conn *c = find_conn(fd);

    starts_orphan(fd);
    owner_scans_orphan(fd);
    if (c)
        c->fd = 0;
    close(fd);
}

int conns_send(int fd, const void *message, size_t n, const int *fds, int n_fds)
{
    struct conn *c = find_conn(fd);
    int r;

    if (!c || c->full)
        return c ? 0 : -1;
    r = ipc_send(fd, message, n, fds, (size_t)n_fds, NULL);
    if (r == -(int)ERR_BUSY) { /* the kernel reports room when most of the queue is free again */
        c->full = true;
        set_epoll_events(c->fd, EPOLL_CTL_MOD, EPOLLOUT);
    }
    return r >= 0 ? 1 : r == -(int)ERR_BUSY ? 0 : -1;
}

void conns_answer(int fd, const void *message, size_t n)
{
    struct conn *c = find_conn(fd);

    if (!c || conns_send(fd, message, n, NULL, 0) != 0 || n > sizeof c->answer)
        return;
    memcpy(&c->answer, message, n);
    c->n = n;
}

void conns_answer_by(int fd, conn_answer_fn *again, const struct control_one *request)
{
    struct conn *c = find_conn(fd);

    if (!c || again(fd, request) != 0)
        return;
    c->again = again;
    c->request = *request;
}

bool conns_ready(int fd)
{
    struct conn *c = find_conn(fd);

    if (!c || !c->full)
        return true;
    c->full = false;
    if (c->n && conns_send(fd, &c->answer, c->n, NULL, 0) != 0)
        c->n = 0;
    if (c->again && c->again(fd, &c->request) != 0)
        c->again = NULL;
    if (!c->full)
        set_epoll_events(fd, EPOLL_CTL_MOD, EPOLLIN);
    return false; /* pending messages are sent first */
}

void conns_fail(int fd, uint32_t tag, const char *step, const struct err *e)
{
    struct control_failed m = { .code = e->code, .sys = e->sys };

    control_fill(&m.head, CONTROL_FAILED, tag, sizeof m);
    snprintf(m.step, sizeof m.step, "%s", step);
    snprintf(m.msg, sizeof m.msg, "%.*s", (int)sizeof m.msg - 1, e->msg);
    conns_answer(fd, &m, sizeof m);
}
