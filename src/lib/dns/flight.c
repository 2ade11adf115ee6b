/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/dns/flight.h"

#include <stdlib.h>

#include "base/own.h"

static void stop_requests(struct dns_flight *f)
{
    for (size_t i = 0; i < COUNT_OF(f->requests_); i++)
        dns_request_stop(&f->requests_[i].ask);
}

static void on_flight_later(struct loop_later *s)
{
    struct dns_flight *f = container_of(s, struct dns_flight, later_);

    f->landed(f);
}

/* By way of the loop, so that landed() may free everything. */
static void finish_flight(struct dns_flight *f, enum dns_outcome outcome)
{
    stop_requests(f);
    f->result.outcome = outcome;
    loop_later(f->resolver->loop, &f->later_, on_flight_later, NULL);
}

static void take_addresses(struct dns_result *to, const struct dns_answer *a)
{
    memcpy(to->addresses + to->n, a->addresses, a->n * sizeof *a->addresses);
    to->ttl = to->n == 0 || a->ttl < to->ttl ? a->ttl : to->ttl;
    to->n += a->n;
}

/* As long as both families have nothing. */
static void take_nothing(struct dns_flight *f)
{
    uint32_t a = f->requests_[0].ask.answer.ttl, b = f->requests_[1].ask.answer.ttl;

    f->result.ttl = a < b ? a : b;
}

/* Of families without addresses: that there is no such name is said of both. */
static enum dns_outcome join_failures(enum dns_outcome a, enum dns_outcome b)
{
    if (a == DNS_LOOKUP_NXDOMAIN || b == DNS_LOOKUP_NXDOMAIN)
        return DNS_LOOKUP_NXDOMAIN;
    return dns_outcome_failed(a) ? a : b;
}

/* A family that failed has no addresses, if the other has: it is not dialled. */
static void merge_families(struct dns_flight *f)
{
    for (size_t i = 0; i < COUNT_OF(f->requests_); i++)
        if (f->requests_[i].ask.outcome == DNS_LOOKUP_FOUND)
            take_addresses(&f->result, &f->requests_[i].ask.answer);
    if (f->result.n > 0) {
        finish_flight(f, DNS_LOOKUP_FOUND);
        return;
    }
    take_nothing(f);
    finish_flight(f, join_failures(f->requests_[0].ask.outcome, f->requests_[1].ask.outcome));
}

static void on_settled(struct dns_request *a)
{
    struct dns_flight *f = container_of(a, struct dns_request_pair, ask)->flight;

    if (f->requests_[0].ask.is_settled && f->requests_[1].ask.is_settled)
        merge_families(f);
    else if (a->outcome == DNS_LOOKUP_FOUND)
        f->requests_[a == &f->requests_[0].ask].ask.last = true;
}

struct dns_flight *dns_flight_new(struct dns_resolver *r, struct str name,
                                  void (*landed)(struct dns_flight *f))
{
    static const uint16_t types[] = { DNS_A, DNS_AAAA };
    struct dns_flight *f = new0(sizeof *f);

    f->resolver = r;
    f->landed = landed;
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        struct dns_request *a = &f->requests_[i].ask;

        f->requests_[i].flight = f;
        *a = (struct dns_request){ .resolver = r, .settled = on_settled, .fd = -1 };
        a->question.type = types[i];
        a->question.class = DNS_IN;
        str_copy(name, a->question.name, sizeof a->question.name);
    }
    for (size_t i = 0; i < COUNT_OF(types); i++)
        dns_request_start(&f->requests_[i].ask);
    return f;
}

void dns_flight_free(struct dns_flight *f)
{
    stop_requests(f);
    loop_later_stop(&f->later_);
    link_leave(&f->link);
    free(f);
}

struct str dns_flight_name(const struct dns_flight *f)
{
    return str_from(f->requests_[0].ask.question.name);
}
