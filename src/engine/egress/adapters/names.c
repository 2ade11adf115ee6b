/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/adapters/names.h"

#include <stdlib.h>

#include "base/own.h"
#include "engine/egress/audit.h"
#include "engine/egress/lease.h"
#include "engine/egress/fake_addresses.h"
#include "engine/egress/own_addresses.h"
#include "engine/egress/refuse.h"

/* The lookup of one name, and the clients that wait for it. */
struct name_lookup {
    struct dns_names *names;
    struct link link;
    struct lease *lease; /* its snapshot is the policy that allowed the name */
    struct dns_lookup lookup;
    struct loop_later refused; /* the lookup was refused before it started */
    struct list waiters;
};

struct dns_names {
    struct egress_box *box;
    struct list lookups;
    size_t n_waiting;
};

/* The reply to all clients that asked for one name. */
struct dns_reply {
    enum dns_rcode rcode;
    bool blocked; /* denied by the policy; the other members are ignored */
    struct address addresses[2];
    size_t n;
    uint32_t ttl;
};

struct dns_names *names_new(struct egress_box *b)
{
    struct dns_names *n = new0(sizeof *n);

    n->box = b;
    return n;
}

/* --- Answers --- */

static int build_reply(const struct dns_query *q, const struct dns_reply *s,
                       uint8_t out[static NAMES_ANSWER_MAX])
{
    if (s->blocked)
        return (int)dns_build_blocked(q, out, NAMES_ANSWER_MAX);
    return (int)dns_build_answer(q, s->rcode, s->addresses, s->n, s->ttl, out, NAMES_ANSWER_MAX);
}

static int answer_code(const struct dns_query *q, enum dns_rcode rcode,
                       uint8_t out[static NAMES_ANSWER_MAX])
{
    return build_reply(q, &(struct dns_reply){ .rcode = rcode }, out);
}

static int answer_blocked(const struct dns_query *q, uint8_t out[static NAMES_ANSWER_MAX])
{
    return build_reply(q, &(struct dns_reply){ .blocked = true }, out);
}

/* Adds the IPv6 address only if the box captures IPv6. */
static void set_reply_addresses(const struct dns_names *n, const struct synthetic *s, int64_t left,
                                struct dns_reply *ret)
{
    *ret = (struct dns_reply){ .rcode = DNS_NOERROR,
                               .addresses = { s->v4, s->v6 },
                               .n = n->box->listeners.fd[LISTENER_CAPTURE6] >= 0 ? 2 : 1,
                               .ttl = left < NS_PER_S ? 1 : (uint32_t)(left / NS_PER_S) };
}

/* Fills in the reply from a mapping, if it belongs to the current policy and has not expired. */
static bool reply_from_mapping(const struct dns_names *n, struct str name, struct dns_reply *ret)
{
    struct synthetic s;
    const struct fake_mapping *m = fake_addresses_find_name(n->box->mapping, name, &s);
    int64_t left;

    if (!m || !n->box->snapshot || m->generation != n->box->generation)
        return false;
    left = m->expires - EGRESS_DNS_SLACK_NS - clock_mono();
    if (left <= 0)
        return false;
    set_reply_addresses(n, &s, left, ret);
    return true;
}

/* --- Decisions --- */

static void deny_name(struct dns_names *n, const struct egress_intent *i, struct egress_decision *d)
{
    d->verdict = EGRESS_DENIED;
    d->id = ++n->box->egress->decisions;
    d->generation = n->box->generation;
    n->box->counters.denied++;
    audit_deny(n->box->audit, i, d);
}

#define DENY(n, i, d, code, next, ...)                                                             \
    (refuse_reason(&(d)->why, (code), (next), __VA_ARGS__), deny_name((n), (i), (d)))

static struct egress_intent dns_intent_of(const struct names_client *from, struct str name)
{
    struct egress_intent i = { .adapter = EGRESS_BY_DNS,
                               .client = from->address,
                               .client_port = from->port };

    str_copy(name, i.host.name, sizeof i.host.name);
    return i;
}

/* Whether the policy has an endpoint for the name. */
static bool is_eligible(struct dns_names *n, const struct names_client *from,
                        const struct dns_query *q)
{
    struct str name = str_from(q->question.name);
    struct egress_intent i = dns_intent_of(from, name);
    struct egress_decision d = { 0 };
    struct egress_ports ports;

    if (host_parse(name, false, &i.host, NULL) < 0 || i.host.is_address) {
        audit_malformed(n->box->audit, EGRESS_BY_DNS,
                        "the name in the DNS query is not a host name");
        n->box->counters.denied++;
        return false;
    }
    if (!n->box->snapshot) {
        egress_box_reason(n->box, &d.why);
        deny_name(n, &i, &d);
    } else if (str_eq(name, STR("inference.local")) || str_eq(name, STR("policy.local"))) {
        DENY(n, &i, &d, "not_served", "Use an endpoint of the policy.",
             "%s is not served in this sandbox.", i.host.name);
    } else if (egress_name(n->box->snapshot, name, &ports, &d.why) == EGRESS_DENIED) {
        deny_name(n, &i, &d);
    } else {
        return true;
    }
    return false;
}

static struct name_lookup *find_name_lookup(struct dns_names *n, struct str name)
{
    LIST_EACH (struct name_lookup, a, &n->lookups, link)
        if (a->lease->decision.snapshot == n->box->snapshot &&
            str_eq(str_from(a->lease->intent.host.name), name))
            return a;
    return NULL;
}

/* Whether the name shares a running lookup, is cached, or a lookup is left in the budget. */
static bool may_wait_for_name(struct dns_names *n, const struct names_client *from, struct str name)
{
    struct egress_intent i = dns_intent_of(from, name);
    struct egress_decision d = { 0 };

    if (n->n_waiting < EGRESS_DNS_WAITING_MAX &&
        (find_name_lookup(n, name) || lease_lookup_left(n->box) ||
         !dns_resolver_would_query(&n->box->egress->resolver, name)))
        return true;
    DENY(n, &i, &d, "lookup_limit", "Look up fewer names per second.",
         "The limit of DNS lookups is reached: %d per second.", EGRESS_LOOKUPS_A_SECOND);
    return false;
}

/* Answers a name for which the policy declares addresses without a lookup. The decision follows
 * when the program connects and its port is known. */
static bool reply_from_policy(struct dns_names *n, const struct names_client *from, struct str name,
                              struct dns_reply *ret)
{
    int64_t now = clock_mono(), ttl_ns = EGRESS_DNS_TTL_MAX * NS_PER_S;
    struct fake_mapping m = { .generation = n->box->generation,
                              .expires = now + ttl_ns + EGRESS_DNS_SLACK_NS };
    struct egress_intent i = dns_intent_of(from, name);
    struct egress_decision d = { .id = ++n->box->egress->decisions,
                                 .generation = n->box->generation };
    struct synthetic s;
    struct err e;

    if (!egress_name_declared(n->box->snapshot, name))
        return false;
    *ret = (struct dns_reply){ .rcode = DNS_SERVFAIL };
    str_copy(name, m.name, sizeof m.name);
    d.verdict = egress_name(n->box->snapshot, name, &m.ports, &d.why);
    if (!audit_allow(n->box->audit, &i, &d)) {
        DENY(n, &i, &d, "audit_unavailable", "Try again later, and inform the administrator.",
             "The audit record cannot be written, so the connection is not allowed.");
        return true;
    }
    n->box->counters.allowed++;
    if (fake_addresses_put(n->box->mapping, &m, now, &s, &e) < 0)
        DENY(n, &i, &d, "mappings_full", "Use fewer names, or a new sandbox.",
             "No synthetic address for %s: %s.", i.host.name, e.msg);
    else
        set_reply_addresses(n, &s, ttl_ns, ret);
    return true;
}

int names_answer(struct dns_names *n, struct str message, const struct names_client *from,
                 struct dns_query *q, uint8_t out[static NAMES_ANSWER_MAX])
{
    enum dns_rcode refuse;
    struct dns_reply reply;
    struct str name;
    struct err e;

    if (dns_parse_query(message, q, &refuse, &e) < 0) {
        if (refuse == DNS_NOERROR)
            return 0;
        n->box->counters.denied++;
        audit_malformed(n->box->audit, EGRESS_BY_DNS, e.msg);
        return refuse == DNS_NXDOMAIN ? answer_blocked(q, out) : answer_code(q, refuse, out);
    }
    name = str_from(q->question.name);
    if (reply_from_mapping(n, name, &reply))
        return build_reply(q, &reply, out);
    if (!is_eligible(n, from, q))
        return n->box->snapshot ? answer_blocked(q, out) : answer_code(q, DNS_SERVFAIL, out);
    if (q->question.type != DNS_A && q->question.type != DNS_AAAA)
        return answer_code(q, DNS_NOERROR, out);
    if (reply_from_policy(n, from, name, &reply))
        return build_reply(q, &reply, out);
    return may_wait_for_name(n, from, name) ? NAMES_LATER : answer_code(q, DNS_SERVFAIL, out);
}

/* --- Lookups --- */

static void free_name_lookup(struct name_lookup *a)
{
    link_leave(&a->link);
    dns_lookup_cancel(&a->lookup);
    loop_later_stop(&a->refused);
    lease_free(a->lease);
    free(a);
}

/* Returns DNS_NOERROR if the decision allows the name. Otherwise records the denial and returns the
 * code to reply with: DNS_REFUSED if the policy denies the addresses. */
static enum dns_rcode decide_lookup(struct name_lookup *a, struct egress_ports *ports)
{
    struct dns_names *n = a->names;
    const struct own_addresses *own = n->box->egress->own;
    const struct dns_lookup *k = &a->lookup;
    struct egress_decision *d = &a->lease->decision;
    const char *name = a->lease->intent.host.name;

    if (d->snapshot != n->box->snapshot) {
        lease_refuse(a->lease, 403, "stale_policy", "Try again.",
                     "The policy changed while the name was looked up.");
        return DNS_SERVFAIL;
    }
    if (k->outcome != DNS_LOOKUP_FOUND) {
        lease_refuse(a->lease, 502, "resolution_failed",
                     "Check the spelling of the name, or try again later.",
                     "%s cannot be resolved: %s.", name, dns_outcome_name(k->outcome));
        return k->outcome == DNS_LOOKUP_NXDOMAIN ? DNS_NXDOMAIN
               : k->outcome == DNS_LOOKUP_NODATA ? DNS_NOERROR
                                                 : DNS_SERVFAIL;
    }
    for (size_t i = 0; own && i < k->n; i++) {
        if (!own_addresses_has(own, &k->addresses[i]))
            continue;
        lease_refuse(a->lease, 403, "ssrf_denied",
                     "To grant a service of this machine, declare its exact address.",
                     "%s is at an address of the machine that the sandbox runs on.", name);
        return DNS_REFUSED;
    }
    d->verdict =
        egress_name_addresses(d->snapshot, str_from(name), k->addresses, k->n, ports, &d->why);
    if (d->verdict != EGRESS_DENIED)
        return DNS_NOERROR;
    lease_deny(a->lease);
    return DNS_REFUSED;
}

static void copy_pinned_addresses(const struct dns_lookup *l, struct address *list, size_t *ret_n)
{
    *ret_n = l->n < EGRESS_PINNED_MAX ? l->n : EGRESS_PINNED_MAX;
    memcpy(list, l->addresses, *ret_n * sizeof *list);
}

static bool record_allowed_name(struct name_lookup *a)
{
    struct egress_box *b = a->names->box;
    struct egress_decision *d = &a->lease->decision;

    copy_pinned_addresses(&a->lookup, d->addresses, &d->n);
    if (audit_allow(b->audit, &a->lease->intent, d)) {
        b->counters.allowed++;
        return true;
    }
    return lease_refuse_unrecorded(a->lease);
}

static bool map_name_to_fake(struct name_lookup *a, const struct egress_ports *ports,
                             struct dns_reply *ret)
{
    struct dns_names *n = a->names;
    int64_t ttl = a->lookup.ttl < EGRESS_DNS_TTL_MAX ? a->lookup.ttl : EGRESS_DNS_TTL_MAX;
    int64_t now = clock_mono(), ttl_ns = (ttl ? ttl : 1) * NS_PER_S;
    struct fake_mapping m = { .ports = *ports, .generation = n->box->generation };
    struct synthetic s;
    struct err e;

    m.expires = now + ttl_ns + EGRESS_DNS_SLACK_NS;
    memcpy(m.name, a->lease->intent.host.name, sizeof m.name);
    copy_pinned_addresses(&a->lookup, m.pinned, &m.n_pinned);
    if (fake_addresses_put(n->box->mapping, &m, now, &s, &e) < 0)
        return lease_refuse(a->lease, 503, "mappings_full", "Use fewer names, or a new sandbox.",
                            "No synthetic address for %s: %s.", m.name, e.msg);
    set_reply_addresses(n, &s, ttl_ns, ret);
    return true;
}

static void reply_to_waiters(struct name_lookup *a, const struct dns_reply *reply)
{
    link_leave(&a->link); /* so that no further client joins */
    for (struct link *m; (m = list_first(&a->waiters));) {
        struct names_waiter *w = container_of(m, struct names_waiter, link_);
        uint8_t out[NAMES_ANSWER_MAX];
        int n = build_reply(&w->query, reply, out);

        names_forget(w);
        w->done_(w, (struct str){ (const char *)out, (size_t)n });
    }
    free_name_lookup(a);
}

static void on_name_found(struct dns_lookup *k)
{
    struct name_lookup *a = container_of(k, struct name_lookup, lookup);
    struct egress_ports ports = { 0 };
    struct dns_reply reply;

    lease_found(a->lease);
    reply = (struct dns_reply){ .rcode = decide_lookup(a, &ports) };
    reply.blocked = reply.rcode == DNS_REFUSED;
    if (a->lease->decision.verdict != EGRESS_DENIED &&
        !(record_allowed_name(a) && map_name_to_fake(a, &ports, &reply)))
        reply = (struct dns_reply){ .rcode = DNS_SERVFAIL };
    reply_to_waiters(a, &reply);
}

static void on_name_refused(struct loop_later *s)
{
    reply_to_waiters(container_of(s, struct name_lookup, refused),
                     &(struct dns_reply){ .rcode = DNS_SERVFAIL });
}

void names_wait(struct dns_names *n, struct names_waiter *w, const struct dns_query *q,
                const struct names_client *from, names_fn *done)
{
    struct str name = str_from(q->question.name);
    struct name_lookup *a = find_name_lookup(n, name);

    if (!a) {
        struct egress_intent i = dns_intent_of(from, name);

        a = new0(sizeof *a);
        a->names = n;
        a->lease = lease_new(n->box, &i);
        a->lease->decision.snapshot = egress_snapshot_ref(n->box->snapshot);
        list_append(&n->lookups, &a->link);
        if (!lease_look_up(a->lease, &a->lookup, on_name_found))
            loop_later(n->box->egress->loop, &a->refused, on_name_refused, NULL);
    }
    w->query = *q;
    w->done_ = done;
    w->names_ = n;
    n->n_waiting++;
    list_append(&a->waiters, &w->link_);
}

void names_forget(struct names_waiter *w)
{
    if (!link_joined(&w->link_))
        return;
    link_leave(&w->link_);
    w->names_->n_waiting--;
}

void names_free(struct dns_names *n)
{
    if (!n)
        return;
    for (struct link *m; (m = list_first(&n->lookups));) {
        struct name_lookup *a = container_of(m, struct name_lookup, link);

        for (struct link *w; (w = list_first(&a->waiters));)
            names_forget(container_of(w, struct names_waiter, link_));
        free_name_lookup(a);
    }
    free(n);
}
