/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/tls/listener.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/own.h"
#include "lib/loop/list.h"
#include "lib/loop/timer.h"
#include "lib/quota/quota.h"

enum {
    ACCEPTS_A_BATCH = 16,
    LOOKS_AN_ACCEPT = 16, /* handshakes that are read from to find one that can end */
    CHUNK = 16 << 10,
    PENDING_MAX = 2 * CHUNK
};
#define HANDSHAKE_NS (10 * NS_PER_S)
#define IDLE_NS      (75 * NS_PER_S)   /* from the handshake to the first byte */
#define FLUSH_NS     (30 * NS_PER_S)   /* for the last bytes, when our side has ended */
#define SHORTAGE_NS  (100 * NS_PER_MS) /* until the next try, when there are no descriptors */

struct tls_listener {
    struct loop *loop;
    struct tls_listener_setup setup;
    struct loop_fd listener;
    struct loop_timer again;
    struct list sessions;
    struct quota handshakes; /* by address */
    struct list shaking;     /* struct tls_session, not handed on, the oldest first */
    struct list ending;      /* struct tls_session, whose server has ended, the oldest first */
    unsigned n;
};

/* One connection: `net` has TLS, `inner` what is in it. */
struct tls_session {
    struct tls_listener *door;
    struct link link;
    struct link waits, waits_share; /* in shaking and its address's share, or in ending */
    struct quota_hold handshake;
    struct crypto_tls *tls;
    struct loop_fd net, inner;
    struct loop_timer late;
    struct loop_later bury;
    bool heard;         /* its client has sent something */
    bool shaken;        /* the handshake is complete */
    bool open;          /* it was handed on */
    bool inner_ended;   /* nothing more to send */
    unsigned net_needs; /* the events that TLS waits for; 0: none */
    struct buf out, in; /* on their way to the client, and from it */
};

/* --- the end --- */

static void on_free_session(struct loop_later *l)
{
    struct tls_session *s = container_of(l, struct tls_session, bury);

    crypto_tls_free(s->tls);
    buf_done(&s->out);
    buf_done(&s->in);
    free(s);
}

/* At the limit, one that only waits for its client to read makes room. */
static void listen_again(struct tls_listener *d)
{
    bool room = d->n < d->setup.connections || list_first(&d->ending);

    if (d->listener.fd >= 0 && !loop_timer_started(&d->again))
        loop_fd_want(&d->listener, room ? LOOP_READ : 0, NULL);
}

static void end_handshake(struct tls_session *s)
{
    link_leave(&s->waits);
    link_leave(&s->waits_share);
    quota_drop(&s->handshake);
}

static void end_session(struct tls_session *s)
{
    if (!link_joined(&s->link))
        return;
    link_leave(&s->link);
    end_handshake(s);
    loop_fd_stop(&s->net);
    loop_fd_stop(&s->inner);
    loop_timer_stop(&s->late);
    drop_fd(&s->net.fd);
    drop_fd(&s->inner.fd);
    s->door->n--;
    listen_again(s->door);
    loop_later(s->door->loop, &s->bury, on_free_session, NULL);
}

static void on_session_late(struct loop_timer *t)
{
    end_session(container_of(t, struct tls_session, late));
}

/* --- bytes --- */

/* 0: TLS waits for an event; -1: it is over. */
static int note_tls_need(struct tls_session *s, ssize_t need)
{
    if (need != CRYPTO_TLS_NEEDS_READ && need != CRYPTO_TLS_NEEDS_WRITE)
        return -1;
    s->net_needs |= need == CRYPTO_TLS_NEEDS_READ ? LOOP_READ : LOOP_WRITE;
    return 0;
}

/* 1: moved something; 0: cannot now; -1: it is over. */
static int write_to_client(struct tls_session *s)
{
    ssize_t n;

    if (!s->out.n)
        return 0;
    n = crypto_tls_write(s->tls, buf_str(&s->out));
    if (n <= 0)
        return note_tls_need(s, n);
    buf_drop(&s->out, (size_t)n);
    return 1;
}

static int read_from_client(struct tls_session *s)
{
    static char room[CHUNK];
    ssize_t n;

    if (s->in.n)
        return 0;
    n = crypto_tls_read(s->tls, room, sizeof room);
    if (n <= 0)
        return note_tls_need(s, n);
    return buf_add(&s->in, (struct str){ room, (size_t)n }) < 0 ? -1 : 1;
}

static int write_to_inner(struct tls_session *s)
{
    ssize_t n;

    if (!s->in.n)
        return 0;
    n = send(s->inner.fd, s->in.p, s->in.n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    /* A server that has stopped reading may have answered: its answer is still sent. */
    buf_drop(&s->in, n < 0 ? s->in.n : (size_t)n);
    return 1;
}

static int read_from_inner(struct tls_session *s)
{
    static char room[CHUNK];
    ssize_t n;

    if (s->inner_ended || s->out.n > PENDING_MAX - CHUNK)
        return 0;
    n = recv(s->inner.fd, room, sizeof room, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n > 0)
        return buf_add(&s->out, (struct str){ room, (size_t)n }) < 0 ? -1 : 1;
    s->inner_ended = true;
    list_append(&s->door->ending, &s->waits);
    listen_again(s->door);
    loop_timer_start(s->door->loop, &s->late, clock_mono() + FLUSH_NS, on_session_late, NULL);
    return 1;
}

/* As far as it goes, in turns: neither direction keeps the other, or other connections, waiting. */
static void pump_session(struct tls_session *s)
{
    static int (*const moves[])(struct tls_session *) = { read_from_inner, write_to_client,
                                                          read_from_client, write_to_inner };
    int moved = 0;

    s->net_needs = 0;
    for (size_t i = 0; i < COUNT_OF(moves) && moved >= 0; i++)
        moved = moves[i](s);
    if (moved < 0) {
        end_session(s);
        return;
    }
    if (s->inner_ended && !s->out.n) {
        crypto_tls_end(s->tls);
        end_session(s);
        return;
    }
    if (s->out.n)
        s->net_needs |= LOOP_WRITE;
    if (!s->in.n)
        s->net_needs |= crypto_tls_pending(s->tls) ? LOOP_WRITE : LOOP_READ;
    loop_fd_want(&s->inner,
                 (s->in.n ? LOOP_WRITE : 0u) |
                     (!s->inner_ended && s->out.n <= PENDING_MAX - CHUNK ? LOOP_READ : 0u),
                 NULL);
    loop_fd_want(&s->net, s->net_needs, NULL);
}

static void on_inner_ready(struct loop_fd *f, unsigned events)
{
    pump_session(container_of(f, struct tls_session, inner));
}

/* --- the beginning --- */

/* The first bytes are in the socket before its receiver has it, so that a request among them is
 * read before the connection can be taken for an idle one. */
static int adopt_session(struct tls_session *s)
{
    struct tls_listener *d = s->door;
    struct err e;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -1;
    if (loop_fd_start(d->loop, &s->inner, pair[0], LOOP_READ, on_inner_ready, NULL) < 0) {
        close(pair[0]);
        close(pair[1]);
        s->inner.fd = -1;
        return -1;
    }
    s->inner.fd = pair[0];
    write_to_inner(s);
    return d->setup.serve(d->setup.user, pair[1], s->net.fd, &e);
}

/* It came further, so others are to end before it. */
static void renew_wait(struct tls_session *s)
{
    link_leave(&s->waits);
    link_leave(&s->waits_share);
    list_append(&s->door->shaking, &s->waits);
    list_append(&s->handshake.share->idle, &s->waits_share);
}

/* True: the handshake is complete. */
static bool shake_hands(struct tls_session *s)
{
    int r = crypto_tls_handshake(s->tls);

    s->net_needs = 0;
    if (r != 1) {
        if (note_tls_need(s, r) < 0)
            end_session(s);
        else
            loop_fd_want(&s->net, s->net_needs, NULL);
        return false;
    }
    s->shaken = true;
    renew_wait(s);
    loop_timer_stop(&s->late);
    loop_timer_start(s->door->loop, &s->late, clock_mono() + IDLE_NS, on_session_late, NULL);
    return true;
}

/* As far as it goes: the handshake, the first bytes, then it is handed on. A client that has not
 * asked for anything counts as one in a handshake. */
static void begin_session(struct tls_session *s)
{
    int r;

    if (!s->shaken && !shake_hands(s))
        return;
    s->net_needs = 0;
    r = read_from_client(s);
    if (r == 0) {
        loop_fd_want(&s->net, s->net_needs, NULL);
        return;
    }
    if (r < 0 || adopt_session(s) < 0) {
        end_session(s);
        return;
    }
    s->open = true;
    end_handshake(s);
    loop_timer_stop(&s->late);
    pump_session(s);
}

static void continue_handshake(struct tls_session *s)
{
    if (!s->heard)
        renew_wait(s);
    s->heard = true;
    begin_session(s);
}

static void on_net(struct loop_fd *f, unsigned events)
{
    struct tls_session *s = container_of(f, struct tls_session, net);

    if (s->open)
        pump_session(s);
    else
        continue_handshake(s);
}

/* The oldest one that was not handed on, first of the same address. */
static struct tls_session *find_shaking(struct tls_listener *d, const struct quota_who *who)
{
    struct quota_share *share = quota_find(&d->handshakes, who->key);
    struct link *m = share ? list_first(&share->idle) : NULL;

    if (m)
        return container_of(m, struct tls_session, waits_share);
    m = list_first(&d->shaking);
    return m ? container_of(m, struct tls_session, waits) : NULL;
}

/* The oldest handshake ends, unless its client has sent something that the loop has not come to:
 * then the next one is looked at. */
static void end_oldest_handshake(struct tls_listener *d, const struct quota_who *who)
{
    struct tls_session *s;
    char byte;

    for (int looks = LOOKS_AN_ACCEPT; (s = find_shaking(d, who)); looks--) {
        if (looks > 0 && recv(s->net.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
            continue_handshake(s);
        else
            end_session(s);
        if (!s->handshake.share)
            return;
    }
}

static void count_handshake(struct tls_session *s, int fd)
{
    struct tls_listener *d = s->door;
    struct sockaddr_storage from = { 0 };
    socklen_t n = sizeof from;
    char key[QUOTA_KEY_MAX];
    struct quota_who who;

    getpeername(fd, (struct sockaddr *)&from, &n);
    who = (struct quota_who){ .key = quota_address(&from, key) };
    if (quota_take(&d->handshakes, &who, 1, &s->handshake, NULL) < 0) {
        end_oldest_handshake(d, &who);
        quota_charge(&d->handshakes, &who, 1, &s->handshake);
    }
    renew_wait(s);
}

static void session_new(struct tls_listener *d, int fd)
{
    struct tls_session *s = new0(sizeof *s);
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    s->door = d;
    s->inner.fd = -1;
    buf_init(&s->out, PENDING_MAX);
    buf_init(&s->in, CHUNK);
    if (loop_fd_start(d->loop, &s->net, fd, LOOP_READ, on_net, NULL) < 0) {
        close(fd);
        free(s);
        return;
    }
    s->tls = crypto_tls_new(d->setup.identity, fd);
    list_append(&d->sessions, &s->link);
    d->n++;
    count_handshake(s, fd);
    loop_timer_start(d->loop, &s->late, clock_mono() + HANDSHAKE_NS, on_session_late, NULL);
}

static void on_listen_again(struct loop_timer *t)
{
    listen_again(container_of(t, struct tls_listener, again));
}

static void on_tls_acceptable(struct loop_fd *f, unsigned events)
{
    struct tls_listener *d = container_of(f, struct tls_listener, listener);

    if (d->n >= d->setup.connections && list_first(&d->ending))
        end_session(container_of(list_first(&d->ending), struct tls_session, waits));
    for (int i = 0; i < ACCEPTS_A_BATCH && d->n < d->setup.connections; i++) {
        struct sockaddr_storage from; /* asked for again where it matters */
        socklen_t n = sizeof from;
        int fd = accept4(f->fd, (struct sockaddr *)&from, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);

        /* Stops watching the listener, which would report waiting connections in every batch. */
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
            loop_fd_want(f, 0, NULL);
            if (!loop_timer_started(&d->again))
                loop_timer_start(d->loop, &d->again, clock_mono() + SHORTAGE_NS, on_listen_again,
                                 NULL);
        }
        if (fd < 0)
            break;
        session_new(d, fd);
    }
    listen_again(d);
}

int tls_listener_open(const struct tls_listener_setup *s, struct tls_listener **ret, struct err *e)
{
    struct tls_listener *d = new0(sizeof *d);
    int r;

    d->loop = s->loop;
    d->setup = *s;
    quota_init(&d->handshakes,
               &(struct quota_limits){ .total = s->strangers, .share = (s->strangers + 1) / 2 },
               "handshakes", "limits.connections_unauthenticated",
               "limits.connections_unauthenticated");
    r = loop_fd_start(s->loop, &d->listener, s->fd, LOOP_READ, on_tls_acceptable, e);
    if (r < 0) {
        close(s->fd);
        crypto_tls_identity_free(s->identity);
        free(d);
        return r;
    }
    *ret = d;
    return 0;
}

/* Sessions hold the one that they began with. */
void tls_listener_renew(struct tls_listener *d, struct crypto_tls_identity *identity)
{
    crypto_tls_identity_free(d->setup.identity);
    d->setup.identity = identity;
}

void tls_listener_shut(struct tls_listener *d)
{
    if (!d)
        return;
    loop_timer_stop(&d->again);
    loop_fd_stop(&d->listener);
    drop_fd(&d->listener.fd);
}

void tls_listener_free(struct tls_listener *d)
{
    if (!d)
        return;
    tls_listener_shut(d);
    for (struct link *m; (m = list_first(&d->sessions));)
        end_session(container_of(m, struct tls_session, link));
    quota_done(&d->handshakes);
    crypto_tls_identity_free(d->setup.identity);
    free(d);
}
