#include "egress/adapters/names.h"

#include <stdlib.h>

#include "base/own.h"
#include "egress/audit.h"
#include "egress/lease.h"
#include "egress/mapping.h"
#include "egress/own_addresses.h"
#include "egress/refuse.h"

/* One name's lookup, and who waits for it. */
struct asking {
    struct names *names;
    struct link link;
    struct lease *lease; /* its snapshot is the one that allowed the name */
    struct dns_lookup lookup;
    struct loop_later refused; /* the lookup did not even start */
    struct list waiters;
};

struct names {
    struct egress_box *box;
    struct list askings;
    size_t n_waiting;
};

/* What is said to all who asked for a name. */
struct said {
    enum dns_rcode rcode;
    bool blocked; /* by the policy: the rest does not count */
    struct address addresses[2];
    size_t n;
    uint32_t ttl;
};

struct names *names_new(struct egress_box *b)
{
    struct names *n = calloc(1, sizeof *n);

    if (!n)
        abort();
    n->box = b;
    return n;
}

/* --- Answers --- */

static int answer(const struct dns_query *q, const struct said *s,
                  uint8_t out[static NAMES_ANSWER_MAX])
{
    if (s->blocked)
        return (int)dns_build_blocked(q, out, NAMES_ANSWER_MAX);
    return (int)dns_build_answer(q, s->rcode, s->addresses, s->n, s->ttl, out, NAMES_ANSWER_MAX);
}

static int answer_code(const struct dns_query *q, enum dns_rcode rcode,
                       uint8_t out[static NAMES_ANSWER_MAX])
{
    return answer(q, &(struct said){ .rcode = rcode }, out);
}

static int answer_blocked(const struct dns_query *q, uint8_t out[static NAMES_ANSWER_MAX])
{
    return answer(q, &(struct said){ .blocked = true }, out);
}

static bool is_address_type(const struct dns_query *q)
{
    return q->question.type == DNS_A || q->question.type == DNS_AAAA;
}

/* IPv6 only where it is captured. */
static void say_addresses(const struct names *n, const struct synthetic *s, int64_t left,
                          struct said *ret)
{
    *ret = (struct said){ .rcode = DNS_NOERROR, .addresses = { s->v4, s->v6 }, .n = 1 };
    if (n->box->listeners.fd[LISTENER_CAPTURE6] >= 0)
        ret->n = 2;
    ret->ttl = left < NS_PER_S ? 1 : (uint32_t)(left / NS_PER_S);
}

/* From a mapping that is good enough still. */
static bool say_known(const struct names *n, struct str name, struct said *ret)
{
    struct synthetic s;
    const struct mapped *m = mapping_find_name(n->box->mapping, name, &s);
    int64_t left;

    if (!m || !n->box->snapshot || m->generation != n->box->generation)
        return false;
    left = m->expires - EGRESS_DNS_SLACK_NS - clock_mono();
    if (left <= 0)
        return false;
    say_addresses(n, &s, left, ret);
    return true;
}

/* --- Decisions --- */

static void deny(struct names *n, const struct egress_intent *i, struct egress_decision *d)
{
    d->verdict = EGRESS_DENIED;
    d->id = ++n->box->egress->decisions;
    d->generation = n->box->generation;
    n->box->counters.denied++;
    audit_deny(n->box->audit, i, d);
}

#define DENY(n, i, d, code, next, ...)                                                             \
    (refuse_reason(&(d)->why, (code), (next), __VA_ARGS__), deny((n), (i), (d)))

static bool is_local(struct str name)
{
    static const char *const local[] = { "inference.local", "policy.local" };

    for (size_t i = 0; i < COUNT_OF(local); i++)
        if (str_eq(name, str_from(local[i])))
            return true;
    return false;
}

static struct egress_intent intent_for(const struct names_client *from)
{
    return (struct egress_intent){ .adapter = EGRESS_BY_DNS,
                                   .client = from->address,
                                   .client_port = from->port };
}

/* Whether the policy has an endpoint for the name. */
static bool is_eligible(struct names *n, const struct names_client *from, const struct dns_query *q)
{
    struct egress_intent i = intent_for(from);
    struct egress_decision d = { 0 };
    struct str name = str_from(q->question.name);
    struct egress_ports ports;

    if (host_parse(name, false, &i.host, NULL) < 0 || i.host.is_address) {
        audit_malformed(n->box->audit, EGRESS_BY_DNS, "the name asked for is not a host name");
        n->box->counters.denied++;
        return false;
    }
    if (!n->box->snapshot)
        DENY(n, &i, &d, "policy_missing", "Wait until a policy is set, or set one.",
             "No egress policy is in force, so nothing is allowed.");
    else if (is_local(name))
        DENY(n, &i, &d, "not_served", "Use an endpoint of the policy.",
             "%s is not served in this sandbox.", i.host.name);
    else if (egress_name(n->box->snapshot, name, &ports, &d.why) == EGRESS_DENIED)
        deny(n, &i, &d);
    else
        return true;
    return false;
}

static struct asking *find_asking(struct names *n, struct str name)
{
    for (struct link *m = list_first(&n->askings); m; m = list_after(&n->askings, m)) {
        struct asking *a = container_of(m, struct asking, link);

        if (a->lease->decision.snapshot == n->box->snapshot &&
            str_eq(str_from(a->lease->intent.host.name), name))
            return a;
    }
    return NULL;
}

/* Whether the name needs no lookup of its own, or there is one left for it. */
static bool may_look_up(struct names *n, struct str name)
{
    return find_asking(n, name) || lease_lookup_left(n->box) ||
           !dns_resolver_would_ask(&n->box->egress->resolver, name);
}

static bool may_wait(struct names *n, const struct names_client *from, const struct dns_query *q)
{
    struct egress_intent i = intent_for(from);
    struct egress_decision d = { 0 };
    struct str name = str_from(q->question.name);

    if (n->n_waiting < EGRESS_DNS_WAITING_MAX && may_look_up(n, name))
        return true;
    str_copy(name, i.host.name, sizeof i.host.name);
    DENY(n, &i, &d, "lookup_limit", "Ask for fewer names at a time.",
         "More names are asked for than are looked up: %d a second.", EGRESS_LOOKUPS_A_SECOND);
    return false;
}

/* A name that the policy itself has an address for is not looked up: the connection is decided
 * when it says its port. */
static bool say_declared(struct names *n, const struct names_client *from, struct str name,
                         struct said *ret)
{
    int64_t now = clock_mono(), life = EGRESS_DNS_TTL_MAX * NS_PER_S;
    struct mapped m = { .generation = n->box->generation,
                        .expires = now + life + EGRESS_DNS_SLACK_NS };
    struct egress_intent i = intent_for(from);
    struct egress_decision d = { .id = ++n->box->egress->decisions,
                                 .generation = n->box->generation };
    struct synthetic s;
    struct err e;

    if (!egress_name_declared(n->box->snapshot, name))
        return false;
    *ret = (struct said){ .rcode = DNS_SERVFAIL };
    str_copy(name, i.host.name, sizeof i.host.name);
    str_copy(name, m.name, sizeof m.name);
    d.verdict = egress_name(n->box->snapshot, name, &m.ports, &d.why);
    if (!audit_allow(n->box->audit, &i, &d)) {
        DENY(n, &i, &d, "audit_unavailable", "Try again later; tell the operator.",
             "It cannot be put on record, so it is not allowed.");
        return true;
    }
    n->box->counters.allowed++;
    if (mapping_put(n->box->mapping, &m, now, &s, &e) < 0)
        DENY(n, &i, &d, "mappings_full", "Use fewer names, or a new sandbox.",
             "%s gets no address: %s.", i.host.name, e.msg);
    else
        say_addresses(n, &s, life, ret);
    return true;
}

int names_ask(struct names *n, struct str message, const struct names_client *from,
              struct dns_query *q, uint8_t out[static NAMES_ANSWER_MAX])
{
    enum dns_rcode refuse;
    struct said said;
    struct err e;

    if (dns_parse_query(message, q, &refuse, &e) < 0) {
        if (refuse == DNS_NOERROR)
            return 0;
        n->box->counters.denied++;
        audit_malformed(n->box->audit, EGRESS_BY_DNS, e.msg);
        return refuse == DNS_NXDOMAIN ? answer_blocked(q, out) : answer_code(q, refuse, out);
    }
    if (say_known(n, str_from(q->question.name), &said))
        return answer(q, &said, out);
    if (!is_eligible(n, from, q))
        return n->box->snapshot ? answer_blocked(q, out) : answer_code(q, DNS_SERVFAIL, out);
    if (!is_address_type(q))
        return answer_code(q, DNS_NOERROR, out);
    if (say_declared(n, from, str_from(q->question.name), &said))
        return answer(q, &said, out);
    return may_wait(n, from, q) ? NAMES_LATER : answer_code(q, DNS_SERVFAIL, out);
}

/* --- Lookups --- */

static void free_asking(struct asking *a)
{
    link_leave(&a->link);
    dns_lookup_cancel(&a->lookup);
    loop_later_stop(&a->refused);
    lease_free(a->lease);
    free(a);
}

static bool is_own(const struct names *n, const struct dns_lookup *l)
{
    const struct own_addresses *own = n->box->egress->own;

    for (size_t i = 0; own && i < l->n; i++)
        if (own_addresses_has(own, &l->addresses[i]))
            return true;
    return false;
}

static enum dns_rcode rcode_of(enum dns_outcome o)
{
    if (o == DNS_LOOKUP_NXDOMAIN)
        return DNS_NXDOMAIN;
    return o == DNS_LOOKUP_NODATA ? DNS_NOERROR : DNS_SERVFAIL;
}

/* DNS_NOERROR with the decision allowed; or what to say instead, with the denial on record:
 * DNS_REFUSED, if the policy does not take the addresses. */
static enum dns_rcode decide(struct asking *a, struct egress_ports *ports)
{
    struct names *n = a->names;
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
                     "Check the name; if it is right, try again later.",
                     "%s cannot be resolved: %s.", name, dns_outcome_name(k->outcome));
        return rcode_of(k->outcome);
    }
    if (is_own(n, k)) {
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

static void pin(const struct dns_lookup *l, struct address *list, size_t *ret_n)
{
    *ret_n = l->n < EGRESS_PINNED_MAX ? l->n : EGRESS_PINNED_MAX;
    memcpy(list, l->addresses, *ret_n * sizeof *list);
}

static bool record(struct asking *a)
{
    struct egress_box *b = a->names->box;
    struct egress_decision *d = &a->lease->decision;

    pin(&a->lookup, d->addresses, &d->n);
    if (audit_allow(b->audit, &a->lease->intent, d)) {
        b->counters.allowed++;
        return true;
    }
    return lease_refuse_unrecorded(a->lease);
}

static int64_t clamp_ttl(uint32_t ttl)
{
    if (ttl < 1)
        return 1;
    return ttl < EGRESS_DNS_TTL_MAX ? ttl : EGRESS_DNS_TTL_MAX;
}

static bool map(struct asking *a, const struct egress_ports *ports, struct said *ret)
{
    struct names *n = a->names;
    int64_t now = clock_mono(), life = clamp_ttl(a->lookup.ttl) * NS_PER_S;
    struct mapped m = { .ports = *ports, .generation = n->box->generation };
    struct synthetic s;
    struct err e;

    m.expires = now + life + EGRESS_DNS_SLACK_NS;
    memcpy(m.name, a->lease->intent.host.name, sizeof m.name);
    pin(&a->lookup, m.pinned, &m.n_pinned);
    if (mapping_put(n->box->mapping, &m, now, &s, &e) < 0)
        return lease_refuse(a->lease, 503, "mappings_full", "Use fewer names, or a new sandbox.",
                            "%s gets no address: %s.", m.name, e.msg);
    say_addresses(n, &s, life, ret);
    return true;
}

static void tell(struct names_waiter *w, const struct said *s)
{
    uint8_t out[NAMES_ANSWER_MAX];
    int n = answer(&w->query, s, out);

    names_forget(w);
    w->done_(w, (struct str){ (const char *)out, (size_t)n });
}

static void tell_all(struct asking *a, const struct said *said)
{
    link_leave(&a->link); /* so that nobody joins any more */
    for (struct link *m; (m = list_first(&a->waiters));)
        tell(container_of(m, struct names_waiter, link_), said);
    free_asking(a);
}

static void on_found(struct dns_lookup *k)
{
    struct asking *a = container_of(k, struct asking, lookup);
    struct egress_ports ports = { 0 };
    struct said said;

    lease_found(a->lease);
    said = (struct said){ .rcode = decide(a, &ports) };
    said.blocked = said.rcode == DNS_REFUSED;
    if (a->lease->decision.verdict != EGRESS_DENIED && !(record(a) && map(a, &ports, &said)))
        said = (struct said){ .rcode = DNS_SERVFAIL };
    tell_all(a, &said);
}

static void on_refused(struct loop_later *s)
{
    tell_all(container_of(s, struct asking, refused), &(struct said){ .rcode = DNS_SERVFAIL });
}

static struct asking *start(struct names *n, const struct dns_query *q,
                            const struct names_client *from)
{
    struct asking *a = calloc(1, sizeof *a);
    struct egress_intent i = intent_for(from);

    if (!a)
        abort();
    str_copy(str_from(q->question.name), i.host.name, sizeof i.host.name);
    a->names = n;
    a->lease = lease_new(n->box, &i);
    a->lease->decision.snapshot = egress_snapshot_ref(n->box->snapshot);
    list_append(&n->askings, &a->link);
    if (!lease_look_up(a->lease, &a->lookup, on_found))
        loop_later(n->box->egress->loop, &a->refused, on_refused, NULL);
    return a;
}

void names_wait(struct names *n, struct names_waiter *w, const struct dns_query *q,
                const struct names_client *from, names_fn *done)
{
    struct asking *a = find_asking(n, str_from(q->question.name));

    if (!a)
        a = start(n, q, from);
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

void names_free(struct names *n)
{
    if (!n)
        return;
    for (struct link *m; (m = list_first(&n->askings));) {
        struct asking *a = container_of(m, struct asking, link);

        for (struct link *w; (w = list_first(&a->waiters));)
            names_forget(container_of(w, struct names_waiter, link_));
        free_asking(a);
    }
    free(n);
}
