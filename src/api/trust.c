/* /v1/trust: the policy for tools. */
#include <stdio.h>

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
    trust_capabilities_of(s, ret);
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

const struct route routes_trust[] = {
    { H1_GET, VERB_READ, "/v1/trust", 0, show, "Show the policy for tools", .answer = "Trust" },
    { H1_POST, VERB_ADMIN, "/v1/trust/reload", ROUTE_ADMIN, reload, "Read the policy again",
      .answer = "Trust" },
    { H1_POST, VERB_READ, "/v1/trust/validate", ROUTE_TEXT, validate, "Look at a policy",
      .answer = "TrustVerdict" },
    { H1_POST, VERB_READ, "/v1/trust/explain", ROUTE_JSON, explain,
      "Say what the policy would, and why", explain_fields, &explain_field_count,
      .answer = "TrustExplanation" },
    { .path = NULL },
};
