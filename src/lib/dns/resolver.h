/* SPDX-License-Identifier: Apache-2.0 */
/* Looks names up at DNS servers, on the loop: no search list, no hosts file, no environment. One
 * lookup asks for A and AAAA at once.
 *
 *     lookup->… zeroed, a member of its owner
 *     r = dns_lookup_start(resolver, &c->lookup, STR("example.com"), on_found, e);
 *
 * Every question has a random id, letters of random case, and a socket of its own, and so a random
 * port. A server that does not answer within the timeout, answers SERVFAIL, REFUSED or nonsense, is
 * followed by the next, for `attempts` rounds. Answers that are truncated, or in other letters, are
 * asked for again over TCP. Messages that do not belong to the question are passed over. Questions
 * have EDNS, unless the server does not understand it.
 *
 * A lookup is all or nothing: if one of the two families cannot be asked, the whole fails, since a
 * verdict about a name is one about all its addresses. NXDOMAIN for one family beside addresses of
 * the other counts as none of that family: servers that say so are wrong, and common.
 *
 * Concurrent lookups of one name share their requests. Addresses are cached for the servers' TTL,
 * limited to DNS_CACHE_TTL_MIN to DNS_CACHE_TTL_MAX seconds; negative answers for the time in the
 * SOA record, at most DNS_CACHE_NONE_MAX (cache.h); failures are not cached. */
#ifndef LIB_DNS_RESOLVER_H
#define LIB_DNS_RESOLVER_H

#include "base/buf.h"
#include "lib/dns/message.h"
#include "lib/loop/fd.h"
#include "lib/loop/list.h"
#include "lib/loop/timer.h"

enum { DNS_SERVERS_MAX = 3, DNS_PORT = 53, DNS_FLIGHT_SLOTS_ = 64 };

struct dns_server {
    struct address address;
    uint16_t port;
};

struct dns_resolver {
    struct loop *loop;
    size_t n;
    struct dns_server servers[DNS_SERVERS_MAX];
    int64_t timeout;   /* of one question to one server */
    unsigned attempts; /* rounds over all servers */

    struct dns_cache *cache_;
    struct list flights_[DNS_FLIGHT_SLOTS_]; /* names that are being asked for */
};

/* 1 to DNS_SERVERS_MAX servers; timeout 2 s, 2 attempts: both may be changed afterwards. Lookups
 * hold a pointer to it. */
int dns_resolver_init(struct dns_resolver *r, struct loop *l, const struct dns_server *servers,
                      size_t n, struct err *e);
/* Call only when no lookup runs. Harmless on a zeroed resolver. */
void dns_resolver_done(struct dns_resolver *r);

enum dns_outcome {
    DNS_LOOKUP_FOUND,
    DNS_LOOKUP_NXDOMAIN, /* there is no such name */
    DNS_LOOKUP_NODATA,   /* there is, without addresses */
    DNS_LOOKUP_SERVFAIL, /* the last server tried failed or refused */
    DNS_LOOKUP_TIMEOUT,  /* the last server tried did not answer */
    DNS_LOOKUP_UNUSABLE, /* its answer is malformed, or has too many records or CNAMEs */
};
const char *dns_outcome_name(enum dns_outcome o); /* "found", "nxdomain", …: stable */

/* Whether it was not found out. */
static inline bool dns_outcome_failed(enum dns_outcome o)
{
    return o >= DNS_LOOKUP_SERVFAIL;
}

struct dns_lookup;
typedef void dns_lookup_fn(struct dns_lookup *l);

struct dns_lookup {
    struct dns_resolver *resolver;
    enum dns_outcome outcome;
    uint32_t ttl; /* the least of all; if not found, how long that is so */
    size_t n;     /* IPv4 first, each family in the server's order; 0 unless found */
    struct address addresses[2 * DNS_ADDRESSES_MAX];

    dns_lookup_fn *done_;
    bool running_;
    struct dns_flight *flight_; /* the flight that it waits for; NULL: found in the cache */
    struct link link_;          /* of those who wait for it */
    struct loop_later later_;
};

/* `name` is canonical, as in struct host, and is copied. `done` is called once, from the loop,
 * never from inside this call; it may free the lookup's owner or start the lookup again. After a
 * failure it is not called: -ERR_INVALID for the name, -ERR_CONFLICT while running. */
int dns_lookup_start(struct dns_resolver *r, struct dns_lookup *l, struct str name,
                     dns_lookup_fn *done, struct err *e);

/* Whether a lookup that is started now asks servers: nothing is known of the name, and no lookup of
 * it runs. */
bool dns_resolver_would_query(struct dns_resolver *r, struct str name);

/* `done` is not called after this. Harmless if no lookup runs, and on a zeroed lookup. */
void dns_lookup_cancel(struct dns_lookup *l);

/* The `nameserver` lines of a resolv.conf: how many servers, the first DNS_SERVERS_MAX of them.
 * Other lines and addresses with a zone are passed over. */
size_t resolv_conf_parse(struct str text, struct dns_server ret[static DNS_SERVERS_MAX]);
/* The servers of /etc/resolv.conf; if it has none, the C library's default. At least one. */
size_t resolv_conf_read(struct dns_server ret[static DNS_SERVERS_MAX]);

#endif
