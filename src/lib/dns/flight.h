/* A name that is being asked for, once for all who want to know: a question a family. Private to
 * dns. */
#ifndef DNS_FLIGHT_H
#define DNS_FLIGHT_H

#include "dns/ask.h"
#include "dns/cache.h"

struct dns_flight {
    struct dns_resolver *resolver;
    void (*landed)(struct dns_flight *f);
    struct link link;    /* the resolver's */
    struct list waiters; /* struct dns_lookup */
    struct dns_result result;

    struct dns_ask_pair {
        struct dns_flight *flight;
        struct dns_ask ask;
    } asks_[2];
    struct loop_later later_;
};

/* landed() is called once, from the loop, with the result filled; it may free the flight. */
struct dns_flight *dns_flight_new(struct dns_resolver *r, struct str name,
                                  void (*landed)(struct dns_flight *f));
void dns_flight_free(struct dns_flight *f); /* nobody waits any more */

struct str dns_flight_name(const struct dns_flight *f);

#endif
