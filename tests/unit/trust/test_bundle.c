/* SPDX-License-Identifier: Apache-2.0 */
#include "trust/bundle.h"

#include <stdio.h>

#include "base/clock.h"
#include "harness/tap.h"

static struct err e;

static void done(struct trust_bundle **b)
{
    trust_bundle_free(*b);
}

static struct trust_bundle *read_text(const char *yaml)
{
    struct trust_bundle *b = NULL;

    CHECK_OK(trust_bundle_read(str_from(yaml), &b, &e), e);
    return b;
}

TEST(the_shipped_one_covers_every_tool)
{
    static const char *const tools[] = {
        "sandbox_create", "sandbox_exec",     "sandbox_read",    "sandbox_write",
        "sandbox_list",   "sandbox_install",  "sandbox_destroy", "sandbox_inspect",
        "sandbox_run",    "sandbox_connect",  "sandbox_network", "sandbox_extend",
        "sandbox_expire", "sandbox_snapshot", "image_list",      "image_edit",
        "image_build",    "image_manage",     "sandbox_undo",    "sandbox_diff",
        "sandbox_sync",
    };
    AUTO(done) struct trust_bundle *b = read_text(trust_builtin_yaml);

    CHECK_INT(strlen(trust_builtin_yaml), trust_builtin_size);
    CHECK_INT(b->mode, TRUST_ENFORCE);
    CHECK_INT(b->tools.n, COUNT_OF(tools));
    for (size_t i = 0; i < COUNT_OF(tools); i++) {
        const struct trust_rule *r = trust_bundle_find(b, str_from(tools[i]));

        if (!r)
            FAIL("there is no rule for %s", tools[i]);
        CHECK(r->note && (r->rate.calls || r->terms.role == ROLE_MASTER));
        CHECK(r->creates ==
              (strcmp(tools[i], "sandbox_create") == 0 || strcmp(tools[i], "sandbox_run") == 0 ||
               strcmp(tools[i], "image_build") == 0));
    }
    CHECK(!trust_bundle_find(b, STR("sandbox_")));
    CHECK(!trust_bundle_find(b, STR("")));
}

TEST(what_is_left_out_follows_from_the_tier)
{
    AUTO(done)
    struct trust_bundle *b = read_text("version: 1\n"
                                       "tools:\n"
                                       "  a: { tier: 1, effect: read }\n"
                                       "  b: { tier: 2, effect: read }\n"
                                       "  c: { tier: 4, effect: read }\n"
                                       "  d:\n"
                                       "    tier: 2\n"
                                       "    role: master\n"
                                       "    effect: read\n"
                                       "    rate: { calls: 5 }\n"
                                       "    when:\n"
                                       "      net: { network: true, tier: 4 }\n"
                                       "      cli: { clients: [x], approval: master }\n");
    const struct trust_rule *rules = b->tools.p;
    const struct trust_when *when = rules[3].when.p;

    CHECK_INT(rules[0].terms.role, ROLE_APPRENTICE);
    CHECK_INT(rules[1].terms.role, ROLE_JOURNEYMAN);
    CHECK_INT(rules[1].terms.approval, GATE_NONE);
    CHECK_INT(rules[2].terms.approval, GATE_MASTER);
    CHECK_INT(when[0].terms.role, ROLE_MASTER);
    CHECK_INT(when[0].terms.approval, GATE_MASTER);
    CHECK_INT(when[1].terms.tier, 2);
    CHECK_INT(when[1].terms.approval, GATE_MASTER);
    CHECK_INT(rules[3].rate.burst, 5);
    CHECK_INT(rules[3].rate.per_ns, 60 * NS_PER_S);
    CHECK_INT(b->approvals.expiry_ns, 3600 * NS_PER_S);
    CHECK(!b->limits[ROLE_MASTER].per_hour_given);
}

TEST(mistakes_are_named_with_their_line)
{
    static const struct {
        const char *yaml, *said;
    } rows[] = {
        { "", "is empty" },
        { "version: 2\ntools: {}\n", "line 1: version" },
        { "tools: {}\n", "version" },
        { "version: 1\n", "tools" },
        { "version: 1\ntols: {}\n", "line 2: tols" },
        { "version: 1\nmode: maybe\ntools: {}\n", "line 2: mode" },
        { "version: 1\ntools:\n  a: { effect: read }\n", "line 3: tools.a.tier" },
        { "version: 1\ntools:\n  a: { tier: 5, effect: read }\n", "line 3: tools.a.tier" },
        { "version: 1\ntools:\n  a: { tier: 1 }\n", "effect" },
        { "version: 1\ntools:\n  a: { tier: 1, effect: boom }\n", "tools.a.effect" },
        { "version: 1\ntools:\n  a: { tier: 1, effect: read, color: red }\n", "tools.a.color" },
        { "version: 1\ntools:\n  a:\n    tier: 4\n    effect: read\n    approval: none\n",
          "line 6: tools.a.approval" },
        { "version: 1\ntools:\n  'a b': { tier: 1, effect: read }\n", "tool names" },
        { "version: 1\ntools:\n  a: { tier: 1, effect: read }\n  a: { tier: 1, effect: read }\n",
          "line 4" },
        { "version: 1\ntools:\n  a:\n    tier: 1\n    effect: read\n    args:\n      x:\n"
          "        pattern: '['\n",
          "line 8: tools.a.args.x.pattern: byte 2" },
        { "version: 1\ntools:\n  a: { tier: 1, effect: read, rate: { per: 1m } }\n",
          "tools.a.rate.calls" },
        { "version: 1\ntools:\n  a: { tier: 1, effect: read, rate: { calls: 1, burst: 2 } }\n",
          "tools.a.rate.burst" },
        { "version: 1\ntools:\n  a: { tier: 1, effect: read, when: { x: { tier: 9 } } }\n",
          "tools.a.when.x.tier" },
        { "version: 1\ntools:\n  a:\n    tier: 3\n    effect: read\n    when:\n"
          "      x: { clients: [good], tier: 2 }\n",
          "line 7: tools.a.when.x.clients" },
        { "version: 1\ntools:\n  a:\n    tier: 2\n    effect: read\n    when:\n"
          "      x: { clients: [good], tier: 2 }\n      y: { network: true, tier: 4 }\n",
          "line 7: tools.a.when.x.clients" },
        { "version: 1\ntools: {}\nlimits: { wizard: { concurrent: 1 } }\n", "limits.wizard" },
        { "version: 1\ntools: {}\nlimits: { master: { concurrent: -1 } }\n",
          "limits.master.concurrent" },
        { "version: 1\ntools: [\n", "line" },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct trust_bundle *b = NULL;

        if (trust_bundle_read(str_from(rows[i].yaml), &b, &e) >= 0)
            FAIL("should be refused: %s", rows[i].yaml);
        if (!strstr(e.msg, rows[i].said))
            FAIL("'%s' does not say '%s'", e.msg, rows[i].said);
        CHECK(!b);
    }
}

TEST(the_version_is_that_of_the_text)
{
    AUTO(done) struct trust_bundle *a = read_text("version: 1\ntools: {}\n");
    AUTO(done) struct trust_bundle *b = read_text("version: 1\ntools: {}\n");
    AUTO(done) struct trust_bundle *c = read_text("version: 1\ntools: {}\n#\n");

    CHECK_INT(strlen(a->version), TRUST_VERSION_TEXT - 1);
    CHECK_STR(str_from(a->version), b->version);
    CHECK(strcmp(a->version, c->version) != 0);
}

TEST(finds_each_of_many)
{
    struct buf text AUTO(buf_done) = BUF_INIT(BUNDLE_BYTES_MAX);
    char name[32];

    CHECK(buf_addf(&text, "version: 1\ntools:\n") >= 0);
    for (int i = 0; i < 5000; i++)
        CHECK(buf_addf(&text, "  tool_%d: { tier: %d, effect: read }\n", i, i % 5) >= 0);
    AUTO(done) struct trust_bundle *b = read_text(text.p);
    for (int i = 0; i < 5000; i++) {
        const struct trust_rule *r;

        snprintf(name, sizeof name, "tool_%d", i);
        r = trust_bundle_find(b, str_from(name));
        CHECK(r && strcmp(r->tool, name) == 0);
        CHECK_INT(r->terms.tier, i % 5);
    }
    CHECK(!trust_bundle_find(b, STR("tool_5000")));
}
