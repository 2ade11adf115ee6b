/* SPDX-License-Identifier: Apache-2.0 */
#include "trust/decide.h"

#include <stdio.h>

#include "base/clock.h"
#include "harness/tap.h"
#include "lib/json/reader.h"

static struct arena arena = ARENA_INIT(16 << 20);
static struct err e;

static struct trust_bundle *read_text(const char *yaml)
{
    struct trust_bundle *b = NULL;

    CHECK_OK(trust_bundle_read(str_from(yaml), &b, &e), e);
    return b;
}

static const struct json *tree(const char *text)
{
    const struct json *v;

    CHECK_OK(json_read(str_from(text), (struct json_limits){ .bytes = 1 << 20, .depth = 16 },
                       &arena, &v, &e),
             e);
    return v;
}

/* Verdicts of the shipped bundle, per role in order: A allows, D denies, H holds for a master. */
static const struct tier_row {
    const char *tool, *args;
    bool network; /* of the sandbox it is about, or that is asked for */
    const char *roles;
    unsigned tier;
} tier_rows[] = {
    { "sandbox_list", "{}", false, "AAA", 0 },
    { "sandbox_list", "{}", true, "AAA", 0 },
    { "sandbox_read", "{\"sandbox_id\":\"sbx_a\",\"path\":\"/x\"}", false, "AAA", 1 },
    { "sandbox_read", "{\"sandbox_id\":\"sbx_a\",\"path\":\"/x\"}", true, "AAA", 1 },
    { "sandbox_create", "{}", false, "AAA", 2 },
    { "sandbox_create", "{\"capabilities\":{\"network\":false}}", false, "AAA", 2 },
    { "sandbox_create", "{\"capabilities\":{\"network\":true}}", true, "DHH", 3 },
    { "sandbox_create", "{\"capabilities\":{\"network\":[\"a.b\"]}}", true, "DHH", 3 },
    { "sandbox_create", "{\"capabilities\":{\"filesystem\":\"ro\"}}", false, "AAA", 2 },
    { "sandbox_create", "{\"capabilities\":{\"filesystem\":\"rw\"}}", false, "AAA", 2 },
    { "sandbox_create", "{\"capabilities\":{\"network\":true,\"filesystem\":\"ro\"}}", true, "DHH",
      3 },
    { "sandbox_create", "{\"capabilities\":{\"network\":true,\"filesystem\":\"rw\"}}", true, "DHH",
      3 },
    { "sandbox_write", "{\"sandbox_id\":\"sbx_a\",\"path\":\"/x\"}", false, "AAA", 1 },
    { "sandbox_write", "{\"sandbox_id\":\"sbx_a\",\"path\":\"/x\"}", true, "AAA", 1 },
    { "sandbox_exec", "{\"sandbox_id\":\"sbx_a\",\"command\":\"ls\"}", false, "DAA", 2 },
    { "sandbox_exec", "{\"sandbox_id\":\"sbx_a\",\"command\":\"ls\"}", true, "DHH", 4 },
    { "sandbox_install", "{\"sandbox_id\":\"sbx_a\"}", false, "DAA", 2 },
    { "sandbox_install", "{\"sandbox_id\":\"sbx_a\"}", true, "DHH", 4 },
    { "sandbox_destroy", "{\"sandbox_id\":\"sbx_a\"}", false, "AAA", 0 },
    { "sandbox_destroy", "{\"sandbox_id\":\"sbx_a\"}", true, "AAA", 0 },
};

static void check_row(const struct tier_row *row, enum role role, enum workspace_access filesystem,
                      const struct trust_bundle *b)
{
    static const enum verdict_kind kinds[] = {
        ['A'] = VERDICT_ALLOW, ['D'] = VERDICT_DENY, ['H'] = VERDICT_REQUIRE_APPROVAL
    };
    enum verdict_kind want = kinds[(unsigned char)row->roles[role]];
    struct trust_capabilities sandbox = { .network = row->network, .filesystem = filesystem };
    struct trust_case c = { .bundle = b,
                            .tool = str_from(row->tool),
                            .args = tree(row->args),
                            .sandbox = strcmp(row->tool, "sandbox_create") != 0 ? &sandbox : NULL,
                            .role = role,
                            .now_ns = NS_PER_S };
    struct trust_decision d;

    trust_decide(&c, &d);
    if (b->mode == TRUST_OFF)
        want = VERDICT_ALLOW;
    if (d.verdict.would != want ||
        d.verdict.kind != (b->mode == TRUST_ENFORCE ? want : VERDICT_ALLOW))
        FAIL("%s as %s, network %d, %s: %s, would %s: %s", row->tool, role_names[role],
             row->network, trust_mode_names[b->mode], verdict_kind_names[d.verdict.kind],
             verdict_kind_names[d.verdict.would], d.verdict.reason);
    if (b->mode != TRUST_OFF)
        CHECK_INT(d.verdict.tier, row->tier);
    CHECK(d.verdict.rule[0] && d.verdict.reason[0]);
    CHECK_STR(str_from(d.verdict.version), b->version);
}

TEST(each_tool_role_capability_and_mode)
{
    struct trust_bundle *b = read_text(trust_builtin_yaml);

    for (unsigned mode = 0; mode < TRUST_MODE_COUNT_; mode++) {
        b->mode = (enum trust_mode)mode;
        for (unsigned role = 0; role < ROLE_COUNT_; role++)
            for (size_t i = 0; i < COUNT_OF(tier_rows); i++)
                for (unsigned access = ASK_ACCESS_PROFILE; access <= ASK_ACCESS_RW; access++)
                    check_row(&tier_rows[i], (enum role)role, (enum workspace_access)access, b);
    }
    trust_bundle_free(b);
}

/* The terms of what may be written differ where a bundle says so. */
TEST(the_file_system_chooses_the_terms)
{
    static const struct {
        const char *tool, *args;
        enum workspace_access filesystem; /* of the sandbox it is about */
        unsigned tier;
        enum verdict_kind kind;
    } rows[] = {
        { "make", "{}", 0, 2, VERDICT_ALLOW },
        { "make", "{\"capabilities\":{\"filesystem\":\"ro\"}}", 0, 1, VERDICT_ALLOW },
        { "make", "{\"capabilities\":{\"filesystem\":\"rw\"}}", 0, 4, VERDICT_REQUIRE_APPROVAL },
        { "use", "{}", ASK_ACCESS_PROFILE, 2, VERDICT_ALLOW },
        { "use", "{}", ASK_ACCESS_NONE, 1, VERDICT_ALLOW },
        { "use", "{}", ASK_ACCESS_RO, 1, VERDICT_ALLOW },
        { "use", "{}", ASK_ACCESS_RW, 3, VERDICT_DENY },
    };
    struct trust_bundle *b = read_text(
        "version: 1\ntools:\n"
        "  make: {tier: 2, effect: write, creates: true, when: {a: {filesystem: ro, tier: 1}, "
        "b: {filesystem: rw, tier: 4}}}\n"
        "  use: {tier: 2, effect: write, when: {a: {filesystem: ro, tier: 1}, "
        "b: {filesystem: rw, tier: 3, role: master}}}\n");

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct trust_capabilities sandbox = { .filesystem = rows[i].filesystem };
        struct trust_case c = { .bundle = b,
                                .tool = str_from(rows[i].tool),
                                .args = tree(rows[i].args),
                                .sandbox = rows[i].tool[0] == 'u' ? &sandbox : NULL,
                                .role = ROLE_JOURNEYMAN,
                                .now_ns = NS_PER_S };
        struct trust_decision d;

        trust_decide(&c, &d);
        if (d.verdict.kind != rows[i].kind || d.verdict.tier != rows[i].tier)
            FAIL("row %zu: %s, tier %u: %s", i, verdict_kind_names[d.verdict.kind],
                 (unsigned)d.verdict.tier, d.verdict.reason);
    }
    trust_bundle_free(b);
}

TEST(codes_are_those_of_the_interface)
{
    CHECK_INT(verdict_code(VERDICT_ALLOW), 0);
    CHECK_INT(verdict_code(VERDICT_DENY), -32000);
    CHECK_INT(verdict_code(VERDICT_RATE_LIMIT), -32001);
    CHECK_INT(verdict_code(VERDICT_REQUIRE_APPROVAL), -32002);
}

static struct trust_decision decide(const struct trust_bundle *b, const char *tool,
                                    const char *args)
{
    struct trust_case c = { .bundle = b,
                            .tool = str_from(tool),
                            .args = args ? tree(args) : NULL,
                            .role = ROLE_MASTER,
                            .now_ns = 1 };
    struct trust_decision d;

    trust_decide(&c, &d);
    return d;
}

TEST(without_a_bundle_the_failure_mode_counts)
{
    struct trust_case c = { .tool = STR("sandbox_list"), .role = ROLE_MASTER };
    struct trust_decision d;

    c.failure = FAILURE_CLOSED;
    trust_decide(&c, &d);
    CHECK_INT(d.verdict.kind, VERDICT_DENY);
    /* the caller has loaded the built-in one then; without it, nothing is allowed */
    c.failure = FAILURE_STATIC;
    trust_decide(&c, &d);
    CHECK_INT(d.verdict.kind, VERDICT_DENY);
    c.failure = FAILURE_OPEN;
    trust_decide(&c, &d);
    CHECK_INT(d.verdict.kind, VERDICT_ALLOW);
    CHECK_STR(str_from(d.verdict.rule), "failure");
}

TEST(bad_calls_are_refused_by_name)
{
    static const struct {
        const char *tool, *args, *rule, *said;
    } rows[] = {
        { "sandbox_format_disk", "{}", "tools", "sandbox_format_disk" },
        { "x\ny", "{}", "tools", "no rule" },
        { "sandbox_read", "[]", "tools.sandbox_read.args", "not an object" },
        { "sandbox_read", NULL, "tools.sandbox_read.args.sandbox_id", "missing" },
        { "sandbox_read", "{\"sandbox_id\":null}", "tools.sandbox_read.args.sandbox_id",
          "missing" },
        { "sandbox_read", "{\"sandbox_id\":7}", "tools.sandbox_read.args.sandbox_id",
          "must be a text" },
        { "sandbox_read", "{\"sandbox_id\":\"../x\"}", "tools.sandbox_read.args.sandbox_id",
          "does not match the allowed pattern" },
        { "sandbox_read", "{\"sandbox_id\":\"sbx_a\",\"path\":\"a\\nb\"}",
          "tools.sandbox_read.args.path", "does not match the allowed pattern" },
        { "sandbox_read", "{\"sandbox_id\":\"sbx_a\",\"path\":\"a\\u0000b\"}",
          "tools.sandbox_read.args.path", "does not match the allowed pattern" },
        { "sandbox_create", "{\"capabilities\":{\"memory_mb\":4097}}",
          "tools.sandbox_create.capabilities", "memory_mb" },
        { "sandbox_create", "{\"capabilities\":{\"cpu_quota\":5}}",
          "tools.sandbox_create.capabilities", "cpu_quota" },
        { "sandbox_create", "{\"capabilities\":{\"duration_s\":2000}}",
          "tools.sandbox_create.capabilities", "duration_s" },
        { "sandbox_create", "{\"capabilities\":{\"network\":\"all\"}}",
          "tools.sandbox_create.capabilities", "network" },
    };
    struct trust_bundle *b = read_text(trust_builtin_yaml);

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct trust_decision d = decide(b, rows[i].tool, rows[i].args);

        CHECK_INT(d.verdict.kind, VERDICT_DENY);
        CHECK_STR(str_from(d.verdict.rule), rows[i].rule);
        if (!strstr(d.verdict.reason, rows[i].said) || strchr(d.verdict.reason, '\n'))
            FAIL("%s: '%s' does not say '%s'", rows[i].tool, d.verdict.reason, rows[i].said);
    }
    trust_bundle_free(b);
}

TEST(arguments_may_be_lists_and_have_a_length)
{
    struct trust_bundle *b =
        read_text("version: 1\ntools:\n  t:\n    tier: 0\n    effect: none\n    args:\n"
                  "      argv: { pattern: '[a-z]+', max_bytes: 4 }\n      n: { required: true }\n");

    CHECK_INT(decide(b, "t", "{\"n\":1}").verdict.kind, VERDICT_ALLOW);
    CHECK_INT(decide(b, "t", "{\"n\":1,\"argv\":[\"a\",\"b\"]}").verdict.kind, VERDICT_ALLOW);
    CHECK_INT(decide(b, "t", "{\"n\":1,\"argv\":[\"a\",\"B\"]}").verdict.kind, VERDICT_DENY);
    CHECK_INT(decide(b, "t", "{\"n\":1,\"argv\":[\"a\",[\"b\"]]}").verdict.kind, VERDICT_DENY);
    CHECK_INT(decide(b, "t", "{\"n\":1,\"argv\":\"abcde\"}").verdict.kind, VERDICT_DENY);
    CHECK_INT(decide(b, "t", "{\"n\":1,\"argv\":{}}").verdict.kind, VERDICT_DENY);
    CHECK_INT(decide(b, "t", "{}").verdict.kind, VERDICT_DENY);
    trust_bundle_free(b);
}

/* Six calls in a minute, two of them at once. */
TEST(rates_refill_with_time)
{
    struct trust_bundle *b = read_text("version: 1\ntools:\n  t: { tier: 0, effect: none, "
                                       "rate: { calls: 6, per: 1m, burst: 2 } }\n");
    struct trust_case c = { .bundle = b, .tool = STR("t"), .now_ns = 1000 * NS_PER_S };
    struct trust_decision d;
    int allowed = 0;

    for (int i = 0; i < 4; i++) {
        trust_decide(&c, &d);
        allowed += d.verdict.kind == VERDICT_ALLOW;
        c.rate_ns = d.rate_ns;
    }
    CHECK_INT(allowed, 2);
    CHECK_INT(d.verdict.kind, VERDICT_RATE_LIMIT);
    CHECK_INT(d.verdict.retry_ns, 10 * NS_PER_S);
    CHECK_STR(str_from(d.verdict.rule), "tools.t.rate");
    c.now_ns += d.verdict.retry_ns;
    trust_decide(&c, &d);
    CHECK_INT(d.verdict.kind, VERDICT_ALLOW);
    for (allowed = 0; c.now_ns < 4600 * NS_PER_S; c.now_ns += NS_PER_S) {
        c.rate_ns = d.rate_ns;
        trust_decide(&c, &d);
        allowed += d.verdict.kind == VERDICT_ALLOW;
    }
    CHECK(allowed >= 358 && allowed <= 360); /* of an hour, less what began it */
    trust_bundle_free(b);
}

/* A token that may call twice in a minute made two others, which may call as often. */
TEST(tokens_share_the_rate_of_the_token_that_made_them)
{
    struct trust_bundle *b = read_text("version: 1\ntools:\n  t: { tier: 0, effect: none }\n");
    const struct token_terms terms = { .calls = 2 };
    int64_t own[2] = { 0 }, makers = 0;
    int allowed = 0;
    struct trust_decision d;

    for (int i = 0; i < 6; i++) {
        struct trust_case c = { .bundle = b,
                                .tool = STR("t"),
                                .now_ns = 1000 * NS_PER_S,
                                .rate_ns = own[i % 2],
                                .terms = &terms,
                                .above = { { .terms = &terms, .rate_ns = makers } },
                                .n_above = 1 };

        trust_decide(&c, &d);
        allowed += d.verdict.kind == VERDICT_ALLOW;
        own[i % 2] = d.rate_ns;
        makers = d.above_rate_ns[0];
    }
    CHECK_INT(allowed, 2);
    CHECK_STR(str_from(d.verdict.rule), "tools.t.rate");
    CHECK(strstr(d.verdict.reason, "the token that made this one"));
    CHECK_INT(own[0], 1030 * NS_PER_S); /* calls that are refused count for none */
    CHECK_INT(makers, 1060 * NS_PER_S);
    trust_bundle_free(b);
}

TEST(limits_of_a_role_count_for_what_creates)
{
    struct trust_bundle *b = read_text("version: 1\nlimits:\n  journeyman: { sandboxes_per_hour: "
                                       "5, minutes_per_day: 10, concurrent: 2 }\n"
                                       "tools:\n  make: { tier: 2, effect: write, creates: true }\n"
                                       "  use: { tier: 2, effect: write }\n");
    static const struct {
        struct trust_usage usage;
        const char *rule;
    } rows[] = {
        { { 4, 599 * NS_PER_S, 1 }, "tools.make.tier" },
        { { 4, 0, 2 }, "limits.journeyman.concurrent" },
        { { 5, 0, 0 }, "limits.journeyman.sandboxes_per_hour" },
        { { 0, 600 * NS_PER_S, 0 }, "limits.journeyman.minutes_per_day" },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct trust_case c = { .bundle = b,
                                .tool = STR("make"),
                                .role = ROLE_JOURNEYMAN,
                                .now_ns = 1,
                                .usage = rows[i].usage };
        struct trust_decision d;

        trust_decide(&c, &d);
        CHECK_STR(str_from(d.verdict.rule), rows[i].rule);
        CHECK_INT(d.verdict.kind, i ? VERDICT_RATE_LIMIT : VERDICT_ALLOW);
        c.tool = STR("use");
        trust_decide(&c, &d);
        CHECK_INT(d.verdict.kind, VERDICT_ALLOW);
        c.tool = STR("make");
        c.role = ROLE_MASTER;
        trust_decide(&c, &d);
        CHECK_INT(d.verdict.kind, VERDICT_ALLOW);
    }
    trust_bundle_free(b);
}

TEST(a_grant_stands_in_for_an_approval)
{
    struct trust_bundle *b = read_text(trust_builtin_yaml);
    struct trust_capabilities sandbox = { .network = true };
    struct trust_case c = { .bundle = b,
                            .tool = STR("sandbox_exec"),
                            .args = tree("{\"sandbox_id\":\"sbx_a\"}"),
                            .sandbox = &sandbox,
                            .role = ROLE_JOURNEYMAN,
                            .now_ns = 1,
                            .granted = true };
    struct trust_decision d;

    trust_decide(&c, &d);
    CHECK(d.verdict.kind == VERDICT_ALLOW && d.used_grant);
    CHECK_STR(str_from(d.verdict.rule), "tools.sandbox_exec.when.network.approval");
    c.role = ROLE_APPRENTICE; /* a grant replaces no other check */
    trust_decide(&c, &d);
    CHECK(d.verdict.kind == VERDICT_DENY && !d.used_grant);
    trust_bundle_free(b);
}

/* --- tokens --- */

static struct trust_decision decide_as(const struct trust_bundle *b, const char *tool,
                                       const struct token_terms *terms,
                                       const struct trust_capabilities *declares, bool approved,
                                       struct trust_usage usage)
{
    struct trust_case c = { .bundle = b,
                            .tool = str_from(tool),
                            .args = tree("{\"sandbox_id\":\"sbx_a\"}"),
                            .role = ROLE_JOURNEYMAN,
                            .now_ns = NS_PER_S,
                            .terms = terms,
                            .declares = declares,
                            .network_approved = approved,
                            .usage = usage };
    struct trust_decision d;

    trust_decide(&c, &d);
    return d;
}

TEST(a_tokens_limits_hold_instead_of_its_roles)
{
    struct trust_bundle *b = read_text(trust_builtin_yaml);
    struct token_terms few = TOKEN_TERMS_NONE, many = TOKEN_TERMS_NONE;
    const struct trust_usage used = { .made = 100, .alive = 20 };
    struct trust_decision d;

    few.concurrent = 2;
    many.concurrent = many.per_hour = 1000;
    CHECK_INT(decide_as(b, "sandbox_create", NULL, NULL, false, used).verdict.kind,
              VERDICT_RATE_LIMIT);
    CHECK_INT(decide_as(b, "sandbox_create", &many, NULL, false, used).verdict.kind, VERDICT_ALLOW);
    d = decide_as(b, "sandbox_create", &few, NULL, false, (struct trust_usage){ .alive = 2 });
    CHECK_INT(d.verdict.kind, VERDICT_RATE_LIMIT);
    CHECK_STR(str_from(d.verdict.rule), "token.limits.concurrent");
    trust_bundle_free(b);
}

/* Each limit, of each token that made the caller's. */
TEST(limits_of_a_token_hold_for_those_made_with_it)
{
    static const struct trust_usage uses[] = { { .alive = 2 },
                                               { .made = 2 },
                                               { .lived_ns = 120 * NS_PER_S } };
    struct trust_bundle *b = read_text(trust_builtin_yaml);
    struct token_terms none = TOKEN_TERMS_NONE, few = TOKEN_TERMS_NONE;
    struct trust_case c = { .bundle = b,
                            .tool = STR("sandbox_create"),
                            .args = tree("{}"),
                            .role = ROLE_JOURNEYMAN,
                            .now_ns = NS_PER_S,
                            .terms = &none };
    struct trust_decision d;

    few.concurrent = few.per_hour = few.per_day = 2;
    for (size_t at = 0; at < 3; at++)
        for (size_t i = 0; i < COUNT_OF(uses); i++) {
            c.n_above = 3;
            for (size_t k = 0; k < c.n_above; k++)
                c.above[k] = (struct trust_ancestor){ .terms = &none, .role = ROLE_JOURNEYMAN };
            c.above[at].terms = &few;
            c.above[at].usage = uses[i];
            trust_decide(&c, &d);
            CHECK_INT(d.verdict.kind, VERDICT_RATE_LIMIT);
            CHECK(strstr(d.verdict.reason, "the token that made this one"));
            c.above[at].usage = (struct trust_usage){ 0 };
            trust_decide(&c, &d);
            CHECK_INT(d.verdict.kind, VERDICT_ALLOW);
        }
    trust_bundle_free(b);
}

TEST(an_approved_network_needs_no_master_and_other_gates_still_do)
{
    struct trust_bundle *b = read_text(trust_builtin_yaml);
    const struct trust_capabilities net = { .network = true };
    const struct trust_usage none = { 0 };

    for (int approved = 0; approved < 2; approved++) {
        enum verdict_kind want = approved ? VERDICT_ALLOW : VERDICT_REQUIRE_APPROVAL;

        CHECK_INT(decide_as(b, "sandbox_create", NULL, &net, approved, none).verdict.kind, want);
        CHECK_INT(decide_as(b, "sandbox_network", NULL, &net, approved, none).verdict.kind, want);
        CHECK_INT(decide_as(b, "sandbox_exec", NULL, &net, approved, none).verdict.kind, want);
    }
    CHECK_INT(decide_as(b, "image_manage", NULL, &net, true, none).verdict.kind, VERDICT_DENY);
    trust_bundle_free(b);
}

TEST(what_is_beyond_a_tokens_capabilities_waits)
{
    static const struct trust_capabilities rows[] = {
        { .memory_mb = 1025 },
        { .duration_s = 61 },
        { .cpu_quota = 1.5 },
        { .filesystem = ASK_ACCESS_RW },
    };
    const struct trust_capabilities within = {
        .memory_mb = 1024, .duration_s = 60, .cpu_quota = 1.0, .filesystem = ASK_ACCESS_RO
    };
    struct trust_bundle *b = read_text(trust_builtin_yaml);
    struct token_terms t = TOKEN_TERMS_NONE;
    const struct trust_usage none = { 0 };

    t.memory_mb = 1024;
    t.duration_s = 60;
    t.cpu_milli = 1000;
    t.filesystem = TOKEN_FILES_RO;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK_INT(decide_as(b, "sandbox_create", &t, &rows[i], false, none).verdict.kind,
                  VERDICT_REQUIRE_APPROVAL);
        CHECK_INT(decide_as(b, "sandbox_create", NULL, &rows[i], false, none).verdict.kind,
                  VERDICT_ALLOW);
    }
    CHECK_INT(decide_as(b, "sandbox_create", &t, &within, false, none).verdict.kind, VERDICT_ALLOW);
    trust_bundle_free(b);
}
