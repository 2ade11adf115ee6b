#include "tls/door.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/own.h"
#include "loop/list.h"
#include "loop/timer.h"
#include "quota/quota.h"

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

struct tls_door {
    struct loop *loop;
    struct tls_door_setup setup;
    struct loop_fd listener;
    struct loop_timer again;
    struct list sessions;
    struct quota handshakes; /* by address */
    struct list shaking;     /* struct session, not handed on, the oldest first */
    struct list ending;      /* struct session, whose server has ended, the oldest first */
    unsigned n;
};

/* One connection: `net` has TLS, `inner` what is in it. */
struct session {
    struct tls_door *door;
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
    unsigned net_needs; /* what TLS waits for; 0: nothing */
    struct buf out, in; /* on their way to the client, and from it */
};

/* --- the end --- */

static void on_bury(struct loop_later *l)
{
    struct session *s = container_of(l, struct session, bury);

    crypto_tls_free(s->tls);
    buf_done(&s->out);
    buf_done(&s->in);
    free(s);
}

/* At the limit, one that only waits for its client to read makes room. */
static bool can_accept(struct tls_door *d)
{
    return d->n < d->setup.connections || list_first(&d->ending);
}

static void listen_again(struct tls_door *d)
{
    if (d->listener.fd >= 0 && !loop_timer_started(&d->again))
        loop_fd_want(&d->listener, can_accept(d) ? LOOP_READ : 0, NULL);
}

static void end_handshake(struct session *s)
{
    link_leave(&s->waits);
    link_leave(&s->waits_share);
    quota_drop(&s->handshake);
}

static void leave(struct session *s)
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
    loop_later(s->door->loop, &s->bury, on_bury, NULL);
}

static void on_late(struct loop_timer *t)
{
    leave(container_of(t, struct session, late));
}

/* --- bytes --- */

/* 1: moved something; 0: cannot now; -1: it is over. */
static int to_client(struct session *s)
{
    ssize_t n;

    if (!s->out.n)
        return 0;
    n = crypto_tls_write(s->tls, buf_str(&s->out));
    if (n > 0) {
        buf_drop(&s->out, (size_t)n);
        return 1;
    }
    if (n == CRYPTO_TLS_NEEDS_READ || n == CRYPTO_TLS_NEEDS_WRITE) {
        s->net_needs |= n == CRYPTO_TLS_NEEDS_READ ? LOOP_READ : LOOP_WRITE;
        return 0;
    }
    return -1;
}

static int from_client(struct session *s)
{
    static char room[CHUNK];
    ssize_t n;

    if (s->in.n)
        return 0;
    n = crypto_tls_read(s->tls, room, sizeof room);
    if (n > 0)
        return buf_add(&s->in, (struct str){ room, (size_t)n }) < 0 ? -1 : 1;
    if (n == CRYPTO_TLS_NEEDS_READ || n == CRYPTO_TLS_NEEDS_WRITE) {
        s->net_needs |= n == CRYPTO_TLS_NEEDS_READ ? LOOP_READ : LOOP_WRITE;
        return 0;
    }
    return -1;
}

static int to_inner(struct session *s)
{
    ssize_t n;

    if (!s->in.n)
        return 0;
    n = send(s->inner.fd, s->in.p, s->in.n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    /* Who listens no more may have answered: that is still to be sent. */
    buf_drop(&s->in, n < 0 ? s->in.n : (size_t)n);
    return 1;
}

static int from_inner(struct session *s)
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
    loop_timer_start(s->door->loop, &s->late, clock_mono() + FLUSH_NS, on_late, NULL);
    return 1;
}

static void watch(struct session *s)
{
    unsigned inner = (s->in.n ? LOOP_WRITE : 0u) |
                     (!s->inner_ended && s->out.n <= PENDING_MAX - CHUNK ? LOOP_READ : 0u);

    loop_fd_want(&s->inner, inner, NULL);
    loop_fd_want(&s->net, s->net_needs, NULL);
}

/* As far as it goes, in turns: neither direction keeps the other, or other connections, waiting. */
static void pump(struct session *s)
{
    static int (*const moves[])(struct session *) = { from_inner, to_client, from_client,
                                                      to_inner };
    int moved = 0;

    s->net_needs = 0;
    for (size_t i = 0; i < COUNT_OF(moves) && moved >= 0; i++)
        moved = moves[i](s);
    if (moved < 0) {
        leave(s);
        return;
    }
    if (s->inner_ended && !s->out.n) {
        crypto_tls_end(s->tls);
        leave(s);
        return;
    }
    if (s->out.n)
        s->net_needs |= LOOP_WRITE;
    if (!s->in.n)
        s->net_needs |= crypto_tls_pending(s->tls) ? LOOP_WRITE : LOOP_READ;
    watch(s);
}

static void on_inner(struct loop_fd *f, unsigned events)
{
    (void)events;
    pump(container_of(f, struct session, inner));
}

/* --- the beginning --- */

/* The first bytes are in the socket before its receiver has it, so that a request among them is
 * read before the connection can be taken for an idle one. */
static int hand_on(struct session *s)
{
    struct tls_door *d = s->door;
    struct err e;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -1;
    if (loop_fd_start(d->loop, &s->inner, pair[0], LOOP_READ, on_inner, NULL) < 0) {
        close(pair[0]);
        close(pair[1]);
        s->inner.fd = -1;
        return -1;
    }
    s->inner.fd = pair[0];
    to_inner(s);
    return d->setup.serve(d->setup.user, pair[1], s->net.fd, &e);
}

/* It came further, so others are to end before it. */
static void renew_wait(struct session *s)
{
    link_leave(&s->waits);
    link_leave(&s->waits_share);
    list_append(&s->door->shaking, &s->waits);
    list_append(&s->handshake.share->idle, &s->waits_share);
}

/* True: the handshake is complete. */
static bool shake_hands(struct session *s)
{
    int r = crypto_tls_handshake(s->tls);

    if (r == CRYPTO_TLS_NEEDS_READ || r == CRYPTO_TLS_NEEDS_WRITE) {
        loop_fd_want(&s->net, r == CRYPTO_TLS_NEEDS_READ ? LOOP_READ : LOOP_WRITE, NULL);
        return false;
    }
    if (r != 1) {
        leave(s);
        return false;
    }
    s->shaken = true;
    renew_wait(s);
    loop_timer_stop(&s->late);
    loop_timer_start(s->door->loop, &s->late, clock_mono() + IDLE_NS, on_late, NULL);
    return true;
}

/* As far as it goes: the handshake, the first bytes, then it is handed on. A client that has not
 * asked for anything counts as one in a handshake. */
static void begin_session(struct session *s)
{
    int r;

    if (!s->shaken && !shake_hands(s))
        return;
    s->net_needs = 0;
    r = from_client(s);
    if (r == 0) {
        loop_fd_want(&s->net, s->net_needs, NULL);
        return;
    }
    if (r < 0 || hand_on(s) < 0) {
        leave(s);
        return;
    }
    s->open = true;
    end_handshake(s);
    loop_timer_stop(&s->late);
    pump(s);
}

static void hear_client(struct session *s)
{
    if (!s->heard)
        renew_wait(s);
    s->heard = true;
    begin_session(s);
}

static void on_net(struct loop_fd *f, unsigned events)
{
    struct session *s = container_of(f, struct session, net);

    (void)events;
    if (s->open)
        pump(s);
    else
        hear_client(s);
}

/* The oldest one that was not handed on, first of the same address. */
static struct session *find_shaking(struct tls_door *d, const struct quota_who *who)
{
    struct quota_share *share = quota_find(&d->handshakes, who->key);
    struct link *m = share ? list_first(&share->idle) : NULL;

    if (m)
        return container_of(m, struct session, waits_share);
    m = list_first(&d->shaking);
    return m ? container_of(m, struct session, waits) : NULL;
}

static bool has_input(const struct session *s)
{
    char byte;

    return recv(s->net.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* The oldest handshake ends, unless its client has sent something that the loop has not come to:
 * then the next one is looked at. */
static void make_room(struct tls_door *d, const struct quota_who *who)
{
    struct session *s;

    for (int looks = LOOKS_AN_ACCEPT; (s = find_shaking(d, who)); looks--) {
        if (looks > 0 && has_input(s))
            hear_client(s);
        else
            leave(s);
        if (!s->handshake.share)
            return;
    }
}

static void count_handshake(struct session *s, int fd)
{
    struct tls_door *d = s->door;
    struct sockaddr_storage from = { 0 };
    socklen_t n = sizeof from;
    char key[QUOTA_KEY_MAX];
    struct quota_who who;

    getpeername(fd, (struct sockaddr *)&from, &n);
    who = (struct quota_who){ .key = quota_address(&from, key) };
    if (quota_take(&d->handshakes, &who, 1, &s->handshake, NULL) < 0) {
        make_room(d, &who);
        quota_charge(&d->handshakes, &who, 1, &s->handshake);
    }
    list_append(&d->shaking, &s->waits);
    list_append(&s->handshake.share->idle, &s->waits_share);
}

static void session_new(struct tls_door *d, int fd)
{
    struct session *s = calloc(1, sizeof *s);
    int on = 1;

    if (!s)
        abort();
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
    loop_timer_start(d->loop, &s->late, clock_mono() + HANDSHAKE_NS, on_late, NULL);
}

static void on_again(struct loop_timer *t)
{
    listen_again(container_of(t, struct tls_door, again));
}

/* What waits would be told again and again. */
static void rest(struct tls_door *d)
{
    loop_fd_want(&d->listener, 0, NULL);
    if (!loop_timer_started(&d->again))
        loop_timer_start(d->loop, &d->again, clock_mono() + SHORTAGE_NS, on_again, NULL);
}

static void on_acceptable(struct loop_fd *f, unsigned events)
{
    struct tls_door *d = container_of(f, struct tls_door, listener);

    (void)events;
    if (d->n >= d->setup.connections && list_first(&d->ending))
        leave(container_of(list_first(&d->ending), struct session, waits));
    for (int i = 0; i < ACCEPTS_A_BATCH && d->n < d->setup.connections; i++) {
        struct sockaddr_storage from; /* asked for again where it matters */
        socklen_t n = sizeof from;
        int fd = accept4(f->fd, (struct sockaddr *)&from, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
            rest(d);
        if (fd < 0)
            break;
        session_new(d, fd);
    }
    listen_again(d);
}

int tls_door_open(const struct tls_door_setup *s, struct tls_door **ret, struct err *e)
{
    struct tls_door *d = calloc(1, sizeof *d);
    int r;

    if (!d)
        abort();
    d->loop = s->loop;
    d->setup = *s;
    quota_init(&d->handshakes,
               &(struct quota_limits){ .total = s->strangers, .share = (s->strangers + 1) / 2 },
               "handshakes", "limits.connections_unauthenticated",
               "limits.connections_unauthenticated");
    r = loop_fd_start(s->loop, &d->listener, s->fd, LOOP_READ, on_acceptable, e);
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
void tls_door_renew(struct tls_door *d, struct crypto_tls_identity *identity)
{
    crypto_tls_identity_free(d->setup.identity);
    d->setup.identity = identity;
}

void tls_door_shut(struct tls_door *d)
{
    if (!d)
        return;
    loop_timer_stop(&d->again);
    loop_fd_stop(&d->listener);
    drop_fd(&d->listener.fd);
}

void tls_door_free(struct tls_door *d)
{
    if (!d)
        return;
    tls_door_shut(d);
    for (struct link *m; (m = list_first(&d->sessions));)
        leave(container_of(m, struct session, link));
    quota_done(&d->handshakes);
    crypto_tls_identity_free(d->setup.identity);
    free(d);
}
