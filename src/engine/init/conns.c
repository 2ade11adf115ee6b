#include "init/init.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"

/* An answer that waits: as it is, or how to make it. One is enough, because no request is read
 * before it is sent. */
struct conn {
    int fd;    /* 0 is a free place: PID 1's own stdin is none */
    bool full; /* its queue was; waits for room and is not read from */
    size_t n;  /* of answer */
    union {
        struct control_head head;
        struct control_failed failed;
        struct control_used used;
    } answer;
    conn_again *again;
    struct control_one request;
};

static struct conn conns[INIT_CONNECTIONS_MAX];
static int epoll_fd;

static struct conn *find(int fd)
{
    for (size_t i = 0; i < COUNT_OF(conns); i++)
        if (conns[i].fd == fd)
            return &conns[i];
    return NULL;
}

static void wait_for(int fd, int op, uint32_t what)
{
    struct epoll_event event = { .events = what, .data.fd = fd };

    epoll_ctl(epoll_fd, op, fd, &event);
}

void conns_init(int epoll)
{
    epoll_fd = epoll;
}

/* Outsiders have no number in our pid namespace; whoever has one is inside and may not be here. */
static bool is_outsider(int fd)
{
    struct ucred peer;
    socklen_t n = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && peer.pid == 0;
}

bool conns_add(int fd)
{
    struct conn *c = find(0);

    if (!c || !is_outsider(fd))
        return false;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    *c = (struct conn){ .fd = fd };
    wait_for(fd, EPOLL_CTL_ADD, EPOLLIN);
    return true;
}

void conns_accept(void)
{
    int fd = accept(INIT_LISTENER, NULL, NULL); /* conns_add() makes it close-on-exec */

    /* A second connection is that of a daemon after the one that built us: what had no owner by
     * then gets none. */
    if (fd >= 0)
        groups_enter();
    if (fd >= 0 && !conns_add(fd))
        close(fd);
}

bool conns_has(int fd)
{
    return find(fd) != NULL;
}

void conns_drop(int fd)
{
    struct conn *c = find(fd);

    starts_orphan(fd);
    looks_orphan(fd);
    if (c)
        c->fd = 0;
    close(fd);
}

/* The kernel reports room when most of the queue is free again. */
static void note_full(struct conn *c)
{
    if (c->full)
        return;
    c->full = true;
    wait_for(c->fd, EPOLL_CTL_MOD, EPOLLOUT);
}

int conns_tell(int fd, const void *message, size_t n, const int *fds, int n_fds)
{
    struct conn *c = find(fd);
    int r;

    if (!c || c->full)
        return c ? 0 : -1;
    r = ipc_send(fd, message, n, fds, (size_t)n_fds, NULL);
    if (r == -(int)ERR_BUSY)
        note_full(c);
    return r >= 0 ? 1 : r == -(int)ERR_BUSY ? 0 : -1;
}

void conns_answer(int fd, const void *message, size_t n)
{
    struct conn *c = find(fd);

    if (!c || conns_tell(fd, message, n, NULL, 0) != 0 || n > sizeof c->answer)
        return;
    memcpy(&c->answer, message, n);
    c->n = n;
}

void conns_answer_by(int fd, conn_again *again, const struct control_one *request)
{
    struct conn *c = find(fd);

    if (!c || again(fd, request) != 0)
        return;
    c->again = again;
    c->request = *request;
}

bool conns_ready(int fd)
{
    struct conn *c = find(fd);

    if (!c || !c->full)
        return true;
    c->full = false;
    if (c->n && conns_tell(fd, &c->answer, c->n, NULL, 0) != 0)
        c->n = 0;
    if (c->again && c->again(fd, &c->request) != 0)
        c->again = NULL;
    if (!c->full)
        wait_for(fd, EPOLL_CTL_MOD, EPOLLIN);
    return false; /* what else is due goes first */
}

void conns_fail(int fd, uint32_t tag, const char *step, const struct err *e)
{
    struct control_failed m = { .code = e->code, .sys = e->sys };

    control_fill(&m.head, CONTROL_FAILED, tag, sizeof m);
    snprintf(m.step, sizeof m.step, "%s", step);
    snprintf(m.msg, sizeof m.msg, "%.*s", (int)sizeof m.msg - 1, e->msg);
    conns_answer(fd, &m, sizeof m);
}
