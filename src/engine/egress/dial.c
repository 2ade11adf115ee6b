#include "egress/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/own.h"
#include "http/h1.h"

/* Where the talk with whoever we connected to stands. */
enum step {
    STEP_CONNECT,
    STEP_ASK,    /* HTTP: the CONNECT is being sent */
    STEP_ANSWER, /* … and answered */
    STEP_HELLO,  /* SOCKS: the methods are being sent */
    STEP_METHOD, /* … one is chosen */
    STEP_PLACE,  /* … the address is being sent */
    STEP_RESULT, /* … and answered */
};

enum { SOCKS_VERSION = 5, SOCKS_IPV4 = 1, SOCKS_NAME = 3, SOCKS_IPV6 = 4 };

static void attempt(struct dial *d);

static void on_told(struct loop_later *l)
{
    struct dial *d = container_of(l, struct dial, later_);
    int fd = take_fd(&d->fd_);

    if (fd < 0 && !d->why_.code)
        (void)err_set(&d->why_, ERR_BUG, "there is no address to connect to");
    d->done_(d, fd, fd < 0 ? &d->why_ : NULL);
}

static void settle(struct dial *d)
{
    loop_fd_stop(&d->socket_);
    loop_timer_stop(&d->timer_);
    loop_later(d->box->egress->loop, &d->later_, on_told, NULL);
}

static void hang_up(struct dial *d)
{
    loop_fd_stop(&d->socket_);
    loop_timer_stop(&d->timer_);
    drop_fd(&d->fd_);
}

/* This address is none. Through a proxy the fault may be the proxy's, but the next is as good. */
static void next(struct dial *d)
{
    hang_up(d);
    d->at++;
    attempt(d);
}

static const struct address *target(const struct dial *d)
{
    return &d->lease->decision.addresses[d->at];
}

static void on_time(struct loop_timer *t)
{
    struct dial *d = container_of(t, struct dial, timer_);

    (void)err_set(&d->why_, ERR_TIMEOUT, "no answer within %d s", (int)(EGRESS_DIAL_NS / NS_PER_S));
    next(d);
}

/* Whether the kernel connected there and nowhere else. */
static bool peer_is(int fd, const struct address *a, uint16_t port)
{
    struct sockaddr_storage sa;
    socklen_t n = sizeof sa;
    struct address peer;
    uint16_t at;

    return getpeername(fd, (struct sockaddr *)&sa, &n) == 0 &&
           address_from_sockaddr((const struct sockaddr *)&sa, &peer, &at) &&
           address_equal(&peer, a) && at == port;
}

/* ---- what is said to an upstream proxy ---- */

static void say_connect(struct dial *d)
{
    char text[ADDRESS_TEXT_MAX];
    const struct address *a = target(d);
    uint16_t port = d->lease->decision.match.port;
    const char *open = a->v6 ? "[" : "", *close = a->v6 ? "]" : "";

    address_text(a, text);
    d->n_ = (size_t)snprintf(d->talk_, sizeof d->talk_,
                             "CONNECT %s%s%s:%u HTTP/1.1\r\nHost: %s%s%s:%u\r\n\r\n", open, text,
                             close, port, open, text, close, port);
    d->step_ = STEP_ASK;
}

static void say_hello(struct dial *d)
{
    static const char hello[] = { SOCKS_VERSION, 1, 0 }; /* one method: no authentication */

    memcpy(d->talk_, hello, sizeof hello);
    d->n_ = sizeof hello;
    d->step_ = STEP_HELLO;
}

static void say_place(struct dial *d)
{
    const struct address *a = target(d);
    uint16_t port = d->lease->decision.match.port;
    size_t n = a->v6 ? 16 : 4;
    const char head[] = { SOCKS_VERSION, 1, 0, a->v6 ? SOCKS_IPV6 : SOCKS_IPV4 };

    memcpy(d->talk_, head, sizeof head);
    memcpy(d->talk_ + sizeof head, a->bytes, n);
    d->talk_[sizeof head + n] = (char)(port >> 8);
    d->talk_[sizeof head + n + 1] = (char)(port & 0xff);
    d->n_ = sizeof head + n + 2;
    d->step_ = STEP_PLACE;
}

/* ---- what it answers: how many bytes that takes, 0 if there are more to come, or an error ---- */

static int read_http(const struct dial *d, struct str in, struct err *e)
{
    struct h1_limits limits = H1_LIMITS;
    struct h1_response *p = malloc(sizeof *p);
    struct h1_scan scan = { 0 };
    int r;

    if (!p)
        abort();
    limits.head = sizeof d->talk_;
    r = h1_parse_response(&scan, in, &limits, H1_CONNECT, p, e);
    if (r > 0 && p->status / 100 != 2)
        r = err_set(e, ERR_UPSTREAM, "the upstream proxy answers %d", p->status);
    free(p);
    return r;
}

static int read_method(struct str in, struct err *e)
{
    if (in.n < 2)
        return 0;
    if (in.p[0] != SOCKS_VERSION || in.p[1] != 0)
        return err_set(e, ERR_UPSTREAM, "the upstream proxy does not take us without a name");
    return 2;
}

static int read_result(struct str in, struct err *e)
{
    size_t n;

    if (in.n < 5)
        return 0;
    if (in.p[0] != SOCKS_VERSION || in.p[2] != 0)
        return err_set(e, ERR_UPSTREAM, "the upstream proxy does not speak SOCKS");
    if (in.p[1] != 0)
        return err_set(e, ERR_UPSTREAM, "the upstream proxy refuses with SOCKS code %u",
                       (unsigned char)in.p[1]);
    switch (in.p[3]) {
    case SOCKS_IPV4:
        n = 4 + 4 + 2;
        break;
    case SOCKS_IPV6:
        n = 4 + 16 + 2;
        break;
    case SOCKS_NAME:
        n = 4 + 1 + (size_t)(unsigned char)in.p[4] + 2;
        break;
    default:
        return err_set(e, ERR_UPSTREAM, "the upstream proxy names an address of unknown kind");
    }
    return in.n < n ? 0 : (int)n;
}

static int read_answer(const struct dial *d, struct str in, struct err *e)
{
    switch ((enum step)d->step_) {
    case STEP_ANSWER:
        return read_http(d, in, e);
    case STEP_METHOD:
        return read_method(in, e);
    default:
        return read_result(in, e);
    }
}

/* Looks at what is there and takes no more than belongs to the answer: what follows is already the
 * server's. Level-triggered waiting would spin on an answer that is not complete, so what is there
 * of it is taken. */
static int hear(struct dial *d, struct err *e)
{
    char look[sizeof d->talk_];
    ssize_t n = recv(d->fd_, look, sizeof look - d->n_, MSG_PEEK);
    size_t had = d->n_, take;
    int r;

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0
                                                 : err_sys(e, "talking with the upstream proxy");
    if (n == 0)
        return err_set(e, ERR_UPSTREAM, "the upstream proxy hangs up");
    memcpy(d->talk_ + had, look, (size_t)n);
    r = read_answer(d, (struct str){ d->talk_, had + (size_t)n }, e);
    if (r < 0)
        return r;
    take = r > 0 ? (size_t)r - had : (size_t)n;
    if (recv(d->fd_, look, take, 0) != (ssize_t)take)
        return err_sys(e, "talking with the upstream proxy");
    d->n_ = had + take;
    if (r == 0 && d->n_ == sizeof d->talk_)
        return err_set(e, ERR_TOO_BIG, "the upstream proxy answers at length");
    return r;
}

static int say(struct dial *d, struct err *e)
{
    ssize_t n = send(d->fd_, d->talk_, d->n_, MSG_NOSIGNAL);

    if (n < 0)
        return err_sys(e, "talking with the upstream proxy");
    if ((size_t)n != d->n_) /* into the empty buffer of a new connection */
        return err_set(e, ERR_UPSTREAM, "the upstream proxy takes nothing");
    d->n_ = 0;
    d->step_++;
    return loop_fd_want(&d->socket_, LOOP_READ, e);
}

/* ---- the whole ---- */

/* Who is called: the destination, or the proxy in front of it. */
static const struct address *callee(const struct dial *d, uint16_t *ret_port)
{
    const struct upstream *up = &d->box->egress->upstream;
    bool direct = up->kind == UPSTREAM_DIRECT;

    *ret_port = direct ? d->lease->decision.match.port : up->port;
    return direct ? target(d) : &up->address;
}

static bool stands(const struct dial *d)
{
    uint16_t port;
    const struct address *a = callee(d, &port);

    return peer_is(d->fd_, a, port);
}

static int why_not(const struct dial *d, struct err *e)
{
    int error = 0;
    socklen_t n = sizeof error;

    if (getsockopt(d->fd_, SOL_SOCKET, SO_ERROR, &error, &n) < 0 || error) {
        errno = error ? error : errno;
        return err_sys(e, "connecting");
    }
    return err_set(e, ERR_BUG, "connected to another place");
}

static int connected(struct dial *d, struct err *e)
{
    const struct upstream *up = &d->box->egress->upstream;

    if (!stands(d))
        return why_not(d, e);
    if (up->kind == UPSTREAM_DIRECT)
        return 1;
    if (up->kind == UPSTREAM_CONNECT)
        say_connect(d);
    else
        say_hello(d);
    return say(d, e);
}

static int advance(struct dial *d, struct err *e)
{
    int r;

    switch ((enum step)d->step_) {
    case STEP_CONNECT:
        return connected(d, e);
    case STEP_METHOD:
        r = hear(d, e);
        if (r <= 0)
            return r;
        say_place(d);
        return say(d, e);
    default:
        return hear(d, e);
    }
}

static void on_ready(struct loop_fd *s, unsigned events)
{
    struct dial *d = container_of(s, struct dial, socket_);
    int r = advance(d, &d->why_);

    (void)events;
    if (r > 0)
        settle(d);
    else if (r < 0)
        next(d);
}

static int open_socket(struct dial *d, struct err *e)
{
    struct sockaddr_storage sa;
    uint16_t port;
    const struct address *a = callee(d, &port);
    socklen_t n = address_to_sockaddr(a, port, &sa);
    int yes = 1;

    d->fd_ = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (d->fd_ < 0 || setsockopt(d->fd_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) < 0)
        return err_sys(e, "opening a socket");
    if (address_classify(a) == ADDRESS_LOOPBACK) /* a slower one works, too */
        (void)setsockopt(d->fd_, IPPROTO_TCP, TCP_CONGESTION, EGRESS_LOCAL_TCP,
                         sizeof EGRESS_LOCAL_TCP - 1);
    if (connect(d->fd_, (const struct sockaddr *)&sa, n) < 0 && errno != EINPROGRESS)
        return err_sys(e, "connecting");
    return 0;
}

static int try_address(struct dial *d, struct err *e)
{
    struct loop *l = d->box->egress->loop;
    int r;

    d->step_ = STEP_CONNECT;
    d->n_ = 0;
    r = open_socket(d, e);
    if (r >= 0 && d->box->egress->upstream.kind == UPSTREAM_DIRECT && stands(d)) {
        settle(d); /* a neighbour on this machine answers within connect() */
        return 0;
    }
    if (r >= 0)
        r = loop_fd_start(l, &d->socket_, d->fd_, LOOP_WRITE, on_ready, e);
    if (r >= 0)
        r = loop_timer_start(l, &d->timer_, clock_mono() + EGRESS_DIAL_NS, on_time, e);
    return r;
}

static void attempt(struct dial *d)
{
    for (; d->at < d->lease->decision.n; d->at++) {
        if (!egress_decision_current(&d->lease->decision, d->box)) {
            (void)err_set(&d->why_, ERR_DENIED, "the policy changed before the connection stood");
            break;
        }
        if (try_address(d, &d->why_) >= 0)
            return;
        hang_up(d);
    }
    settle(d);
}

void dial_start(struct dial *d, struct lease *l, dial_fn *done)
{
    d->box = l->box;
    d->lease = l;
    d->done_ = done;
    d->at = 0;
    d->fd_ = -1;
    d->why_ = (struct err){ 0 };
    if (lease_open(l)) {
        attempt(d);
    } else {
        (void)err_set(&d->why_, ERR_DENIED, "%s", l->decision.why.text);
        settle(d);
    }
}

void dial_cancel(struct dial *d)
{
    if (!d->box)
        return;
    hang_up(d);
    loop_later_stop(&d->later_);
}
