/* SPDX-License-Identifier: Apache-2.0 */
/* A name that is being asked for, once for all who want to know: a question a family. Private to
 * dns. */
#ifndef LIB_DNS_FLIGHT_H
#define LIB_DNS_FLIGHT_H

#include "lib/dns/request.h"
#include "lib/dns/cache.h"

struct dns_flight {
    struct dns_resolver *resolver;
    void (*landed)(struct dns_flight *f);
    struct link link;    /* the resolver's */
    struct list waiters; /* struct dns_lookup */
    struct dns_result result;

    struct dns_request_pair {
        struct dns_flight *flight;
        struct dns_request ask;
    } requests_[2];
    struct loop_later later_;
};

/* landed() is called once, from the loop, with the result filled; it may free the flight. */
struct dns_flight *dns_flight_new(struct dns_resolver *r, struct str name,
                                  void (*landed)(struct dns_flight *f));
void dns_flight_free(struct dns_flight *f); /* requires that no lookup waits for it */

struct str dns_flight_name(const struct dns_flight *f);

#endif
