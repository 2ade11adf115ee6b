/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "harness/tap.h"
#include "domain/policy/egress.h"
#include "unit/domain/policy/policies.h"

#define CURL "/usr/bin/curl"

static struct egress_snapshot *compiled(const char *yaml)
{
    struct egress_policy p;
    struct err e = { 0 };
    struct egress_snapshot *s = NULL;

    if (policy_try(yaml, &p, &e) >= 0)
        s = egress_compile(&p, 1, &e);
    if (!s)
        FAIL("%s", e.msg);
    return s;
}

static const char timed[] = "version: 1\n"
                            "network_policies:\n"
                            "  soon:\n"
                            "    until: 2030-01-01T00:00:10Z\n"
                            "    endpoints: [{host: a.example.com, port: 443}]\n"
                            "  later:\n"
                            "    until: 2030-01-01T00:00:20Z\n"
                            "    endpoints: [{host: b.example.com, port: 443}]\n";
#define TEN    (INT64_C(1893456010) * 1000000000)
#define TWENTY (INT64_C(1893456020) * 1000000000)

TEST(an_entry_ends_when_its_time_has_come)
{
    struct egress_snapshot *s = compiled(timed);
    struct egress_connect_query ask = ask_for("a.example.com:443", CURL);
    struct egress_match a, b;
    struct egress_reason why;
    struct egress_ports ports;

    CHECK(egress_snapshot_expire(s, TEN - 1) == TEN);
    CHECK_STR(str_from(connect_text(s, "a.example.com:443", CURL)), "allowed");
    CHECK_INT(egress_connect(s, &ask, &a, &why), EGRESS_ALLOWED);
    ask = ask_for("b.example.com:443", CURL);
    CHECK_INT(egress_connect(s, &ask, &b, &why), EGRESS_ALLOWED);
    CHECK(!egress_match_ended(&a));

    CHECK(egress_snapshot_expire(s, TEN) == TWENTY);
    CHECK_STR(str_from(connect_text(s, "a.example.com:443", CURL)), "denied policy_expired");
    CHECK_STR(str_from(connect_text(s, "b.example.com:443", CURL)), "allowed");
    CHECK(egress_match_ended(&a) && !egress_match_ended(&b));
    CHECK_INT(egress_name(s, STR("a.example.com"), &ports, &why), EGRESS_DENIED);
    CHECK_INT(egress_name(s, STR("b.example.com"), &ports, &why), EGRESS_ALLOWED);

    CHECK(egress_snapshot_expire(s, TWENTY + 5) == INT64_MAX);
    CHECK_STR(str_from(connect_text(s, "b.example.com:443", CURL)), "denied policy_expired");
    CHECK(egress_snapshot_expire(s, TEN - 1) ==
          INT64_MAX); /* a clock set back brings nothing back */
    CHECK_STR(str_from(connect_text(s, "a.example.com:443", CURL)), "denied policy_expired");
    egress_snapshot_unref(s);
}

TEST(a_connection_uses_one_and_keeps_it)
{
    struct egress_snapshot *s = compiled("version: 1\n"
                                         "network_policies:\n"
                                         "  twice:\n"
                                         "    uses: 2\n"
                                         "    endpoints: [{host: a.example.com, port: 443}]\n");
    struct egress_connect_query ask = ask_for("a.example.com:443", CURL);
    struct egress_match m;
    struct egress_reason why;

    CHECK_INT(egress_connect(s, &ask, &m, &why), EGRESS_ALLOWED);
    CHECK(m.limit && egress_limit_use(m.limit) && egress_limit_use(m.limit));
    CHECK(!egress_limit_use(m.limit));
    CHECK(!egress_match_ended(&m));
    CHECK_STR(str_from(connect_text(s, "a.example.com:443", CURL)), "denied uses_spent");
    egress_limit_refuse(m.limit, &why);
    CHECK_STR(str_from(why.text), "'twice' allowed it 2 times, and all uses are spent.");
    CHECK(egress_limit_use(NULL));
    egress_snapshot_unref(s);
}

TEST(spent_is_spent)
{
    const struct egress_snapshot *s =
        policy_compiled("version: 1\n"
                        "network_policies:\n"
                        "  twice:\n"
                        "    uses: 2\n"
                        "    spent: true\n"
                        "    endpoints: [{host: a.example.com, port: 443}]\n");

    CHECK_STR(str_from(connect_text(s, "a.example.com:443", CURL)), "denied uses_spent");
}

TEST(what_lasts_is_used_first)
{
    struct egress_snapshot *s = compiled("version: 1\n"
                                         "network_policies:\n"
                                         "  a-once:\n"
                                         "    uses: 1\n"
                                         "    endpoints: [{host: a.example.com, port: 443}]\n"
                                         "  b-always:\n"
                                         "    endpoints: [{host: a.example.com, port: 443}]\n");
    struct egress_connect_query ask = ask_for("a.example.com:443", CURL);
    struct egress_match m;
    struct egress_reason why;

    CHECK_INT(egress_connect(s, &ask, &m, &why), EGRESS_ALLOWED);
    CHECK_STR(m.policy, "b-always");
    CHECK(!m.limit);
    egress_snapshot_unref(s);
}

TEST(an_inspected_connection_uses_by_the_request)
{
    struct egress_snapshot *s = compiled(
        "version: 1\n"
        "network_policies:\n"
        "  once:\n"
        "    uses: 1\n"
        "    endpoints:\n"
        "    - host: a.example.com\n"
        "      port: 80\n"
        "      protocol: rest\n"
        "      rules: [{allow: {method: POST, path: /pay}}]\n"
        "  reads:\n"
        "    endpoints: [{host: a.example.com, port: 80, protocol: rest, access: read-only}]\n");
    struct egress_connect_query ask = ask_for("a.example.com:80", CURL);
    const struct egress_action get = { EGRESS_ACTION_HTTP,
                                       { { .method = STR("GET"), .path = STR("/pay") } } };
    const struct egress_action post = { EGRESS_ACTION_HTTP,
                                        { { .method = STR("POST"), .path = STR("/pay") } } };
    struct egress_match m;
    struct egress_reason why;

    CHECK_INT(egress_connect(s, &ask, &m, &why), EGRESS_ALLOWED);
    CHECK(!m.limit);
    CHECK_INT(egress_judge(&m, &get, &why), EGRESS_ALLOWED);
    CHECK(!why.limit);
    CHECK_INT(egress_judge(&m, &post, &why), EGRESS_ALLOWED);
    CHECK(egress_limit_use(why.limit));
    CHECK_INT(egress_judge(&m, &post, &why), EGRESS_DENIED);
    CHECK_STR(str_from(why.code), "uses_spent");
    CHECK_INT(egress_judge(&m, &get, &why), EGRESS_ALLOWED);
    egress_snapshot_unref(s);
}

TEST(mistakes)
{
    static const char *const rows[][2] = {
        { "until: tomorrow", "until: must be a time" },
        { "until: 2026-02-30T00:00:00Z", "until: must be a time" },
        { "until:", "until: expected" },
        { "uses: 0", "uses: must be" },
        { "uses: -1", "uses: must be" },
        { "uses: 1000001", "uses: must be" },
        { "uses:", "uses: expected" },
        { "uses: often", "uses: expected" },
        { "spent: true", "spent: is only allowed with uses" },
    };
    struct egress_policy p;
    char text[256];
    struct err e;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(text, sizeof text,
                 "version: 1\nnetwork_policies:\n  x:\n    %s\n    endpoints: [{host: a.b, port: "
                 "1}]\n",
                 rows[i][0]);
        if (policy_try(text, &p, &e) >= 0 || !strstr(e.msg, rows[i][1]))
            FAIL("%s: %s", rows[i][0], e.msg);
    }
}
