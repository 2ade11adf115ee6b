/* SPDX-License-Identifier: Apache-2.0 */
#include "control/egress/policy_text.h"

#include <stdio.h>

#include "base/own.h"
#include "control/egress/reach.h"
#include "unit/control/fixture.h"
#include "lib/json/reader.h"

static struct profile *profile_of(const char *network)
{
    struct profile *p;
    char text[512];

    snprintf(text, sizeof text,
             "id: profile.x\nversion: 1\ndescription: x\nextension: ext.fake\n"
             "isolation: {level: container}\nttl: {default: 1h, max: 2h}\n%s",
             network);
    CHECK_OK(profile_read(str_from(text), &p, &e), e);
    return p;
}

static const char web[] = "network: {egress: [{host: web.example.com, port: 80}]}\n";

/* An administrator's. */
static const struct policy_bounds everything = { .ceiling = { .reach = EGRESS_REACH_LOCAL,
                                                              .from = "" } };

static bool contains(const struct policy_text *t, const char *part)
{
    return memmem(t->json.p, t->json.n, part, strlen(part));
}

TEST(who_names_no_network_has_what_its_profile_has)
{
    struct profile *none = profile_of(""), *some = profile_of(web);
    struct create_request q = { 0 };

    CHECK(!policy_wanted(none, &q));
    CHECK(policy_wanted(some, &q));
    q.egress.given = true;
    CHECK(policy_wanted(none, &q));
    q.capabilities.network_given = true;
    CHECK(!policy_wanted(some, &q));
    q.capabilities.network = true;
    CHECK(policy_wanted(none, &q));
    profile_unref(none);
    profile_unref(some);
}

TEST(the_request_adds_to_the_profile)
{
    static const char *const hosts[] = { "api.example.com:443" };
    AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
    struct profile *p = profile_of(web);
    struct create_request q = { .egress = { .given = true, .allow = { hosts, 1 } } };
    const struct json_limits limits = { .bytes = 4096, .depth = 16 };
    struct policy_text *t;

    CHECK_OK(
        json_read(
            STR("{\"version\": 1, \"network_policies\": {\"x\": {\"endpoints\": [{\"host\":"
                " \"file.example.com\", \"port\": 1}], \"binaries\": [{\"path\": \"/**\"}]}}}"),
            limits, &a, &q.egress.policy, &e),
        e);
    CHECK_OK(policy_text_make(p, &q, &everything, &t, &e), e);
    CHECK_INT(t->endpoints, 3);
    CHECK(contains(t, "web.example.com") && contains(t, "api.example.com"));
    CHECK(contains(t, "file.example.com"));
    policy_text_unref(t);
    profile_unref(p);
}

TEST(lists_are_open_only_where_something_is_denied)
{
    static const char *const in[] = { "api.example.com" }, *const out[] = { "203.0.113.0/24" };
    struct profile *p = profile_of("");
    struct create_request q = { .egress = { .given = true, .allow_out = { in, 1 } } };
    struct policy_text *t;

    CHECK_OK(policy_text_make(p, &q, &everything, &t, &e), e);
    CHECK(!contains(t, "\"public\""));
    policy_text_unref(t);
    q.egress.deny_out = (struct json_strs){ out, 1 };
    CHECK_OK(policy_text_make(p, &q, &everything, &t, &e), e);
    CHECK(contains(t, "\"public\""));
    policy_text_unref(t);
    profile_unref(p);
}

TEST(a_text_is_yaml_or_json)
{
    struct policy_text *t = NULL, *same = NULL;

    CHECK_OK(policy_text_read(STR("version: 1\nnetwork_policies: {}\n"), &everything, &t, &e), e);
    CHECK_OK(policy_text_read(t->json, &everything, &same, &e), e);
    CHECK(str_eq(t->json, same->json));
    policy_text_unref(t);
    policy_text_unref(same);
    CHECK_INT(policy_text_read(STR(""), &everything, &t, &e), -ERR_INVALID);
    CHECK_INT(policy_text_read(STR("{\"version\": 1, \"x\": 2}"), &everything, &t, &e),
              -ERR_INVALID);
}

static bool is_within(const char *place, const char *approved)
{
    const char *const hosts[] = { place };
    struct create_request q = { .egress = { .given = true, .allow = { hosts, 1 } } };
    struct profile *p = profile_of("");
    struct policy_text *t;
    bool within;

    CHECK_OK(policy_text_make(p, &q, &everything, &t, &e), e);
    within = policy_within(t, str_from(approved));
    policy_text_unref(t);
    profile_unref(p);
    return within;
}

TEST(only_the_spent_copy_is_marked)
{
    struct policy_text *t;

    CHECK_OK(policy_text_read(STR("version: 1\nnetwork_policies: {x: {uses: 2, endpoints: [{host: "
                                  "a.example.com, port: 80}]}}\n"),
                              &everything, &t, &e),
             e);
    CHECK(!contains(t, "\"spent\":true"));
    CHECK(t->spent && contains(t->spent, "\"spent\":true"));
    policy_text_unref(t);
}

TEST(names_and_public_addresses_are_approved_as_themselves)
{
    static const struct {
        const char *place, *approved;
        bool within;
    } rows[] = {
        { "api.example.com:443", "api.example.com:443", true },
        { "api.example.com:443", "api.example.com", true },
        { "api.example.com:443", "example.org api.example.com:443", true },
        { "api.example.com:443", "api.example.com:80", false },
        { "api.example.com:443", "*.example.com", true },
        { "example.com:443", "*.example.com", false },
        { "notexample.com:443", "*.example.com", false },
        { "*.example.com:443", "*.example.com:443", true },
        { "*.example.com:443", "api.example.com", false },
        { "93.184.216.34:443", "93.184.216.34:443", true },
        { "93.184.216.34:443", "93.184.216.34", true },
        { "93.184.216.34:443", "93.184.216.34:80", false },
        { "93.184.216.34:443", "93.184.216.35:443", false },
        { "93.184.216.34:443", "public", true },
        { "[2606:2800::1]:443", "[2606:2800:0::1]:443", true },
        { "[2606:2800::1]:443", "[2606:2800::1]", true },
        { "[2606:2800::1]:443", "[2606:2800::2]:443", false },
        /* lists of older versions: never more than `public` */
        { "10.0.0.1:443", "10.0.0.1:443", false },
        { "127.0.0.1:443", "127.0.0.1", false },
        { "[fd00::1]:443", "[fd00::1]:443", false },
        { "10.0.0.1:443", "public", false },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (is_within(rows[i].place, rows[i].approved) != rows[i].within)
            FAIL("%s is %s within %s", rows[i].place, rows[i].within ? "not" : "",
                 rows[i].approved);
}

static int read_text(const char *text, struct err *why)
{
    struct policy_text *t = NULL;
    int r = policy_text_read(str_from(text), &everything, &t, why);

    CHECK((r >= 0) == (t != NULL));
    policy_text_unref(t);
    return r;
}

TEST(a_policy_in_braces_may_be_yaml)
{
    struct err why;

    CHECK_OK(read_text("{version: 1, network_policies: {a: {endpoints: [{host: web.example.com, "
                       "port: 443}]}}}",
                       &why),
             why);
    CHECK_OK(read_text("{\"version\": 1}", &why), why);
    CHECK_OK(read_text("\n{ # comment\n  version: 1 }\n", &why), why);
    CHECK_INT(read_text("{version: 1,\nwrong: 2}", &why), -(int)ERR_INVALID);
    CHECK(strstr(why.msg, "line 2") != NULL);
}
