/* A connection to the proxy's port, until its first bytes say what it is. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "egress/adapters/adapters.h"
#include "egress/relays/relays.h"
#include "loop/fd.h"
#include "loop/timer.h"

#define TUNNEL "CONNECT "

struct guest {
    struct egress_open open;
    struct egress_box *box;
    int fd;
    struct address client;
    uint16_t client_port;
    size_t n;
    char first[sizeof TUNNEL]; /* as long as they can still be a CONNECT's */
    struct loop_fd socket;
    struct loop_timer timer;
    struct loop_later later;
};

static void guest_free(struct loop_later *l)
{
    free(container_of(l, struct guest, later));
}

/* Leaves; the descriptor is closed unless it was taken. */
static void guest_end(struct guest *g)
{
    egress_open_leave(g->box, &g->open);
    loop_fd_stop(&g->socket);
    loop_timer_stop(&g->timer);
    drop_fd(&g->fd);
    loop_later(g->box->egress->loop, &g->later, guest_free, NULL);
}

static void on_close(struct egress_open *o, const char *how)
{
    (void)how;
    guest_end(container_of(o, struct guest, open));
}

static void on_reconsider(struct egress_open *o)
{
    (void)o; /* has asked for nothing yet */
}

static void on_time(struct loop_timer *t)
{
    guest_end(container_of(t, struct guest, timer));
}

static bool may_be_connect(struct str read)
{
    size_t n = read.n < sizeof TUNNEL - 1 ? read.n : sizeof TUNNEL - 1;

    return memcmp(read.p, TUNNEL, n) == 0;
}

static bool is_clear(struct str read)
{
    return read.n >= sizeof TUNNEL - 1 || !may_be_connect(read);
}

static void pass_on(struct egress_box *b, int fd, const struct address *client, uint16_t port,
                    struct str read)
{
    if (may_be_connect(read))
        connect_accept(b, fd, client, port, read);
    else
        relay_forward(b, fd, client, port, read, connect_accept);
}

static void hand_over(struct guest *g, struct str read)
{
    struct egress_box *b = g->box;
    struct address client = g->client;
    uint16_t port = g->client_port;
    int fd;

    loop_fd_stop(&g->socket); /* before another watches it */
    fd = take_fd(&g->fd);
    guest_end(g);
    pass_on(b, fd, &client, port, read);
}

/* What the client said at first, or more of it; 0: nothing yet; negative: it is gone. */
static ssize_t receive(int fd, char *to, size_t room)
{
    ssize_t n = recv(fd, to, room, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return n == 0 ? -1 : n;
}

static void on_bytes(struct loop_fd *s, unsigned events)
{
    static char room[EGRESS_HEAD_MAX];
    struct guest *g = container_of(s, struct guest, socket);
    ssize_t n;

    (void)events;
    memcpy(room, g->first, g->n);
    n = receive(g->fd, room + g->n, sizeof room - g->n);
    if (n < 0) {
        guest_end(g);
        return;
    }
    n += (ssize_t)g->n;
    if (is_clear((struct str){ room, (size_t)n })) {
        hand_over(g, (struct str){ room, (size_t)n });
        return;
    }
    g->n = (size_t)n;
    memcpy(g->first, room, g->n);
}

static void wait_for_more(struct egress_box *b, int fd, const struct address *client,
                          uint16_t client_port, struct str read)
{
    struct loop *l = b->egress->loop;
    struct guest *g = calloc(1, sizeof *g);

    if (!g)
        abort();
    *g = (struct guest){ .open = { .reconsider = on_reconsider, .close = on_close },
                         .box = b,
                         .fd = fd,
                         .client = *client,
                         .client_port = client_port,
                         .n = read.n };
    memcpy(g->first, read.p, read.n);
    egress_open_join(b, &g->open);
    if (loop_fd_start(l, &g->socket, fd, LOOP_READ, on_bytes, NULL) < 0 ||
        loop_timer_start(l, &g->timer, clock_mono() + EGRESS_HEAD_NS, on_time, NULL) < 0)
        guest_end(g);
}

/* Mostly the whole head is there: a client of ours speaks first. */
void proxy_accept(struct egress_box *b, int fd, const struct address *client, uint16_t client_port)
{
    static char room[EGRESS_HEAD_MAX];
    ssize_t n = receive(fd, room, sizeof room);
    struct str read = { room, n > 0 ? (size_t)n : 0 };

    if (n < 0)
        close(fd);
    else if (n > 0 && is_clear(read))
        pass_on(b, fd, client, client_port, read);
    else
        wait_for_more(b, fd, client, client_port, read);
}
