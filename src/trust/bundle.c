/* SPDX-License-Identifier: Apache-2.0 */
#include "trust/bundle.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "lib/crypto/hash.h"
#include "lib/yaml/file.h"
#include "lib/yaml/reader.h"

enum { DEPTH_MAX = 8, MEMORY_MAX = 256 << 20, ARG_BYTES = 65536 };

const char *const trust_mode_names[] = { "enforce", "audit", "off", NULL };
static const char *const approvals[] = { "none", "master", NULL };
static const char *const accesses[] = { "ro", "rw", NULL };

#define AT(member) JSON_AT(struct trust_rate, member)
static const struct json_field rate_fields[] = {
    { "calls", JSON_KIND_UINT, AT(calls), .min = 1, .max = 1000000, .required = true,
      .doc = "Number of calls of the tool that a peer may make …" },
    { "per", JSON_KIND_DURATION, AT(per_ns), .min = NS_PER_S, .max = 86400 * NS_PER_S,
      .preset = "1m", .doc = "… in this time." },
    { "burst", JSON_KIND_UINT, AT(burst), .min = 1, .max = 1000000,
      .doc = "Number of calls at once; default: all of them." },
};
#undef AT

#define AT(member) JSON_AT(struct trust_arg, member)
static const struct json_field arg_fields[] = {
    { "required", JSON_KIND_BOOL, AT(required), .preset = "false",
      .doc = "Whether the argument is required." },
    { "max_bytes", JSON_KIND_UINT, AT(max_bytes), .max = BUNDLE_TEXT_MAX, .preset = "65536",
      .doc = "Maximum length of the string." },
    { "pattern", JSON_KIND_STR, AT(pattern_text), .min = 1, .max = PATTERN_BYTES_MAX,
      .doc = "Regular expression that the whole string, or each string of a list, must match." },
};
#undef AT

#define TERMS(type)                                                                                \
    { "tier",                                                                                      \
      JSON_KIND_UINT,                                                                              \
      JSON_AT(type, terms.tier),                                                                   \
      .seen = offsetof(type, terms.tier_given),                                                    \
      .max = TRUST_TIER_MAX,                                                                       \
      .doc = "Risk level, 0 to 4; tier 4 needs a master's approval." },                            \
        { "role",                                                                                  \
          JSON_KIND_ENUM,                                                                          \
          JSON_AT(type, terms.role),                                                               \
          .seen = offsetof(type, terms.role_given),                                                \
          .names = role_names,                                                                     \
          .doc =                                                                                   \
              "The lowest role that may; by default apprentice below tier 2, else journeyman." },  \
    {                                                                                              \
        "approval", JSON_KIND_ENUM, JSON_AT(type, terms.approval),                                 \
            .seen = offsetof(type, terms.approval_given), .names = approvals,                      \
            .doc = "Whether each call needs a master's approval; default: in tier 4."              \
    }

#define AT(member) JSON_AT(struct trust_when, member)
static const struct json_field when_fields[] = {
    { "network", JSON_KIND_BOOL, AT(network), .seen = offsetof(struct trust_when, network_given),
      .doc = "Only if the sandbox has network access, or only if not." },
    { "filesystem", JSON_KIND_ENUM, AT(filesystem), .names = accesses,
      .seen = offsetof(struct trust_when, filesystem_given),
      .doc = "Only if the workspace is declared ro or rw." },
    { "clients", JSON_KIND_STRS, AT(clients), .max = 64, .doc = "Only for these kinds of client." },
    TERMS(struct trust_when),
};
#undef AT

#define AT(member) JSON_AT(struct trust_rule, member)
static const struct json_field rule_fields[] = {
    { "note", JSON_KIND_STR, AT(note), .max = 256, .doc = "Description for people." },
    TERMS(struct trust_rule),
    { "effect", JSON_KIND_ENUM, AT(effect), .names = trust_effect_names, .required = true,
      .doc = "Effect of a call." },
    { "creates", JSON_KIND_BOOL, AT(creates), .preset = "false",
      .doc =
          "The tool creates a sandbox: `capabilities` are checked, and the peer's limits apply." },
    { "rate", JSON_KIND_OBJECT, AT(rate), JSON_FIELDS(rate_fields),
      .doc = "How often a peer may call it." },
    { "args", JSON_KIND_NAMED, AT(args), JSON_FIELDS(arg_fields),
      .item_size = sizeof(struct trust_arg), .max = BUNDLE_ARGS_MAX,
      .doc = "Constraints on its arguments." },
    { "when", JSON_KIND_NAMED, AT(when), JSON_FIELDS(when_fields),
      .item_size = sizeof(struct trust_when), .max = BUNDLE_WHEN_MAX,
      .doc = "Different terms for some calls; the first match applies." },
};
#undef AT

#define AT(member) JSON_AT(struct trust_limits, member)
static const struct json_field limit_fields[] = {
    { "sandboxes_per_hour", JSON_KIND_INT, AT(sandboxes_per_hour), .max = 1000000,
      .seen = offsetof(struct trust_limits, per_hour_given), .doc = "Sandboxes created per hour." },
    { "minutes_per_day", JSON_KIND_INT, AT(minutes_per_day), .max = 10000000,
      .seen = offsetof(struct trust_limits, per_day_given),
      .doc = "Total minutes of its sandboxes per day." },
    { "concurrent", JSON_KIND_INT, AT(concurrent), .max = 1000000,
      .seen = offsetof(struct trust_limits, concurrent_given),
      .doc = "Sandboxes at the same time." },
};
#undef AT

/* The tables of nested objects hold offsets from the whole bundle or its array. */
static const struct json_field role_limit_fields[] = {
    { "apprentice", JSON_KIND_OBJECT, .offset = 0, .size = sizeof(struct trust_limits),
      JSON_FIELDS(limit_fields) },
    { "journeyman", JSON_KIND_OBJECT, .offset = sizeof(struct trust_limits),
      .size = sizeof(struct trust_limits), JSON_FIELDS(limit_fields) },
    { "master", JSON_KIND_OBJECT, .offset = 2 * sizeof(struct trust_limits),
      .size = sizeof(struct trust_limits), JSON_FIELDS(limit_fields) },
};

#define AT(member) JSON_AT(struct trust_bundle, member)
static const struct json_field approval_fields[] = {
    { "expiry", JSON_KIND_DURATION,
      JSON_AT(__typeof__(((struct trust_bundle *)0)->approvals), expiry_ns), .min = NS_PER_S,
      .max = 30 * 86400 * NS_PER_S, .preset = "1h", .doc = "How long a call waits for a master." },
    { "pending_per_peer", JSON_KIND_UINT,
      JSON_AT(__typeof__(((struct trust_bundle *)0)->approvals), pending_per_peer), .min = 1,
      .max = 1000, .preset = "16", .doc = "Maximum number of waiting calls per peer." },
};

const struct json_field trust_bundle_fields[] = {
    { "version", JSON_KIND_UINT, AT(format), .min = 1, .max = 1, .required = true,
      .doc = "Version of the format: 1." },
    { "mode", JSON_KIND_ENUM, AT(mode), .names = trust_mode_names, .preset = "enforce",
      .doc = "Enforce the policy, only record violations, or switch it off." },
    { "approvals", JSON_KIND_OBJECT, AT(approvals), JSON_FIELDS(approval_fields),
      .doc = "Calls that wait for a master's approval." },
    { "limits", JSON_KIND_OBJECT, AT(limits), JSON_FIELDS(role_limit_fields),
      .doc = "Limits of a peer, by role." },
    { "tools", JSON_KIND_NAMED, AT(tools), JSON_FIELDS(rule_fields), .required = true,
      .item_size = sizeof(struct trust_rule), .max = BUNDLE_RULES_MAX,
      .doc = "One rule per tool; tools without a rule are denied." },
};
#undef AT
const size_t trust_bundle_field_count = COUNT_OF(trust_bundle_fields);

/* --- checking --- */

struct bundle_check {
    const struct json *document;
    struct trust_bundle *bundle;
    struct err *e;
};

static int fail_at_tool(const struct bundle_check *c, const char *tool, const char *field,
                        const char *why)
{
    char path[256];

    snprintf(path, sizeof path, "tools.%s.%s", tool, field);
    return yaml_file_fail(c->document, path, c->e, "%s", why);
}

static bool is_tool_name(const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("_-./", name[i]))
            return false;
    return n > 0 && n < BUNDLE_NAME_MAX;
}

static int check_rule_terms(const struct bundle_check *c, const char *tool, const char *prefix,
                            struct trust_terms *t)
{
    char field[128];

    if (!t->role_given)
        t->role = t->tier < 2 ? ROLE_APPRENTICE : ROLE_JOURNEYMAN;
    if (!t->approval_given)
        t->approval = t->tier == TRUST_TIER_MAX ? GATE_MASTER : GATE_NONE;
    if (t->tier < TRUST_TIER_MAX || t->approval == GATE_MASTER)
        return 0;
    snprintf(field, sizeof field, "%sapproval", prefix);
    return fail_at_tool(c, tool, field, "tier 4 requires approval by a master; use a lower tier");
}

/* Checks a `when`; omitted terms are those of the rule. */
static int check_when_terms(const struct bundle_check *c, struct trust_rule *rule,
                            struct trust_when *w)
{
    const struct trust_terms *base = &rule->terms;
    struct trust_terms *t = &w->terms;
    char prefix[128];

    snprintf(prefix, sizeof prefix, "when.%.64s.", w->name);
    if (!is_tool_name(w->name))
        return fail_at_tool(c, rule->tool, "when",
                            "names must consist of letters, digits, '_', '-', '.' and '/'");
    if (!t->tier_given) {
        t->tier = base->tier;
        if (!t->approval_given) {
            t->approval_given = true;
            t->approval = base->approval;
        }
    }
    if (!t->role_given && base->role_given) {
        t->role_given = true;
        t->role = base->role;
    }
    return check_rule_terms(c, rule->tool, prefix, t);
}

static bool is_looser(const struct trust_terms *t, const struct trust_terms *than)
{
    return t->tier < than->tier || t->role < than->role || t->approval < than->approval;
}

/* The client states its own kind, so terms for a kind must not be looser than those that apply
 * without it. */
static int check_client_terms(const struct bundle_check *c, const struct trust_rule *rule,
                              size_t at)
{
    const struct trust_when *w = rule->when.p;
    bool looser = w[at].clients.n && is_looser(&w[at].terms, &rule->terms);
    char field[128];

    for (size_t i = at + 1; w[at].clients.n && i < rule->when.n; i++)
        looser |= is_looser(&w[at].terms, &w[i].terms);
    if (!looser)
        return 0;
    snprintf(field, sizeof field, "when.%.64s.clients", w[at].name);
    return fail_at_tool(c, rule->tool, field,
                        "clients choose their own kind: terms for a kind must not be less strict "
                        "than the rule's and the later ones");
}

static int compile_arg_pattern(const struct bundle_check *c, const struct trust_rule *rule,
                               struct trust_arg *a)
{
    char field[160];
    struct err why;

    if (!a->pattern_text)
        return 0;
    if (pattern_compile(str_from(a->pattern_text), &c->bundle->arena, &a->pattern, &why) >= 0)
        return 0;
    snprintf(field, sizeof field, "args.%.100s.pattern", a->name);
    return fail_at_tool(c, rule->tool, field, why.msg);
}

static int check_bundle_rule(const struct bundle_check *c, struct trust_rule *rule)
{
    struct trust_when *w = rule->when.p;
    struct trust_arg *a = rule->args.p;
    int r;

    if (!is_tool_name(rule->tool))
        return yaml_file_fail(c->document, "tools", c->e,
                              "tool names must have 1 to %d letters, digits, '_', '-', '.' or '/'",
                              BUNDLE_NAME_MAX - 1);
    if (!rule->terms.tier_given)
        return fail_at_tool(c, rule->tool, "tier", "is missing");
    if (!rule->rate.burst)
        rule->rate.burst = rule->rate.calls;
    if (rule->rate.burst > rule->rate.calls)
        return fail_at_tool(c, rule->tool, "rate.burst", "must not exceed `calls`");
    r = check_rule_terms(c, rule->tool, "", &rule->terms);
    for (size_t i = 0; r >= 0 && i < rule->when.n; i++)
        r = check_when_terms(c, rule, &w[i]);
    for (size_t i = 0; i < rule->when.n; i++)
        c->bundle->asks_filesystem |= w[i].filesystem_given;
    for (size_t i = 0; r >= 0 && i < rule->when.n; i++)
        r = check_client_terms(c, rule, i);
    for (size_t i = 0; r >= 0 && i < rule->args.n; i++)
        r = compile_arg_pattern(c, rule, &a[i]);
    return r;
}

const struct trust_rule *trust_bundle_find(const struct trust_bundle *b, struct str tool)
{
    struct map_entry *v = map_find(&b->rules, tool);

    return v ? container_of(v, struct trust_rule, entry) : NULL;
}

/* --- reading --- */

static int read_bundle(struct str yaml, struct trust_bundle *b, struct err *e)
{
    const struct json_limits limits = { .bytes = BUNDLE_BYTES_MAX,
                                        .depth = DEPTH_MAX,
                                        .places = true };
    struct bundle_check c = { .bundle = b, .e = e };
    struct trust_rule *rules;
    int r = yaml_read(yaml, limits, &b->arena, &c.document, e);

    if (r < 0)
        return r;
    if (c.document->type == JSON_NULL)
        return err_set(e, ERR_INVALID, "is empty; a bundle has at least 'version: 1' and 'tools'");
    r = json_bind(c.document, trust_bundle_fields, trust_bundle_field_count, b, &b->arena, e);
    rules = b->tools.p;
    for (size_t i = 0; r >= 0 && i < b->tools.n; i++)
        r = check_bundle_rule(&c, &rules[i]);
    for (size_t i = 0; r >= 0 && i < b->tools.n; i++) {
        rules[i].entry.id = rules[i].tool;
        map_add(&b->rules, &rules[i].entry);
    }
    return r;
}

int trust_bundle_read(struct str yaml, struct trust_bundle **ret, struct err *e)
{
    struct trust_bundle *b = new0(sizeof *b);
    unsigned char hash[CRYPTO_SHA256_SIZE];
    int r;

    b->approvals.expiry_ns = 3600 * NS_PER_S; /* defaults without the section */
    b->approvals.pending_per_peer = 16;
    arena_init(&b->arena, MEMORY_MAX);
    crypto_sha256(yaml, hash);
    for (size_t i = 0; i < (TRUST_VERSION_TEXT - 1) / 2; i++)
        snprintf(b->version + 2 * i, 3, "%02x", hash[i]);
    r = read_bundle(yaml, b, e);
    if (r < 0)
        trust_bundle_free(b);
    else
        *ret = b;
    return r;
}

void trust_bundle_free(struct trust_bundle *b)
{
    if (!b)
        return;
    map_done(&b->rules);
    arena_done(&b->arena);
    free(b);
}
