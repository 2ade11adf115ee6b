/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/expire, /v1/inspect/stale, /v1/reap-stale: expired sandboxes, and resources that dead
 * sandboxes left. */
#include <stdio.h>

#include "edge/core/internal.h"
#include "edge/rest/routes.h"

struct apply_request {
    bool apply;
};

static const struct json_field apply_fields[] = {
    { "apply", JSON_KIND_BOOL, JSON_AT(struct apply_request, apply),
      .doc = "Apply the changes instead of only listing them." },
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

struct expiry_listing {
    struct call *call;
    bool apply;
};

static void end_expiry_list(struct json_writer *w, bool apply)
{
    json_end_array(w);
    json_field_bool(w, "applied", apply);
    json_end_object(w);
}

static void on_due_sandbox(void *user, const struct sandbox_view *v, const char *reason)
{
    struct json_writer *w = user;

    json_begin_object(w);
    json_field_text(w, "sandbox_id", v->record->id);
    json_field_text(w, "state", sandbox_state_names[v->record->state]);
    json_field_text(w, "reason", reason);
    time_write(w, "expires_at", v->expires_ns);
    json_end_object(w);
}

static void write_due(struct json_writer *w, const void *what)
{
    const struct expiry_listing *l = what;

    json_begin_object(w);
    json_field_begin_array(w, "due");
    control_due(l->call->api->control, &l->call->caller, l->apply, on_due_sandbox, w);
    end_expiry_list(w, l->apply);
}

static void rest_expire_sandboxes(struct call *c)
{
    struct expiry_listing l = { .call = c };

    if (read_apply(c, &l.apply) >= 0)
        call_answer(c, 200, write_due, &l);
}

static void on_stale_resource(void *user, const char *extension, const char *id, const char *what)
{
    struct json_writer *w = user;

    json_begin_object(w);
    json_field_text(w, "extension", extension);
    json_field_text(w, "id", id);
    json_field_text(w, "what", what);
    json_end_object(w);
}

static void write_stale(struct json_writer *w, const void *what)
{
    const struct expiry_listing *l = what;
    struct err e = { 0 };

    json_begin_object(w);
    json_field_begin_array(w, "stale");
    if ((l->apply ? control_reap_stale : control_stale)(l->call->api->control, on_stale_resource, w,
                                                        &e) < 0)
        json_writer_fail(w, e.code, "%s", e.msg);
    end_expiry_list(w, l->apply);
}

static void rest_list_stale(struct call *c)
{
    const struct expiry_listing l = { .call = c };

    call_answer(c, 200, write_stale, &l);
}

static void rest_reap_stale_resources(struct call *c)
{
    struct expiry_listing l = { .call = c };

    if (read_apply(c, &l.apply) >= 0)
        call_answer(c, 200, write_stale, &l);
}

const struct route routes_expire[] = {
    { H1_POST, VERB_DESTROY, "/v1/expire", ROUTE_JSON, rest_expire_sandboxes,
      "List or expire sandboxes that are due", apply_fields, &apply_field_count,
      .answer = "DueList" },
    { H1_GET, VERB_ADMIN, "/v1/inspect/stale", ROUTE_ADMIN, rest_list_stale,
      "List resources that dead sandboxes left", .answer = "StaleList" },
    { H1_POST, VERB_ADMIN, "/v1/reap-stale", ROUTE_JSON | ROUTE_ADMIN, rest_reap_stale_resources,
      "Remove resources that dead sandboxes left", apply_fields, &apply_field_count,
      .answer = "StaleList" },
    { .path = NULL },
};
