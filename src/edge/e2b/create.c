/* SPDX-License-Identifier: Apache-2.0 */
/* POST /sandboxes of E2B's control plane: creates a sandbox. */
#include "edge/e2b/internal.h"
#include "edge/core/bind_known.h"
#include "edge/core/launch.h"
#include "edge/core/metadata.h"
#include "edge/core/template.h"
#include "edge/core/operation.h"
#include "base/clock.h"

struct e2b_create {
    const char *template;
    int64_t timeout_s;
    struct json_map metadata, env;
    struct e2b_network network;
    bool auto_pause, auto_pause_memory, secure;
    struct {
        bool enabled;
    } auto_resume;
    const struct json *volumes, *mcp, *iam;
};

#define AT(member) JSON_AT(struct e2b_create, member)

static const struct json_field resume_fields[] = {
    { "enabled", JSON_KIND_BOOL, AT(auto_resume.enabled) },
};

static const struct json_field create_fields[] = {
    { "templateID", JSON_KIND_STR, AT(template), .required = true, .min = 1,
      .max = TEMPLATE_NAME_MAX },
    { "timeout", JSON_KIND_INT, AT(timeout_s), .min = 1, .max = E2B_TIMEOUT_MAX_S },
    { "metadata", JSON_KIND_MAP, AT(metadata), .max = REQUEST_LABELS_MAX },
    { "envVars", JSON_KIND_MAP, AT(env), .max = REQUEST_ENV_MAX },
    { "allow_internet_access", JSON_KIND_BOOL, AT(network.egress.internet),
      .seen = offsetof(struct e2b_create, network.egress.internet_given) },
    { "network", JSON_KIND_OBJECT, .offset = offsetof(struct e2b_create, network),
      .size = sizeof(struct e2b_network), .fields = e2b_network_fields,
      .field_count = E2B_NETWORK_FIELD_COUNT },
    { "autoPause", JSON_KIND_BOOL, AT(auto_pause) },
    { "autoPauseMemory", JSON_KIND_BOOL,
      AT(auto_pause_memory) }, /* ignored: files are kept either way */
    { "autoResume", JSON_KIND_OBJECT, .offset = 0, .size = sizeof(struct e2b_create),
      JSON_FIELDS(resume_fields) },
    { "secure", JSON_KIND_BOOL, AT(secure) },
    { "volumeMounts", JSON_KIND_ANY, AT(volumes) },
    { "mcp", JSON_KIND_ANY, AT(mcp) },
    { "iam", JSON_KIND_ANY, AT(iam) },
};

static void answer_e2b_create(struct call *c, int r, const struct err *e)
{
    const struct creation *n = c->state;
    const struct create_op *op = &n->op;
    struct e2b_shown s = { .call = c, .record = op->record, .expires_ns = op->deadline_ns };

    if (r < 0)
        call_fail(c, e);
    else if (!op->record)
        call_fail_with(
            c, 500, "bug",
            "the sandbox was created, but its record needs more memory than an answer may "
            "have; Sandbox.list() shows it");
    else
        call_answer(c, 201, e2b_write_made, &s);
}

/* Runs the start command of a built template, or prepares an image. Returns false if the new
 * sandbox needs neither. */
static bool launch_new_sandbox(struct creation *n)
{
    struct call *c = n->call;
    const struct built *b =
        n->request.snapshot ? built_of_snapshot(c->api, n->request.snapshot) : NULL;

    if (!((b && b->start[0]) || n->request.image) || !n->op.record ||
        !control_find_now(c->api->control, &c->caller, str_from(n->op.record->id), &c->sandbox))
        return false;
    if (n->request.image)
        launch_image(c, answer_e2b_create);
    else
        launch_template(c, b, answer_e2b_create);
    return true;
}

static void on_e2b_sandbox_created(struct create_op *op, int r, const struct err *e)
{
    struct creation *n = container_of(op, struct creation, op);
    struct call *c = n->call;

    if (r < 0 || !launch_new_sandbox(n))
        answer_e2b_create(c, r, e);
    call_unref(c);
}

/* Rejects fields that are not supported instead of ignoring them. */
static int check_e2b_create(const struct e2b_create *q, struct err *e)
{
    const char *why = q->auto_resume.enabled
                          ? "autoResume: not supported; connect to a paused sandbox to resume it"
                      : bind_given(q->volumes) ? "volumeMounts: volumes are not supported"
                      : bind_given(q->mcp)     ? "mcp: gateways in sandboxes are not supported"
                      : bind_given(q->iam)     ? "iam: identity tokens are not supported"
                                               : NULL;

    return why ? err_set(e, ERR_UNSUPPORTED, "%s", why) : e2b_network_check(&q->network, e);
}

/* Merges two environments; variables of `above` (the request) override those of `below` (the
 * template). */
static struct json_map merge_template_env(const struct json_map *below,
                                          const struct json_map *above, struct call *c)
{
    struct json_pair *all = call_alloc(c, below->n + above->n + 1, sizeof *all);
    size_t n = 0;

    for (size_t i = 0; i < above->n; i++)
        all[n++] = above->p[i];
    for (size_t i = 0; i < below->n; i++) {
        size_t k = 0;

        while (k < above->n && strcmp(above->p[k].key, below->p[i].key) != 0)
            k++;
        if (k == above->n)
            all[n++] = below->p[i];
    }
    return (struct json_map){ all, n };
}

static int fill_e2b_request(struct call *c, const struct e2b_create *q, struct create_request *ret,
                            struct err *e)
{
    int r = check_e2b_create(q, e);

    if (r >= 0)
        r = metadata_to_labels(&q->metadata, &c->arena, &ret->labels, e);
    if (r >= 0)
        r = template_fill_request(c, q->template, ret, e);
    if (r < 0)
        return r;
    ret->env = merge_template_env(&ret->env, &q->env, c);
    r = egress_settings_fill(&q->network.egress, control_catalog(c->api->control), ret, e);
    if (r < 0)
        return r;
    ret->ttl_ns = (q->timeout_s ? q->timeout_s : e2b_usual_timeout_s(c)) * NS_PER_S;
    ret->on_timeout = q->auto_pause ? ASK_END_PAUSE : ASK_END_USUAL;
    return create_request_check(ret, &c->arena, e);
}

static void create_e2b_sandbox(struct call *c)
{
    struct creation *n = creation_new(c, sizeof *n, on_e2b_sandbox_created);
    struct e2b_create q = { 0 };
    struct err e;

    if (e2b_bind(c, c->json, create_fields, COUNT_OF(create_fields), &q, &e) < 0 ||
        fill_e2b_request(c, &q, &n->request, &e) < 0)
        call_fail(c, &e);
    else
        creation_start(n);
}

#define BODY (ROUTE_JSON | ROUTE_CONTENT)

const struct route routes_e2b_create[] = {
    { H1_POST, VERB_CREATE, "/sandboxes", BODY, .handle = create_e2b_sandbox },
    { H1_POST, VERB_CREATE, "/v2/sandboxes", BODY, .handle = create_e2b_sandbox },
    { .path = NULL },
};
