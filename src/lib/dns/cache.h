/* SPDX-License-Identifier: Apache-2.0 */
/* Caches the answers of DNS servers for their time to live. It only stores: the policy checks a
 * cached answer like a new one. Private to dns.
 *
 * Bounded by names and by bytes; the least recently used name is evicted. Each resolver has its own
 * cache, so that answers of different servers never mix. */
#ifndef LIB_DNS_CACHE_H
#define LIB_DNS_CACHE_H

#include "lib/dns/resolver.h"

enum {
    DNS_CACHE_NAMES_MAX = 4096,
    DNS_CACHE_BYTES_MAX = 1 << 20,
    DNS_CACHE_TTL_MIN = 1, /* lower bound of the servers' TTL, in seconds: lookups have a budget,
                              and clients cache for longer … */
    DNS_CACHE_TTL_MAX = 30,
    DNS_CACHE_NONE_MAX = 10, /* … and of names that have no address */
};

/* The result of a lookup, for both address families. */
struct dns_result {
    enum dns_outcome outcome;
    uint32_t ttl; /* seconds that it is good for */
    size_t n;
    struct address addresses[2 * DNS_ADDRESSES_MAX];
};

struct dns_cache;

struct dns_cache *dns_cache_new(void);
void dns_cache_free(struct dns_cache *c); /* NULL is fine */

/* Instead of what was kept of the name. Failures, and nothing that is good for no time, are not
 * kept. `now` is CLOCK_MONOTONIC. */
void dns_cache_store(struct dns_cache *c, struct str name, const struct dns_result *what,
                     int64_t now);
/* Sets the remaining time to live. False: not cached, or expired. */
bool dns_cache_find(struct dns_cache *c, struct str name, int64_t now, struct dns_result *ret);
/* Whether dns_cache_find() would find it. */
bool dns_cache_has(struct dns_cache *c, struct str name, int64_t now);

size_t dns_cache_names(const struct dns_cache *c);
size_t dns_cache_bytes(const struct dns_cache *c);

#endif
