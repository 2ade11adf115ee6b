/* SPDX-License-Identifier: Apache-2.0 */
/* Egress policies: /v1/sandboxes/{id}/egress reads and replaces one, /v1/egress checks and explains
 * them. */
#include "edge/core/egress.h"

#include <stdio.h>

#include "edge/core/answers.h"
#include "edge/core/guard.h"
#include "edge/core/internal.h"
#include "edge/core/route.h"
#include "base/clock.h"
#include "control/egress/ceiling.h"
#include "control/egress/policy_text.h"
#include "lib/json/reader.h"
#include "domain/policy/egress_explain.h"
#include "domain/policy/egress_file.h"
#include "domain/policy/path.h"

static void write_policy_problem(struct json_writer *w, const char *name, const void *answer)
{
    const struct sandbox_egress *x = &((const struct egress_answer *)answer)->counters;
    char text[512];

    if (!x->problem)
        return;
    snprintf(
        text, sizeof text,
        "generation %llu of the policy is not in force: %s. All connections are denied until you "
        "set a valid policy: sandboxer egress set %s FILE",
        (unsigned long long)x->generation, x->problem, x->sandbox);
    json_field_text(w, name, text);
}

#define AT(member)      JSON_AT(struct egress_answer, member)
#define COUNTER(member) AT(counters.member), .seen = offsetof(struct egress_answer, has_counters)

const struct json_field egress_answer_fields[EGRESS_ANSWER_FIELDS] = {
    { "sandbox_id", JSON_KIND_TEXT, AT(sandbox_id) },
    { "generation", JSON_KIND_UINT, COUNTER(generation), .required = true },
    { "in_force", JSON_KIND_UINT, COUNTER(in_force) },
    { "endpoints", JSON_KIND_UINT, COUNTER(endpoints), .required = true },
    { "allowed", JSON_KIND_UINT, COUNTER(allowed) },
    { "denied", JSON_KIND_UINT, COUNTER(denied) },
    { "bytes_out", JSON_KIND_UINT, COUNTER(bytes_out) },
    { "bytes_in", JSON_KIND_UINT, COUNTER(bytes_in) },
    { "problem", JSON_KIND_TEXT, .write = write_policy_problem },
    { "policy", JSON_KIND_ANY, AT(policy), .types = "object" },
    { "ceiling", JSON_KIND_ANY, AT(ceiling), .types = "object" },
};
static const struct json_shape egress_answer = { "Egress", JSON_FIELDS(egress_answer_fields) };

/* --- the policy of a sandbox --- */

/* The stored policy as a tree on the arena; NULL: none. */
static const struct json *read_stored_policy(struct str text, struct arena *a)
{
    const struct json_limits limits = { .bytes = EGRESS_JSON_BYTES_MAX,
                                        .depth = EGRESS_FILE_DEPTH_MAX };
    const struct json *v = NULL;

    if (text.n)
        (void)json_read(text, limits, a, &v, NULL);
    return v;
}

static void answer_with_egress(struct call *c)
{
    AUTO(arena_done) struct arena memory = ARENA_INIT(EGRESS_MEMORY_MAX);
    const struct sandbox *s = c->sandbox;
    struct egress_answer a = { .sandbox_id = sandbox_view(s).record->id };

    a.has_counters = sandbox_egress(s, &a.counters);
    a.policy = read_stored_policy(sandbox_policy(s), &memory);
    a.ceiling = read_stored_policy(sandbox_policy_ceiling(s), &memory);
    call_answer_as(c, 200, &egress_answer, &a);
}

static void fail_without_network(struct call *c)
{
    call_fail_with(c, 409, "conflict",
                   "this sandbox was made without a network; create another with `egress` "
                   "(--allow, --allow-packages or --policy)");
}

static void rest_get_egress(struct call *c)
{
    struct sandbox_egress x;

    if (sandbox_egress(c->sandbox, &x))
        answer_with_egress(c);
    else
        fail_without_network(c);
}

static void on_egress_set(void *user, int r, const struct err *e)
{
    struct call *c = user;

    if (r < 0)
        call_fail(c, e);
    else
        answer_with_egress(c);
    call_unref(c);
}

static void rest_set_egress(struct call *c)
{
    AUTO(policy_text_unrefp_) struct policy_text *t = NULL;
    struct sandbox_egress x;
    struct policy_bounds b;
    struct err e;

    if (!sandbox_egress(c->sandbox, &x))
        fail_without_network(c);
    else if (sandbox_ceiling(c->sandbox, &c->caller, &c->arena, &b, &e) < 0 ||
             policy_text_read(c->body, &b, &t, &e) < 0)
        call_fail(c, &e);
    else
        guard_set_network(c, take_ptr(t), on_egress_set);
}

/* --- checks without a sandbox --- */

struct policy_check {
    bool valid;
    const struct policy_text *policy; /* NULL: invalid */
    const char *problem;
};

static const struct json_field check_fields[] = {
    { "valid", JSON_KIND_BOOL, JSON_AT(struct policy_check, valid), .required = true },
    { "endpoints", JSON_KIND_UINT, .via = offsetof(struct policy_check, policy),
      JSON_AT(struct policy_text, endpoints) },
    { "problem", JSON_KIND_TEXT, JSON_AT(struct policy_check, problem) },
};
static const struct json_shape check_answer = { "EgressVerdict", JSON_FIELDS(check_fields) };

static void rest_check_egress_policy(struct call *c)
{
    AUTO(policy_text_unrefp_) struct policy_text *t = NULL;
    struct policy_bounds b;
    struct policy_check v;
    struct err e = { 0 };

    if (control_ceiling(c->api->control, &c->caller, NULL, &c->arena, &b, &e) >= 0)
        (void)policy_text_read(c->body, &b, &t, &e);
    v = (struct policy_check){ .valid = t, .policy = t, .problem = t ? NULL : e.msg };
    call_answer_as(c, 200, &check_answer, &v);
}

struct explain_question {
    const char *policy;
    struct egress_question asked;
};

static const struct json_field question_fields[] = {
    { "policy", JSON_KIND_STR, JSON_AT(struct explain_question, policy), .required = true,
      .doc = "The policy, as YAML or JSON text." },
    { "to", JSON_KIND_STR, JSON_AT(struct explain_question, asked.to), .required = true, .max = 300,
      .doc = "HOST:PORT; without a port, 443." },
    { "method", JSON_KIND_STR, JSON_AT(struct explain_question, asked.method), .max = 32,
      .doc = "HTTP method of the request." },
    { "path", JSON_KIND_STR, JSON_AT(struct explain_question, asked.path),
      .max = PATH_BYTES_MAX + PATH_QUERY_MAX,
      .doc = "Path and query of the request, as the program would send them." },
    { "upgrade", JSON_KIND_STR, JSON_AT(struct explain_question, asked.upgrade), .max = 64,
      .doc = "The protocol in the request's Upgrade header." },
    { "binary", JSON_KIND_STR, JSON_AT(struct explain_question, asked.binary), .max = 255,
      .doc = "Path of the connecting program; without it, the program is unknown." },
};

/* Compiles the policy under the caller's ceiling, so that the explanation shows which requests the
 * ceiling denies. */
static int compile_requested_policy(const struct call *c, const struct explain_question *q,
                                    struct arena *a, struct egress_snapshot **ret, struct err *e)
{
    struct policy_bounds everything = { .ceiling = { .reach = EGRESS_REACH_LOCAL, .from = "" },
                                        .past = true };
    AUTO(policy_text_unrefp_) struct policy_text *t = NULL;
    struct egress_policy policy;
    struct policy_bounds b;
    int r = control_ceiling(c->api->control, &c->caller, NULL, a, &b, e);

    if (r < 0)
        return r;
    everything.names = b.names;
    r = policy_text_read(str_from(q->policy), &everything, &t, e);
    if (r >= 0)
        r = egress_policy_from_json(t->json, a, &policy, e);
    if (r < 0)
        return err_wrap(e, r, "policy");
    *ret = egress_compile_under(&policy, &b.ceiling, 1, e);
    return *ret ? 0 : -(int)ERR_BUG;
}

static void write_egress_explanation(struct json_writer *w, const void *what)
{
    egress_explain_json(what, w);
}

static void rest_explain_egress(struct call *c)
{
    AUTO(egress_snapshot_unrefp_) struct egress_snapshot *s = NULL;
    AUTO(arena_done) struct arena a = ARENA_INIT(EGRESS_MEMORY_MAX);
    struct egress_explain_input trial = { .n_addresses = 0 };
    struct egress_explanation x;
    struct explain_question q = { 0 };
    struct err e;

    if (!call_read(c, &q))
        return;
    if (err_wrap(&e, egress_explain_read(&q.asked, &trial, &e), "to") < 0 ||
        compile_requested_policy(c, &q, &a, &s, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    egress_snapshot_expire(s, clock_wall());
    egress_explain(s, &trial, &x);
    call_answer(c, 200, write_egress_explanation, &x);
}

const struct route routes_egress[] = {
    { H1_GET, VERB_READ, "/v1/sandboxes/{id}/egress", ROUTE_SANDBOX | ROUTE_LIVE, rest_get_egress,
      "Show what a sandbox may reach", .answer = "Egress" },
    { H1_PUT, VERB_CREATE, "/v1/sandboxes/{id}/egress", ROUTE_TEXT | ROUTE_SANDBOX | ROUTE_LIVE,
      rest_set_egress, "Change what a sandbox may reach, at once", .answer = "Egress",
      .media = "application/yaml" },
    { H1_POST, VERB_READ, "/v1/egress/check", ROUTE_TEXT, rest_check_egress_policy,
      "Check an egress policy", .answer = "EgressVerdict", .media = "application/yaml" },
    { H1_POST, VERB_READ, "/v1/egress/explain", ROUTE_JSON | ROUTE_CONTENT, rest_explain_egress,
      "Explain the decision of a policy on a connection or request", ROUTE_FIELDS(question_fields),
      .answer = "EgressExplanation" },
    { .path = NULL },
};

const struct json_shape *const answers_egress[] = { &egress_answer, &check_answer,
                                                    &egress_explanation_answer, NULL };
