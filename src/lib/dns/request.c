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

/* A server older than EDNS does not understand us: the same once more, as it was done before. */
static void retry_without_edns(struct dns_request *a)
{
    close_socket(a);
    a->plain = true;
    try_on(a);
}

static void use_answer(struct dns_request *a)
{
    enum dns_rcode rcode = a->answer.rcode;

    if (rcode == DNS_NXDOMAIN)
        settle_ask(a, DNS_LOOKUP_NXDOMAIN);
    else if (!a->plain && (rcode == DNS_FORMERR || rcode == DNS_NOTIMP))
        retry_without_edns(a);
    else if (rcode != DNS_NOERROR)
        fail_server(a, DNS_LOOKUP_SERVFAIL);
    else
        settle_ask(a, a->answer.n ? DNS_LOOKUP_FOUND : DNS_LOOKUP_NODATA);
}

/* --- Asking --- */

static int watch_socket(struct dns_request *a, unsigned want, loop_fd_fn *call, struct err *e)
{
    struct dns_resolver *r = a->resolver;
    int ok = loop_fd_start(r->loop, &a->socket, a->fd, want, call, e);

    if (ok >= 0)
        ok = loop_timer_start(r->loop, &a->timer, clock_mono() + r->timeout, on_timeout, e);
    return ok;
}

/* A socket connected to the server whose turn it is; for TCP, on its way there. */
static int open_dns_socket(struct dns_request *a, int type, struct err *e)
{
    const struct dns_server *s = &a->resolver->servers[a->tries % a->resolver->n];
    struct sockaddr_storage to;
    socklen_t n = address_to_sockaddr(&s->address, s->port, &to);

    a->fd = socket(to.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (a->fd < 0)
        return err_sys(e, "opening a socket for DNS");
    if (connect(a->fd, (struct sockaddr *)&to, n) < 0 && errno != EINPROGRESS)
        return err_sys(e, "connecting to the DNS server");
    return 0;
}

/* With a new id, and in new letters, each time. */
static int make_query(struct dns_request *a, struct err *e)
{
    struct {
        uint16_t id;
        uint8_t bits[DNS_CASE_BYTES];
    } chance;
    int r = crypto_random(&chance, sizeof chance, e);

    if (r < 0)
        return r;
    a->id = chance.id;
    a->query_n =
        dns_build_query(a->id, str_from(a->question.name), a->question.type, !a->plain, a->query);
    dns_mix_case(a->query, a->query_n, chance.bits);
    return 0;
}

/* --- TCP --- */

static void read_dns_message(struct dns_request *a, struct str message)
{
    if (dns_parse_answer(message, &a->question, a->id, &a->answer, NULL) < 0 || a->answer.truncated)
        fail_server(a, DNS_LOOKUP_UNUSABLE);
    else
        use_answer(a);
}

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
    if (a->in.n == awaited_length(&a->in))
        read_dns_message(a, (struct str){ a->in.p + TCP_HEAD, a->in.n - TCP_HEAD });
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

static int start_tcp(struct dns_request *a, struct err *e)
{
    char length[TCP_HEAD];
    int r = open_dns_socket(a, SOCK_STREAM, e);

    if (r >= 0)
        r = make_query(a, e);
    if (r < 0)
        return r;
    length[0] = (char)(a->query_n >> 8);
    length[1] = (char)a->query_n;
    buf_init(&a->out, TCP_HEAD + DNS_QUERY_MAX);
    buf_init(&a->in, TCP_HEAD + DNS_MESSAGE_MAX);
    buf_add(&a->out, (struct str){ length, TCP_HEAD });
    buf_add(&a->out, (struct str){ (const char *)a->query, a->query_n });
    return watch_socket(a, LOOP_WRITE, on_tcp, e);
}

static void switch_to_tcp(struct dns_request *a)
{
    close_socket(a);
    if (start_tcp(a, NULL) < 0)
        fail_server(a, DNS_LOOKUP_SERVFAIL);
}

/* --- UDP --- */

/* A datagram that matches the question. One in other letters is forged, or comes from a server that
 * does not preserve case; TCP proves that the answering server is the one that we asked. */
static void read_datagram(struct dns_request *a, struct str message)
{
    if (a->answer.truncated || !dns_same_case(message, a->query, a->query_n))
        switch_to_tcp(a);
    else
        use_answer(a);
}

static void on_udp(struct loop_fd *s, unsigned events)
{
    struct dns_request *a = container_of(s, struct dns_request, socket);
    char message[UDP_TAKEN];
    ssize_t n = recv(a->fd, message, sizeof message, MSG_TRUNC);
    int r;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0 || (size_t)n > sizeof message) {
        fail_server(a, n < 0 ? DNS_LOOKUP_SERVFAIL : DNS_LOOKUP_UNUSABLE);
        return;
    }
    r = dns_parse_answer((struct str){ message, (size_t)n }, &a->question, a->id, &a->answer, NULL);
    if (r == -ERR_CONFLICT)
        return; /* not the answer to this question; the right one may still come */
    if (r < 0)
        fail_server(a, DNS_LOOKUP_UNUSABLE);
    else
        read_datagram(a, (struct str){ message, (size_t)n });
}

static int start_udp(struct dns_request *a, struct err *e)
{
    int r = open_dns_socket(a, SOCK_DGRAM, e);

    if (r >= 0)
        r = make_query(a, e);
    if (r < 0)
        return r;
    if (send(a->fd, a->query, a->query_n, MSG_NOSIGNAL) < 0)
        return err_sys(e, "sending to the DNS server");
    return watch_socket(a, LOOP_READ, on_udp, e);
}

/* Asks the first of the servers left that can be asked. */
static void try_on(struct dns_request *a)
{
    for (; a->tries < a->resolver->attempts * a->resolver->n; a->tries++) {
        if (start_udp(a, NULL) >= 0)
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
