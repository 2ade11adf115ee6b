/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/dns/cache.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/own.h"
#include "harness/tap.h"

static struct dns_cache *c;
static struct dns_result found;

static struct dns_result result(enum dns_outcome outcome, uint32_t ttl, size_t n)
{
    struct dns_result r = { .outcome = outcome, .ttl = ttl, .n = n };

    for (size_t i = 0; i < n; i++)
        r.addresses[i] = (struct address){ .bytes = { 192, 0, 2, (uint8_t)(i + 1) } };
    return r;
}

static void put(const char *name, enum dns_outcome outcome, uint32_t ttl, size_t n, int64_t now)
{
    struct dns_result r = result(outcome, ttl, n);

    dns_cache_store(c, str_from(name), &r, now * NS_PER_S);
}

static bool find(const char *name, int64_t now)
{
    return dns_cache_find(c, str_from(name), now * NS_PER_S, &found);
}

TEST(what_was_put_is_found_until_it_expires)
{
    c = dns_cache_new();
    put("a.example", DNS_LOOKUP_FOUND, 9, 2, 100);
    CHECK(find("a.example", 105));
    CHECK_INT(found.outcome, DNS_LOOKUP_FOUND);
    CHECK_INT(found.ttl, 4);
    CHECK_INT(found.n, 2);
    CHECK_INT(found.addresses[1].bytes[3], 2);
    CHECK(!find("b.example", 105));
    CHECK(!find("a.exampl", 105));
    CHECK(!find("a.example", 109));
    CHECK_INT(dns_cache_names(c), 0);
    CHECK_INT(dns_cache_bytes(c), 0);
    dns_cache_free(c);
}

TEST(times_are_clamped)
{
    c = dns_cache_new();
    put("a.example", DNS_LOOKUP_FOUND, INT32_MAX, 1, 0);
    CHECK(find("a.example", 0));
    CHECK_INT(found.ttl, DNS_CACHE_TTL_MAX);
    put("a.example", DNS_LOOKUP_NXDOMAIN, INT32_MAX, 0, 0);
    CHECK(find("a.example", 0));
    CHECK_INT(found.ttl, DNS_CACHE_NONE_MAX);
    CHECK_INT(found.outcome, DNS_LOOKUP_NXDOMAIN);
    CHECK_INT(found.n, 0);
    put("a.example", DNS_LOOKUP_FOUND, 0, 1, 0);
    CHECK(find("a.example", 0));
    CHECK_INT(found.ttl, DNS_CACHE_TTL_MIN);
    CHECK(!find("a.example", DNS_CACHE_TTL_MIN));
    put("a.example", DNS_LOOKUP_NODATA, 3, 0, 0);
    CHECK(find("a.example", 2));
    CHECK_INT(dns_cache_names(c), 1);
    dns_cache_free(c);
}

TEST(what_is_not_kept_takes_the_place_of_what_was)
{
    static const struct {
        enum dns_outcome outcome;
        uint32_t ttl;
    } list[] = {
        { DNS_LOOKUP_NXDOMAIN, 0 },
        { DNS_LOOKUP_NODATA, 0 },
        { DNS_LOOKUP_SERVFAIL, 60 },
        { DNS_LOOKUP_TIMEOUT, 60 },
    };

    c = dns_cache_new();
    for (size_t i = 0; i < COUNT_OF(list); i++) {
        put("a.example", DNS_LOOKUP_FOUND, 60, 1, 0);
        CHECK(find("a.example", 1));
        put("a.example", list[i].outcome, list[i].ttl, 0, 1);
        CHECK(!find("a.example", 1));
        CHECK_INT(dns_cache_bytes(c), 0);
    }
    dns_cache_free(c);
}

static const char *numbered(unsigned i)
{
    static char name[DNS_NAME_MAX + 1];

    snprintf(name, sizeof name, "n%u.example", i);
    return name;
}

TEST(of_too_many_names_the_least_used_is_forgotten)
{
    c = dns_cache_new();
    for (unsigned i = 0; i < DNS_CACHE_NAMES_MAX; i++)
        put(numbered(i), DNS_LOOKUP_FOUND, 30, 1, 0);
    CHECK_INT(dns_cache_names(c), DNS_CACHE_NAMES_MAX);
    CHECK(find(numbered(0), 1)); /* and so it is not the least used any more */
    put("one.more", DNS_LOOKUP_FOUND, 30, 1, 1);
    CHECK_INT(dns_cache_names(c), DNS_CACHE_NAMES_MAX);
    CHECK(find(numbered(0), 1));
    CHECK(!find(numbered(1), 1));
    CHECK(find(numbered(2), 1));
    CHECK(find("one.more", 1));
    dns_cache_free(c);
}

TEST(bytes_are_bounded)
{
    char name[DNS_NAME_MAX + 1];

    c = dns_cache_new();
    for (unsigned i = 0; i < DNS_CACHE_NAMES_MAX; i++) {
        snprintf(name, sizeof name, "%0240u.example", i);
        put(name, DNS_LOOKUP_FOUND, 30, 32, 0);
        CHECK(dns_cache_bytes(c) <= DNS_CACHE_BYTES_MAX);
        CHECK(find(name, 0));
    }
    CHECK(dns_cache_names(c) > 500 && dns_cache_names(c) < DNS_CACHE_NAMES_MAX);
    dns_cache_free(c);
    dns_cache_free(NULL);
}
