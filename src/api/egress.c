/* What a sandbox may reach, and what a policy would say: /v1/sandboxes/{id}/egress, /v1/egress. */
#include "api/egress.h"

#include "api/route.h"
#include "control/policy_text.h"
#include "json/reader.h"
#include "policy/egress_file.h"

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

static void write_whole(struct json_writer *w, const void *what)
{
    const struct json_limits limits = { .bytes = EGRESS_JSON_BYTES_MAX,
                                        .depth = EGRESS_FILE_DEPTH_MAX };
    AUTO(arena_done) struct arena a = ARENA_INIT(EGRESS_MEMORY_MAX);
    const struct sandbox *s = what;
    struct sandbox_egress x;
    const struct json *policy;

    json_begin_object(w);
    json_key(w, STR("sandbox_id"));
    json_put_str(w, str_from(sandbox_view(s).record->id));
    if (sandbox_egress(s, &x))
        egress_write(w, &x);
    if (sandbox_policy(s).n && json_read(sandbox_policy(s), limits, &a, &policy, NULL) >= 0) {
        json_key(w, STR("policy"));
        json_put_tree(w, policy);
    }
    json_end_object(w);
}

static void fail_without_network(struct call *c)
{
    call_fail_with(c, 409, "conflict",
                   "this sandbox was made without a network; create another with `egress`");
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
    struct err e;

    if (!sandbox_egress(c->sandbox, &x))
        fail_without_network(c);
    else if (policy_text_read(c->body, &t, &e) < 0)
        call_fail(c, &e);
    else
        sandbox_set_policy(c->sandbox, &c->caller.actor, t, was_set, call_ref(c));
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
    struct verdict v;
    struct err e = { 0 };

    (void)policy_text_read(c->body, &t, &e);
    v = (struct verdict){ .policy = t, .message = e.msg };
    call_answer(c, 200, write_verdict, &v);
}

const struct route routes_egress[] = {
    { H1_GET, VERB_READ, "/v1/sandboxes/{id}/egress", ROUTE_SANDBOX | ROUTE_LIVE, get,
      "Show what a sandbox may reach", .answer = "Egress" },
    { H1_PUT, VERB_CREATE, "/v1/sandboxes/{id}/egress", ROUTE_TEXT | ROUTE_SANDBOX | ROUTE_LIVE,
      set, "Change what a sandbox may reach, at once", .answer = "Egress" },
    { H1_POST, VERB_READ, "/v1/egress/check", ROUTE_TEXT, check, "Check an egress policy",
      .answer = "EgressVerdict" },
    { .path = NULL },
};
