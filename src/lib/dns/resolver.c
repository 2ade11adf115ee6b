/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/dns/resolver.h"

#include "base/clock.h"
#include "base/own.h"
#include "lib/dns/cache.h"
#include "lib/dns/flight.h"
#include "lib/dns/name.h"

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

/* --- What is known --- */

static void on_cached(struct loop_later *s)
{
    struct dns_lookup *l = container_of(s, struct dns_lookup, later_);

    l->running_ = false;
    l->done_(l);
}

static bool find_cached(struct dns_lookup *l, struct str name)
{
    struct dns_result known;

    if (!dns_cache_find(l->resolver->cache_, name, clock_mono(), &known))
        return false;
    take_result(l, &known);
    loop_later(l->resolver->loop, &l->later_, on_cached, NULL);
    return true;
}

/* --- What is asked --- */

static struct list *flight_slot(struct dns_resolver *r, struct str name)
{
    return &r->flights_[dns_name_hash(0, name) % COUNT_OF(r->flights_)];
}

static struct dns_flight *find_flight(struct dns_resolver *r, struct str name)
{
    struct list *slot = flight_slot(r, name);

    for (struct link *m = list_first(slot); m; m = list_after(slot, m)) {
        struct dns_flight *f = container_of(m, struct dns_flight, link);

        if (str_eq(dns_flight_name(f), name))
            return f;
    }
    return NULL;
}

/* A callback may cancel other waiting lookups, and start a lookup of the same name. */
static void on_flight_landed(struct dns_flight *f)
{
    link_leave(&f->link); /* new lookups must not join */
    dns_cache_store(f->resolver->cache_, dns_flight_name(f), &f->result, clock_mono());
    for (struct link *m; (m = list_take(&f->waiters));) {
        struct dns_lookup *l = container_of(m, struct dns_lookup, link_);

        take_result(l, &f->result);
        l->flight_ = NULL;
        l->running_ = false;
        l->done_(l);
    }
    dns_flight_free(f);
}

static void wait_for_flight(struct dns_lookup *l, struct str name)
{
    l->flight_ = find_flight(l->resolver, name);
    if (!l->flight_) {
        l->flight_ = dns_flight_new(l->resolver, name, on_flight_landed);
        list_append(flight_slot(l->resolver, name), &l->flight_->link);
    }
    list_append(&l->flight_->waiters, &l->link_);
}

/* --- Lookups --- */

static bool is_resolvable(struct str name)
{
    uint8_t query[DNS_QUERY_MAX];

    return dns_build_query(0, name, DNS_A, false, query) > 0;
}

int dns_lookup_start(struct dns_resolver *r, struct dns_lookup *l, struct str name,
                     dns_lookup_fn *done, struct err *e)
{
    if (l->running_)
        return err_set(e, ERR_CONFLICT, "the lookup is running");
    if (!is_resolvable(name))
        return err_set(e, ERR_INVALID, "not a name that DNS can be asked for");
    *l = (struct dns_lookup){ .resolver = r, .done_ = done, .running_ = true };
    if (!find_cached(l, name))
        wait_for_flight(l, name);
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
        dns_flight_free(f); /* its last waiter has left; a landed flight is freed elsewhere */
}

static void end_flight(struct dns_flight *f)
{
    for (struct link *m; (m = list_take(&f->waiters));) {
        struct dns_lookup *l = container_of(m, struct dns_lookup, link_);

        l->flight_ = NULL;
        l->running_ = false;
    }
    dns_flight_free(f);
}

void dns_resolver_done(struct dns_resolver *r)
{
    for (size_t i = 0; i < COUNT_OF(r->flights_); i++)
        for (struct link *m; (m = list_first(&r->flights_[i]));)
            end_flight(container_of(m, struct dns_flight, link));
    dns_cache_free(take_ptr(r->cache_));
}
