#include <netinet/in.h>
#include <stdlib.h>

#include "base/own.h"
#include "egress/adapters/adapters.h"
#include "egress/adapters/dns_tcp.h"
#include "egress/adapters/names.h"
#include "loop/fd.h"

enum {
    BATCH = 16,
    CONTROL_MAX = CMSG_SPACE(sizeof(struct in6_pktinfo)),
};

/* Where a datagram came from, and by which address of ours: the answer goes back the same way. */
struct way {
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
    struct egress_box *box;
    struct names *names;
    struct udp {
        struct dns_adapter *adapter;
        struct loop_fd source;
    } udp[2];
    struct dns_tcp *tcp[2];
    struct list waiting;
};

struct waiting {
    struct names_waiter waiter;
    struct link link;
    int fd;
    struct way way;
};

/* One wake-up's questions, and the answers to those that have one at once. */
struct batch {
    struct mmsghdr in[BATCH], out[BATCH];
    struct iovec in_bytes[BATCH], out_bytes[BATCH];
    struct way ways[BATCH];
    char questions[BATCH][EGRESS_DNS_QUERY_MAX];
    uint8_t answers[BATCH][NAMES_ANSWER_MAX];
    unsigned n; /* answers */
};

static void point_to(struct msghdr *h, struct way *w, struct iovec *bytes)
{
    *h = (struct msghdr){ .msg_name = &w->peer,
                          .msg_namelen = w->peer_n,
                          .msg_iov = bytes,
                          .msg_iovlen = 1,
                          .msg_control = &w->control,
                          .msg_controllen = w->control_n };
}

static void prepare(struct batch *b)
{
    b->n = 0;
    for (size_t i = 0; i < BATCH; i++) {
        b->in_bytes[i] = (struct iovec){ b->questions[i], sizeof b->questions[i] };
        b->ways[i].peer_n = sizeof b->ways[i].peer;
        b->ways[i].control_n = sizeof b->ways[i].control;
        point_to(&b->in[i].msg_hdr, &b->ways[i], &b->in_bytes[i]);
    }
}

/* Lost answers are asked for again. */
static void send_answers(int fd, struct batch *b)
{
    for (unsigned sent = 0; sent < b->n;) {
        int n = sendmmsg(fd, b->out + sent, b->n - sent, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EAGAIN)
            return;
        sent += n > 0 ? (unsigned)n : 1; /* the one that cannot be sent is left out */
    }
}

static void on_answer(struct names_waiter *waiter, struct str answer)
{
    struct waiting *w = container_of(waiter, struct waiting, waiter);
    struct iovec bytes = { (char *)(uintptr_t)answer.p, answer.n };
    struct msghdr h;

    point_to(&h, &w->way, &bytes);
    sendmsg(w->fd, &h, MSG_DONTWAIT | MSG_NOSIGNAL);
    link_leave(&w->link);
    free(w);
}

static void wait_for(struct udp *u, const struct way *way, const struct dns_query *q,
                     const struct names_client *from)
{
    struct waiting *w = calloc(1, sizeof *w);

    if (!w)
        abort();
    w->fd = u->source.fd;
    w->way = *way;
    list_append(&u->adapter->waiting, &w->link);
    names_wait(u->adapter->names, &w->waiter, q, from, on_answer);
}

static void ask(struct udp *u, struct batch *b, size_t at)
{
    struct way *way = &b->ways[at];
    struct str message = { b->questions[at], b->in[at].msg_len };
    struct names_client from;
    struct dns_query q;
    int n;

    way->peer_n = b->in[at].msg_hdr.msg_namelen;
    way->control_n = b->in[at].msg_hdr.msg_controllen;
    if (!address_from_sockaddr(&way->peer.sa, &from.address, &from.port))
        return;
    n = names_ask(u->adapter->names, message, &from, &q, b->answers[b->n]);
    if (n == NAMES_LATER)
        wait_for(u, way, &q, &from);
    if (n <= 0)
        return;
    b->out_bytes[b->n] = (struct iovec){ b->answers[b->n], (size_t)n };
    point_to(&b->out[b->n].msg_hdr, way, &b->out_bytes[b->n]);
    b->n++;
}

static void on_readable(struct loop_fd *s, unsigned events)
{
    struct udp *u = container_of(s, struct udp, source);
    struct batch b;
    int n;

    (void)events;
    prepare(&b);
    n = recvmmsg(s->fd, b.in, BATCH, MSG_DONTWAIT, NULL);
    for (int i = 0; i < n; i++)
        ask(u, &b, (size_t)i);
    send_answers(s->fd, &b);
}

/* A listener that is not there (no IPv6) is fine. */
static int serve(struct dns_adapter *d, int i, int udp, int tcp, struct err *e)
{
    struct loop *l = d->box->egress->loop;
    int r = 0;

    d->udp[i].adapter = d;
    if (udp >= 0)
        r = loop_fd_start(l, &d->udp[i].source, udp, LOOP_READ, on_readable, e);
    if (r >= 0 && tcp >= 0)
        r = dns_tcp_new(d->names, l, tcp, &d->tcp[i], e);
    return r;
}

int dns_adapter_new(struct egress_box *b, struct dns_adapter **ret, struct err *e)
{
    struct dns_adapter *d = calloc(1, sizeof *d);
    const int *fd = b->listeners.fd;
    int r;

    if (!d)
        abort();
    d->box = b;
    d->names = names_new(b);
    r = serve(d, 0, fd[LISTENER_DNS_UDP4], fd[LISTENER_DNS_TCP4], e);
    if (r >= 0)
        r = serve(d, 1, fd[LISTENER_DNS_UDP6], fd[LISTENER_DNS_TCP6], e);
    if (r < 0) {
        dns_adapter_free(d);
        return r;
    }
    *ret = d;
    return 0;
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
        struct waiting *w = container_of(m, struct waiting, link);

        names_forget(&w->waiter);
        free(w);
    }
    names_free(d->names);
    free(d);
}
