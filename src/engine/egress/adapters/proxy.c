/* SPDX-License-Identifier: Apache-2.0 */
/* Receives the first bytes of a connection to the proxy port and selects its adapter. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "engine/egress/adapters/adapters.h"
#include "engine/egress/relays/relays.h"
#include "lib/loop/fd.h"
#include "lib/loop/timer.h"

#define TUNNEL "CONNECT "

struct proxy_client {
    struct egress_open open;
    struct egress_box *box;
    int fd;
    struct address client;
    uint16_t client_port;
    size_t n;
    char first[sizeof TUNNEL]; /* kept while they may be the begin of a CONNECT */
    struct loop_fd socket;
    struct loop_timer timer;
    struct loop_later later;
};

static void on_proxy_client_free(struct loop_later *l)
{
    free(container_of(l, struct proxy_client, later));
}

/* Removes the client from the box and closes the descriptor, unless it was taken. */
static void proxy_client_end(struct proxy_client *g)
{
    egress_open_leave(g->box, &g->open);
    loop_fd_stop(&g->socket);
    loop_timer_stop(&g->timer);
    drop_fd(&g->fd);
    loop_later(g->box->egress->loop, &g->later, on_proxy_client_free, NULL);
}

static void on_proxy_client_close(struct egress_open *o, const char *how)
{
    proxy_client_end(container_of(o, struct proxy_client, open));
}

static void on_proxy_client_reconsider(struct egress_open *o)
{
    /* no request yet, nothing to reconsider */
}

static void on_proxy_client_timeout(struct loop_timer *t)
{
    proxy_client_end(container_of(t, struct proxy_client, timer));
}

static bool may_be_connect(struct str read)
{
    size_t n = read.n < sizeof TUNNEL - 1 ? read.n : sizeof TUNNEL - 1;

    return memcmp(read.p, TUNNEL, n) == 0;
}

static bool is_method_clear(struct str read)
{
    return read.n >= sizeof TUNNEL - 1 || !may_be_connect(read);
}

static void route_proxy_client(struct egress_box *b, int fd, const struct address *client,
                               uint16_t port, struct str read)
{
    if (may_be_connect(read))
        connect_accept(b, fd, client, port, read);
    else
        relay_forward(b, fd, client, port, read, connect_accept);
}

static void hand_over_proxy_client(struct proxy_client *g, struct str read)
{
    struct egress_box *b = g->box;
    struct address client = g->client;
    uint16_t port = g->client_port;
    int fd;

    loop_fd_stop(&g->socket); /* before its next owner watches it */
    fd = take_fd(&g->fd);
    proxy_client_end(g);
    route_proxy_client(b, fd, &client, port, read);
}

/* Receives the first bytes, or more of them. Returns 0 if none has arrived, and a negative number
 * if the client has closed. */
static ssize_t receive_first_bytes(int fd, char *to, size_t room)
{
    ssize_t n = recv(fd, to, room, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return n == 0 ? -1 : n;
}

static void on_proxy_client_bytes(struct loop_fd *s, unsigned events)
{
    static char room[EGRESS_HEAD_MAX];
    struct proxy_client *g = container_of(s, struct proxy_client, socket);
    ssize_t n;

    memcpy(room, g->first, g->n);
    n = receive_first_bytes(g->fd, room + g->n, sizeof room - g->n);
    if (n < 0) {
        proxy_client_end(g);
        return;
    }
    n += (ssize_t)g->n;
    if (is_method_clear((struct str){ room, (size_t)n })) {
        hand_over_proxy_client(g, (struct str){ room, (size_t)n });
        return;
    }
    g->n = (size_t)n;
    memcpy(g->first, room, g->n);
}

static void wait_for_proxy_method(struct egress_box *b, int fd, const struct address *client,
                                  uint16_t client_port, struct str read)
{
    struct loop *l = b->egress->loop;
    struct proxy_client *g = new0(sizeof *g);

    *g = (struct proxy_client){ .open = { .reconsider = on_proxy_client_reconsider,
                                          .close = on_proxy_client_close },
                                .box = b,
                                .fd = fd,
                                .client = *client,
                                .client_port = client_port,
                                .n = read.n };
    memcpy(g->first, read.p, read.n);
    egress_open_join(b, &g->open);
    if (loop_fd_start(l, &g->socket, fd, LOOP_READ, on_proxy_client_bytes, NULL) < 0 ||
        loop_timer_start(l, &g->timer, clock_mono() + EGRESS_HEAD_NS, on_proxy_client_timeout,
                         NULL) < 0)
        proxy_client_end(g);
}

/* The whole head has usually arrived: clients of a proxy speak first. */
void proxy_accept(struct egress_box *b, int fd, const struct address *client, uint16_t client_port)
{
    static char room[EGRESS_HEAD_MAX];
    ssize_t n = receive_first_bytes(fd, room, sizeof room);
    struct str read = { room, n > 0 ? (size_t)n : 0 };

    if (n < 0)
        close(fd);
    else if (n > 0 && is_method_clear(read))
        route_proxy_client(b, fd, client, client_port, read);
    else
        wait_for_proxy_method(b, fd, client, client_port, read);
}
