/* What a sandbox may reach, and what a policy would say: /v1/sandboxes/{id}/egress, /v1/egress. */
#include "api/egress.h"

#include "api/guard.h"
#include "api/inside.h"
#include "api/route.h"
#include "base/clock.h"
#include "control/ceiling.h"
#include "control/policy_text.h"
#include "json/reader.h"
#include "policy/egress_explain.h"
#include "policy/egress_file.h"
#include "policy/egress_sources.h"
#include "policy/path.h"

static void put_number(struct json_writer *w, const char *key, uint64_t value)
{
    json_key(w, str_from(key));
    json_put_uint(w, value);
}

void egress_write(struct json_writer *w, const struct sandbox_egress *x)
{
    put_number(w, "generation", x->generation);
    put_number(w, "in_force", x->in_force);
    put_number(w, "endpoints", x->endpoints);
    put_number(w, "allowed", x->allowed);
    put_number(w, "denied", x->denied);
    put_number(w, "bytes_out", x->bytes_out);
    put_number(w, "bytes_in", x->bytes_in);
}

/* --- of a sandbox --- */

static void put_stored(struct json_writer *w, const char *key, struct str text, struct arena *a)
{
    const struct json_limits limits = { .bytes = EGRESS_JSON_BYTES_MAX,
                                        .depth = EGRESS_FILE_DEPTH_MAX };
    const struct json *v;

    if (!text.n || json_read(text, limits, a, &v, NULL) < 0)
        return;
    json_key(w, str_from(key));
    json_put_tree(w, v);
}

static void write_whole(struct json_writer *w, const void *what)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(EGRESS_MEMORY_MAX);
    const struct sandbox *s = what;
    struct sandbox_egress x;

    json_begin_object(w);
    json_key(w, STR("sandbox_id"));
    json_put_str(w, str_from(sandbox_view(s).record->id));
    if (sandbox_egress(s, &x))
        egress_write(w, &x);
    put_stored(w, "policy", sandbox_policy(s), &a);
    put_stored(w, "ceiling", sandbox_policy_ceiling(s), &a);
    json_end_object(w);
}

static void fail_without_network(struct call *c)
{
    call_fail_with(c, 409, "conflict",
                   "this sandbox was made without a network; create another with `egress` "
                   "(--allow, --allow-packages or --policy)");
}

static void get(struct call *c)
{
    struct sandbox_egress x;

    if (sandbox_egress(c->sandbox, &x))
        call_answer(c, 200, write_whole, c->sandbox);
    else
        fail_without_network(c);
}

static void was_set(void *user, int r, const struct err *e)
{
    struct call *c = user;

    if (r < 0)
        call_fail(c, e);
    else
        call_answer(c, 200, write_whole, c->sandbox);
    call_unref(c);
}

static void set(struct call *c)
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
        guard_set_network(c, take_ptr(t), was_set);
}

/* --- of nobody: pure questions --- */

struct verdict {
    const struct policy_text *policy; /* NULL: it cannot be kept */
    const char *message;
};

static void write_verdict(struct json_writer *w, const void *what)
{
    const struct verdict *v = what;

    json_begin_object(w);
    json_key(w, STR("valid"));
    json_put_bool(w, v->policy);
    if (v->policy)
        put_number(w, "endpoints", v->policy->endpoints);
    if (!v->policy) {
        json_key(w, STR("problem"));
        json_put_lossy(w, str_from(v->message));
    }
    json_end_object(w);
}

static void check(struct call *c)
{
    AUTO(policy_text_unrefp_) struct policy_text *t = NULL;
    struct policy_bounds b;
    struct verdict v;
    struct err e = { 0 };

    if (control_ceiling(c->api->control, &c->caller, NULL, &c->arena, &b, &e) >= 0)
        (void)policy_text_read(c->body, &b, &t, &e);
    v = (struct verdict){ .policy = t, .message = e.msg };
    call_answer(c, 200, write_verdict, &v);
}

struct question {
    const char *policy;
    struct egress_question asked;
};

static const struct json_field question_fields[] = {
    { "policy", JSON_KIND_STR, JSON_AT(struct question, policy), .required = true,
      .doc = "A text of YAML or JSON." },
    { "to", JSON_KIND_STR, JSON_AT(struct question, asked.to), .required = true, .max = 300,
      .doc = "HOST:PORT; without a port, 443." },
    { "method", JSON_KIND_STR, JSON_AT(struct question, asked.method), .max = 32,
      .doc = "Of a request there." },
    { "path", JSON_KIND_STR, JSON_AT(struct question, asked.path),
      .max = PATH_BYTES_MAX + PATH_QUERY_MAX,
      .doc = "Of a request there, with its query, as the program would send it." },
    { "upgrade", JSON_KIND_STR, JSON_AT(struct question, asked.upgrade), .max = 64,
      .doc = "The protocol that the request asks for in its Upgrade field." },
    { "binary", JSON_KIND_STR, JSON_AT(struct question, asked.binary), .max = 255,
      .doc = "Path of the program that asks; without it nobody knows which." },
};
static const size_t question_field_count = COUNT_OF(question_fields);

/* Under the caller's ceiling: the answer says what the ceiling denies. */
static int compile(const struct call *c, const struct question *q, struct arena *a,
                   struct egress_snapshot **ret, struct err *e)
{
    const struct policy_bounds everything = { .ceiling = { .reach = EGRESS_REACH_LOCAL,
                                                           .from = "" } };
    AUTO(policy_text_unrefp_) struct policy_text *t = NULL;
    struct egress_policy policy;
    struct policy_bounds b;
    int r = policy_text_read(str_from(q->policy), &everything, &t, e);

    if (r >= 0)
        r = egress_policy_from_json(t->json, a, &policy, e);
    if (r < 0)
        return err_wrap(e, r, "policy");
    r = control_ceiling(c->api->control, &c->caller, NULL, a, &b, e);
    if (r < 0)
        return r;
    *ret = egress_compile_under(&policy, &b.ceiling, 1, e);
    return *ret ? 0 : -(int)ERR_BUG;
}

static void write_explanation(struct json_writer *w, const void *what)
{
    egress_explain_json(what, w);
}

static void explain(struct call *c)
{
    AUTO(egress_snapshot_unrefp_) struct egress_snapshot *s = NULL;
    AUTO(arena_done) struct arena a = ARENA_INIT(EGRESS_MEMORY_MAX);
    struct egress_trial trial = { .n_addresses = 0 };
    struct egress_explanation x;
    struct question q = { 0 };
    struct err e;

    if (json_bind(c->json, question_fields, question_field_count, &q, &c->arena, &e) < 0 ||
        err_wrap(&e, egress_trial_read(&q.asked, &trial, &e), "to") < 0 ||
        compile(c, &q, &a, &s, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    egress_snapshot_expire(s, clock_wall());
    egress_explain(s, &trial, &x);
    call_answer(c, 200, write_explanation, &x);
}

const struct route routes_egress[] = {
    { H1_GET, VERB_READ, "/v1/sandboxes/{id}/egress", ROUTE_SANDBOX | ROUTE_LIVE, get,
      "Show what a sandbox may reach", .answer = "Egress" },
    { H1_PUT, VERB_CREATE, "/v1/sandboxes/{id}/egress", ROUTE_TEXT | ROUTE_SANDBOX | ROUTE_LIVE,
      set, "Change what a sandbox may reach, at once", .answer = "Egress" },
    { H1_POST, VERB_READ, "/v1/egress/check", ROUTE_TEXT, check, "Check an egress policy",
      .answer = "EgressVerdict" },
    { H1_POST, VERB_READ, "/v1/egress/explain", ROUTE_JSON | ROUTE_CONTENT, explain,
      "What a policy would say of a connection or request", .fields = question_fields,
      .field_count = &question_field_count, .answer = "EgressExplanation" },
    { .path = NULL },
};
