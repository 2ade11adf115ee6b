/* /v1/trust: the policy for tools. */
#include <stdio.h>

#include "api/guard.h"
#include "api/inside.h"
#include "api/route.h"
#include "base/clock.h"
#include "trust/explain.h"
#include "trust/policy.h"
#include "trust/trust.h"

static void put(struct json_writer *w, const char *key, const char *value)
{
    json_key(w, str_from(key));
    json_put_lossy(w, str_from(value));
}

static void write_policy(struct json_writer *w, const void *what)
{
    const struct trust_policy *p = what;

    json_begin_object(w);
    put(w, "source", p->file ? p->file : "built-in");
    put(w, "failure", trust_failure_names[p->failure]);
    time_write(w, "loaded_at", p->loaded_ns);
    if (p->problem.code)
        put(w, "problem", p->problem.msg);
    if (p->bundle)
        trust_bundle_write(p->bundle, w);
    json_end_object(w);
}

static void show(struct call *c)
{
    call_answer(c, 200, write_policy, trust_current(c->api->trust));
}

static void reload(struct call *c)
{
    struct err e;

    if (trust_reload(c->api->trust, &e) < 0)
        call_fail(c, &e);
    else
        show(c);
}

/* --- validate --- */

struct validation {
    const struct trust_bundle *bundle;
    const char *problem;
};

static void write_validation(struct json_writer *w, const void *what)
{
    const struct validation *v = what;

    json_begin_object(w);
    json_key(w, STR("valid"));
    json_put_bool(w, v->bundle);
    if (v->bundle) {
        put(w, "version", v->bundle->version);
        json_key(w, STR("tools"));
        json_put_uint(w, v->bundle->tools.n);
    } else {
        put(w, "problem", v->problem);
    }
    json_end_object(w);
}

static void validate(struct call *c)
{
    struct trust_bundle *b = NULL;
    struct err e = { 0 };

    (void)trust_bundle_read(c->body, &b, &e);
    call_answer(c, 200, write_validation, &(struct validation){ b, e.msg });
    trust_bundle_unref(b);
}

/* --- explain --- */

struct explain_request {
    const char *tool, *client;
    const struct json *args, *capabilities;
    enum role role;
};

static const struct json_field explain_fields[] = {
    { "tool", JSON_KIND_STR, JSON_AT(struct explain_request, tool), .required = true, .min = 1,
      .max = 128, .doc = "The tool that would be called." },
    { "args", JSON_KIND_ANY, JSON_AT(struct explain_request, args), .doc = "Its arguments." },
    { "capabilities", JSON_KIND_ANY, JSON_AT(struct explain_request, capabilities),
      .doc = "What the sandbox that it is about would have declared; without it, what that of "
             "args.sandbox_id has." },
    { "role", JSON_KIND_ENUM, JSON_AT(struct explain_request, role), .names = role_names,
      .preset = "journeyman", .doc = "Of who would call it." },
    { "client", JSON_KIND_STR, JSON_AT(struct explain_request, client), .max = RECORD_TOOL_MAX - 1,
      .doc = "Kind of client." },
};
static const size_t explain_field_count = COUNT_OF(explain_fields);

struct explanation {
    struct trust_case asked;
    struct trust_decision decision;
};

static void write_explanation(struct json_writer *w, const void *what)
{
    const struct explanation *x = what;

    trust_explain_json(&x->asked, &x->decision, w);
}

/* Of one that is given, or of the sandbox that the arguments name, if the caller has it. */
static int read_capabilities(struct call *c, const struct explain_request *q,
                             struct trust_capabilities *ret, struct err *e)
{
    bool named = q->args && q->args->type == JSON_OBJECT;
    const struct json *id = named ? json_get(q->args, STR("sandbox_id")) : NULL;
    struct sandbox *s;

    if (q->capabilities || !id || id->type != JSON_STR ||
        !control_find_now(c->api->control, &c->caller, id->s, &s))
        return err_wrap(e, trust_capabilities_read(q->capabilities, ret, &c->arena, e),
                        "capabilities");
    trust_capabilities_of(s, true, ret);
    sandbox_unref(s);
    return 0;
}

/* Nothing is asked for, so nothing is used up and nothing recorded. */
static void explain(struct call *c)
{
    const struct trust_policy *p = trust_current(c->api->trust);
    struct trust_capabilities sandbox;
    struct explain_request q = { 0 };
    struct explanation x;
    struct err e;

    if (json_bind(c->json, explain_fields, explain_field_count, &q, &c->arena, &e) < 0 ||
        read_capabilities(c, &q, &sandbox, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    x.asked = (struct trust_case){ .bundle = p->bundle,
                                   .failure = p->failure,
                                   .tool = str_from(q.tool),
                                   .args = q.args,
                                   .sandbox = &sandbox,
                                   .role = q.role,
                                   .client = q.client,
                                   .now_ns = clock_mono() };
    trust_decide(&x.asked, &x.decision);
    call_answer(c, 200, write_explanation, &x);
}

/* --- evaluate: a live verdict, for an enforcement point that is not ours --- */

#define EVALUATE "/v1/trust/evaluate"

struct evaluation {
    struct call *call;
    struct trust_op op;
    struct trust_capabilities sandbox;
};

static const struct json_field evaluate_fields[] = {
    { "tool", JSON_KIND_STR, JSON_AT(struct explain_request, tool), .required = true, .min = 1,
      .max = 128, .doc = "The tool that is to be called." },
    { "args", JSON_KIND_ANY, JSON_AT(struct explain_request, args), .doc = "Its arguments." },
    { "capabilities", JSON_KIND_ANY, JSON_AT(struct explain_request, capabilities),
      .doc = "What the sandbox that it is about has declared; without it, what that of "
             "args.sandbox_id has." },
};
static const size_t evaluate_field_count = COUNT_OF(evaluate_fields);

static void write_evaluation(struct json_writer *w, const void *what)
{
    const struct verdict *v = what;

    json_begin_object(w);
    put(w, "verdict", verdict_kind_names[v->kind]);
    json_key(w, STR("tier"));
    json_put_uint(w, v->tier);
    put(w, "reason", v->reason);
    put(w, "rule", v->rule);
    json_key(w, STR("approval_token"));
    if (v->request_id[0])
        json_put_str(w, str_from(v->request_id));
    else
        json_put_null(w);
    json_key(w, STR("rate_limit_window_ms"));
    json_put_int(w, v->retry_ns / NS_PER_MS);
    put(w, "audit_id", v->audit_id);
    json_end_object(w);
}

static void evaluated(struct trust_op *op, int r, const struct err *e)
{
    struct evaluation *x = container_of(op, struct evaluation, op);
    struct call *c = x->call;

    if (r < 0)
        call_fail(c, e);
    else
        call_answer(c, 200, write_evaluation, &op->verdict);
    call_unref(c);
}

/* It was held, and a master approved it: this is the answer that its asker reads. */
static void answer_approved(struct call *c)
{
    struct verdict v = { .kind = VERDICT_ALLOW };

    snprintf(v.reason, sizeof v.reason, "a master approved it");
    snprintf(v.rule, sizeof v.rule, "approval");
    (void)id_make("aud_", v.audit_id, NULL);
    call_answer(c, 200, write_evaluation, &v);
}

static void evaluate(struct call *c)
{
    struct evaluation *x = arena_alloc(&c->own, sizeof *x);
    struct explain_request q = { 0 };
    struct err e;

    if (!x)
        abort();
    *x = (struct evaluation){ .call = c };
    if (c->approved) {
        answer_approved(c);
        return;
    }
    if (!guard_peer(c)) {
        call_fail_with(c, 400, "invalid",
                       "a verdict is about a token or a session: send a token, or Sandboxer-Peer");
        return;
    }
    if (json_bind(c->json, evaluate_fields, evaluate_field_count, &q, &c->arena, &e) < 0 ||
        read_capabilities(c, &q, &x->sandbox, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    x->op.ask = (struct trust_question){ .tool = str_from(q.tool),
                                         .args = q.args,
                                         .sandbox = &x->sandbox,
                                         .peer = guard_peer(c),
                                         .role = guard_role(c),
                                         .held = c->json,
                                         .request = STR("POST " EVALUATE) };
    x->op.done = evaluated;
    call_ref(c);
    trust_ask(c->api->trust, &x->op);
}

const struct route routes_trust[] = {
    { H1_GET, VERB_READ, "/v1/trust", 0, show, "Show the policy for tools", .answer = "Trust" },
    { H1_POST, VERB_ADMIN, "/v1/trust/reload", ROUTE_ADMIN, reload, "Read the policy again",
      .answer = "Trust" },
    { H1_POST, VERB_READ, "/v1/trust/validate", ROUTE_TEXT, validate, "Look at a policy",
      .answer = "TrustVerdict" },
    { H1_POST, VERB_READ, "/v1/trust/explain", ROUTE_JSON | ROUTE_CONTENT, explain,
      "Say what the policy would, and why", explain_fields, &explain_field_count,
      .answer = "TrustExplanation" },
    { H1_POST, VERB_READ, EVALUATE, ROUTE_JSON, evaluate,
      "Ask the policy about a call that is made elsewhere", evaluate_fields, &evaluate_field_count,
      .answer = "TrustEvaluation" },
    { .path = NULL },
};
