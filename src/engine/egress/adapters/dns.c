/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <stdlib.h>

#include "base/own.h"
#include "engine/egress/adapters/adapters.h"
#include "lib/loop/fd.h"

enum {
    BATCH = 16,
    CONTROL_MAX = CMSG_SPACE(sizeof(struct in6_pktinfo)),
};

/* The source of a datagram and the local address that received it, so that the answer takes the
 * same path back. */
struct return_path {
    union {
        struct sockaddr sa;
        struct sockaddr_in6 in6; /* the larger */
    } peer;
    socklen_t peer_n;
    size_t control_n;
    union {
        struct cmsghdr align;
        char bytes[CONTROL_MAX];
    } control;
};

struct dns_adapter {
    struct dns_names *names;
    struct udp {
        struct dns_adapter *adapter;
        struct loop_fd source;
    } udp[2];
    struct dns_tcp *tcp[2];
    struct list waiting;
};

struct dns_udp_waiter {
    struct names_waiter waiter;
    struct link link;
    int fd;
    struct return_path way;
};

/* The questions of one wake-up, and the answers that are available at once. */
struct dns_batch {
    struct mmsghdr in[BATCH], out[BATCH];
    struct iovec in_bytes[BATCH], out_bytes[BATCH];
    struct return_path ways[BATCH];
    char questions[BATCH][EGRESS_DNS_QUERY_MAX];
    uint8_t answers[BATCH][NAMES_ANSWER_MAX];
    unsigned n; /* number of answers */
};

static void set_message_header(struct msghdr *h, struct return_path *w, struct iovec *bytes)
{
    *h = (struct msghdr){ .msg_name = &w->peer,
                          .msg_namelen = w->peer_n,
                          .msg_iov = bytes,
                          .msg_iovlen = 1,
                          .msg_control = &w->control,
                          .msg_controllen = w->control_n };
}

static void on_udp_answer(struct names_waiter *waiter, struct str answer)
{
    struct dns_udp_waiter *w = container_of(waiter, struct dns_udp_waiter, waiter);
    struct iovec bytes = { (char *)(uintptr_t)answer.p, answer.n };
    struct msghdr h;

    set_message_header(&h, &w->way, &bytes);
    sendmsg(w->fd, &h, MSG_DONTWAIT | MSG_NOSIGNAL);
    link_leave(&w->link);
    free(w);
}

static void resolve_datagram(struct udp *u, struct dns_batch *b, size_t at)
{
    struct return_path *way = &b->ways[at];
    struct str message = { b->questions[at], b->in[at].msg_len };
    struct names_client from;
    struct dns_query q;
    int n;

    way->peer_n = b->in[at].msg_hdr.msg_namelen;
    way->control_n = b->in[at].msg_hdr.msg_controllen;
    if (!address_from_sockaddr(&way->peer.sa, &from.address, &from.port))
        return;
    n = names_answer(u->adapter->names, message, &from, &q, b->answers[b->n]);
    if (n == NAMES_LATER) {
        struct dns_udp_waiter *w = new0(sizeof *w);

        w->fd = u->source.fd;
        w->way = *way;
        list_append(&u->adapter->waiting, &w->link);
        names_wait(u->adapter->names, &w->waiter, &q, &from, on_udp_answer);
    }
    if (n <= 0)
        return;
    b->out_bytes[b->n] = (struct iovec){ b->answers[b->n], (size_t)n };
    set_message_header(&b->out[b->n].msg_hdr, way, &b->out_bytes[b->n]);
    b->n++;
}

static void on_dns_datagrams(struct loop_fd *s, unsigned events)
{
    struct udp *u = container_of(s, struct udp, source);
    struct dns_batch b;
    int n;

    b.n = 0;
    for (size_t i = 0; i < BATCH; i++) {
        b.in_bytes[i] = (struct iovec){ b.questions[i], sizeof b.questions[i] };
        b.ways[i].peer_n = sizeof b.ways[i].peer;
        b.ways[i].control_n = sizeof b.ways[i].control;
        set_message_header(&b.in[i].msg_hdr, &b.ways[i], &b.in_bytes[i]);
    }
    n = recvmmsg(s->fd, b.in, BATCH, MSG_DONTWAIT, NULL);
    for (int i = 0; i < n; i++)
        resolve_datagram(u, &b, (size_t)i);
    for (unsigned sent = 0; sent < b.n;) {
        n = sendmmsg(s->fd, b.out + sent, b.n - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            return;                      /* clients repeat a question whose answer was lost */
        sent += n > 0 ? (unsigned)n : 1; /* skips the answer that cannot be sent */
    }
}

/* A missing listener (no IPv6) is not an error. */
int dns_adapter_new(struct egress_box *b, struct dns_adapter **ret, struct err *e)
{
    static const enum listener_slot udp[] = { LISTENER_DNS_UDP4, LISTENER_DNS_UDP6 };
    static const enum listener_slot tcp[] = { LISTENER_DNS_TCP4, LISTENER_DNS_TCP6 };
    struct dns_adapter *d = *ret = new0(sizeof *d);
    const int *fd = b->listeners.fd;
    struct loop *l = b->egress->loop;
    int r = 0;

    d->names = names_new(b);
    for (size_t i = 0; i < COUNT_OF(d->udp) && r >= 0; i++) {
        d->udp[i].adapter = d;
        if (fd[udp[i]] >= 0)
            r = loop_fd_start(l, &d->udp[i].source, fd[udp[i]], LOOP_READ, on_dns_datagrams, e);
        if (r >= 0 && fd[tcp[i]] >= 0)
            r = dns_tcp_new(d->names, l, fd[tcp[i]], &d->tcp[i], e);
    }
    return r;
}

void dns_adapter_free(struct dns_adapter *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < COUNT_OF(d->udp); i++) {
        loop_fd_stop(&d->udp[i].source);
        dns_tcp_free(d->tcp[i]);
    }
    for (struct link *m; (m = list_take(&d->waiting));) {
        struct dns_udp_waiter *w = container_of(m, struct dns_udp_waiter, link);

        names_forget(&w->waiter);
        free(w);
    }
    names_free(d->names);
    free(d);
}
