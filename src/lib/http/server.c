/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/server.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "lib/http/connection.h"

enum {
    ACCEPTS_A_BATCH = 64,
    LOOKS_AN_ACCEPT = 16, /* idle connections that are read from to find one that can end */
};
#define ACCEPT_PAUSE (100 * NS_PER_MS)

struct listener {
    struct http_server *server;
    struct loop_fd source;
    struct link link;
    int fd;
};

static void on_http_acceptable(struct loop_fd *s, unsigned events);
static void accept_again(struct loop_timer *t);
static void on_server_stopped(struct loop_later *l);

static void set_defaults(struct http_config *c)
{
#define DEFAULT(member, value) c->member = c->member ? c->member : (value)
    DEFAULT(limits.head, H1_HEAD_MAX);
    DEFAULT(limits.target, H1_TARGET_MAX);
    DEFAULT(limits.fields, H1_FIELDS_MAX);
    DEFAULT(connections, 10000);
    DEFAULT(strangers, 1000);
    DEFAULT(body_rate, 1024);
    DEFAULT(exchanges, 1000);
    DEFAULT(head_ns, 10 * NS_PER_S);
    DEFAULT(body_ns, 60 * NS_PER_S);
    DEFAULT(idle_ns, 75 * NS_PER_S);
    DEFAULT(write_ns, 30 * NS_PER_S);
    DEFAULT(linger_ns, 2 * NS_PER_S);
#undef DEFAULT
    if (c->limits.head > H1_HEAD_MAX)
        c->limits.head = H1_HEAD_MAX;
    if (c->limits.fields > H1_FIELDS_MAX)
        c->limits.fields = H1_FIELDS_MAX;
}

static void open_server_quotas(struct http_server *s)
{
    const struct http_config *c = &s->config;
    const struct quota_limits callers = { .total = c->connections,
                                          .reserve = c->reserve,
                                          .share = c->per_caller,
                                          .parts = { { .limit = c->per_token },
                                                     { .limit = c->per_token } } },
                              strangers = { .total = c->strangers, .share = c->per_address };

    quota_init(&s->callers.quota, &callers, "connections", "limits.connections",
               "limits.connections_per_owner");
    quota_init(&s->strangers.quota, &strangers, "unauthenticated connections",
               "limits.connections_unauthenticated", "limits.connections_unauthenticated");
    quota_init(&s->buffered, &c->buffered, "bytes in memory", "limits.buffered_bytes",
               "limits.buffered_bytes_per_owner");
}

int http_server_new(struct loop *l, const struct http_config *c, struct http_server **ret,
                    struct err *e)
{
    struct http_server *s = new0(sizeof(*s));

    s->loop = l;
    s->config = *c;
    set_defaults(&s->config);
    open_server_quotas(s);
    *ret = s;
    return 0;
}

/* --- Listening --- */

int http_server_listen(struct http_server *s, int fd, struct err *e)
{
    struct listener *l = new0(sizeof(*l));
    int r, flags = fcntl(fd, F_GETFL);

    *l = (struct listener){ .server = s, .fd = fd };
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        r = err_sys(e, "preparing a listening socket");
    else
        r = loop_fd_start(s->loop, &l->source, fd, LOOP_READ, on_http_acceptable, e);
    if (r < 0) {
        close(fd);
        free(l);
        return r;
    }
    list_append(&s->listeners, &l->link);
    return 0;
}

static void want_accepts(struct http_server *s, unsigned want)
{
    LIST_EACH (struct listener, l, &s->listeners, link)
        loop_fd_want(&l->source, want, NULL);
}

/* Without a descriptor or memory to accept with, a waiting client would wake the loop for ever. */
static void pause_http_accepting(struct http_server *s, int why)
{
    if (s->paused)
        return;
    LOG(WARN, "http.accept_paused", LOG_S("error", strerror(why)),
        LOG_I("connections", s->n_connections));
    s->paused = true;
    s->stats.accept_paused++;
    want_accepts(s, 0);
    loop_timer_start(s->loop, &s->accept_again, clock_mono() + ACCEPT_PAUSE, accept_again, NULL);
}

static void accept_again(struct loop_timer *t)
{
    struct http_server *s = container_of(t, struct http_server, accept_again);

    s->paused = false;
    if (!s->stopping)
        want_accepts(s, LOOP_READ);
}

static void evict_connection(struct http_server *s, struct http_connection *c)
{
    s->stats.evicted++;
    connection_cut(c);
}

static bool counts_in(const struct http_connection *c, const struct connection_places *p)
{
    return c->place.share && c->place.share->quota == &p->quota;
}

/* Ends an idle connection of p, unless a request waits in its socket that authenticates it or that
 * a handler works on: the loop may not have come to it yet. It may be gone already by its client's
 * doing. */
static void evict_unless_asking(struct http_server *s, const struct connection_places *p,
                                struct http_connection *c)
{
    connection_check(c);
    if (counts_in(c, p) && link_joined(&c->idle))
        evict_connection(s, c);
}

/* True: one of p ended. Which one is oldest is asked again after each look, which runs handlers. */
static bool evict_oldest(struct http_server *s, struct connection_places *p, int *looks)
{
    struct link *m;

    while (*looks > 0 && (m = list_first(&p->idle))) {
        struct http_connection *c = container_of(m, struct http_connection, idle);

        --*looks;
        evict_unless_asking(s, p, c);
        if (c->state == CONNECTION_DEAD)
            return true;
    }
    return false;
}

bool server_evict(struct http_server *s)
{
    int looks = LOOKS_AN_ACCEPT;

    return evict_oldest(s, &s->strangers, &looks) || evict_oldest(s, &s->callers, &looks);
}

/* An idle connection whose end would make room: of the caller's parts, of the caller, or if all is
 * in use, of another. */
static struct http_connection *find_idle(struct connection_places *p, const struct quota_who *who,
                                         bool is_full)
{
    struct quota_share *share = quota_find(&p->quota, who->key);
    struct http_connection *c = NULL;
    struct link *m;

    for (size_t i = 0; !c && i < QUOTA_PARTS_MAX; i++) {
        struct quota_share *part = who->parts[i].n ? quota_find(&p->quota, who->parts[i]) : NULL;

        m = part ? list_first(&part->idle) : NULL;
        c = m ? container_of(m - i, struct http_connection, idle_parts[0]) : NULL;
    }
    if (c || quota_part_refuses(&p->quota, who, 1))
        return c;
    m = share ? list_first(&share->idle) : NULL;
    if (m)
        return container_of(m, struct http_connection, idle_share);
    m = is_full ? list_first(&p->idle) : NULL;
    return m ? container_of(m, struct http_connection, idle) : NULL;
}

/* True: a connection has given up its place. A caller's is not read from: http_bill() comes here
 * from inside a handler. */
static bool vacate_place(struct http_server *s, struct connection_places *p,
                         const struct quota_who *who, bool is_full)
{
    struct http_connection *c;

    for (int looks = LOOKS_AN_ACCEPT; looks > 0 && (c = find_idle(p, who, is_full)); looks--) {
        if (p == &s->strangers)
            evict_unless_asking(s, p, c);
        else
            evict_connection(s, c);
        if (!counts_in(c, p))
            return true;
    }
    return false;
}

int server_take_place(struct http_server *s, struct connection_places *p,
                      const struct quota_who *who, struct quota_hold *ret, struct err *e)
{
    int r = quota_take(&p->quota, who, 1, ret, e);

    if (r < 0 && vacate_place(s, p, who, r == -ERR_BUSY))
        r = quota_take(&p->quota, who, 1, ret, e);
    if (r < 0)
        s->stats.turned_away++;
    return r;
}

/* --- Peers --- */

static void find_peer(int fd, struct http_peer *p)
{
    int domain = 0;
    socklen_t n = sizeof(domain);

    *p = (struct http_peer){ 0 };
    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n);
    p->is_unix = domain == AF_UNIX;
    if (p->is_unix) {
        n = sizeof(p->cred);
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &p->cred, &n) < 0)
            p->cred = (struct ucred){ .pid = 0, .uid = (uid_t)-1, .gid = (gid_t)-1 };
        return;
    }
    n = sizeof(p->remote);
    getpeername(fd, (struct sockaddr *)&p->remote, &n);
    n = sizeof(p->local);
    getsockname(fd, (struct sockaddr *)&p->local, &n);
}

static int take_place_for(struct http_server *s, const struct http_peer *peer,
                          struct quota_hold *ret, struct err *e)
{
    char key[QUOTA_KEY_MAX];
    struct quota_who who = { 0 };

    if (!peer->is_unix) {
        who.key = quota_address(&peer->remote, key);
        return server_take_place(s, &s->strangers, &who, ret, e);
    }
    snprintf(key, sizeof key, "uid:%u", (unsigned)peer->cred.uid);
    who.key = str_from(key);
    who.privileged = s->config.privileged && s->config.privileged(s->config.user, peer);
    return server_take_place(s, &s->callers, &who, ret, e);
}

/* Serves fd, or closes it. */
static int admit_connection(struct http_server *s, int fd, int net, struct http_connection **ret,
                            struct err *e)
{
    AUTO(buf_done) struct buf out = BUF_INIT(H1_HEAD_MAX);
    struct quota_hold place = { 0 };
    struct http_peer peer;
    int r = 0, on = 1;

    find_peer(net, &peer);
    peer.is_tls = net != fd;
    if (peer.is_unix && net != fd)
        r = err_set(e, ERR_BUG, "a TLS connection must come from a TCP socket");
    if (!peer.is_unix)
        setsockopt(net, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (r >= 0) {
        r = take_place_for(s, &peer, &place, e);
        if (r >= 0 && s->stopping && !peer.is_unix) /* a handler that ran for the place's sake */
            r = err_set(e, ERR_BUSY, "the server stops");
        if (r < 0) { /* the client learns why if its socket takes it at once */
            answer_error(s, 503, str_from(e->msg), true, &out);
            (void)!recv(fd, s->input, sizeof(s->input), MSG_DONTWAIT); /* else a reset */
            (void)!send(fd, out.p, out.n, MSG_DONTWAIT | MSG_NOSIGNAL);
        }
    }
    if (r >= 0)
        r = connection_open(s, fd, &peer, &place, ret, e);
    if (r < 0) {
        quota_drop(&place);
        close(fd);
        return r;
    }
    return 0;
}

int http_server_adopt(struct http_server *s, int fd, struct err *e)
{
    return http_server_adopt_for(s, fd, fd, e);
}

int http_server_adopt_for(struct http_server *s, int fd, int net, struct err *e)
{
    struct http_connection *c;
    struct err why = { 0 };
    int flags = fcntl(fd, F_GETFL);

    e = e ? e : &why;
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        int r = err_sys(e, "preparing a connection");

        close(fd);
        return r;
    }
    int r = admit_connection(s, fd, net, &c, e);

    if (r >= 0 && net != fd)
        connection_check(c);
    return r;
}

static bool is_accept_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void on_http_acceptable(struct loop_fd *source, unsigned events)
{
    struct listener *l = container_of(source, struct listener, source);
    struct http_server *s = l->server;
    struct pollfd waits = { .fd = l->fd, .events = POLLIN };
    struct http_connection *c;
    struct err e;
    int why;

    for (int i = 0; i < ACCEPTS_A_BATCH; i++) {
        struct sockaddr_storage from = { 0 };
        socklen_t n = sizeof(from);
        int fd = accept4(l->fd, (struct sockaddr *)&from, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            /* A client that has already sent a request does not wait behind silent clients. */
            if (admit_connection(s, fd, fd, &c, &e) >= 0 && from.ss_family != AF_UNIX)
                connection_check(c);
            if (s->stopping) /* the listener is gone */
                return;
            continue;
        }
        why = errno;
        /* The kernel looks for a descriptor before it looks for a client. */
        if (why == EAGAIN || (is_accept_shortage(why) && poll(&waits, 1, 0) <= 0))
            return;
        if (is_accept_shortage(why) && !server_evict(s)) {
            if (!s->stopping)
                pause_http_accepting(s, why);
            return;
        }
        if (s->stopping)
            return;
        /* Everything else is the end of that one connection before it was accepted. */
    }
}

/* --- Stopping --- */

static void close_listeners(struct http_server *s)
{
    for (struct link *m; (m = list_take(&s->listeners));) {
        struct listener *l = container_of(m, struct listener, link);

        loop_fd_stop(&l->source);
        close(l->fd);
        free(l);
    }
    loop_timer_stop(&s->accept_again);
}

static void cut_all(struct http_server *s)
{
    for (struct link *m; (m = list_first(&s->connections));)
        connection_cut(container_of(m, struct http_connection, link));
}

static void on_stop_deadline(struct loop_timer *t)
{
    cut_all(container_of(t, struct http_server, stop_timer));
}

static void on_server_stopped(struct loop_later *l)
{
    struct http_server *s = container_of(l, struct http_server, stopped);
    http_stopped_fn *call = s->on_stopped;

    s->on_stopped = NULL;
    if (call)
        call(s, s->config.user);
}

void server_connection_closed(struct http_server *s)
{
    s->n_connections--;
    if (!s->stopping || s->n_connections > 0)
        return;
    loop_timer_stop(&s->stop_timer);
    loop_later(s->loop, &s->stopped, on_server_stopped, NULL);
}

void http_server_stop(struct http_server *s, int64_t deadline, http_stopped_fn *on_stopped)
{
    struct list *const idle[] = { &s->callers.idle, &s->strangers.idle };

    s->stopping = true;
    s->on_stopped = on_stopped;
    close_listeners(s);
    for (size_t i = 0; i < COUNT_OF(idle); i++)
        LIST_EACH_SAFE (struct http_connection, c, idle[i], idle)
            if (c->state == CONNECTION_OPEN && !c->x) /* answered ones close by themselves */
                connection_cut(c);
    if (s->n_connections > 0)
        loop_timer_start(s->loop, &s->stop_timer, deadline, on_stop_deadline, NULL);
    else
        loop_later(s->loop, &s->stopped, on_server_stopped, NULL);
}

void http_server_free(struct http_server *s)
{
    if (!s)
        return;
    s->on_stopped = NULL;
    close_listeners(s);
    cut_all(s);
    loop_timer_stop(&s->stop_timer);
    loop_later_stop(&s->stopped);
    quota_done(&s->callers.quota);
    quota_done(&s->strangers.quota);
    quota_done(&s->buffered);
    free(s);
}

void http_server_stats(const struct http_server *s, struct http_stats *ret)
{
    *ret = s->stats;
    ret->connections = s->n_connections;
    ret->exchanges = s->n_exchanges;
    ret->strangers = s->strangers.quota.used;
    ret->buffered = s->buffered.used;
}
