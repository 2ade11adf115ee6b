/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/own.h"
#include "lib/http/h1.h"

/* Steps of the handshake with the upstream proxy. */
enum dial_step {
    STEP_CONNECT,
    STEP_ASK,    /* HTTP: sending the CONNECT */
    STEP_ANSWER, /* HTTP: waiting for the response */
    STEP_HELLO,  /* SOCKS: sending the methods */
    STEP_METHOD, /* SOCKS: waiting for the chosen method */
    STEP_PLACE,  /* SOCKS: sending the address */
    STEP_RESULT, /* SOCKS: waiting for the result */
};

enum { SOCKS_VERSION = 5, SOCKS_IPV4 = 1, SOCKS_NAME = 3, SOCKS_IPV6 = 4 };

static void dial_remaining_addresses(struct dial *d);

static void on_dial_finished(struct loop_later *l)
{
    struct dial *d = container_of(l, struct dial, later_);
    int fd = take_fd(&d->fd_);

    if (fd < 0 && !d->why_.code)
        (void)err_set(&d->why_, ERR_BUG, "the decision has no address to connect to");
    d->done_(d, fd, fd < 0 ? &d->why_ : NULL);
}

static void finish_dial(struct dial *d)
{
    loop_fd_stop(&d->socket_);
    loop_timer_stop(&d->timer_);
    loop_later(d->box->egress->loop, &d->later_, on_dial_finished, NULL);
}

static void close_dial_socket(struct dial *d)
{
    loop_fd_stop(&d->socket_);
    loop_timer_stop(&d->timer_);
    drop_fd(&d->fd_);
}

/* Gives up this address. Through a proxy the proxy may be at fault, but the next address is tried
 * in that case, too. */
static void dial_next_address(struct dial *d)
{
    close_dial_socket(d);
    d->at++;
    dial_remaining_addresses(d);
}

static const struct address *dial_target(const struct dial *d)
{
    return &d->lease->decision.addresses[d->at];
}

static void on_egress_dial_timeout(struct loop_timer *t)
{
    struct dial *d = container_of(t, struct dial, timer_);

    (void)err_set(&d->why_, ERR_TIMEOUT, "no answer within %d s", (int)(EGRESS_DIAL_NS / NS_PER_S));
    dial_next_address(d);
}

/* ---- messages to an upstream proxy ---- */

static void write_connect_request(struct dial *d)
{
    char text[ADDRESS_TEXT_MAX];
    const struct address *a = dial_target(d);
    uint16_t port = d->lease->decision.match.port;
    const char *open = a->v6 ? "[" : "", *close = a->v6 ? "]" : "";

    address_text(a, text);
    d->n_ = (size_t)snprintf(d->talk_, sizeof d->talk_,
                             "CONNECT %s%s%s:%u HTTP/1.1\r\nHost: %s%s%s:%u\r\n\r\n", open, text,
                             close, port, open, text, close, port);
    d->step_ = STEP_ASK;
}

static void write_socks_request(struct dial *d)
{
    const struct address *a = dial_target(d);
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

/* ---- answers of an upstream proxy: their length, 0 if incomplete, or an error ---- */

static int read_connect_response(const struct dial *d, struct str in, struct err *e)
{
    struct h1_limits limits = H1_LIMITS;
    AUTO_FREE struct h1_response *p = new0(sizeof *p);
    struct h1_scan scan = { 0 };
    int r;

    limits.head = sizeof d->talk_;
    r = h1_parse_response(&scan, in, &limits, H1_CONNECT, p, e);
    if (r > 0 && p->status / 100 != 2)
        r = err_set(e, ERR_UPSTREAM, "the upstream proxy answers with status %d", p->status);
    return r;
}

static int read_socks_method(struct str in, struct err *e)
{
    if (in.n < 2)
        return 0;
    if (in.p[0] != SOCKS_VERSION || in.p[1] != 0)
        return err_set(e, ERR_UPSTREAM,
                       "the upstream SOCKS proxy requires authentication, which is not supported");
    return 2;
}

static int read_socks_result(struct str in, struct err *e)
{
    size_t n;

    if (in.n < 5)
        return 0;
    if (in.p[0] != SOCKS_VERSION || in.p[2] != 0)
        return err_set(e, ERR_UPSTREAM, "the upstream proxy does not speak SOCKS 5");
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
        return err_set(e, ERR_UPSTREAM, "the upstream proxy returns an unknown address type");
    }
    return in.n < n ? 0 : (int)n;
}

/* Receives the proxy's answer. Peeks first, and consumes no bytes behind the answer: they belong to
 * the server. An incomplete answer is consumed, because level-triggered waiting would spin on
 * it. */
static int receive_proxy_answer(struct dial *d, struct err *e)
{
    char peeked[sizeof d->talk_];
    ssize_t n = recv(d->fd_, peeked, sizeof peeked - d->n_, MSG_PEEK);
    size_t had = d->n_, take;
    struct str in;
    int r;

    if (n < 0)
        return errno == EAGAIN || errno == EINTR
                   ? 0
                   : err_sys(e, "exchanging messages with the upstream proxy");
    if (n == 0)
        return err_set(e, ERR_UPSTREAM, "the upstream proxy closed the connection");
    memcpy(d->talk_ + had, peeked, (size_t)n);
    in = (struct str){ d->talk_, had + (size_t)n };
    r = d->step_ == STEP_ANSWER   ? read_connect_response(d, in, e)
        : d->step_ == STEP_METHOD ? read_socks_method(in, e)
                                  : read_socks_result(in, e);
    if (r < 0)
        return r;
    take = r > 0 ? (size_t)r - had : (size_t)n;
    if (recv(d->fd_, peeked, take, 0) != (ssize_t)take)
        return err_sys(e, "exchanging messages with the upstream proxy");
    d->n_ = had + take;
    if (r == 0 && d->n_ == sizeof d->talk_)
        return err_set(e, ERR_TOO_BIG, "the answer of the upstream proxy has more than %zu bytes",
                       sizeof d->talk_);
    return r;
}

static int send_proxy_request(struct dial *d, struct err *e)
{
    ssize_t n = send(d->fd_, d->talk_, d->n_, MSG_NOSIGNAL);

    if (n < 0)
        return err_sys(e, "exchanging messages with the upstream proxy");
    if ((size_t)n != d->n_) /* fits the empty buffer of a new connection */
        return err_set(e, ERR_UPSTREAM, "the upstream proxy does not accept the request");
    d->n_ = 0;
    d->step_++;
    return loop_fd_want(&d->socket_, LOOP_READ, e);
}

/* ---- the whole ---- */

/* The address to connect to: the destination, or the upstream proxy. */
static const struct address *dial_peer(const struct dial *d, uint16_t *ret_port)
{
    const struct upstream *up = &d->box->egress->upstream;
    bool direct = up->kind == UPSTREAM_DIRECT;

    *ret_port = direct ? d->lease->decision.match.port : up->port;
    return direct ? dial_target(d) : &up->address;
}

/* Whether the socket is connected to exactly this address and port. */
static bool is_dial_connected(const struct dial *d)
{
    struct address peer;
    uint16_t at, port;
    const struct address *a = dial_peer(d, &port);

    return address_of_socket(d->fd_, true, &peer, &at) && address_equal(&peer, a) && at == port;
}

static int begin_proxy_handshake(struct dial *d, struct err *e)
{
    static const char hello[] = { SOCKS_VERSION, 1, 0 }; /* one method: no authentication */
    enum upstream_kind kind = d->box->egress->upstream.kind;
    int error = 0;
    socklen_t n = sizeof error;

    if (!is_dial_connected(d)) {
        if (getsockopt(d->fd_, SOL_SOCKET, SO_ERROR, &error, &n) == 0 && !error)
            return err_set(e, ERR_BUG, "connected to an unexpected address");
        errno = error ? error : errno;
        return err_sys(e, "connecting");
    }
    if (kind == UPSTREAM_DIRECT)
        return 1;
    if (kind == UPSTREAM_CONNECT) {
        write_connect_request(d);
    } else {
        memcpy(d->talk_, hello, sizeof hello);
        d->n_ = sizeof hello;
        d->step_ = STEP_HELLO;
    }
    return send_proxy_request(d, e);
}

static int advance_dial(struct dial *d, struct err *e)
{
    int r = d->step_ == STEP_CONNECT ? begin_proxy_handshake(d, e) : receive_proxy_answer(d, e);

    if (r <= 0 || d->step_ != STEP_METHOD)
        return r;
    write_socks_request(d);
    return send_proxy_request(d, e);
}

static void on_dial_ready(struct loop_fd *s, unsigned events)
{
    struct dial *d = container_of(s, struct dial, socket_);
    int r = advance_dial(d, &d->why_);

    if (r > 0)
        finish_dial(d);
    else if (r < 0)
        dial_next_address(d);
}

static int open_dial_socket(struct dial *d, struct err *e)
{
    struct sockaddr_storage sa;
    uint16_t port;
    const struct address *a = dial_peer(d, &port);
    socklen_t n = address_to_sockaddr(a, port, &sa);
    int yes = 1;

    d->fd_ = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (d->fd_ < 0 || setsockopt(d->fd_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) < 0)
        return err_sys(e, "opening a socket");
    if (address_classify(a) == ADDRESS_LOOPBACK) /* failure only costs speed */
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
    r = open_dial_socket(d, e);
    if (r >= 0 && d->box->egress->upstream.kind == UPSTREAM_DIRECT && is_dial_connected(d)) {
        finish_dial(d); /* connect() to this machine may complete at once */
        return 0;
    }
    if (r >= 0)
        r = loop_fd_start(l, &d->socket_, d->fd_, LOOP_WRITE, on_dial_ready, e);
    if (r >= 0)
        r = loop_timer_start(l, &d->timer_, clock_mono() + EGRESS_DIAL_NS, on_egress_dial_timeout,
                             e);
    return r;
}

static void dial_remaining_addresses(struct dial *d)
{
    for (; d->at < d->lease->decision.n; d->at++) {
        if (!egress_decision_current(&d->lease->decision, d->box)) {
            (void)err_set(&d->why_, ERR_DENIED,
                          "the policy changed before the connection was established");
            break;
        }
        if (try_address(d, &d->why_) >= 0)
            return;
        close_dial_socket(d);
    }
    finish_dial(d);
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
        dial_remaining_addresses(d);
    } else {
        (void)err_set(&d->why_, ERR_DENIED, "%s", l->decision.why.text);
        finish_dial(d);
    }
}

void dial_cancel(struct dial *d)
{
    if (!d->box)
        return;
    close_dial_socket(d);
    loop_later_stop(&d->later_);
}
