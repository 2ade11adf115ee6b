/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/host_pattern.h"

#include "base/own.h"
#include "harness/tap.h"

TEST(what_is_a_host)
{
    static const struct {
        const char *host;
        bool good;
    } rows[] = {
        { "example.com", true },
        { "localhost", true },
        { "a_b.example.com", true },
        { "xn--bcher-kva.example", true },
        { "*.example.com", true },
        { "**.example.com", true },
        { "*-api.example.com", true },
        { "a*z.example.com", true },
        { "a.*.example.com", true },
        { "**.*.example.com", true },
        { "*.*.*.example.com", true },
        { "", false },
        { "*", false },
        { "**", false },
        { "*.com", false },
        { "**.com", false },
        { "a.*.com", false },
        { "*.*.com", false },
        { "*.*.*.*.example.com", false },
        { "***.example.com", false },
        { "a**.example.com", false },
        { "*a*.example.com", false },
        { "a.**.example.com", false },
        { "a.b*.example.com", false },
        { "example.com.", false },
        { ".example.com", false },
        { "a..b", false },
        { "-a.example.com", false },
        { "a-.example.com", false },
        { "a b.example.com", false },
        { " example.com", false },
        { "{a,b}.example.com", false },
        { "[::1]", false },
        { "127.1", false },
        { "2130706433", false },
        { "0x7f.1", false },
        { "0177.0.0.1", false },
        { "a.b.1x", false },
        { "example.com:443", false },
        { "https://example.com", false },
        { "user@example.com", false },
        { "b\xc3\xbc.example", false },
    };
    struct host_pattern p;

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (!host_pattern_parse(str_from(rows[i].host), &p) != rows[i].good)
            FAIL("'%s' should be %s", rows[i].host, rows[i].good ? "good" : "bad");
}

TEST(matches)
{
    static const struct {
        const char *pattern, *name;
        bool match;
    } rows[] = {
        { "example.com", "example.com", true },
        { "example.com", "a.example.com", false },
        { "*.example.com", "a.example.com", true },
        { "*.example.com", "a.b.example.com", false },
        { "*.example.com", "example.com", false },
        { "**.example.com", "a.example.com", true },
        { "**.example.com", "a.b.example.com", true },
        { "**.example.com", "example.com", false },
        { "**.example.com", "notexample.com", false },
        { "*-api.example.com", "x-api.example.com", true },
        { "*-api.example.com", "api.example.com", false },
        { "*-api.example.com", "a.x-api.example.com", false },
        { "ab*ba.example.com", "aba.example.com", false },
        { "ab*ba.example.com", "abba.example.com", true },
        { "a.*.example.com", "a.b.example.com", true },
        { "a.*.example.com", "c.b.example.com", false },
    };
    struct host_pattern p;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK(!host_pattern_parse(str_from(rows[i].pattern), &p));
        if (host_pattern_match(&p, str_from(rows[i].name)) != rows[i].match)
            FAIL("%s and %s", rows[i].pattern, rows[i].name);
    }
}

TEST(overlaps)
{
    static const struct {
        const char *a, *b;
        bool overlap;
    } rows[] = {
        { "*.example.com", "**.example.com", true },
        { "*.example.com", "*.example.org", false },
        { "*.a.example.com", "*.example.com", false },
        { "**.a.example.com", "**.example.com", true },
        { "**.a.example.com", "a.example.com", false },
        { "*.b.example.com", "a.*.example.com", true },
        { "a*.example.com", "*b.example.com", true },
        { "a*.example.com", "b*.example.com", false },
        { "a*x.example.com", "ab*.example.com", true },
        { "a*x.example.com", "a*y.example.com", false },
        { "**.example.com", "a.b.example.com", true },
    };
    struct host_pattern a, b;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK(!host_pattern_parse(str_from(rows[i].a), &a));
        CHECK(!host_pattern_parse(str_from(rows[i].b), &b));
        if (host_pattern_overlap(&a, &b) != rows[i].overlap ||
            host_pattern_overlap(&b, &a) != rows[i].overlap)
            FAIL("%s and %s", rows[i].a, rows[i].b);
    }
}

TEST(one_covers_another_if_it_matches_all_of_its_names)
{
    static const struct {
        const char *a, *b;
        bool covers;
    } rows[] = {
        { "example.com", "example.com", true },
        { "example.com", "a.example.com", false },
        { "*.example.com", "a.example.com", true },
        { "*.example.com", "*.example.com", true },
        { "*.example.com", "*-api.example.com", true },
        { "*.example.com", "**.example.com", false },
        { "*.example.com", "a.b.example.com", false },
        { "*.example.com", "example.com", false },
        { "**.example.com", "a.b.example.com", true },
        { "**.example.com", "**.example.com", true },
        { "**.example.com", "**.a.example.com", true },
        { "**.example.com", "*.example.com", true },
        { "**.example.com", "example.com", false },
        { "**.a.example.com", "**.example.com", false },
        { "*-api.example.com", "x-api.example.com", true },
        { "*-api.example.com", "x.example.com", false },
        { "*-api.example.com", "*.example.com", false },
        { "a.example.com", "*.example.com", false },
    };
    struct host_pattern a, b;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK(!host_pattern_parse(str_from(rows[i].a), &a));
        CHECK(!host_pattern_parse(str_from(rows[i].b), &b));
        if (host_pattern_covers(&a, &b) != rows[i].covers)
            FAIL("%s, %s", rows[i].a, rows[i].b);
    }
}
