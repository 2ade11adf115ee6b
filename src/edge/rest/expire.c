/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/expire, /v1/inspect/stale, /v1/reap-stale: expired sandboxes, and resources that dead
 * sandboxes left. */

#include "edge/core/answers.h"
#include "edge/core/internal.h"
#include "edge/rest/routes.h"

struct expiry_listing {
    struct call *call;
    bool apply;
};

static const struct json_field apply_fields[] = {
    { "apply", JSON_KIND_BOOL, JSON_AT(struct expiry_listing, apply),
      .doc = "Apply the changes instead of only listing them." },
};

#define APPLIED                                                                                    \
    {                                                                                              \
        "applied", JSON_KIND_BOOL, JSON_AT(struct expiry_listing, apply), .required = true         \
    }

struct due_answer {
    const char *id, *reason;
    enum sandbox_state state;
    int64_t expires_ns;
};

static const struct json_field due_fields[] = {
    { "sandbox_id", JSON_KIND_TEXT, JSON_AT(struct due_answer, id), .required = true },
    { "state", JSON_KIND_ENUM, JSON_AT(struct due_answer, state), .required = true,
      .names = sandbox_state_names },
    { "reason", JSON_KIND_TEXT, JSON_AT(struct due_answer, reason), .required = true },
    { "expires_at", JSON_KIND_TIME, JSON_AT(struct due_answer, expires_ns) },
};
static const struct json_shape due_answer = { "Due", JSON_FIELDS(due_fields) };

static void on_due_sandbox(void *user, const struct sandbox_view *v, const char *reason)
{
    const struct due_answer a = { v->record->id, reason, v->record->state, v->expires_ns };

    json_put_shape(user, &due_answer, &a);
}

static void write_due(struct json_writer *w, const void *listing)
{
    const struct expiry_listing *l = listing;

    control_due(l->call->api->control, &l->call->caller, l->apply, on_due_sandbox, w);
}

static const struct json_field due_list_fields[] = {
    { "due", JSON_KIND_OBJECTS, .required = true, .schema = "Due", .items = write_due },
    APPLIED,
};
static const struct json_shape due_list = { "DueList", JSON_FIELDS(due_list_fields) };

struct stale_answer {
    const char *extension, *id, *what;
};

static const struct json_field stale_fields[] = {
    { "extension", JSON_KIND_TEXT, JSON_AT(struct stale_answer, extension), .required = true },
    { "id", JSON_KIND_TEXT, JSON_AT(struct stale_answer, id), .required = true },
    { "what", JSON_KIND_TEXT, JSON_AT(struct stale_answer, what), .required = true },
};
static const struct json_shape stale_answer = { "Stale", JSON_FIELDS(stale_fields) };

static void on_stale_resource(void *user, const char *backend, const char *id, const char *what)
{
    json_put_shape(user, &stale_answer, &(struct stale_answer){ backend, id, what });
}

static void write_stale(struct json_writer *w, const void *listing)
{
    const struct expiry_listing *l = listing;
    struct err e = { 0 };

    if ((l->apply ? control_reap_stale : control_stale)(l->call->api->control, on_stale_resource, w,
                                                        &e) < 0)
        json_writer_fail(w, e.code, "%s", e.msg);
}

static const struct json_field stale_list_fields[] = {
    { "stale", JSON_KIND_OBJECTS, .required = true, .schema = "Stale", .items = write_stale },
    APPLIED,
};
static const struct json_shape stale_list = { "StaleList", JSON_FIELDS(stale_list_fields) };

/* Answers with the shape of the route; a GET only lists. */
static void rest_list_or_apply(struct call *c)
{
    struct expiry_listing l = { .call = c };

    if (!c->route->fields || call_read(c, &l))
        call_answer_as(c, 200, c->route->with, &l);
}

const struct route routes_expire[] = {
    { H1_POST, VERB_DESTROY, "/v1/expire", ROUTE_JSON, rest_list_or_apply,
      "List or expire sandboxes that are due", ROUTE_FIELDS(apply_fields), .answer = "DueList",
      .with = &due_list },
    { H1_GET, VERB_ADMIN, "/v1/inspect/stale", ROUTE_ADMIN, rest_list_or_apply,
      "List resources that dead sandboxes left", .answer = "StaleList", .with = &stale_list },
    { H1_POST, VERB_ADMIN, "/v1/reap-stale", ROUTE_JSON | ROUTE_ADMIN, rest_list_or_apply,
      "Remove resources that dead sandboxes left", ROUTE_FIELDS(apply_fields),
      .answer = "StaleList", .with = &stale_list },
    { .path = NULL },
};

const struct json_shape *const answers_expire[] = { &due_answer, &due_list, &stale_answer,
                                                    &stale_list, NULL };
