/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/worker.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/own.h"
#include "engine/egress/audit.h"
#include "engine/egress/fence.h"
#include "engine/egress/options.h"
#include "engine/egress/received.h"
#include "lib/ipc/channel.h"

enum { REQUESTS = 16 /* per turn, before yielding to other sources */ };

/* A box, and its counters as last reported to the control plane. */
struct worker_member {
    struct link link;
    struct egress_box *box;
    struct worker *worker;
    uint64_t audit_part;
    struct egress_counters reported;
    uint64_t reported_seq; /* of the audit file's last line */
};

struct worker_packet {
    struct link link;
    size_t n;
    char bytes[];
};

static struct worker_member *find_member(struct worker *w, const char *id)
{
    LIST_EACH (struct worker_member, m, &w->boxes, link)
        if (strcmp(m->box->id, id) == 0)
            return m;
    return NULL;
}

static void member_free(struct worker_member *m)
{
    link_leave(&m->link);
    egress_box_free(m->box);
    free(m);
}

/* ---- sending ---- */

/* While the control plane does not receive messages, the worker does not read requests. */
static void update_worker_interest(struct worker *w)
{
    bool stuck = list_first(&w->out) != NULL;

    loop_fd_want(&w->fd, stuck ? LOOP_WRITE : LOOP_READ, NULL);
}

void worker_send(struct worker *w, const void *message, size_t n)
{
    struct worker_packet *p;

    if (!list_first(&w->out) && ipc_send(w->sock, message, n, NULL, 0, NULL) != -(int)ERR_BUSY)
        return;
    p = new0(sizeof *p + n);
    p->n = n;
    memcpy(p->bytes, message, n);
    list_append(&w->out, &p->link);
    update_worker_interest(w);
}

static void send_queued_packets(struct worker *w)
{
    for (struct link *l; (l = list_first(&w->out));) {
        struct worker_packet *p = container_of(l, struct worker_packet, link);

        if (ipc_send(w->sock, p->bytes, p->n, NULL, 0, NULL) == -(int)ERR_BUSY)
            return;
        link_leave(l);
        free(p);
    }
    update_worker_interest(w);
}

static void send_box_message(struct worker *w, enum wire_type type, const char *id,
                             uint64_t generation)
{
    struct wire_box m = { .generation = generation };

    wire_fill(&m.head, type, 0, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", id);
    worker_send(w, &m, sizeof m);
}

static void send_failure(struct worker *w, const struct wire_head *request, const char *id,
                         uint64_t generation, const struct err *e)
{
    struct wire_failed m = { .request = request->type, .code = e->code, .generation = generation };

    _Static_assert(sizeof m.msg == sizeof e->msg, "all of a message");
    wire_fill(&m.head, WIRE_FAILED, 0, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", id);
    memcpy(m.msg, e->msg, sizeof m.msg);
    worker_send(w, &m, sizeof m);
}

/* ---- reports ---- */

static struct wire_used member_usage(const struct worker_member *m)
{
    const struct egress_counters *c = &m->box->counters;
    struct wire_used u = { .allowed = c->allowed,
                           .denied = c->denied,
                           .connections = c->connections,
                           .bytes_out = c->bytes_out,
                           .bytes_in = c->bytes_in,
                           .last_ns = c->last_ns,
                           .open = m->box->rank.count };

    wire_fill(&u.head, WIRE_USED, 0, sizeof u);
    memcpy(u.id, m->box->id, sizeof u.id);
    return u;
}

static void set_usage_chain(struct wire_used *u, const struct chain_place *at)
{
    _Static_assert(sizeof u->chain_digest == sizeof at->digest, "all of a chain value");
    u->chain_seq = at->seq;
    memcpy(u->chain_digest, at->digest, sizeof u->chain_digest);
}

static void send_usage(struct worker *w, struct worker_member *m)
{
    const struct chain_place *at = audit_place(m->box->audit);
    struct wire_used u = member_usage(m);

    set_usage_chain(&u, at);
    m->reported = m->box->counters;
    m->reported_seq = at->seq;
    worker_send(w, &u, sizeof u);
}

static void on_usage_timer(struct loop_timer *t)
{
    struct worker *w = container_of(t, struct worker, used);

    LIST_EACH (struct worker_member, m, &w->boxes, link) {
        const struct egress_counters *a = &m->reported, *b = &m->box->counters;

        if (list_first(&w->out)) /* repeated at the next tick, since counters are totals */
            break;
        if (a->allowed != b->allowed || a->denied != b->denied ||
            a->connections != b->connections || a->bytes_out != b->bytes_out ||
            a->bytes_in != b->bytes_in || m->reported_seq != audit_place(m->box->audit)->seq)
            send_usage(w, m);
        if ((m->audit_part && audit_written(m->box->audit) > m->audit_part) ||
            audit_is_low(m->box->audit))
            send_box_message(w, WIRE_FULL, m->box->id, 0);
    }
    if (list_first(&w->boxes))
        loop_timer_start(t->loop, t, clock_mono() + WIRE_USED_NS, on_usage_timer, NULL);
}

static void on_audit_low(void *user)
{
    struct worker_member *m = user;

    send_box_message(m->worker, WIRE_FULL, m->box->id, 0);
}

/* ---- requests ---- */

static int add_member(struct worker *w, const struct wire_add *m, struct listeners *listeners,
                      int *audit, struct err *e)
{
    struct worker_member *new = new0(sizeof *new);
    struct chain_place at = { .seq = m->chain_seq };
    int r;

    r = egress_box_new(&w->egress, m->id, listeners, take_fd(audit), &new->box, e);
    if (r < 0) {
        free(new);
        return r;
    }
    new->worker = w;
    new->audit_part = m->audit_part;
    audit_set_room(new->box->audit, m->audit_room, (enum wire_lack)m->audit_lack, on_audit_low,
                   new);
    new->reported_seq = m->chain_seq;
    memcpy(at.digest, m->chain_digest, sizeof at.digest);
    audit_resume(new->box->audit, &at, m->has_chain_key ? m->chain_key : NULL);
    list_append(&w->boxes, &new->link);
    if (!loop_timer_started(&w->used))
        r = loop_timer_start(w->egress.loop, &w->used, clock_mono() + WIRE_USED_NS, on_usage_timer,
                             e);
    return r;
}

static int serve_add(struct worker *w, const void *message, struct ipc_fds *fds, struct err *e)
{
    const struct wire_add *m = message;
    AUTO(listeners_done) struct listeners listeners;
    AUTO_CLOSE int audit = -1;
    int r;

    listeners_init(&listeners);
    if (find_member(w, m->id))
        return err_set(e, ERR_CONFLICT, "the sandbox exists already");
    if (m->has_audit && fds->n > 0)
        audit = take_fd(&fds->fd[--fds->n]);
    if (m->has_audit && audit < 0)
        return err_set(e, ERR_INVALID, "the audit descriptor is missing");
    r = listeners_take(fds, m->slots, &listeners, e);
    if (r >= 0)
        r = add_member(w, m, &listeners, &audit, e);
    if (r >= 0)
        send_box_message(w, WIRE_ADDED, m->id, 0);
    return r;
}

/* POLICY and TEXTS begin with the same members. */
static int serve_policy(struct worker *w, const void *message, struct ipc_fds *fds, struct err *e)
{
    const struct wire_box *m = message;
    AUTO(egress_snapshot_unrefp_) struct egress_snapshot *s = NULL;
    struct worker_member *member = find_member(w, m->id);
    int r;

    if (!member)
        return err_set(e, ERR_NOT_FOUND, "this worker does not serve sandbox %s", m->id);
    if (m->generation <= member->box->generation)
        return err_set(e, ERR_INVALID,
                       "the generation of a policy must be greater than the last one's");
    r = m->head.type == WIRE_TEXTS ? received_texts(message, fds, &s, e)
                                   : received_policy(m, fds, &s, e);
    if (r < 0) {
        egress_box_note_flaw(member->box, e->msg);
        return r;
    }
    if (m->head.type == WIRE_TEXTS)
        member->box->identify = ((const struct wire_texts *)message)->identify;
    egress_box_set_policy(member->box, s);
    send_usage(w, member); /* reports the audit record up to here */
    send_box_message(w, WIRE_APPLIED, m->id, m->generation);
    return 0;
}

static int serve_remove(struct worker *w, const void *message, struct ipc_fds *fds, struct err *e)
{
    const struct wire_box *m = message;
    struct worker_member *member = find_member(w, m->id);

    if (member) {
        struct wire_used u = member_usage(member);
        struct chain_place last = *audit_place(member->box->audit);

        audit_note_last(member->box->audit, &last);
        member_free(member); /* writes the last lines */
        set_usage_chain(&u, &last);
        worker_send(w, &u, sizeof u);
    }
    send_box_message(w, WIRE_REMOVED, m->id, 0);
    return 0;
}

static int serve_audit(struct worker *w, const void *message, struct ipc_fds *fds, struct err *e)
{
    const struct wire_audit *m = message;
    struct worker_member *member = find_member(w, m->id);

    if (!member || fds->n > 1)
        return err_set(e, ERR_INVALID, "unknown sandbox, or more than one audit descriptor");
    if (fds->n)
        audit_set_fd(member->box->audit, take_fd(&fds->fd[0]));
    audit_set_room(member->box->audit, m->room, (enum wire_lack)m->lack, on_audit_low, member);
    return 0;
}

static int serve_who_is(struct worker *w, const void *message, struct ipc_fds *fds, struct err *e)
{
    worker_who_answer(w, message);
    return 0;
}

static int serve_worker_ping(struct worker *w, const void *message, struct ipc_fds *fds,
                             struct err *e)
{
    const struct wire_head *ping = message;
    struct wire_head pong;

    wire_fill(&pong, WIRE_PONG, ping->tag, sizeof pong);
    worker_send(w, &pong, sizeof pong);
    return 0;
}

typedef int serve_fn(struct worker *w, const void *message, struct ipc_fds *fds, struct err *e);

static serve_fn *const served[] = {
    [WIRE_ADD] = serve_add,          [WIRE_POLICY] = serve_policy, [WIRE_REMOVE] = serve_remove,
    [WIRE_AUDIT] = serve_audit,      [WIRE_WHO_IS] = serve_who_is, [WIRE_TEXTS] = serve_policy,
    [WIRE_PING] = serve_worker_ping,
};

/* A failed request is answered. An invalid message ends the worker: its sender is not a compatible
 * control plane. */
static int serve_worker_message(struct worker *w, const void *message, size_t n,
                                struct ipc_fds *fds, struct err *e)
{
    const struct wire_head *h = message;
    const struct wire_box *box = message; /* requests that can fail begin with an id */
    struct err why = { 0 };
    int r = wire_check(message, n, e);

    if (r < 0)
        return r;
    if (h->type >= COUNT_OF(served) || !served[h->type])
        return err_set(e, ERR_INVALID, "message type is not a request to a worker");
    r = served[h->type](w, message, fds, &why);
    if (r < 0)
        send_failure(w, h, box->id,
                     h->type == WIRE_POLICY || h->type == WIRE_TEXTS ? box->generation : 0, &why);
    return 0;
}

static int serve_next(struct worker *w, bool *ret_more, struct err *e)
{
    static union {
        struct wire_head head;
        struct wire_add add;
        struct wire_who_is who_is;
        struct wire_texts texts;
    } message;
    AUTO(ipc_fds_done) struct ipc_fds fds = { .n = 0 };
    ssize_t n = ipc_recv(w->sock, &message, sizeof message, &fds, e);

    *ret_more = false;
    if (n == -(ssize_t)ERR_BUSY)
        return 0;
    if (n <= 0) {
        loop_stop(w->egress.loop);
        return (int)n;
    }
    *ret_more = true;
    return serve_worker_message(w, &message, (size_t)n, &fds, e);
}

static void on_worker_socket(struct loop_fd *s, unsigned events)
{
    struct worker *w = container_of(s, struct worker, fd);
    bool more = true;
    struct err e;

    if (events & LOOP_WRITE)
        send_queued_packets(w);
    for (int i = 0; more && i < REQUESTS && !list_first(&w->out); i++) {
        if (serve_next(w, &more, &e) >= 0)
            continue;
        LOG(ERROR, "egress.worker.failed", LOG_S("error", e.msg));
        loop_stop(w->egress.loop);
        return;
    }
    if ((events & (LOOP_HUP | LOOP_ERROR)) && list_first(&w->out))
        loop_stop(w->egress.loop);
}

/* ---- the whole ---- */

static void worker_done(struct worker *w)
{
    for (struct link *l; (l = list_first(&w->boxes));)
        member_free(container_of(l, struct worker_member, link));
    for (struct link *l; (l = list_take(&w->out));)
        free(container_of(l, struct worker_packet, link));
    loop_fd_stop(&w->fd);
    loop_timer_stop(&w->used);
    own_addresses_done(&w->own);
    dns_resolver_done(&w->egress.resolver);
}

static int start_worker(struct worker *w, const struct egress_options *o, struct loop *l,
                        struct err *e)
{
    static const int ignored[] = { SIGPIPE, SIGINT, SIGQUIT, SIGHUP };
    const struct fence fence = { .readable = -1, .appendable = -1 };
    int r = options_apply(o, l, &w->egress, e);

    if (r >= 0)
        r = own_addresses_start(&w->own, l, e);
    w->egress.own = &w->own;
    w->egress.who = &worker_who;
    /* signals of the terminal are meant for the program that is run */
    for (size_t i = 0; i < COUNT_OF(ignored); i++)
        signal(ignored[i], SIG_IGN);
    w->sock = o->worker;
    if (r >= 0 && fcntl(w->sock, F_SETFL, O_NONBLOCK) < 0)
        r = err_sys(e, "making the control plane's socket non-blocking");
    if (r >= 0)
        r = loop_fd_start(l, &w->fd, w->sock, LOOP_READ, on_worker_socket, e);
    return r < 0 ? r : fence_enter(&fence, e);
}

int worker_run(const struct egress_options *o, struct err *e)
{
    static struct worker w;
    AUTO(loop_done) struct loop l = { 0 };
    int r = loop_init(&l, e);

    if (r >= 0)
        r = start_worker(&w, o, &l, e);
    if (r >= 0)
        r = loop_run(&l, e);
    worker_done(&w);
    while (loop_run_once(&l, 0, NULL) > 0) /* lets pending writes complete */
        ;
    return r;
}
