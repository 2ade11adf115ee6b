/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/own.h"
#include "engine/egress/audit.h"
#include "engine/egress/dial.h"
#include "engine/egress/relays/exchange.h"

/* Large, so it exists only while a connection is being made. */
struct exchange_setup {
    struct exchange *x;
    struct authorization authorization;
    struct dial dial;
    struct loop_later later;
};

static struct exchange_setup *setup_start(struct exchange *x, enum exchange_state state)
{
    struct exchange_setup *s = new0(sizeof(*s));

    s->x = x;
    x->setup = s;
    x->state = state;
    exchange_wait(x, EGRESS_STALL_NS);
    return s;
}

static void on_exchange_setup_free(struct loop_later *s)
{
    free(container_of(s, struct exchange_setup, later));
}

void exchange_cancel(struct exchange *x)
{
    struct exchange_setup *s = take_ptr(x->setup);

    loop_later_stop(&x->kept);
    x->request.waits = false;
    if (!s)
        return;
    authorize_cancel(&s->authorization);
    dial_cancel(&s->dial);
    loop_later(x->box->egress->loop, &s->later, on_exchange_setup_free, NULL);
}

void exchange_forget(struct exchange *x)
{
    exchange_drop_upstream(x, false, "closed");
    lease_free(take_ptr(x->lease));
    x->request.judged = false;
}

bool exchange_has_lease(const struct exchange *x)
{
    return x->lease && x->lease->state != LEASE_CLOSED &&
           egress_decision_current(&x->lease->decision, x->box);
}

const struct egress_decision *exchange_decision(const struct exchange *x)
{
    static const struct egress_decision none;

    return x->lease ? &x->lease->decision : &none;
}

void exchange_aim(struct exchange *x, const struct host *h, uint16_t port)
{
    if (x->lease && x->intent.port == port &&
        str_eq(str_from(h->name), str_from(x->intent.host.name)))
        return;
    exchange_forget(x);
    x->intent.host = *h;
    x->intent.port = port;
}

static void refuse_by_decision(struct exchange *x, const struct egress_decision *d)
{
    struct exchange_refusal no = { d->status, d->why };

    exchange_refuse(x, &no, "denied");
}

static void on_exchange_decided(struct authorization *a)
{
    struct exchange_setup *s = container_of(a, struct exchange_setup, authorization);
    struct exchange *x = s->x;

    x->lease = take_ptr(a->lease);
    exchange_cancel(x);
    if (x->lease->decision.verdict == EGRESS_DENIED)
        refuse_by_decision(x, &x->lease->decision);
    else
        exchange_next(x);
    exchange_settle(x);
}

void exchange_decide(struct exchange *x)
{
    struct exchange_setup *s = setup_start(x, EXCHANGE_DECIDING);

    authorize_start(&s->authorization, x->box, &x->intent, on_exchange_decided);
}

static void refuse_unreachable(struct exchange *x, const struct err *e)
{
    struct exchange_refusal no;

    exchange_set_refusal(&no, e->code == ERR_TIMEOUT ? 504 : 502, "upstream_unreachable", e->msg,
                         "");
    exchange_refuse(x, &no, "unreachable");
}

static void on_exchange_upstream(struct loop_fd *s, unsigned events)
{
    struct exchange *x = container_of(s, struct exchange, upstream);

    if (x->state != EXCHANGE_RUNNING) { /* upstream closed, or sent unsolicited bytes */
        exchange_drop_upstream(x, false, "closed");
        exchange_settle(x);
        return;
    }
    if (s->want & LOOP_WRITE)
        exchange_push(x);
    if (x->state == EXCHANGE_RUNNING && s->want & LOOP_READ &&
        events & (LOOP_READ | LOOP_HUP | LOOP_ERROR))
        exchange_read_upstream(x);
    exchange_settle(x);
}

static void attach_upstream(struct exchange *x, int fd, size_t at)
{
    x->upstream_fd = fd;
    x->at = at;
    x->used = x->outdated = false;
    if (loop_fd_start(x->box->egress->loop, &x->upstream, fd, LOOP_READ, on_exchange_upstream,
                      NULL) < 0)
        exchange_abort(x, "error");
    else
        exchange_next(x);
}

static void on_exchange_dialled(struct dial *d, int fd, const struct err *e)
{
    struct exchange_setup *s = container_of(d, struct exchange_setup, dial);
    struct exchange *x = s->x;
    size_t at = d->at;

    exchange_cancel(x);
    if (fd < 0 && x->lease->state != LEASE_OPEN)
        refuse_by_decision(x, &x->lease->decision);
    else if (fd < 0)
        refuse_unreachable(x, e);
    else
        attach_upstream(x, fd, at);
    exchange_settle(x);
}

void exchange_dial(struct exchange *x)
{
    struct exchange_setup *s = setup_start(x, EXCHANGE_DIALLING);

    x->bytes_out = x->bytes_in = 0;
    dial_start(&s->dial, x->lease, on_exchange_dialled);
}

/* --- A new policy --- */

bool exchange_inspected(const struct egress_match *m)
{
    return m->protocol != EGRESS_TCP;
}

static bool is_still_allowed(struct exchange *x)
{
    const struct egress_http http = exchange_http(x);
    struct egress_reason why;
    uint64_t ticket;

    if (!exchange_inspected(&x->lease->decision.match))
        return true;
    return authorize_request(x->lease, &http, &why, &ticket) != EGRESS_DENIED &&
           audit_kept(x->box->audit, ticket);
}

bool exchange_reconsider(struct exchange *x)
{
    if (egress_decision_current(&x->lease->decision, x->box))
        return true;
    x->outdated = true;
    if (!authorize_again(x->lease, 0, x->lease->decision.n))
        return false;
    return x->state != EXCHANGE_RUNNING || is_still_allowed(x);
}
