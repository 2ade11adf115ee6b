#include "control/policy_text.h"

#include <stdio.h>

#include "fixture.h"
#include "json/reader.h"

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
    CHECK_OK(policy_text_make(p, &q, &t, &e), e);
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

    CHECK_OK(policy_text_make(p, &q, &t, &e), e);
    CHECK(!contains(t, "\"public\""));
    policy_text_unref(t);
    q.egress.deny_out = (struct json_strs){ out, 1 };
    CHECK_OK(policy_text_make(p, &q, &t, &e), e);
    CHECK(contains(t, "\"public\""));
    policy_text_unref(t);
    profile_unref(p);
}

TEST(a_text_is_yaml_or_json)
{
    struct policy_text *t = NULL, *same = NULL;

    CHECK_OK(policy_text_read(STR("version: 1\nnetwork_policies: {}\n"), &t, &e), e);
    CHECK_OK(policy_text_read(t->json, &same, &e), e);
    CHECK(str_eq(t->json, same->json));
    policy_text_unref(t);
    policy_text_unref(same);
    CHECK_INT(policy_text_read(STR(""), &t, &e), -ERR_INVALID);
    CHECK_INT(policy_text_read(STR("{\"version\": 1, \"x\": 2}"), &t, &e), -ERR_INVALID);
}
