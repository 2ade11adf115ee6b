/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/dns/resolver.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "lib/dns/cache.h"
#include "lib/dns/request.h"
#include "lib/dns/wire.h"

/* A name that is being asked for, once for all who want to know: a question a family. */
struct dns_flight {
    struct dns_resolver *resolver;
    struct link link;    /* the resolver's */
    struct list waiters; /* struct dns_lookup */
    struct dns_result result;
    struct dns_request_pair {
        struct dns_flight *flight;
        struct dns_request ask;
    } requests[2];
    struct loop_later later;
};

int dns_resolver_init(struct dns_resolver *r, struct loop *l, const struct dns_server *servers,
                      size_t n, struct err *e)
{
    if (n == 0 || n > DNS_SERVERS_MAX)
        return err_set(e, ERR_INVALID, "a resolver has 1 to %d servers, not %zu", DNS_SERVERS_MAX,
                       n);
    *r = (struct dns_resolver){ .loop = l, .n = n, .timeout = 2 * NS_PER_S, .attempts = 2 };
    memcpy(r->servers, servers, n * sizeof *servers);
    r->cache_ = dns_cache_new();
    return 0;
}

const char *dns_outcome_name(enum dns_outcome o)
{
    static const char *const names[] = {
        [DNS_LOOKUP_FOUND] = "found",     [DNS_LOOKUP_NXDOMAIN] = "nxdomain",
        [DNS_LOOKUP_NODATA] = "nodata",   [DNS_LOOKUP_SERVFAIL] = "servfail",
        [DNS_LOOKUP_TIMEOUT] = "timeout", [DNS_LOOKUP_UNUSABLE] = "unusable answer",
    };

    return (unsigned)o < COUNT_OF(names) ? names[o] : "unknown";
}

static void take_result(struct dns_lookup *l, const struct dns_result *result)
{
    l->outcome = result->outcome;
    l->ttl = result->ttl;
    l->n = result->n;
    memcpy(l->addresses, result->addresses, result->n * sizeof *result->addresses);
}

static void on_cached(struct loop_later *s)
{
    struct dns_lookup *l = container_of(s, struct dns_lookup, later_);

    l->running_ = false;
    l->done_(l);
}

/* --- What is asked --- */

static struct list *flight_slot(struct dns_resolver *r, struct str name)
{
    return &r->flights_[dns_name_hash(0, name) % COUNT_OF(r->flights_)];
}

static struct str flight_name(const struct dns_flight *f)
{
    return str_from(f->requests[0].ask.question.name);
}

static struct dns_flight *find_flight(struct dns_resolver *r, struct str name)
{
    LIST_EACH (struct dns_flight, f, flight_slot(r, name), link)
        if (str_eq(flight_name(f), name))
            return f;
    return NULL;
}

/* Requires that no lookup waits for it. */
static void free_flight(struct dns_flight *f)
{
    for (size_t i = 0; i < COUNT_OF(f->requests); i++)
        dns_request_stop(&f->requests[i].ask);
    loop_later_stop(&f->later);
    link_leave(&f->link);
    free(f);
}

/* A callback may cancel other waiting lookups, and start a lookup of the same name. */
static void on_flight_landed(struct loop_later *s)
{
    struct dns_flight *f = container_of(s, struct dns_flight, later);

    link_leave(&f->link); /* new lookups must not join */
    dns_cache_store(f->resolver->cache_, flight_name(f), &f->result, clock_mono());
    for (struct link *m; (m = list_take(&f->waiters));) {
        struct dns_lookup *l = container_of(m, struct dns_lookup, link_);

        take_result(l, &f->result);
        l->flight_ = NULL;
        l->running_ = false;
        l->done_(l);
    }
    free_flight(f);
}

/* A family that failed has no addresses, if the other has: it is not dialled. Without addresses,
 * that there is no such name is said of both, for as long as both families have nothing. */
static void merge_families(struct dns_flight *f)
{
    const struct dns_request *a = &f->requests[0].ask, *b = &f->requests[1].ask;
    struct dns_result *to = &f->result;

    for (size_t i = 0; i < COUNT_OF(f->requests); i++) {
        const struct dns_answer *found = &f->requests[i].ask.answer;

        if (f->requests[i].ask.outcome != DNS_LOOKUP_FOUND)
            continue;
        memcpy(to->addresses + to->n, found->addresses, found->n * sizeof *found->addresses);
        to->ttl = to->n == 0 || found->ttl < to->ttl ? found->ttl : to->ttl;
        to->n += found->n;
    }
    if (to->n > 0)
        return; /* the outcome is DNS_LOOKUP_FOUND, which is 0 */
    to->ttl = a->answer.ttl < b->answer.ttl ? a->answer.ttl : b->answer.ttl;
    if (a->outcome == DNS_LOOKUP_NXDOMAIN || b->outcome == DNS_LOOKUP_NXDOMAIN)
        to->outcome = DNS_LOOKUP_NXDOMAIN;
    else
        to->outcome = dns_outcome_failed(a->outcome) ? a->outcome : b->outcome;
}

/* Lands by way of the loop, so that the callbacks may free everything. */
static void on_settled(struct dns_request *a)
{
    struct dns_flight *f = container_of(a, struct dns_request_pair, ask)->flight;

    if (f->requests[0].ask.is_settled && f->requests[1].ask.is_settled) {
        merge_families(f);
        loop_later(f->resolver->loop, &f->later, on_flight_landed, NULL);
    } else if (a->outcome == DNS_LOOKUP_FOUND) {
        f->requests[a == &f->requests[0].ask].ask.last = true;
    }
}

static struct dns_flight *start_flight(struct dns_resolver *r, struct str name)
{
    static const uint16_t types[] = { DNS_A, DNS_AAAA };
    struct dns_flight *f = new0(sizeof *f);

    f->resolver = r;
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        struct dns_request *a = &f->requests[i].ask;

        f->requests[i].flight = f;
        *a = (struct dns_request){ .resolver = r, .settled = on_settled, .fd = -1 };
        a->question.type = types[i];
        a->question.class = DNS_IN;
        str_copy(name, a->question.name, sizeof a->question.name);
    }
    for (size_t i = 0; i < COUNT_OF(types); i++)
        dns_request_start(&f->requests[i].ask);
    list_append(flight_slot(r, name), &f->link);
    return f;
}

/* --- Lookups --- */

int dns_lookup_start(struct dns_resolver *r, struct dns_lookup *l, struct str name,
                     dns_lookup_fn *done, struct err *e)
{
    uint8_t query[DNS_QUERY_MAX];
    struct dns_result known;

    if (l->running_)
        return err_set(e, ERR_CONFLICT, "the lookup is running");
    if (dns_build_query(0, name, DNS_A, false, query) == 0)
        return err_set(e, ERR_INVALID, "not a name that DNS can be asked for");
    *l = (struct dns_lookup){ .resolver = r, .done_ = done, .running_ = true };
    if (dns_cache_find(r->cache_, name, clock_mono(), &known)) {
        take_result(l, &known);
        loop_later(r->loop, &l->later_, on_cached, NULL);
        return 0;
    }
    l->flight_ = find_flight(r, name);
    if (!l->flight_)
        l->flight_ = start_flight(r, name);
    list_append(&l->flight_->waiters, &l->link_);
    return 0;
}

bool dns_resolver_would_query(struct dns_resolver *r, struct str name)
{
    return !find_flight(r, name) && !dns_cache_has(r->cache_, name, clock_mono());
}

void dns_lookup_cancel(struct dns_lookup *l)
{
    struct dns_flight *f = l->flight_;

    if (!l->running_)
        return;
    l->running_ = false;
    l->flight_ = NULL;
    loop_later_stop(&l->later_);
    link_leave(&l->link_);
    if (f && link_joined(&f->link) && !list_first(&f->waiters))
        free_flight(f); /* its last waiter has left; a landed flight is freed elsewhere */
}

static void end_flight(struct dns_flight *f)
{
    for (struct link *m; (m = list_take(&f->waiters));) {
        struct dns_lookup *l = container_of(m, struct dns_lookup, link_);

        l->flight_ = NULL;
        l->running_ = false;
    }
    free_flight(f);
}

void dns_resolver_done(struct dns_resolver *r)
{
    for (size_t i = 0; i < COUNT_OF(r->flights_); i++)
        for (struct link *m; (m = list_first(&r->flights_[i]));)
            end_flight(container_of(m, struct dns_flight, link));
    dns_cache_free(take_ptr(r->cache_));
}
