/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/trust: the tool policy. */
#include <stdio.h>

#include "edge/core/answers.h"
#include "edge/core/guard.h"
#include "edge/core/operation.h"
#include "edge/core/internal.h"
#include "edge/rest/routes.h"
#include "base/clock.h"
#include "trust/explain.h"
#include "trust/policy.h"
#include "trust/trust.h"

static void rest_show_trust_policy(struct call *c)
{
    call_answer_as(c, 200, &trust_policy_answer, trust_current(c->api->trust));
}

static void rest_reload_trust_policy(struct call *c)
{
    struct err e;

    if (trust_reload(c->api->trust, &e) < 0)
        call_fail(c, &e);
    else
        rest_show_trust_policy(c);
}

/* --- validate --- */

struct trust_validation {
    bool valid;
    const struct trust_bundle *bundle; /* NULL: invalid */
    const char *problem;
};

#define BUNDLE(member)                                                                             \
    .via = offsetof(struct trust_validation, bundle), JSON_AT(struct trust_bundle, member)

static const struct json_field validation_fields[] = {
    { "valid", JSON_KIND_BOOL, JSON_AT(struct trust_validation, valid), .required = true },
    { "version", JSON_KIND_CHARS, BUNDLE(version) },
    { "tools", JSON_KIND_UINT, BUNDLE(tools.n) },
    { "problem", JSON_KIND_TEXT, JSON_AT(struct trust_validation, problem) },
};
static const struct json_shape validation_answer = { "TrustVerdict",
                                                     JSON_FIELDS(validation_fields) };

static void rest_validate_trust_policy(struct call *c)
{
    struct trust_bundle *b = NULL;
    struct err e = { 0 };

    (void)trust_bundle_read(c->body, &b, &e);
    call_answer_as(c, 200, &validation_answer,
                   &(struct trust_validation){ b, b, b ? NULL : e.msg });
    trust_bundle_free(b);
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
      .doc = "Capabilities of the sandbox; default: those of args.sandbox_id." },
    { "role", JSON_KIND_ENUM, JSON_AT(struct explain_request, role), .names = role_names,
      .preset = "journeyman", .doc = "Role of the caller." },
    { "client", JSON_KIND_STR, JSON_AT(struct explain_request, client), .max = RECORD_TOOL_MAX - 1,
      .doc = "Kind of client." },
};

struct trust_explanation {
    struct trust_case asked;
    struct trust_decision decision;
};

static void write_trust_explanation(struct json_writer *w, const void *what)
{
    const struct trust_explanation *x = what;

    trust_explain_json(&x->asked, &x->decision, w);
}

/* Reads the request, with the given capabilities, or those of the sandbox in the arguments if it is
 * visible to the caller. False: the call is answered. */
static bool read_trust_question(struct call *c, struct explain_request *q,
                                struct trust_capabilities *ret)
{
    const struct json *id;
    struct sandbox *s;
    struct err e;

    if (!call_read(c, q))
        return false;
    id = q->args && q->args->type == JSON_OBJECT ? json_get(q->args, STR("sandbox_id")) : NULL;
    if (!q->capabilities && id && id->type == JSON_STR &&
        control_find_now(c->api->control, &c->caller, id->s, &s)) {
        trust_capabilities_of(s, true, ret);
        sandbox_unref(s);
        return true;
    }
    if (err_wrap(&e, trust_capabilities_read(q->capabilities, ret, &c->arena, &e),
                 "capabilities") >= 0)
        return true;
    call_fail(c, &e);
    return false;
}

/* Explains a verdict; consumes no quota and records nothing. */
static void rest_explain_trust(struct call *c)
{
    const struct trust_policy *p = trust_current(c->api->trust);
    struct trust_capabilities sandbox;
    struct explain_request q = { 0 };
    struct trust_explanation x;

    if (!read_trust_question(c, &q, &sandbox))
        return;
    x.asked = (struct trust_case){ .bundle = p->bundle,
                                   .failure = p->failure,
                                   .tool = str_from(q.tool),
                                   .args = q.args,
                                   .sandbox = &sandbox,
                                   .role = q.role,
                                   .client = q.client,
                                   .now_ns = clock_mono() };
    trust_decide(&x.asked, &x.decision);
    call_answer(c, 200, write_trust_explanation, &x);
}

/* --- evaluate: a live verdict, for an external enforcement point --- */

#define EVALUATE "/v1/trust/evaluate"

struct trust_evaluation {
    struct call *call;
    struct trust_op op;
    struct trust_capabilities sandbox;
};

static const struct json_field evaluate_fields[] = {
    { "tool", JSON_KIND_STR, JSON_AT(struct explain_request, tool), .required = true, .min = 1,
      .max = 128, .doc = "The tool that is to be called." },
    { "args", JSON_KIND_ANY, JSON_AT(struct explain_request, args), .doc = "Its arguments." },
    { "capabilities", JSON_KIND_ANY, JSON_AT(struct explain_request, capabilities),
      .doc = "Capabilities of the sandbox; default: those of args.sandbox_id." },
};

static void on_trust_evaluated(struct trust_op *op, int r, const struct err *e)
{
    call_settle_as(container_of(op, struct trust_evaluation, op)->call, r, e, 200,
                   &trust_evaluation_answer, &op->verdict);
}

/* Answers the replay of an evaluation that a master approved; its requester reads this result. */
static void answer_approved_evaluation(struct call *c)
{
    struct verdict v = { .kind = VERDICT_ALLOW };

    snprintf(v.reason, sizeof v.reason, "a master approved it");
    snprintf(v.rule, sizeof v.rule, "approval");
    (void)id_make("aud_", v.audit_id, NULL);
    call_answer_as(c, 200, &trust_evaluation_answer, &v);
}

static void rest_evaluate_trust(struct call *c)
{
    struct trust_evaluation *x = call_alloc(c, 1, sizeof *x);
    struct explain_request q = { 0 };

    if (c->approved) {
        answer_approved_evaluation(c);
        return;
    }
    if (!guard_peer(c)) {
        call_fail_with(c, 400, "invalid",
                       "a verdict is about a token or a session: send a token, or Sandboxer-Peer");
        return;
    }
    if (!read_trust_question(c, &q, &x->sandbox))
        return;
    x->op.ask = (struct trust_question){ .tool = str_from(q.tool),
                                         .args = q.args,
                                         .sandbox = &x->sandbox,
                                         .peer = guard_peer(c),
                                         .role = guard_role(c),
                                         .held = c->json,
                                         .request = STR("POST " EVALUATE) };
    x->op.done = on_trust_evaluated;
    x->call = call_ref(c);
    trust_request(c->api->trust, &x->op);
}

const struct route routes_trust[] = {
    { H1_GET, VERB_READ, "/v1/trust", 0, rest_show_trust_policy, "Show the policy for tools",
      .answer = "Trust" },
    { H1_POST, VERB_ADMIN, "/v1/trust/reload", ROUTE_ADMIN, rest_reload_trust_policy,
      "Reload the policy", .answer = "Trust" },
    { H1_POST, VERB_READ, "/v1/trust/validate", ROUTE_TEXT, rest_validate_trust_policy,
      "Check a tool policy", .answer = "TrustVerdict", .media = "application/yaml" },
    { H1_POST, VERB_READ, "/v1/trust/explain", ROUTE_JSON | ROUTE_CONTENT, rest_explain_trust,
      "Explain the verdict of the policy", ROUTE_FIELDS(explain_fields),
      .answer = "TrustExplanation" },
    { H1_POST, VERB_READ, EVALUATE, ROUTE_JSON, rest_evaluate_trust,
      "Request a verdict for a call that is made elsewhere", ROUTE_FIELDS(evaluate_fields),
      .answer = "TrustEvaluation" },
    { .path = NULL },
};

const struct json_shape *const answers_trust[] = { &validation_answer, NULL };
