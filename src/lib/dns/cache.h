/* What DNS servers said of names, kept as long as it is good. Facts only: nothing is decided here,
 * and whoever takes an answer judges it as if it were new. Private to dns.
 *
 * Bounded by names and by bytes; what was not asked for the longest makes room. A resolver has one
 * of its own, so that answers of other servers never mix. */
#ifndef DNS_CACHE_H
#define DNS_CACHE_H

#include "dns/resolver.h"

enum {
    DNS_CACHE_NAMES_MAX = 4096,
    DNS_CACHE_BYTES_MAX = 1 << 20,
    DNS_CACHE_TTL_MAX = 30,  /* seconds, whatever servers say … */
    DNS_CACHE_NONE_MAX = 10, /* … and of names that have no address */
};

/* What is known of a name: of a lookup, which asks for both families. */
struct dns_result {
    enum dns_outcome outcome;
    uint32_t ttl; /* seconds that it is good for; 0: for this once */
    size_t n;
    struct address addresses[2 * DNS_ADDRESSES_MAX];
};

struct dns_cache;

struct dns_cache *dns_cache_new(void);
void dns_cache_free(struct dns_cache *c); /* NULL is fine */

/* Instead of what was kept of the name. Failures, and what is good for no time, are not kept. `now`
 * is CLOCK_MONOTONIC. */
void dns_cache_put(struct dns_cache *c, struct str name, const struct dns_result *what,
                   int64_t now);
/* With the time that is left; false: not kept, or not any more. */
bool dns_cache_find(struct dns_cache *c, struct str name, int64_t now, struct dns_result *ret);
/* Whether dns_cache_find() would find it. */
bool dns_cache_has(struct dns_cache *c, struct str name, int64_t now);

size_t dns_cache_names(const struct dns_cache *c);
size_t dns_cache_bytes(const struct dns_cache *c);

#endif
