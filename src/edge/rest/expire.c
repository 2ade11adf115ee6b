/* /v1/expire, /v1/inspect/stale, /v1/reap-stale: what is due to go, and what should have gone. */
#include <stdio.h>

#include "api/inside.h"
#include "api/route.h"

struct apply_request {
    bool apply;
};

static const struct json_field apply_fields[] = {
    { "apply", JSON_KIND_BOOL, JSON_AT(struct apply_request, apply),
      .doc = "Do it, instead of only saying what would be done." },
};
static const size_t apply_field_count = COUNT_OF(apply_fields);

static int read_apply(struct call *c, bool *ret)
{
    struct apply_request q = { 0 };
    struct err e;

    if (json_bind(c->json, apply_fields, apply_field_count, &q, &c->arena, &e) < 0) {
        call_fail(c, &e);
        return -1;
    }
    *ret = q.apply;
    return 0;
}

static void put(struct json_writer *w, const char *key, const char *value)
{
    json_key(w, str_from(key));
    json_put_lossy(w, str_from(value));
}

struct listing {
    struct call *call;
    bool apply;
};

static void put_applied(struct json_writer *w, bool apply)
{
    json_end_array(w);
    json_key(w, STR("applied"));
    json_put_bool(w, apply);
    json_end_object(w);
}

static void put_due(void *user, const struct sandbox_view *v, const char *reason)
{
    struct json_writer *w = user;

    json_begin_object(w);
    put(w, "sandbox_id", v->record->id);
    put(w, "state", sandbox_state_names[v->record->state]);
    put(w, "reason", reason);
    time_write(w, "expires_at", v->expires_ns);
    json_end_object(w);
}

static void write_due(struct json_writer *w, const void *what)
{
    const struct listing *l = what;

    json_begin_object(w);
    json_key(w, STR("due"));
    json_begin_array(w);
    control_due(l->call->api->control, &l->call->caller, l->apply, put_due, w);
    put_applied(w, l->apply);
}

static void expire(struct call *c)
{
    struct listing l = { .call = c };

    if (read_apply(c, &l.apply) >= 0)
        call_answer(c, 200, write_due, &l);
}

static void put_stale(void *user, const char *extension, const char *id, const char *what)
{
    struct json_writer *w = user;

    json_begin_object(w);
    put(w, "extension", extension);
    put(w, "id", id);
    put(w, "what", what);
    json_end_object(w);
}

static void write_stale(struct json_writer *w, const void *what)
{
    const struct listing *l = what;
    struct err e;

    json_begin_object(w);
    json_key(w, STR("stale"));
    json_begin_array(w);
    if ((l->apply ? control_reap_stale : control_stale)(l->call->api->control, put_stale, w, &e) <
        0)
        json_writer_fail(w, e.code, "%s", e.msg);
    put_applied(w, l->apply);
}

static void stale(struct call *c)
{
    const struct listing l = { .call = c };

    call_answer(c, 200, write_stale, &l);
}

static void reap_stale(struct call *c)
{
    struct listing l = { .call = c };

    if (read_apply(c, &l.apply) >= 0)
        call_answer(c, 200, write_stale, &l);
}

const struct route routes_expire[] = {
    { H1_POST, VERB_DESTROY, "/v1/expire", ROUTE_JSON, expire, "Which sandboxes are due to end",
      apply_fields, &apply_field_count, .answer = "DueList" },
    { H1_GET, VERB_ADMIN, "/v1/inspect/stale", ROUTE_ADMIN, stale,
      "What dead sandboxes left on this machine", .answer = "StaleList" },
    { H1_POST, VERB_ADMIN, "/v1/reap-stale", ROUTE_JSON | ROUTE_ADMIN, reap_stale,
      "Remove what dead sandboxes left", apply_fields, &apply_field_count, .answer = "StaleList" },
    { .path = NULL },
};
