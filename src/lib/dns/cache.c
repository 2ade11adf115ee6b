/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/dns/cache.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "lib/crypto/random.h"
#include "lib/dns/wire.h"
#include "lib/loop/list.h"

enum { SLOTS = 1024 };

struct dns_cache_entry {
    struct link use; /* the first of the cache's is the one not asked for the longest */
    struct dns_cache_entry *same_slot;
    int64_t expires;
    size_t bytes, name_n, n;
    enum dns_outcome outcome;
    struct address addresses[]; /* n, and behind them the name */
};

struct dns_cache {
    uint64_t seed;
    size_t n, bytes;
    struct list uses;
    struct dns_cache_entry *slots[SLOTS];
};

struct dns_cache *dns_cache_new(void)
{
    struct dns_cache *c = new0(sizeof *c);
    struct err e;

    if (crypto_random(&c->seed, sizeof c->seed, &e) < 0)
        abort();
    return c;
}

static char *cached_name_room(struct dns_cache_entry *k)
{
    return (char *)(k->addresses + k->n);
}

static struct str cached_name(struct dns_cache_entry *k)
{
    return (struct str){ cached_name_room(k), k->name_n };
}

static struct dns_cache_entry **cache_slot(struct dns_cache *c, struct str name)
{
    return &c->slots[dns_name_hash(c->seed, name) % SLOTS];
}

/* Where the pointer to it is; to NULL, if it is not kept. */
static struct dns_cache_entry **find_cache_entry(struct dns_cache *c, struct str name)
{
    struct dns_cache_entry **at = cache_slot(c, name);

    while (*at && !str_eq(cached_name(*at), name))
        at = &(*at)->same_slot;
    return at;
}

static void forget_cache_entry(struct dns_cache *c, struct dns_cache_entry **at)
{
    struct dns_cache_entry *k = *at;

    *at = k->same_slot;
    link_leave(&k->use);
    c->n--;
    c->bytes -= k->bytes;
    free(k);
}

static void forget_least_used(struct dns_cache *c)
{
    struct link *first = list_first(&c->uses);

    if (!first)
        abort(); /* the caller has counted at least one */
    forget_cache_entry(
        c, find_cache_entry(c, cached_name(container_of(first, struct dns_cache_entry, use))));
}

void dns_cache_free(struct dns_cache *c)
{
    while (c && c->n > 0)
        forget_least_used(c);
    free(c);
}

/* Seconds. */
static uint32_t entry_lifetime(const struct dns_result *what)
{
    uint32_t max = what->outcome == DNS_LOOKUP_FOUND ? DNS_CACHE_TTL_MAX : DNS_CACHE_NONE_MAX;

    if (dns_outcome_failed(what->outcome))
        return 0;
    if (what->outcome == DNS_LOOKUP_FOUND && what->ttl < DNS_CACHE_TTL_MIN)
        return DNS_CACHE_TTL_MIN;
    return what->ttl < max ? what->ttl : max;
}

void dns_cache_store(struct dns_cache *c, struct str name, const struct dns_result *what,
                     int64_t now)
{
    size_t addresses = what->n * sizeof *what->addresses;
    size_t bytes = sizeof(struct dns_cache_entry) + addresses + name.n;
    struct dns_cache_entry **old = find_cache_entry(c, name), **slot, *k;
    uint32_t life = entry_lifetime(what);

    if (*old)
        forget_cache_entry(c, old);
    if (life == 0)
        return;
    while (c->n == DNS_CACHE_NAMES_MAX || (c->n > 0 && c->bytes + bytes > DNS_CACHE_BYTES_MAX))
        forget_least_used(c);
    k = new0(bytes);
    *k = (struct dns_cache_entry){ .expires = now + (int64_t)life * NS_PER_S,
                                   .bytes = bytes,
                                   .name_n = name.n,
                                   .n = what->n,
                                   .outcome = what->outcome };
    memcpy(k->addresses, what->addresses, addresses);
    memcpy(cached_name_room(k), name.p, name.n);
    slot = cache_slot(c, name);
    k->same_slot = *slot;
    *slot = k;
    list_append(&c->uses, &k->use);
    c->n++;
    c->bytes += bytes;
}

bool dns_cache_find(struct dns_cache *c, struct str name, int64_t now, struct dns_result *ret)
{
    struct dns_cache_entry **at = find_cache_entry(c, name), *k = *at;

    if (!k)
        return false;
    if (k->expires <= now) {
        forget_cache_entry(c, at);
        return false;
    }
    link_leave(&k->use);
    list_append(&c->uses, &k->use);
    ret->outcome = k->outcome;
    ret->ttl = (uint32_t)((k->expires - now) / NS_PER_S);
    ret->n = k->n;
    memcpy(ret->addresses, k->addresses, k->n * sizeof *k->addresses);
    return true;
}

bool dns_cache_has(struct dns_cache *c, struct str name, int64_t now)
{
    const struct dns_cache_entry *k = *find_cache_entry(c, name);

    return k && k->expires > now;
}

size_t dns_cache_names(const struct dns_cache *c)
{
    return c->n;
}

size_t dns_cache_bytes(const struct dns_cache *c)
{
    return c->bytes;
}
