#include "trust/explain.h"

#include "base/clock.h"

static void put(struct json_writer *w, const char *key, const char *value)
{
    json_key(w, str_from(key));
    json_put_lossy(w, str_from(value));
}

static void put_number(struct json_writer *w, const char *key, int64_t n)
{
    json_key(w, str_from(key));
    json_put_int(w, n);
}

static const char *outcome(enum trust_check at, enum trust_check decided)
{
    return at < decided ? "passed" : at == decided ? "decided" : "not reached";
}

static void put_checks(const struct trust_decision *d, struct json_writer *w)
{
    json_key(w, STR("checks"));
    json_begin_array(w);
    for (unsigned i = 0; i < CHECK_COUNT_; i++) {
        json_begin_object(w);
        put(w, "check", trust_check_names[i]);
        put(w, "outcome", outcome((enum trust_check)i, d->check));
        json_end_object(w);
    }
    json_end_array(w);
}

static void put_terms(const struct trust_terms *t, struct json_writer *w)
{
    put_number(w, "tier", (int64_t)t->tier);
    put(w, "role", role_names[t->role]);
    put(w, "approval", t->approval == GATE_MASTER ? "master" : "none");
}

void trust_explain_json(const struct trust_case *c, const struct trust_decision *d,
                        struct json_writer *w)
{
    const struct verdict *v = &d->verdict;

    json_begin_object(w);
    put(w, "verdict", verdict_kind_names[v->kind]);
    put_number(w, "code", verdict_code(v->kind));
    if (v->would != v->kind)
        put(w, "would", verdict_kind_names[v->would]);
    put(w, "rule", v->rule);
    put(w, "reason", v->reason);
    put(w, "as", role_names[c->role]);
    put(w, "effect", trust_effect_names[v->effect]);
    if (d->terms)
        put_terms(d->terms, w);
    if (d->when)
        put(w, "when", d->when->name);
    if (c->bundle)
        put(w, "mode", trust_mode_names[c->bundle->mode]);
    put(w, "policy_version", v->version);
    put_checks(d, w);
    json_end_object(w);
}

static void put_rule(const struct trust_rule *r, struct json_writer *w)
{
    const struct trust_when *when = r->when.p;

    json_begin_object(w);
    put(w, "tool", r->tool);
    if (r->note)
        put(w, "note", r->note);
    put_terms(&r->terms, w);
    put(w, "effect", trust_effect_names[r->effect]);
    if (r->rate.calls) {
        put_number(w, "calls", (int64_t)r->rate.calls);
        put_number(w, "per_s", r->rate.per_ns / NS_PER_S);
    }
    json_key(w, STR("when"));
    json_begin_array(w);
    for (size_t i = 0; i < r->when.n; i++) {
        json_begin_object(w);
        put(w, "name", when[i].name);
        put_terms(&when[i].terms, w);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
}

void trust_bundle_write(const struct trust_bundle *b, struct json_writer *w)
{
    const struct trust_rule *rules = b->tools.p;

    put(w, "version", b->version);
    put(w, "mode", trust_mode_names[b->mode]);
    json_key(w, STR("tools"));
    json_begin_array(w);
    for (size_t i = 0; i < b->tools.n; i++)
        put_rule(&rules[i], w);
    json_end_array(w);
}
