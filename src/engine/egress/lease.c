/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/lease.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "engine/egress/refuse.h"

struct lease *lease_new(struct egress_box *b, const struct egress_intent *i)
{
    struct lease *l = new0(sizeof *l);

    l->box = b;
    l->intent = *i;
    l->decision.id = ++b->egress->decisions;
    l->decision.generation = b->generation;
    return l;
}

void lease_free(struct lease *l)
{
    if (!l)
        return;
    lease_found(l);
    lease_close(l, 0, 0, "cancelled");
    egress_decision_done(&l->decision);
    free(l);
}

/* ---- denials ---- */

bool lease_deny(struct lease *l)
{
    l->decision.verdict = EGRESS_DENIED;
    l->box->counters.denied++;
    audit_deny(l->box->audit, &l->intent, &l->decision);
    return false;
}

bool lease_refuse(struct lease *l, int status, const char *code, const char *next, const char *fmt,
                  ...)
{
    char text[sizeof l->decision.why.text];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    refuse_reason(&l->decision.why, code, next, "%s", text);
    l->decision.status = status;
    return lease_deny(l);
}

bool lease_refuse_unrecorded(struct lease *l)
{
    const struct audit_refusal *no = audit_refusal(l->box->audit);

    return lease_refuse(l, 503, no->code, no->next, "%s", no->text);
}

/* ---- lookups ---- */

#define LOOKUP_PRICE_NS (NS_PER_S / EGRESS_LOOKUPS_A_SECOND)

bool lease_lookup_left(const struct egress_box *b)
{
    return b->lookups_running < EGRESS_LOOKUPS_MAX &&
           b->lookups_paid + LOOKUP_PRICE_NS <= clock_mono();
}

/* Takes a lookup from a budget that grows with time, up to the burst: each costs one share of a
 * second. Records that the name is sent to a resolver in the next step. */
static bool let_name_leave(struct lease *l)
{
    struct egress_box *b = l->box;
    int64_t full = clock_mono() - EGRESS_LOOKUPS_BURST * LOOKUP_PRICE_NS;

    if (!lease_lookup_left(b))
        return lease_refuse(l, 429, "lookup_limit", "Look up fewer names per second.",
                            "The limit of DNS lookups is reached: %d per second.",
                            EGRESS_LOOKUPS_A_SECOND);
    b->lookups_paid = (b->lookups_paid < full ? full : b->lookups_paid) + LOOKUP_PRICE_NS;
    if (!audit_lookup(b->audit, &l->intent, &l->decision))
        return lease_refuse_unrecorded(l);
    l->looking_ = true;
    b->lookups_running++;
    return true;
}

bool lease_look_up(struct lease *l, struct dns_lookup *k, dns_lookup_fn *done)
{
    struct dns_resolver *r = &l->box->egress->resolver;
    struct str name = str_from(l->intent.host.name);

    if (dns_resolver_would_query(r, name) && !let_name_leave(l))
        return false;
    if (dns_lookup_start(r, k, name, done, NULL) >= 0)
        return true;
    lease_found(l);
    return lease_refuse(
        l, 502, "resolution_failed", "Check the spelling of the name, or try again later.",
        "%s cannot be resolved: %s.", l->intent.host.name, dns_outcome_name(DNS_LOOKUP_SERVFAIL));
}

void lease_found(struct lease *l)
{
    if (l->looking_)
        l->box->lookups_running--;
    l->looking_ = false;
}

/* ---- opening and closing ---- */

bool lease_prepare(struct lease *l)
{
    struct egress_decision *d = &l->decision;

    if (l->state != LEASE_DECIDED)
        return l->state == LEASE_READY;
    if (!egress_limit_use(d->match.limit)) {
        egress_limit_refuse(d->match.limit, &d->why);
        d->status = 403;
        return lease_deny(l);
    }
    l->state = LEASE_READY;
    l->opened = clock_mono();
    audit_open_soon(l->box->audit, &l->open_, &l->intent, d);
    return true;
}

bool lease_announce(struct lease *l)
{
    if (l->state == LEASE_OPEN)
        return true;
    if (!lease_prepare(l))
        return false;
    audit_open_write(l->box->audit, &l->open_);
    return true;
}

bool lease_open(struct lease *l)
{
    if (l->decision.verdict == EGRESS_DENIED)
        return false;
    if (!egress_decision_current(&l->decision, l->box))
        return lease_refuse(l, 403, "stale_policy", "Try again.",
                            "The policy changed before the connection was opened.");
    if (!lease_prepare(l))
        return false;
    if (!audit_open_kept(l->box->audit, &l->open_)) {
        l->state = LEASE_CLOSED;
        return lease_refuse_unrecorded(l);
    }
    l->box->counters.allowed++;
    l->state = LEASE_OPEN;
    return true;
}

void lease_close(struct lease *l, uint64_t bytes_out, uint64_t bytes_in, const char *how)
{
    bool on_record;

    if (!l)
        return;
    on_record =
        l->state == LEASE_OPEN || (l->state == LEASE_READY && !audit_open_forget(&l->open_));
    l->state = LEASE_CLOSED;
    if (!on_record)
        return;
    audit_close(l->box->audit, &l->intent, &l->decision, bytes_out, bytes_in,
                clock_mono() - l->opened, how);
}
