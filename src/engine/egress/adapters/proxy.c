/* SPDX-License-Identifier: Apache-2.0 */
/* Receives the first bytes of a connection to the proxy port and selects its adapter. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "engine/egress/adapters/adapters.h"
#include "engine/egress/relays/relays.h"

#define TUNNEL "CONNECT "

struct proxy_client {
    struct egress_client client;
    struct address from;
    uint16_t from_port;
    size_t n;
    char first[sizeof TUNNEL]; /* kept while they may be the begin of a CONNECT */
};

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
    struct proxy_client *g = container_of(s, struct proxy_client, client.socket);
    struct str read;
    ssize_t n;
    int fd;

    memcpy(room, g->first, g->n);
    n = receive_first_bytes(s->fd, room + g->n, sizeof room - g->n);
    read = (struct str){ room, g->n + (n > 0 ? (size_t)n : 0) };
    if (n >= 0 && !is_method_clear(read)) {
        g->n = read.n;
        memcpy(g->first, room, g->n);
        return;
    }
    loop_fd_stop(s); /* before its next owner watches it */
    fd = n < 0 ? -1 : take_fd(&g->client.fd);
    egress_client_end(&g->client);
    if (fd >= 0)
        route_proxy_client(g->client.box, fd, &g->from, g->from_port, read);
}

static void wait_for_proxy_method(struct egress_box *b, int fd, const struct address *from,
                                  uint16_t from_port, struct str read)
{
    struct proxy_client *g = new0(sizeof *g);

    *g = (struct proxy_client){ .from = *from, .from_port = from_port, .n = read.n };
    memcpy(g->first, read.p, read.n);
    egress_client_join(&g->client, b, fd, NULL);
    if (!egress_client_wait(&g->client, EGRESS_HEAD_NS, on_proxy_client_bytes, NULL))
        egress_client_end(&g->client);
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
