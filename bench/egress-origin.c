/* SPDX-License-Identifier: Apache-2.0 */
/* egress-origin: the server behind the proxies that bench/egress measures, doing as little as
 * possible: `GET …/N` is answered with N bytes, and with the end of the connection if asked for it.
 *
 *   egress-origin PORT        listens on 127.0.0.1
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "die.h"

enum { HEAD_MAX = 4096, BLOCK = 1 << 20, SMALL = 32 << 10 };

struct client {
    int fd;
    int closes;     /* when all is sent */
    long long left; /* of the body */
    size_t n;
    char head[HEAD_MAX];
};

static char block[BLOCK];
static int epoll;

static void watch(struct client *c, int op, unsigned events)
{
    struct epoll_event ev = { .events = events, .data.ptr = c };

    if (epoll_ctl(epoll, op, c->fd, &ev) < 0)
        die("epoll_ctl");
}

static int hang_up(struct client *c)
{
    close(c->fd);
    free(c);
    return -1;
}

/* Whether the body is through; -1: the client is gone. */
static int push(struct client *c)
{
    while (c->left > 0) {
        size_t most = c->left < BLOCK ? (size_t)c->left : BLOCK;
        ssize_t n = send(c->fd, block, most, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0)
            return errno == EAGAIN ? 0 : hang_up(c);
        c->left -= n;
    }
    return c->closes ? hang_up(c) : 1;
}

/* Head and a small body go in one piece. */
static int answer(struct client *c)
{
    static char out[HEAD_MAX + SMALL];
    const char *end = strstr(c->head, " HTTP/1."), *at = end;
    int n;

    while (at && at > c->head && at[-1] != '/')
        at--;
    c->left = at ? strtoll(at, NULL, 10) : 0;
    c->closes = strcasestr(c->head, "\nconnection: close") != NULL;
    c->n = 0;
    n = snprintf(out, HEAD_MAX, "HTTP/1.1 200 OK\r\nContent-Length: %lld\r\n%s\r\n", c->left,
                 c->closes ? "Connection: close\r\n" : "");
    if (c->left <= SMALL) {
        memcpy(out + n, block, (size_t)c->left);
        n += (int)c->left;
        c->left = 0;
    }
    if (send(c->fd, out, (size_t)n, MSG_NOSIGNAL) != n)
        return hang_up(c);
    return push(c);
}

static void serve(struct client *c, unsigned events)
{
    ssize_t n;
    int r;

    if (c->left > 0) {
        r = events & (EPOLLERR | EPOLLHUP) ? hang_up(c) : push(c);
        if (r > 0)
            watch(c, EPOLL_CTL_MOD, EPOLLIN);
        return;
    }
    n = recv(c->fd, c->head + c->n, sizeof c->head - 1 - c->n, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        hang_up(c);
        return;
    }
    c->n += (size_t)n;
    c->head[c->n] = '\0';
    if (strstr(c->head, "\r\n\r\n") && answer(c) == 0)
        watch(c, EPOLL_CTL_MOD, EPOLLOUT);
}

static void welcome(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct client *c = fd < 0 ? NULL : calloc(1, sizeof *c);

    if (!c)
        return;
    c->fd = fd;
    watch(c, EPOLL_CTL_ADD, EPOLLIN);
}

static int listen_on(const char *port)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)strtol(port, NULL, 10)),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int yes = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes); /* inherited */
    /* Where BBR is the default, its pacing would be what bulk measures. */
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 4096) < 0)
        die("listening");
    return fd;
}

int main(int argc, char **argv)
{
    struct epoll_event events[128], ev = { .events = EPOLLIN };
    struct rlimit files;
    int listener;

    if (argc != 2) {
        fprintf(stderr, "usage: egress-origin PORT\n");
        return 2;
    }
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    memset(block, 'x', sizeof block);
    listener = listen_on(argv[1]);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &ev) < 0)
        die("epoll");
    for (;;) {
        int n = epoll_wait(epoll, events, 128, -1);

        for (int i = 0; i < n; i++)
            if (events[i].data.ptr)
                serve(events[i].data.ptr, events[i].events);
            else
                welcome(listener);
    }
}
