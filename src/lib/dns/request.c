/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/dns/request.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/own.h"
#include "lib/crypto/random.h"

enum {
    UDP_TAKEN = 4096, /* of a datagram; servers may send at most DNS_UDP_MAX */
    TCP_HEAD = 2,     /* the length before a message */
    TCP_PIECE = 4096, /* read at once */
};

static void try_on(struct dns_request *a);

static void close_socket(struct dns_request *a)
{
    loop_fd_stop(&a->socket);
    loop_timer_stop(&a->timer);
    drop_fd(&a->fd);
    buf_done(&a->out);
    buf_done(&a->in);
}

void dns_request_stop(struct dns_request *a)
{
    close_socket(a);
    a->is_settled = true;
}

static void settle_ask(struct dns_request *a, enum dns_outcome outcome)
{
    dns_request_stop(a);
    a->outcome = outcome;
    a->settled(a);
}

/* This server is no use: the next. A server's dislike of EDNS is its own. */
static void fail_server(struct dns_request *a, enum dns_outcome outcome)
{
    close_socket(a);
    a->outcome = outcome;
    a->tries++;
    a->plain = false;
    if (a->last)
        settle_ask(a, outcome);
    else
        try_on(a);
}

static void on_timeout(struct loop_timer *t)
{
    fail_server(container_of(t, struct dns_request, timer), DNS_LOOKUP_TIMEOUT);
}

static void use_answer(struct dns_request *a)
{
    enum dns_rcode rcode = a->answer.rcode;

    if (rcode == DNS_NXDOMAIN) {
        settle_ask(a, DNS_LOOKUP_NXDOMAIN);
    } else if (!a->plain && (rcode == DNS_FORMERR || rcode == DNS_NOTIMP)) {
        /* a server older than EDNS: the same once more, as it was done before */
        close_socket(a);
        a->plain = true;
        try_on(a);
    } else if (rcode != DNS_NOERROR) {
        fail_server(a, DNS_LOOKUP_SERVFAIL);
    } else {
        settle_ask(a, a->answer.n ? DNS_LOOKUP_FOUND : DNS_LOOKUP_NODATA);
    }
}

/* --- Asking --- */

static bool watch_socket(struct dns_request *a, unsigned want, loop_fd_fn *call)
{
    struct dns_resolver *r = a->resolver;
    int64_t late = clock_mono() + r->timeout;

    return loop_fd_start(r->loop, &a->socket, a->fd, want, call, NULL) >= 0 &&
           loop_timer_start(r->loop, &a->timer, late, on_timeout, NULL) >= 0;
}

/* A socket connected to the server whose turn it is; for TCP, on its way there. The query has a new
 * id and new letters each time. */
static bool open_dns_socket(struct dns_request *a, int type)
{
    const struct dns_server *s = &a->resolver->servers[a->tries % a->resolver->n];
    struct sockaddr_storage to;
    socklen_t n = address_to_sockaddr(&s->address, s->port, &to);
    struct {
        uint16_t id;
        uint8_t bits[DNS_CASE_BYTES];
    } chance;

    a->fd = socket(to.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (a->fd < 0 || (connect(a->fd, (struct sockaddr *)&to, n) < 0 && errno != EINPROGRESS) ||
        crypto_random(&chance, sizeof chance, NULL) < 0)
        return false;
    a->id = chance.id;
    a->query_n =
        dns_build_query(a->id, str_from(a->question.name), a->question.type, !a->plain, a->query);
    dns_mix_case(a->query, a->query_n, chance.bits);
    return true;
}

/* --- TCP --- */

/* The length of what is awaited, with its head; the head's alone until that is there. */
static size_t awaited_length(const struct buf *in)
{
    if (in->n < TCP_HEAD)
        return TCP_HEAD;
    return TCP_HEAD + ((size_t)(uint8_t)in->p[0] << 8 | (uint8_t)in->p[1]);
}

static void read_tcp(struct dns_request *a)
{
    size_t room = awaited_length(&a->in) - a->in.n;
    struct str message;
    ssize_t n;
    char *to;

    room = room < TCP_PIECE ? room : TCP_PIECE;
    n = buf_room(&a->in, room, &to) < 0 ? 0 : recv(a->fd, to, room, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        fail_server(a, DNS_LOOKUP_SERVFAIL);
        return;
    }
    buf_grew(&a->in, (size_t)n);
    if (a->in.n != awaited_length(&a->in))
        return;
    message = (struct str){ a->in.p + TCP_HEAD, a->in.n - TCP_HEAD };
    if (dns_parse_answer(message, &a->question, a->id, &a->answer, NULL) < 0 || a->answer.truncated)
        fail_server(a, DNS_LOOKUP_UNUSABLE);
    else
        use_answer(a);
}

static void write_tcp(struct dns_request *a)
{
    ssize_t n = send(a->fd, a->out.p, a->out.n, MSG_NOSIGNAL);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0) {
        fail_server(a, DNS_LOOKUP_SERVFAIL);
        return;
    }
    buf_drop(&a->out, (size_t)n);
    if (a->out.n == 0 && loop_fd_want(&a->socket, LOOP_READ, NULL) < 0)
        fail_server(a, DNS_LOOKUP_SERVFAIL);
}

static void on_tcp(struct loop_fd *s, unsigned events)
{
    struct dns_request *a = container_of(s, struct dns_request, socket);

    /* errors are reported by the failing call */
    if (a->out.n > 0)
        write_tcp(a);
    else
        read_tcp(a);
}

static bool start_tcp(struct dns_request *a)
{
    char length[TCP_HEAD];

    if (!open_dns_socket(a, SOCK_STREAM))
        return false;
    length[0] = (char)(a->query_n >> 8);
    length[1] = (char)a->query_n;
    buf_init(&a->out, TCP_HEAD + DNS_QUERY_MAX);
    buf_init(&a->in, TCP_HEAD + DNS_MESSAGE_MAX);
    buf_add(&a->out, (struct str){ length, TCP_HEAD });
    buf_add(&a->out, (struct str){ (const char *)a->query, a->query_n });
    return watch_socket(a, LOOP_WRITE, on_tcp);
}

/* --- UDP --- */

/* A datagram in other letters is forged, or comes from a server that does not preserve case; TCP
 * proves that the answering server is the one that we asked. */
static void on_udp(struct loop_fd *s, unsigned events)
{
    struct dns_request *a = container_of(s, struct dns_request, socket);
    char bytes[UDP_TAKEN];
    ssize_t n = recv(a->fd, bytes, sizeof bytes, MSG_TRUNC);
    struct str message = { bytes, (size_t)n };
    int r;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0 || message.n > sizeof bytes) {
        fail_server(a, n < 0 ? DNS_LOOKUP_SERVFAIL : DNS_LOOKUP_UNUSABLE);
        return;
    }
    r = dns_parse_answer(message, &a->question, a->id, &a->answer, NULL);
    if (r == -ERR_CONFLICT)
        return; /* not the answer to this question; the right one may still come */
    if (r < 0) {
        fail_server(a, DNS_LOOKUP_UNUSABLE);
    } else if (!a->answer.truncated && dns_same_case(message, a->query, a->query_n)) {
        use_answer(a);
    } else {
        close_socket(a);
        if (!start_tcp(a))
            fail_server(a, DNS_LOOKUP_SERVFAIL);
    }
}

static bool start_udp(struct dns_request *a)
{
    return open_dns_socket(a, SOCK_DGRAM) && send(a->fd, a->query, a->query_n, MSG_NOSIGNAL) >= 0 &&
           watch_socket(a, LOOP_READ, on_udp);
}

/* Asks the first of the servers left that can be asked. */
static void try_on(struct dns_request *a)
{
    for (; a->tries < a->resolver->attempts * a->resolver->n; a->tries++) {
        if (start_udp(a))
            return;
        close_socket(a);
        a->outcome = DNS_LOOKUP_SERVFAIL;
    }
    settle_ask(a, a->outcome);
}

void dns_request_start(struct dns_request *a)
{
    a->outcome = DNS_LOOKUP_SERVFAIL;
    try_on(a);
}
