/* SPDX-License-Identifier: Apache-2.0 */
#include "trust/explain.h"

#include "base/clock.h"

static const char *check_outcome(enum trust_check at, enum trust_check decided)
{
    return at < decided ? "passed" : at == decided ? "decided" : "not reached";
}

static void write_checks(const struct trust_decision *d, struct json_writer *w)
{
    json_field_begin_array(w, "checks");
    for (unsigned i = 0; i < CHECK_COUNT_; i++) {
        json_begin_object(w);
        json_field_text(w, "check", trust_check_names[i]);
        json_field_text(w, "outcome", check_outcome((enum trust_check)i, d->check));
        json_end_object(w);
    }
    json_end_array(w);
}

static void write_rule_terms(const struct trust_terms *t, struct json_writer *w)
{
    json_field_int(w, "tier", (int64_t)t->tier);
    json_field_text(w, "role", role_names[t->role]);
    json_field_text(w, "approval", t->approval == GATE_MASTER ? "master" : "none");
}

void trust_explain_json(const struct trust_case *c, const struct trust_decision *d,
                        struct json_writer *w)
{
    const struct verdict *v = &d->verdict;

    json_begin_object(w);
    json_field_text(w, "verdict", verdict_kind_names[v->kind]);
    json_field_int(w, "code", verdict_code(v->kind));
    if (v->would != v->kind)
        json_field_text(w, "would", verdict_kind_names[v->would]);
    json_field_text(w, "rule", v->rule);
    json_field_text(w, "reason", v->reason);
    json_field_text(w, "as", role_names[c->role]);
    json_field_text(w, "effect", trust_effect_names[v->effect]);
    if (d->terms)
        write_rule_terms(d->terms, w);
    if (d->when)
        json_field_text(w, "when", d->when->name);
    if (c->bundle)
        json_field_text(w, "mode", trust_mode_names[c->bundle->mode]);
    json_field_text(w, "policy_version", v->version);
    write_checks(d, w);
    json_end_object(w);
}

static void write_trust_rule(const struct trust_rule *r, struct json_writer *w)
{
    const struct trust_when *when = r->when.p;

    json_begin_object(w);
    json_field_text(w, "tool", r->tool);
    if (r->note)
        json_field_text(w, "note", r->note);
    write_rule_terms(&r->terms, w);
    json_field_text(w, "effect", trust_effect_names[r->effect]);
    if (r->rate.calls) {
        json_field_int(w, "calls", (int64_t)r->rate.calls);
        json_field_int(w, "per_s", r->rate.per_ns / NS_PER_S);
    }
    json_field_begin_array(w, "when");
    for (size_t i = 0; i < r->when.n; i++) {
        json_begin_object(w);
        json_field_text(w, "name", when[i].name);
        write_rule_terms(&when[i].terms, w);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
}

void trust_bundle_write(const struct trust_bundle *b, struct json_writer *w)
{
    const struct trust_rule *rules = b->tools.p;

    json_field_text(w, "version", b->version);
    json_field_text(w, "mode", trust_mode_names[b->mode]);
    json_field_begin_array(w, "tools");
    for (size_t i = 0; i < b->tools.n; i++)
        write_trust_rule(&rules[i], w);
    json_end_array(w);
}
