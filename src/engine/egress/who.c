/* SPDX-License-Identifier: Apache-2.0 */
/* Identifies the process at the other end of a connection: the kernel reports the socket's inode,
 * the control plane and PID 1 report the processes that hold it. */
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/own.h"
#include "engine/egress/lease.h"
#include "engine/egress/worker.h"

enum { STALE_MAX = 8 /* answers to abandoned queries */ };

struct identity_query {
    struct link link;
    uint32_t tag, uid;
    struct authorization *of;
    struct loop_timer timer;
};

struct socket_holder {
    uint64_t inode;
    uint32_t uid;
};

static void fill_diag_address(__be32 to[static 4], const struct address *a)
{
    memcpy(to, a->bytes, a->v6 ? 16 : 4);
}

/* The client's socket has the addresses in reverse. */
static bool send_diag_request(int sock, const struct egress_intent *i, uint32_t number)
{
    struct address proxy = i->client.v6 ? (struct address){ .v6 = true, .bytes = { [15] = 1 } }
                                        : (struct address){ .bytes = { 127, 0, 0, 1 } };
    bool captured = i->adapter == EGRESS_BY_TRANSPARENT;
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 body;
    } q = { .head = { .nlmsg_len = sizeof q,
                      .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                      .nlmsg_flags = NLM_F_REQUEST,
                      .nlmsg_seq = number },
            .body = { .sdiag_family = i->client.v6 ? AF_INET6 : AF_INET,
                      .sdiag_protocol = IPPROTO_TCP,
                      .idiag_states = ~0u } };

    q.body.id.idiag_sport = htons(i->client_port);
    q.body.id.idiag_dport = htons(captured ? i->port : LISTENERS_PROXY_PORT);
    fill_diag_address(q.body.id.idiag_src, &i->client);
    fill_diag_address(q.body.id.idiag_dst, captured ? &i->dialled : &proxy);
    q.body.id.idiag_cookie[0] = q.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    return send(sock, &q, sizeof q, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof q;
}

/* The kernel answers before send() returns. */
static bool find_socket_holder(int sock, const struct egress_intent *i, uint32_t number,
                               struct socket_holder *ret)
{
    union {
        struct nlmsghdr head;
        char bytes[1024];
    } m;
    const struct inet_diag_msg *d = NLMSG_DATA(&m.head);

    if (sock < 0 || !send_diag_request(sock, i, number))
        return false;
    for (int tries = 0; tries < STALE_MAX; tries++) {
        ssize_t n = recv(sock, &m, sizeof m, MSG_DONTWAIT);

        if (n < (ssize_t)sizeof m.head)
            return false;
        if (m.head.nlmsg_seq != number)
            continue;
        if (m.head.nlmsg_type != SOCK_DIAG_BY_FAMILY || n < (ssize_t)NLMSG_LENGTH(sizeof *d))
            return false;
        *ret = (struct socket_holder){ .inode = d->idiag_inode, .uid = d->idiag_uid };
        return d->idiag_inode != 0; /* 0: no process holds it */
    }
    return false;
}

static void identity_query_free(struct identity_query *q)
{
    link_leave(&q->link);
    loop_timer_stop(&q->timer);
    free(q);
}

static void on_identity_timeout(struct loop_timer *t)
{
    struct identity_query *q = container_of(t, struct identity_query, timer);
    struct authorization *a = q->of;

    identity_query_free(q);
    authorize_known(a, NULL);
}

static void request_identity(struct authorization *a)
{
    struct worker *w = container_of(a->box->egress, struct worker, egress);
    struct wire_who m = { .pad = 0 };
    struct socket_holder holder;
    uint32_t tag = ++w->tags;
    struct identity_query *q;

    if (!find_socket_holder(a->box->listeners.fd[LISTENER_SOCKETS], &a->lease->intent, tag,
                            &holder)) {
        authorize_known(a, NULL);
        return;
    }
    q = new0(sizeof *q);
    *q = (struct identity_query){ .tag = tag, .uid = holder.uid, .of = a };
    list_append(&w->identity_queries, &q->link);
    a->who_ = q;
    loop_timer_start(w->egress.loop, &q->timer, clock_mono() + WIRE_WHO_NS, on_identity_timeout,
                     NULL);
    wire_fill(&m.head, WIRE_WHO, tag, sizeof m);
    memcpy(m.id, a->box->id, sizeof m.id);
    m.inode = holder.inode;
    m.uid = holder.uid;
    worker_send(w, &m, sizeof m);
}

static void cancel_identity(struct authorization *a)
{
    if (a->who_)
        identity_query_free(a->who_);
    a->who_ = NULL;
}

const struct egress_who_ops worker_who = { .request = request_identity, .cancel = cancel_identity };

/* The decision owns the memory of the ancestors. */
static struct egress_who read_who(const struct wire_who_is *m, uint32_t uid)
{
    struct egress_who w = { .known = true, .pid = m->pid, .uid = uid };

    _Static_assert(sizeof w.binary == sizeof m->binary, "the same limits");
    memcpy(w.binary, m->binary, sizeof w.binary);
    memcpy(w.hash, m->hash, sizeof w.hash - 1); /* checked: complete, or empty */
    if (m->n_ancestors == 0)
        return w;
    w.ancestors = new0_array(m->n_ancestors, sizeof *w.ancestors);
    memcpy(w.ancestors, m->ancestors, m->n_ancestors * sizeof *w.ancestors);
    w.n_ancestors = m->n_ancestors;
    return w;
}

/* Ignores late and unsolicited answers. */
void worker_who_answer(struct worker *w, const struct wire_who_is *m)
{
    struct egress_who who = { 0 };

    LIST_EACH (struct identity_query, q, &w->identity_queries, link) {
        struct authorization *a = q->of;

        if (q->tag != m->head.tag)
            continue;
        if (m->known)
            who = read_who(m, q->uid);
        identity_query_free(q);
        authorize_known(a, &who);
        return;
    }
}
