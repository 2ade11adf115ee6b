/* SPDX-License-Identifier: Apache-2.0 */
/* egress-plain: the plain C forwarder that bench/egress holds the proxy against: what relaying
 * costs when nothing is decided, checked or put on record. It knows one destination. A CONNECT's
 * head is taken off and answered; other bytes pass as they are. Small messages are copied, bulk is
 * spliced.
 *
 *   egress-plain PORT TO-PORT        both on 127.0.0.1
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "die.h"

enum { ROOM = 32 << 10, PIPE = 1 << 20 };

/* One of the two sockets of a connection, and what it has for the other. */
struct side {
    struct pair *pair;
    int fd;
    int pipe[2];
    size_t piped, n, at; /* in the pipe; or held in `bytes`, sent up to `at` */
    int bulk, ended, passed, added;
    unsigned watched;
    char *bytes;
};

struct pair {
    struct side client, server;
    int standing, greets, over;
    struct pair *next; /* of those to be freed */
};

static int epoll;
static struct sockaddr_in destination;
static struct pair *dead;

static void watch(struct side *s, unsigned events)
{
    struct epoll_event ev = { .events = events, .data.ptr = s };

    if (s->added && events == s->watched)
        return;
    if (epoll_ctl(epoll, s->added ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, s->fd, &ev) < 0)
        die("epoll_ctl");
    s->added = 1;
    s->watched = events;
}

static void finish(struct pair *p)
{
    for (struct side *s = &p->client; s; s = s == &p->client ? &p->server : NULL) {
        if (s->fd >= 0)
            close(s->fd);
        if (s->pipe[0] >= 0) {
            close(s->pipe[0]);
            close(s->pipe[1]);
        }
        free(s->bytes);
    }
    p->over = 1;
    p->next = dead;
    dead = p;
}

static int pending(const struct side *s)
{
    return s->piped > 0 || s->n > s->at;
}

static void hold(struct side *s, const char *bytes, size_t n)
{
    s->bytes = malloc(n);
    if (!s->bytes)
        die("malloc");
    memcpy(s->bytes, bytes, n);
    s->n = n;
    s->at = 0;
}

static int send_pending(struct side *s, int to)
{
    ssize_t n;

    while (s->n > s->at) {
        n = send(to, s->bytes + s->at, s->n - s->at, MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN ? 0 : -1;
        s->at += (size_t)n;
    }
    free(s->bytes);
    s->bytes = NULL;
    s->n = s->at = 0;
    while (s->piped > 0) {
        n = splice(s->pipe[0], NULL, to, NULL, s->piped, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        if (n < 0)
            return errno == EAGAIN ? 0 : -1;
        s->piped -= (size_t)n;
    }
    return 0;
}

static ssize_t take_bulk(struct side *s)
{
    ssize_t n;

    if (s->pipe[0] < 0 && pipe2(s->pipe, O_NONBLOCK | O_CLOEXEC) < 0)
        die("pipe2");
    fcntl(s->pipe[1], F_SETPIPE_SZ, PIPE);
    n = splice(s->fd, NULL, s->pipe[1], NULL, PIPE, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    s->piped = n > 0 ? (size_t)n : 0;
    return n;
}

static ssize_t take(struct side *s, int to)
{
    static char room[ROOM];
    ssize_t n = recv(s->fd, room, sizeof room, 0), sent;

    s->bulk = n == ROOM;
    if (n <= 0)
        return n;
    sent = send(to, room, (size_t)n, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN)
        return -1;
    sent = sent < 0 ? 0 : sent;
    if (sent < n)
        hold(s, room + sent, (size_t)(n - sent));
    errno = 0;
    return n;
}

/* -1: the connection is dead. */
static int move(struct side *from, struct side *to)
{
    ssize_t n;

    if (send_pending(from, to->fd) < 0)
        return -1;
    if (!pending(from) && !from->ended) {
        n = from->bulk ? take_bulk(from) : take(from, to->fd);
        if (n < 0 && errno != EAGAIN)
            return -1;
        from->ended = n == 0;
        if (send_pending(from, to->fd) < 0)
            return -1;
    }
    if (from->ended && !from->passed && !pending(from)) {
        shutdown(to->fd, SHUT_WR);
        from->passed = 1;
    }
    return 0;
}

static unsigned wants(const struct side *own, const struct side *other)
{
    return (own->ended || pending(own) ? 0u : EPOLLIN) | (pending(other) ? EPOLLOUT : 0u);
}

static void settle(struct pair *p)
{
    if (p->client.passed && p->server.passed) {
        finish(p);
        return;
    }
    watch(&p->client, wants(&p->client, &p->server));
    watch(&p->server, wants(&p->server, &p->client));
}

static void dial(struct pair *p)
{
    int yes = 1;

    p->server.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(p->server.fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (connect(p->server.fd, (struct sockaddr *)&destination, sizeof destination) < 0 &&
        errno != EINPROGRESS) {
        finish(p);
        return;
    }
    watch(&p->server, EPOLLOUT);
    watch(&p->client, 0);
}

static void read_first(struct pair *p)
{
    char room[ROOM], *end;
    ssize_t n = recv(p->client.fd, room, sizeof room - 1, 0);
    size_t head;

    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        finish(p);
        return;
    }
    room[n] = '\0';
    p->greets = memcmp(room, "CONNECT ", 8) == 0;
    end = p->greets ? strstr(room, "\r\n\r\n") : NULL;
    head = end ? (size_t)(end + 4 - room) : 0;
    if (p->greets && !end) /* a benchmark's client sends it in one piece */
        finish(p);
    else {
        if ((size_t)n > head)
            hold(&p->client, room + head, (size_t)n - head);
        dial(p);
    }
}

static void stand(struct pair *p)
{
    static const char yes[] = "HTTP/1.1 200 Connection established\r\n\r\n";
    int error = 0;
    socklen_t n = sizeof error;

    if (getsockopt(p->server.fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0 || error ||
        (p->greets && send(p->client.fd, yes, sizeof yes - 1, MSG_NOSIGNAL) < 0) ||
        send_pending(&p->client, p->server.fd) < 0) {
        finish(p);
        return;
    }
    p->standing = 1;
    settle(p);
}

/* Moves bytes that came, and bytes that wait for this side. */
static int carry(struct side *s, struct side *other, unsigned events)
{
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && move(s, other) < 0)
        return -1;
    return (events & EPOLLOUT) ? move(other, s) : 0;
}

static void serve(struct side *s, unsigned events)
{
    struct pair *p = s->pair;

    if (p->over)
        return;
    if (!p->standing && s == &p->server)
        stand(p);
    else if (!p->standing && p->server.fd < 0)
        read_first(p);
    else if (!p->standing)
        ; /* its end is seen when the server is connected */
    else if (carry(s, s == &p->client ? &p->server : &p->client, events) < 0)
        finish(p);
    else
        settle(p);
}

static void welcome(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct pair *p = fd < 0 ? NULL : calloc(1, sizeof *p);

    if (!p)
        return;
    p->client = (struct side){ .pair = p, .fd = fd, .pipe = { -1, -1 } };
    p->server = (struct side){ .pair = p, .fd = -1, .pipe = { -1, -1 } };
    watch(&p->client, EPOLLIN);
}

static int listen_on(const char *port)
{
    struct sockaddr_in at = destination;
    int yes = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    at.sin_port = htons((uint16_t)strtol(port, NULL, 10));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes); /* inherited */
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 4096) < 0)
        die("listening");
    return fd;
}

static void start(char **argv, int *ret)
{
    struct epoll_event ev = { .events = EPOLLIN };
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    destination = (struct sockaddr_in){ .sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)strtol(argv[2], NULL, 10)),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    *ret = listen_on(argv[1]);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, *ret, &ev) < 0)
        die("epoll");
}

int main(int argc, char **argv)
{
    struct epoll_event events[128];
    int listener;

    if (argc != 3) {
        fprintf(stderr, "usage: egress-plain PORT TO-PORT\n");
        return 2;
    }
    start(argv, &listener);
    for (;;) {
        int n = epoll_wait(epoll, events, 128, -1);

        for (int i = 0; i < n; i++)
            if (events[i].data.ptr)
                serve(events[i].data.ptr, events[i].events);
            else
                welcome(listener);
        for (struct pair *p; (p = dead); free(p))
            dead = p->next;
    }
}
