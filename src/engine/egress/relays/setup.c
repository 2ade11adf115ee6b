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
    struct exchange *x = container_of(a, struct exchange_setup, authorization)->x;

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
    exchange_forget(x);
    authorize_start(&setup_start(x, EXCHANGE_DECIDING)->authorization, x->box, &x->intent,
                    on_exchange_decided);
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

static void on_exchange_dialled(struct dial *d, int fd, const struct err *e)
{
    struct exchange *x = container_of(d, struct exchange_setup, dial)->x;
    struct loop *l = x->box->egress->loop;

    exchange_cancel(x);
    x->upstream_fd = fd;
    x->used = x->outdated = false;
    if (fd < 0 && x->lease->state != LEASE_OPEN)
        refuse_by_decision(x, &x->lease->decision);
    else if (fd < 0)
        exchange_refuse_as(x, e->code == ERR_TIMEOUT ? 504 : 502, "upstream_unreachable", e->msg,
                           "unreachable");
    else if (loop_fd_start(l, &x->upstream, fd, LOOP_READ, on_exchange_upstream, NULL) < 0)
        exchange_abort(x, "error");
    else
        exchange_next(x);
    exchange_settle(x);
}

void exchange_dial(struct exchange *x)
{
    x->bytes_out = x->bytes_in = 0;
    dial_start(&setup_start(x, EXCHANGE_DIALLING)->dial, x->lease, on_exchange_dialled);
}

/* --- A new policy --- */

bool exchange_inspected(const struct egress_match *m)
{
    return m->protocol != EGRESS_TCP;
}

bool exchange_reconsider(struct exchange *x)
{
    const struct egress_action action = exchange_action(x);
    struct egress_reason why;
    uint64_t ticket;

    if (egress_decision_current(&x->lease->decision, x->box))
        return true;
    x->outdated = true;
    if (!authorize_again(x->lease, 0, x->lease->decision.n))
        return false;
    if (x->state != EXCHANGE_RUNNING || !exchange_inspected(&x->lease->decision.match))
        return true;
    return authorize_request(x->lease, &action, &why, &ticket) != EGRESS_DENIED &&
           audit_kept(x->box->audit, ticket);
}
