/* SPDX-License-Identifier: Apache-2.0 */
#include "trust/explain.h"

#include "base/clock.h"
#include "base/own.h"

static const char *const gate_names[] = { "none", "master", NULL };

#define TERMS(type, terms)                                                                         \
    { "tier", JSON_KIND_UINT, JSON_AT(type, terms.tier), .required = true },                       \
        { "role", JSON_KIND_ENUM, JSON_AT(type, terms.role), .required = true,                     \
          .names = role_names },                                                                   \
    {                                                                                              \
        "approval", JSON_KIND_ENUM, JSON_AT(type, terms.approval), .required = true,               \
                                                                   .names = gate_names             \
    }

/* --- the policy --- */

static const struct json_field when_fields[] = {
    { "name", JSON_KIND_TEXT, JSON_AT(struct trust_when, name), .required = true },
    TERMS(struct trust_when, terms),
};
static const struct json_shape when_answer = { "TrustWhen", JSON_FIELDS(when_fields) };

static void write_rate_period(struct json_writer *w, const char *name, const void *rule)
{
    const struct trust_rule *r = rule;

    if (r->rate.calls)
        json_field_int(w, name, r->rate.per_ns / NS_PER_S);
}

static const struct json_field rule_fields[] = {
    { "tool", JSON_KIND_TEXT, JSON_AT(struct trust_rule, tool), .required = true },
    { "note", JSON_KIND_TEXT, JSON_AT(struct trust_rule, note) },
    TERMS(struct trust_rule, terms),
    { "effect", JSON_KIND_ENUM, JSON_AT(struct trust_rule, effect), .required = true,
      .names = trust_effect_names },
    { "calls", JSON_KIND_UINT, JSON_AT(struct trust_rule, rate.calls), .optional = true },
    { "per_s", JSON_KIND_SECONDS, .write = write_rate_period },
    { "when", JSON_KIND_OBJECTS, JSON_AT(struct trust_rule, when), .schema = "TrustWhen",
      .item_size = sizeof(struct trust_when), JSON_FIELDS(when_fields) },
};
static const struct json_shape rule_answer = { "TrustRule", JSON_FIELDS(rule_fields) };

static void write_source(struct json_writer *w, const char *name, const void *policy)
{
    const struct trust_policy *p = policy;

    json_field_text(w, name, p->file ? p->file : "built-in");
}

#define POLICY(member) JSON_AT(struct trust_policy, member)
#define BUNDLE(member)                                                                             \
    .via = offsetof(struct trust_policy, bundle), JSON_AT(struct trust_bundle, member)

static const struct json_field policy_fields[] = {
    { "source", JSON_KIND_TEXT, .required = true, .write = write_source },
    { "version", JSON_KIND_CHARS, BUNDLE(version) },
    { "mode", JSON_KIND_ENUM, BUNDLE(mode), .names = trust_mode_names },
    { "failure", JSON_KIND_ENUM, POLICY(failure), .names = trust_failure_names },
    { "loaded_at", JSON_KIND_TIME, POLICY(loaded_ns) },
    { "problem", JSON_KIND_CHARS, POLICY(problem.msg), .optional = true },
    { "tools", JSON_KIND_OBJECTS, BUNDLE(tools), .schema = "TrustRule",
      .item_size = sizeof(struct trust_rule), JSON_FIELDS(rule_fields) },
};
const struct json_shape trust_policy_answer = { "Trust", JSON_FIELDS(policy_fields) };

/* --- a verdict --- */

struct explained_check {
    const char *check, *outcome;
};

static const struct json_field check_fields[] = {
    { "check", JSON_KIND_TEXT, JSON_AT(struct explained_check, check), .required = true },
    { "outcome", JSON_KIND_TEXT, JSON_AT(struct explained_check, outcome), .required = true },
};
static const struct json_shape check_answer = { "TrustCheck", JSON_FIELDS(check_fields) };

struct explained_verdict {
    const struct trust_decision *decision;
    const struct verdict *verdict;
    const struct trust_bundle *bundle; /* NULL: none, as those below */
    const struct trust_terms *terms;
    const struct trust_when *when;
    const char *would;
    int64_t code;
    enum role as;
};

static void write_checks(struct json_writer *w, const void *explained)
{
    const struct explained_verdict *x = explained;
    unsigned decided = x->decision->check;

    for (unsigned i = 0; i < CHECK_COUNT_; i++) {
        const char *outcome = i < decided ? "passed" : i == decided ? "decided" : "not reached";

        json_put_shape(w, &check_answer,
                       &(struct explained_check){ trust_check_names[i], outcome });
    }
}

#define AT(member) JSON_AT(struct explained_verdict, member)
#define OF(pointer, s, member)                                                                     \
    .via = offsetof(struct explained_verdict, pointer), JSON_AT(s, member)
#define VERDICT(member) OF(verdict, struct verdict, member)
#define TERM(member)    OF(terms, struct trust_terms, member)

static const struct json_field explanation_fields[] = {
    { "verdict", JSON_KIND_ENUM, VERDICT(kind), .required = true, .names = verdict_kind_names },
    { "code", JSON_KIND_INT, AT(code), .required = true },
    { "would", JSON_KIND_TEXT, AT(would), .names = verdict_kind_names },
    { "rule", JSON_KIND_CHARS, VERDICT(rule), .required = true },
    { "reason", JSON_KIND_CHARS, VERDICT(reason), .required = true },
    { "as", JSON_KIND_ENUM, AT(as), .required = true, .names = role_names },
    { "effect", JSON_KIND_ENUM, VERDICT(effect), .required = true, .names = trust_effect_names },
    { "tier", JSON_KIND_UINT, TERM(tier) },
    { "role", JSON_KIND_ENUM, TERM(role), .names = role_names },
    { "approval", JSON_KIND_ENUM, TERM(approval), .names = gate_names },
    { "when", JSON_KIND_TEXT, OF(when, struct trust_when, name) },
    { "mode", JSON_KIND_ENUM, OF(bundle, struct trust_bundle, mode), .names = trust_mode_names },
    { "policy_version", JSON_KIND_CHARS, VERDICT(version) },
    { "checks", JSON_KIND_OBJECTS, .required = true, .schema = "TrustCheck",
      .items = write_checks },
};
static const struct json_shape explanation_answer = { "TrustExplanation",
                                                      JSON_FIELDS(explanation_fields) };

void trust_explain_json(const struct trust_case *c, const struct trust_decision *d,
                        struct json_writer *w)
{
    const struct verdict *v = &d->verdict;
    const struct explained_verdict x = {
        .decision = d,
        .verdict = v,
        .bundle = c->bundle,
        .terms = d->terms,
        .when = d->when,
        .would = v->would != v->kind ? verdict_kind_names[v->would] : NULL,
        .code = verdict_code(v->kind),
        .as = c->role,
    };

    json_put_shape(w, &explanation_answer, &x);
}

static void write_rate_window(struct json_writer *w, const char *name, const void *verdict)
{
    const struct verdict *v = verdict;

    json_field_int(w, name, v->retry_ns / NS_PER_MS);
}

static const struct json_field evaluation_fields[] = {
    { "verdict", JSON_KIND_ENUM, JSON_AT(struct verdict, kind), .required = true,
      .names = verdict_kind_names },
    { "tier", JSON_KIND_UINT, JSON_AT(struct verdict, tier), .required = true },
    { "reason", JSON_KIND_CHARS, JSON_AT(struct verdict, reason), .required = true },
    { "rule", JSON_KIND_CHARS, JSON_AT(struct verdict, rule), .required = true },
    { "approval_token", JSON_KIND_CHARS, JSON_AT(struct verdict, request_id), .required = true,
      .optional = true, .nullable = true },
    { "rate_limit_window_ms", JSON_KIND_INT, .required = true, .write = write_rate_window },
    { "audit_id", JSON_KIND_CHARS, JSON_AT(struct verdict, audit_id), .required = true },
};
const struct json_shape trust_evaluation_answer = { "TrustEvaluation",
                                                    JSON_FIELDS(evaluation_fields) };

const struct json_shape *const trust_answers[] = {
    &trust_policy_answer,     &rule_answer,  &when_answer, &explanation_answer,
    &trust_evaluation_answer, &check_answer, NULL,
};
