/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/egress_sources.h"

#include "base/own.h"
#include "harness/tap.h"
#include "unit/domain/policy/policies.h"

#define STRS(...)                                                                                  \
    ((struct json_strs){ (const char *const[]){ __VA_ARGS__ },                                     \
                         sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *) })

static const char *text_of(const struct egress_policy *p, const char *destination)
{
    return connect_text(snapshot_of(p), destination, NULL);
}

TEST(allow_items)
{
    struct egress_policy p;
    struct err e;

    CHECK_OK(egress_from_allow(STRS("packages.example.org", "*.Example.com:80,443",
                                    "192.0.2.7:5432", "[2001:db8::1]:25", "[2001:db8::2]"),
                               policies_arena(), &p, &e),
             e);
    CHECK_STR(str_from(text_of(&p, "packages.example.org:443")), "allowed");
    CHECK_STR(str_from(text_of(&p, "packages.example.org:80")), "denied port_not_allowed");
    CHECK_STR(str_from(text_of(&p, "a.example.com:80")), "allowed");
    CHECK_STR(str_from(text_of(&p, "a.example.com:443")), "allowed");
    CHECK_STR(str_from(text_of(&p, "192.0.2.7:5432")), "allowed");
    CHECK_STR(str_from(text_of(&p, "[2001:db8::1]:25")), "allowed");
    CHECK_STR(str_from(text_of(&p, "[2001:db8::2]:443")), "allowed");
    CHECK_OK(egress_from_allow((struct json_strs){ 0 }, policies_arena(), &p, &e), e);
    CHECK_STR(str_from(text_of(&p, "packages.example.org:443")), "denied policy_denied");
}

TEST(allow_items_say_where_a_name_is)
{
    const struct egress_endpoint *eps;
    struct egress_policy p;
    struct err e;

    CHECK_OK(egress_from_allow(STRS("mirror.corp:443,80=10.0.0.5,[fd00::5]", "cache.corp=10.0.0.6",
                                    "localhost:8080", "host.sandboxer.internal:8081"),
                               policies_arena(), &p, &e),
             e);
    eps = ((const struct egress_entry *)p.network_policies.p)->endpoints.p;
    CHECK_INT(eps[0].allowed_ips.n, 2);
    CHECK_STR(str_from(eps[0].allowed_ips.p[1]), "fd00::5");
    CHECK_STR(str_from(eps[2].host), "127.0.0.1");
    CHECK(!eps[2].name);
    CHECK_STR(str_from(eps[3].host), "127.0.0.1");
    CHECK_STR(str_from(eps[3].name), "host.sandboxer.internal");
    CHECK_STR(str_from(text_of(&p, "mirror.corp:80")), "allowed");
    CHECK_STR(str_from(text_of(&p, "cache.corp:443")), "allowed");
    CHECK_STR(str_from(text_of(&p, "10.0.0.5:443")), "denied policy_denied");
    CHECK_STR(str_from(text_of(&p, "localhost:8080")), "allowed");
    CHECK_STR(str_from(text_of(&p, "127.0.0.1:8081")), "allowed");
}

TEST(allow_items_that_are_none)
{
    static const char *const rows[][2] = {
        { "", "'' is not HOST" },
        { ":443", "':443' is not HOST" },
        { "a.example.com:", "is not HOST" },
        { "a.example.com:x", "ports must be numbers" },
        { "a.example.com:0", "ports must be numbers" },
        { "a.example.com:0443", "ports must be numbers" },
        { "a.example.com:65536", "ports must be numbers" },
        { "a.example.com:+1", "ports must be numbers" },
        { "a.example.com:1,", "ports must be numbers" },
        { "a.example.com:1:2", "ports must be numbers" },
        { "a.example.com:6443", "'a.example.com:6443': this[0].ports: port 6443 belongs" },
        { "*", "'*': this[0].host: must have two labels without wildcards" },
        { "*.com", "must have two labels without wildcards" },
        { "https://a.example.com", "ports must be numbers" },
        { "2001:db8::1", "ports must be numbers" },
        { "[192.0.2.1]:80", "is not HOST" },
        { "[a.example.com]:80", "is not HOST" },
        { "[2001:db8::1]80", "is not HOST" },
        { "169.254.169.254:80", "is a metadata service" },
        { "a.example.com=169.254.169.254", "must not include" },
        { "a.example.com=100.100.100.200", "is a metadata service" },
        { "a.example.com=", "is not HOST" },
        { "a.example.com=b.example.com", "must be an address" },
        { "10.0.0.5=10.0.0.6", "is not a public address" },
        { "localhost:80=10.0.0.6", "is a loopback name" },
        { "a\nb", "contains a character" },
    };
    struct egress_policy p;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = { 0 };

        if (egress_from_allow(STRS("ok.example.com", rows[i][0]), policies_arena(), &p, &e) >= 0)
            FAIL("'%s' should be refused", rows[i][0]);
        if (!strstr(e.msg, rows[i][1]))
            FAIL("'%s': %s", rows[i][0], e.msg);
        CHECK(!strchr(e.msg, '\n'));
    }
}

static const char *dial_text(const struct egress_policy *p, const char *destination,
                             const char *address)
{
    struct egress_connect_query ask = ask_for(destination, NULL);
    struct egress_match m;
    struct egress_reason why;
    struct address a;
    enum egress_verdict v = egress_connect(snapshot_of(p), &ask, &m, &why);

    CHECK(address_parse(str_from(address), &a));
    if (v == EGRESS_ALLOWED)
        v = egress_addresses(&m, &a, 1, &why);
    return verdict_text(v, &why);
}

TEST(lists_that_close_everything_but)
{
    struct egress_policy p;
    struct err e;

    CHECK_OK(egress_from_lists(STRS("api.example.com", "*.example.org", "8.8.8.8", "1.1.1.0/24"),
                               STRS("0.0.0.0/0"), true, policies_arena(), &p, &e),
             e);
    CHECK_STR(str_from(dial_text(&p, "api.example.com:443", "93.184.216.34")), "allowed");
    CHECK_STR(str_from(dial_text(&p, "a.b.example.org:80", "93.184.216.34")), "allowed");
    CHECK_STR(str_from(dial_text(&p, "api.example.com:22", "93.184.216.34")),
              "denied port_not_allowed");
    CHECK_STR(str_from(dial_text(&p, "x.example.com:443", "93.184.216.34")),
              "denied policy_denied");
    CHECK_STR(str_from(dial_text(&p, "8.8.8.8:53", "8.8.8.8")), "allowed");
    CHECK_STR(str_from(dial_text(&p, "1.1.1.1:443", "1.1.1.1")), "allowed");
    CHECK_STR(str_from(dial_text(&p, "8.8.4.4:53", "8.8.4.4")), "denied policy_denied");
}

/* A policy that is written so is refused, because it says `public`. */
TEST(lists_that_close_everything_in_parts)
{
    struct egress_policy p;
    struct err e;

    CHECK_OK(egress_from_lists((struct json_strs){ 0 }, STRS("0.0.0.0/1", "128.0.0.0/1", "::/0"),
                               true, policies_arena(), &p, &e),
             e);
    CHECK_INT(p.unlisted.access, EGRESS_UNLISTED_DENY);
    CHECK_OK(egress_from_lists((struct json_strs){ 0 }, STRS("0.0.0.0/1", "::/0"), true,
                               policies_arena(), &p, &e),
             e);
    CHECK_INT(p.unlisted.access, EGRESS_UNLISTED_PUBLIC);
}

TEST(lists_that_close_a_little)
{
    struct egress_policy p;
    struct err e;

    CHECK_OK(egress_from_lists(STRS("8.8.8.8"), STRS("8.8.8.0/24"), true, policies_arena(), &p, &e),
             e);
    CHECK_STR(str_from(dial_text(&p, "8.8.8.8:53", "8.8.8.8")), "allowed");
    CHECK_STR(str_from(dial_text(&p, "8.8.8.9:53", "8.8.8.9")), "denied address_not_allowed");
    CHECK_STR(str_from(dial_text(&p, "x.example.com:22", "93.184.216.34")), "allowed");
    CHECK_STR(str_from(dial_text(&p, "x.example.com:22", "10.0.0.1")), "denied ssrf_denied");
    CHECK_OK(
        egress_from_lists(STRS("0.0.0.0/0"), STRS("0.0.0.0/0"), true, policies_arena(), &p, &e), e);
    CHECK_STR(str_from(dial_text(&p, "8.8.8.9:53", "8.8.8.9")), "allowed");
}

TEST(no_lists)
{
    struct json_strs none = { 0 };
    struct egress_policy p;
    struct err e;

    CHECK_OK(egress_from_lists(none, none, false, policies_arena(), &p, &e), e);
    CHECK_STR(str_from(dial_text(&p, "8.8.8.8:53", "8.8.8.8")), "denied policy_denied");
    CHECK_OK(egress_from_lists(none, none, true, policies_arena(), &p, &e), e);
    CHECK_STR(str_from(dial_text(&p, "8.8.8.8:53", "8.8.8.8")), "allowed");
}

TEST(lists_that_are_none)
{
    struct json_strs none = { 0 };
    struct egress_policy p;
    struct err e;

    CHECK_INT(egress_from_lists(none, STRS("example.com"), true, policies_arena(), &p, &e),
              -ERR_INVALID);
    CHECK_STR(str_from(e.msg), "denyOut accepts only addresses and prefixes, not 'example.com'");
    CHECK_INT(egress_from_lists(STRS("8.8.8.8", "*.com"), none, true, policies_arena(), &p, &e),
              -ERR_INVALID);
    CHECK(str_starts(str_from(e.msg), STR("'*.com': ")));
    CHECK_INT(egress_from_lists(STRS("127.0.0.0/8"), none, true, policies_arena(), &p, &e),
              -ERR_INVALID);
}

TEST(several_sources_become_one_policy)
{
    struct egress_policy file, allow, lists, all;
    const struct egress_policy *parts[] = { &file, &allow, &lists };
    const struct egress_entry *entries;
    const struct egress_endpoint *eps;
    const uint16_t *ports;
    struct err e;

    CHECK_OK(policy_try("version: 1\nnetwork_policies:\n  allow:\n    binaries: [{path: /bin/x}]\n"
                        "    endpoints: [{host: a.example.com, port: 443}]\n",
                        &file, &e),
             e);
    CHECK_OK(egress_from_allow(STRS("b.example.com"), policies_arena(), &allow, &e), e);
    CHECK_OK(egress_from_lists((struct json_strs){ 0 }, STRS("8.8.8.0/24"), true, policies_arena(),
                               &lists, &e),
             e);
    eps = ((const struct egress_entry *)file.network_policies.p)->endpoints.p;
    ports = eps->ports;
    CHECK_OK(egress_join(parts, COUNT_OF(parts), policies_arena(), &all, &e), e);
    CHECK(eps->ports == ports); /* the parts are as they were */
    entries = all.network_policies.p;
    CHECK_INT(all.network_policies.n, 2);
    CHECK_STR(str_from(entries[0].key), "allow");
    CHECK_STR(str_from(entries[1].key), "allow (2)");
    CHECK_STR(str_from(text_of(&all, "b.example.com:443")), "allowed");
    CHECK_STR(str_from(text_of(&all, "a.example.com:443")), "denied identity_unknown");
    CHECK_STR(str_from(dial_text(&all, "8.8.8.8:53", "8.8.8.8")), "denied address_not_allowed");
    CHECK_STR(str_from(dial_text(&all, "c.example.com:53", "9.9.9.9")), "allowed");
}

TEST(sources_that_disagree_are_refused)
{
    struct egress_policy file, allow, all;
    const struct egress_policy *parts[] = { &file, &allow };
    struct err e;

    CHECK_OK(policy_try("version: 1\nnetwork_policies:\n  web:\n    binaries: [{path: /**}]\n"
                        "    endpoints: [{host: a.example.com, port: 443, tls: skip}]\n",
                        &file, &e),
             e);
    CHECK_OK(egress_from_allow(STRS("*.example.com"), policies_arena(), &allow, &e), e);
    CHECK_INT(egress_join(parts, 2, policies_arena(), &all, &e), -ERR_INVALID);
    CHECK_STR(str_from(e.msg), "network_policies.allow.endpoints[0]: can apply to the same "
                               "connection as network_policies.web.endpoints[0] "
                               "(a.example.com), but has a different tls");
}
