#include "http/server.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "http/connection.h"

enum { ACCEPTS_A_BATCH = 64 };
#define ACCEPT_PAUSE (100 * NS_PER_MS)

struct listener {
    struct http_server *server;
    struct loop_fd source;
    struct link link;
    int fd;
};

static void on_acceptable(struct loop_fd *s, unsigned events);
static void accept_again(struct loop_timer *t);
static void tell_stopped(struct loop_later *l);

static void set_defaults(struct http_config *c)
{
#define DEFAULT(member, value) c->member = c->member ? c->member : (value)
    DEFAULT(limits.head, H1_HEAD_MAX);
    DEFAULT(limits.target, H1_TARGET_MAX);
    DEFAULT(limits.fields, H1_FIELDS_MAX);
    DEFAULT(connections, 10000);
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

int http_server_new(struct loop *l, const struct http_config *c, struct http_server **ret,
                    struct err *e)
{
    struct http_server *s = calloc(1, sizeof(*s));

    if (!s)
        abort();
    s->loop = l;
    s->config = *c;
    set_defaults(&s->config);
    if (getrandom(&s->seed, sizeof(s->seed), 0) != sizeof(s->seed)) {
        free(s);
        return err_sys(e, "asking for a random number");
    }
    *ret = s;
    return 0;
}

/* --- Listening --- */

int http_server_listen(struct http_server *s, int fd, struct err *e)
{
    struct listener *l = calloc(1, sizeof(*l));
    int r, flags = fcntl(fd, F_GETFL);

    if (!l)
        abort();
    *l = (struct listener){ .server = s, .fd = fd };
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        r = err_sys(e, "preparing a listening socket");
    else
        r = loop_fd_start(s->loop, &l->source, fd, LOOP_READ, on_acceptable, e);
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
    for (struct link *m = list_first(&s->listeners); m; m = list_after(&s->listeners, m))
        loop_fd_want(&container_of(m, struct listener, link)->source, want, NULL);
}

/* Without a descriptor or memory to accept with, a waiting client would wake the loop for ever. */
static void pause_accepting(struct http_server *s, int why)
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

bool server_evict(struct http_server *s)
{
    struct link *m = list_first(&s->waiting);

    if (!m)
        return false;
    s->stats.evicted++;
    connection_cut(container_of(m, struct connection, waiting));
    return true;
}

/* --- Peers --- */

static struct str address_bytes(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET6)
        return (struct str){ (const char *)&((const struct sockaddr_in6 *)a)->sin6_addr, 16 };
    return (struct str){ (const char *)&((const struct sockaddr_in *)a)->sin_addr, 4 };
}

static struct list *bucket_of(struct http_server *s, const struct sockaddr_storage *a)
{
    struct str bytes = address_bytes(a);
    uint64_t h = s->seed;

    for (size_t i = 0; i < bytes.n; i++)
        h = (h ^ (unsigned char)bytes.p[i]) * UINT64_C(0x100000001b3);
    return &s->buckets[(h ^ h >> 32) % BUCKETS];
}

static unsigned count_of(struct list *bucket, const struct sockaddr_storage *a)
{
    unsigned n = 0;

    for (struct link *m = list_first(bucket); m; m = list_after(bucket, m)) {
        const struct connection *c = container_of(m, struct connection, bucket);

        n += str_eq(address_bytes(&c->peer.remote), address_bytes(a));
    }
    return n;
}

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

/* Serves fd, or closes it. */
static int admit(struct http_server *s, int fd, int net, struct err *e)
{
    struct list *bucket = NULL;
    struct http_peer peer;
    int r = 0, on = 1;

    find_peer(net, &peer);
    peer.is_tls = net != fd;
    if (peer.is_unix && net != fd)
        r = err_set(e, ERR_BUG, "somebody else's connection is one of this machine's users");
    if (!peer.is_unix) {
        setsockopt(net, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        bucket = bucket_of(s, &peer.remote);
        if (s->config.per_address && count_of(bucket, &peer.remote) >= s->config.per_address)
            r = err_set(e, ERR_BUSY, "too many connections from one address");
    }
    if (r == 0 && s->n_connections >= s->config.connections && !server_evict(s))
        r = err_set(e, ERR_BUSY, "%u connections, all of them busy", s->n_connections);
    if (r == 0)
        r = connection_open(s, fd, &peer, bucket, e);
    if (r < 0) {
        close(fd);
        return r;
    }
    s->stats.accepted++;
    return 0;
}

int http_server_adopt(struct http_server *s, int fd, struct err *e)
{
    return http_server_adopt_for(s, fd, fd, e);
}

int http_server_adopt_for(struct http_server *s, int fd, int net, struct err *e)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        int r = err_sys(e, "preparing a connection");

        close(fd);
        return r;
    }
    return admit(s, fd, net, e);
}

static bool is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void on_acceptable(struct loop_fd *source, unsigned events)
{
    struct listener *l = container_of(source, struct listener, source);
    struct http_server *s = l->server;

    (void)events;
    for (int i = 0; i < ACCEPTS_A_BATCH; i++) {
        struct sockaddr_storage from; /* asked for again where it matters */
        socklen_t n = sizeof(from);
        int fd = accept4(l->fd, (struct sockaddr *)&from, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            admit(s, fd, fd, NULL); /* a client that is turned away sees its connection closed */
            continue;
        }
        if (errno == EAGAIN)
            return;
        if (is_shortage(errno) && !server_evict(s)) {
            pause_accepting(s, errno);
            return;
        }
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
        connection_cut(container_of(m, struct connection, link));
}

static void on_stop_deadline(struct loop_timer *t)
{
    cut_all(container_of(t, struct http_server, stop_timer));
}

static void tell_stopped(struct loop_later *l)
{
    struct http_server *s = container_of(l, struct http_server, stopped);
    http_stopped_fn *call = s->on_stopped;

    s->on_stopped = NULL;
    if (call)
        call(s, s->config.user);
}

void server_connection_gone(struct http_server *s)
{
    s->n_connections--;
    if (!s->stopping || s->n_connections > 0)
        return;
    loop_timer_stop(&s->stop_timer);
    loop_later(s->loop, &s->stopped, tell_stopped, NULL);
}

void http_server_stop(struct http_server *s, int64_t deadline, http_stopped_fn *on_stopped)
{
    s->stopping = true;
    s->on_stopped = on_stopped;
    close_listeners(s);
    while (list_first(&s->waiting))
        connection_cut(container_of(list_first(&s->waiting), struct connection, waiting));
    if (s->n_connections > 0)
        loop_timer_start(s->loop, &s->stop_timer, deadline, on_stop_deadline, NULL);
    else
        loop_later(s->loop, &s->stopped, tell_stopped, NULL);
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
    free(s);
}

void http_server_stats(const struct http_server *s, struct http_stats *ret)
{
    *ret = s->stats;
    ret->connections = s->n_connections;
    ret->exchanges = s->n_exchanges;
}
