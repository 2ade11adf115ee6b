#include "dns/resolver.h"

#include "base/clock.h"
#include "base/own.h"
#include "dns/ask.h"

int dns_resolver_init(struct dns_resolver *r, struct loop *l, const struct dns_server *servers,
                      size_t n, struct err *e)
{
    if (n == 0 || n > DNS_SERVERS_MAX)
        return err_set(e, ERR_INVALID, "a resolver has 1 to %d servers, not %zu", DNS_SERVERS_MAX,
                       n);
    *r = (struct dns_resolver){ .loop = l, .n = n, .timeout = 2 * NS_PER_S, .attempts = 2 };
    memcpy(r->servers, servers, n * sizeof *servers);
    return 0;
}

const char *dns_outcome_name(enum dns_outcome o)
{
    static const char *const names[] = {
        [DNS_LOOKUP_FOUND] = "found",     [DNS_LOOKUP_NXDOMAIN] = "nxdomain",
        [DNS_LOOKUP_NODATA] = "nodata",   [DNS_LOOKUP_SERVFAIL] = "servfail",
        [DNS_LOOKUP_TIMEOUT] = "timeout",
    };

    return (unsigned)o < COUNT_OF(names) ? names[o] : "unknown";
}

static void stop_asks(struct dns_lookup *l)
{
    for (size_t i = 0; i < COUNT_OF(l->asks_); i++)
        dns_ask_stop(&l->asks_[i]);
}

static void tell(struct loop_later *s)
{
    struct dns_lookup *l = container_of(s, struct dns_lookup, later_);

    l->running_ = false;
    l->done_(l);
}

/* By way of the loop, so that `done` may free everything. */
static void finish(struct dns_lookup *l, enum dns_outcome outcome)
{
    stop_asks(l);
    l->outcome = outcome;
    loop_later(l->resolver->loop, &l->later_, tell, NULL);
}

static void take_addresses(struct dns_lookup *l, const struct dns_answer *a)
{
    memcpy(l->addresses + l->n, a->addresses, a->n * sizeof *a->addresses);
    l->ttl = l->n == 0 || a->ttl < l->ttl ? a->ttl : l->ttl;
    l->n += a->n;
}

static void merge(struct dns_lookup *l)
{
    enum dns_outcome outcome = DNS_LOOKUP_NODATA;

    for (size_t i = 0; i < COUNT_OF(l->asks_); i++) {
        if (l->asks_[i].outcome == DNS_LOOKUP_FOUND)
            take_addresses(l, &l->asks_[i].answer);
        else if (l->asks_[i].outcome == DNS_LOOKUP_NXDOMAIN)
            outcome = DNS_LOOKUP_NXDOMAIN;
    }
    finish(l, l->n > 0 ? DNS_LOOKUP_FOUND : outcome);
}

static void on_settled(struct dns_ask_ *a)
{
    struct dns_lookup *l = a->lookup;

    if (a->outcome == DNS_LOOKUP_SERVFAIL || a->outcome == DNS_LOOKUP_TIMEOUT)
        finish(l, a->outcome);
    else if (l->asks_[0].is_settled && l->asks_[1].is_settled)
        merge(l);
}

static bool can_be_asked(struct str name)
{
    uint8_t query[DNS_QUERY_MAX];

    return dns_build_query(0, name, DNS_A, query) > 0;
}

int dns_lookup_start(struct dns_resolver *r, struct dns_lookup *l, struct str name,
                     dns_lookup_fn *done, struct err *e)
{
    static const uint16_t types[] = { DNS_A, DNS_AAAA };

    if (l->running_)
        return err_set(e, ERR_CONFLICT, "the lookup is running");
    if (!can_be_asked(name))
        return err_set(e, ERR_INVALID, "not a name that DNS can be asked for");
    *l = (struct dns_lookup){ .resolver = r, .done_ = done, .running_ = true };
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        struct dns_ask_ *a = &l->asks_[i];

        *a = (struct dns_ask_){ .resolver = r, .lookup = l, .settled = on_settled, .fd = -1 };
        a->question.type = types[i];
        a->question.class = DNS_IN;
        str_copy(name, a->question.name, sizeof a->question.name);
    }
    dns_ask_start(&l->asks_[0]);
    if (!l->asks_[0].is_settled) /* else it failed, and the lookup with it */
        dns_ask_start(&l->asks_[1]);
    return 0;
}

void dns_lookup_cancel(struct dns_lookup *l)
{
    if (!l->running_)
        return;
    l->running_ = false;
    loop_later_stop(&l->later_);
    stop_asks(l);
}
