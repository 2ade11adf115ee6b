/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/authorize.h"

#include <stdlib.h>

#include "base/own.h"
#include "engine/egress/audit.h"
#include "engine/egress/lease.h"
#include "engine/egress/own_addresses.h"
#include "engine/egress/refuse.h"
#include "domain/policy/egress_ceiling.h"

const char *egress_adapter_name(enum egress_adapter a)
{
    static const char *const names[] = {
        [EGRESS_BY_CONNECT] = "connect",
        [EGRESS_BY_FORWARD] = "forward",
        [EGRESS_BY_TRANSPARENT] = "transparent",
        [EGRESS_BY_DNS] = "dns",
    };

    return names[a];
}

void egress_decision_done(struct egress_decision *d)
{
    egress_snapshot_unref(take_ptr(d->snapshot));
    free(take_ptr(d->who.ancestors));
    d->who.n_ancestors = 0;
}

bool egress_decision_current(const struct egress_decision *d, const struct egress_box *b)
{
    return d->snapshot && d->snapshot == b->snapshot && !egress_match_ended(&d->match);
}

/* ---- steps: each returns false once the decision is a denial ---- */

#define DENY(d, st, code, next, ...)                                                               \
    ((d)->verdict = EGRESS_DENIED, (d)->status = (st),                                             \
     refuse_reason(&(d)->why, (code), (next), __VA_ARGS__), false)

static bool check_policy(struct egress_box *b, struct egress_decision *d)
{
    if (!b->snapshot) {
        d->verdict = EGRESS_DENIED;
        d->status = 403;
        egress_box_reason(b, &d->why);
        return false;
    }
    egress_box_expire(b);
    d->snapshot = egress_snapshot_ref(b->snapshot);
    d->generation = b->generation;
    return true;
}

static bool query_policy(const struct egress_intent *i, struct egress_decision *d)
{
    struct str ancestors[EGRESS_ANCESTORS_MAX];
    struct egress_connect_query query = { .host = str_from(i->host.name),
                                          .host_is_address = i->host.is_address,
                                          .address = i->host.address,
                                          .port = i->port };

    if (d->who.known) {
        for (size_t n = 0; n < d->who.n_ancestors; n++)
            ancestors[n] = str_from(d->who.ancestors[n]);
        query.identity_known = true;
        query.binary = str_from(d->who.binary);
        query.ancestors = ancestors;
        query.n_ancestors = d->who.n_ancestors;
    }
    d->verdict = egress_connect(d->snapshot, &query, &d->match, &d->why);
    d->status = 403;
    return d->verdict != EGRESS_DENIED;
}

/* Addresses of this machine, public ones too, must be granted by an administrator. */
static bool is_within_ceiling(struct egress_decision *d, const struct address *a)
{
    const struct egress_ceiling *c = egress_snapshot_ceiling(d->snapshot);
    char text[EGRESS_CEILING_TEXT], shown[ADDRESS_TEXT_MAX];

    if (egress_ceiling_has_address(c, a, d->match.port, true))
        return true;
    address_text(a, shown);
    return DENY(d, 403, "ceiling_denied", "Ask an administrator to set this policy.", "%s.",
                egress_ceiling_why(c, shown, a, d->match.port, true, text));
}

static bool check_decision_addresses(const struct egress_box *b, const struct egress_intent *i,
                                     struct egress_decision *d, const struct address *list,
                                     size_t n)
{
    const struct own_addresses *own = b->egress->own;

    d->status = 403;
    d->verdict = egress_addresses(&d->match, list, n, &d->why);
    if (d->verdict == EGRESS_DENIED)
        return false;
    for (size_t k = 0; own && k < n; k++)
        if (own_addresses_has(own, &list[k]) && !egress_match_declares(&d->match, &list[k]))
            return DENY(d, 403, "ssrf_denied",
                        "To grant a service of this machine, declare its exact address.",
                        "%s is an address of the machine that the sandbox runs on.", i->host.name);
    for (size_t k = 0; own && k < n; k++)
        if (own_addresses_has(own, &list[k]) && !is_within_ceiling(d, &list[k]))
            return false;
    return true;
}

static void keep_addresses(struct egress_decision *d, const struct address *list, size_t n)
{
    d->n = n < EGRESS_PINNED_MAX ? n : EGRESS_PINNED_MAX;
    memcpy(d->addresses, list, d->n * sizeof *list);
}

/* ---- one authorization ---- */

static void on_authorization_done(struct loop_later *s)
{
    struct authorization *a = container_of(s, struct authorization, later_);

    a->done_(a);
}

static void finish_soon(struct authorization *a)
{
    loop_later(a->box->egress->loop, &a->later_, on_authorization_done, NULL);
}

static void record_denial(struct authorization *a)
{
    lease_deny(a->lease);
    finish_soon(a);
}

#define ATTRIBUTION_PRICE_NS (NS_PER_S / EGRESS_ATTRIBUTIONS_A_SECOND)

/* Takes the search of a program from a budget that grows with time, up to the burst: PID 1 reads the
 * tables of the sandbox's descriptors for each. */
static bool pay_attribution(struct egress_box *b)
{
    int64_t now = clock_mono(), full = now - EGRESS_ATTRIBUTIONS_BURST * ATTRIBUTION_PRICE_NS;

    if (b->attributions_paid < full)
        b->attributions_paid = full;
    if (b->attributions_paid + ATTRIBUTION_PRICE_NS > now)
        return false;
    b->attributions_paid += ATTRIBUTION_PRICE_NS;
    return true;
}

/* Records the denial, with the program if it can be found: that of names has no connection. */
static void deny_authorization(struct authorization *a)
{
    struct egress_box *b = a->box;

    if (!b->egress->who || a->asked_ || a->lease->intent.adapter == EGRESS_BY_DNS ||
        !pay_attribution(b)) {
        record_denial(a);
        return;
    }
    a->asked_ = a->attributes_ = true;
    b->egress->who->request(a);
}

/* The last step; checks that the policy is still in force. If no further check follows the
 * decision, the Opens of one turn share one write. */
static void check_list(struct authorization *a, const struct address *list, size_t n)
{
    struct lease *l = a->lease;
    struct egress_decision *d = &l->decision;

    if (!check_decision_addresses(a->box, &l->intent, d, list, n)) {
        deny_authorization(a);
        return;
    }
    keep_addresses(d, list, n);
    if (!egress_decision_current(d, a->box)) {
        (void)DENY(d, 403, "stale_policy", "Try again.",
                   "The policy changed while the connection was being decided.");
        deny_authorization(a);
        return;
    }
    if (d->match.protocol == EGRESS_TCP && l->intent.adapter != EGRESS_BY_FORWARD)
        lease_prepare(l);
    finish_soon(a);
}

static void on_authorization_lookup(struct dns_lookup *k)
{
    struct authorization *a = container_of(k, struct authorization, lookup_);

    lease_found(a->lease);
    if (k->outcome == DNS_LOOKUP_FOUND) {
        check_list(a, k->addresses, k->n);
        return;
    }
    (void)DENY(&a->lease->decision, k->outcome == DNS_LOOKUP_TIMEOUT ? 504 : 502,
               "resolution_failed", "Check the spelling of the name, or try again later.",
               "%s cannot be resolved: %s.", a->lease->intent.host.name,
               dns_outcome_name(k->outcome));
    deny_authorization(a);
}

static void resolve_intent(struct authorization *a)
{
    const struct egress_intent *i = &a->lease->intent;
    struct address known[EGRESS_PINNED_MAX];
    size_t n = egress_match_addresses(&a->lease->decision.match, known, EGRESS_PINNED_MAX);

    if (i->host.is_address)
        check_list(a, &i->host.address, 1);
    else if (n > 0)
        check_list(a, known, n);
    else if (i->n_pinned > 0)
        check_list(a, i->pinned, i->n_pinned);
    else if (!lease_look_up(a->lease, &a->lookup_, on_authorization_lookup))
        finish_soon(a);
}

void authorize_known(struct authorization *a, const struct egress_who *who)
{
    const struct egress_intent *i = &a->lease->intent;
    struct egress_decision *d = &a->lease->decision;

    a->who_ = NULL;
    if (a->attributes_) {
        a->attributes_ = false;
        if (who && who->known)
            d->who = *who;
        record_denial(a);
        return;
    }
    if ((!who || !who->known) && !d->match.needs_identity) { /* only the record would have it */
        resolve_intent(a);
        return;
    }
    if (!who || !who->known) {
        (void)DENY(d, 403, "identity_unknown", "Connect from a program that the rule names.",
                   "A rule names programs, and the program that connects to %s:%u could not be "
                   "identified.",
                   i->host.name, i->port);
        deny_authorization(a);
        return;
    }
    d->who = *who;
    if (query_policy(i, d))
        resolve_intent(a);
    else
        deny_authorization(a);
}

/* A rule names programs, or the record has those of every connection. */
static void request_program(struct authorization *a)
{
    const struct egress_who_ops *who = a->box->egress->who;

    a->asked_ = true;
    if (who)
        who->request(a);
    else
        authorize_known(a, NULL);
}

void authorize_start(struct authorization *a, struct egress_box *b, const struct egress_intent *i,
                     authorization_fn *done)
{
    struct egress_decision *d;

    a->box = b;
    a->lease = lease_new(b, i);
    a->done_ = done;
    a->who_ = NULL;
    a->asked_ = a->attributes_ = false;
    d = &a->lease->decision;
    if (check_policy(b, d) && query_policy(&a->lease->intent, d)) {
        if (b->identify && b->egress->who)
            request_program(a);
        else
            resolve_intent(a);
    } else if (!d->match.needs_identity)
        deny_authorization(a);
    else
        request_program(a);
}

void authorize_cancel(struct authorization *a)
{
    if (!a->box)
        return;
    if (a->who_)
        a->box->egress->who->cancel(a);
    a->who_ = NULL;
    if (a->attributes_) /* the client left: it stays on record that it was denied */
        lease_deny(a->lease);
    a->attributes_ = false;
    dns_lookup_cancel(&a->lookup_);
    loop_later_stop(&a->later_);
    lease_free(take_ptr(a->lease));
}

/* ---- later questions ---- */

/* Repeats the decision with the current policy. The ancestors still belong to the old decision. */
static bool decide_again(struct egress_box *b, const struct egress_intent *i,
                         const struct egress_decision *old, size_t first, size_t n,
                         struct egress_decision *d)
{
    d->who = old->who;
    if (!check_policy(b, d) || !query_policy(i, d) ||
        !check_decision_addresses(b, i, d, old->addresses + first, n))
        return false;
    if (d->match.protocol != old->match.protocol)
        return DENY(d, 403, "stale_policy", "Connect again.",
                    "The new policy inspects connections to %s:%u differently.", i->host.name,
                    i->port);
    return true;
}

bool authorize_again(struct lease *l, size_t first, size_t n)
{
    struct egress_decision *d = &l->decision, new = { .id = d->id };

    if (egress_decision_current(d, l->box))
        return true;
    if (decide_again(l->box, &l->intent, d, first, n, &new)) {
        keep_addresses(&new, d->addresses, d->n);
        egress_snapshot_unref(d->snapshot);
        *d = new;
        return true;
    }
    l->box->counters.denied++;
    audit_deny(l->box->audit, &l->intent, &new);
    d->why = new.why;
    d->why.rule = (struct str){ 0 }; /* belongs to the new snapshot, which d does not reference */
    egress_snapshot_unref(new.snapshot);
    return false;
}

enum egress_verdict authorize_request(struct lease *l, const struct egress_action *q,
                                      struct egress_reason *why, uint64_t *ret_ticket)
{
    struct egress_box *b = l->box;
    enum egress_verdict v;

    *why = l->decision.why;
    v = egress_judge(&l->decision.match, q, why);

    if (!egress_decision_current(&l->decision, b)) {
        v = EGRESS_DENIED;
        refuse_reason(why, "stale_policy", "Try again.", "The policy changed before this request.");
    }
    if (v == EGRESS_ALLOWED && !egress_limit_use(why->limit)) {
        v = EGRESS_DENIED;
        egress_limit_refuse(why->limit, why);
    }
    if (v != EGRESS_DENIED && !lease_announce(l)) { /* so that it is recorded */
        *why = l->decision.why;
        return EGRESS_DENIED;
    }
    *ret_ticket = audit_request(b->audit, &l->intent, &l->decision, v, q, why);
    if (v == EGRESS_DENIED)
        b->counters.denied++;
    else
        b->counters.allowed++;
    return v;
}
