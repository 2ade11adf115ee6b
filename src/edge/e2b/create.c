/* E2B's clients create sandboxes. */
#include <stdlib.h>

#include "api/e2b/inside.h"
#include "api/e2b/launch.h"
#include "api/e2b/metadata.h"
#include "api/e2b/network.h"
#include "api/e2b/shown.h"
#include "api/e2b/template.h"
#include "api/operation.h"
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
      .max = E2B_TEMPLATE_MAX },
    { "timeout", JSON_KIND_INT, AT(timeout_s), .min = 1, .max = E2B_TIMEOUT_MAX_S },
    { "metadata", JSON_KIND_MAP, AT(metadata), .max = REQUEST_LABELS_MAX },
    { "envVars", JSON_KIND_MAP, AT(env), .max = REQUEST_ENV_MAX },
    { "allow_internet_access", JSON_KIND_BOOL, AT(network.internet),
      .seen = offsetof(struct e2b_create, network.internet_given) },
    { "network", JSON_KIND_OBJECT, .offset = offsetof(struct e2b_create, network),
      .size = sizeof(struct e2b_network), .fields = e2b_network_fields,
      .field_count = E2B_NETWORK_FIELD_COUNT },
    { "autoPause", JSON_KIND_BOOL, AT(auto_pause) },
    { "autoPauseMemory", JSON_KIND_BOOL, AT(auto_pause_memory) }, /* files are kept either way */
    { "autoResume", JSON_KIND_OBJECT, .offset = 0, .size = sizeof(struct e2b_create),
      JSON_FIELDS(resume_fields) },
    { "secure", JSON_KIND_BOOL, AT(secure) },
    { "volumeMounts", JSON_KIND_ANY, AT(volumes) },
    { "mcp", JSON_KIND_ANY, AT(mcp) },
    { "iam", JSON_KIND_ANY, AT(iam) },
};

static void answer(struct call *c, int r, const struct err *e)
{
    const struct create_op *op = &((const struct creation *)c->state)->op;
    struct e2b_shown s = { .call = c, .record = op->record, .expires_ns = op->deadline_ns };

    if (r < 0)
        call_fail(c, e);
    else if (!op->record)
        call_fail_with(c, 500, "bug", "the sandbox is there, but its record is too big to show");
    else
        call_answer(c, 201, e2b_write_made, &s);
}

/* It begins with what its template starts. */
static bool launches(struct creation *n)
{
    struct call *c = n->call;
    const struct built *b =
        n->request.snapshot ? built_of_snapshot(c->api, n->request.snapshot) : NULL;

    if (!((b && b->start[0]) || n->request.image) || !n->op.record ||
        !control_find_now(c->api->control, &c->caller, str_from(n->op.record->id), &c->sandbox))
        return false;
    if (n->request.image)
        e2b_launch_image(c, answer);
    else
        e2b_launch(c, b, answer);
    return true;
}

static void created(struct create_op *op, int r, const struct err *e)
{
    struct creation *n = container_of(op, struct creation, op);
    struct call *c = n->call;

    if (r < 0 || !launches(n))
        answer(c, r, e);
    call_unref(c);
}

static bool is_there_in(const struct json *v)
{
    return v && v->type != JSON_NULL && !(v->type >= JSON_ARRAY && !v->list.n);
}

/* What we could not keep is refused, not forgotten. */
static int check_create(const struct e2b_create *q, struct err *e)
{
    if (q->auto_resume.enabled)
        return err_set(e, ERR_UNSUPPORTED,
                       "autoResume: a paused sandbox goes on when it is connected to");
    if (is_there_in(q->volumes))
        return err_set(e, ERR_UNSUPPORTED, "volumeMounts: there are no volumes here");
    if (is_there_in(q->mcp))
        return err_set(e, ERR_UNSUPPORTED, "mcp: there is no gateway in sandboxes here");
    if (is_there_in(q->iam))
        return err_set(e, ERR_UNSUPPORTED, "iam: there are no identity tokens here");
    return e2b_network_check(&q->network, e);
}

/* The template's variables, unless the request has others of the name. */
static struct json_map join(const struct json_map *below, const struct json_map *above,
                            struct arena *a)
{
    struct json_pair *all = arena_array(a, below->n + above->n + 1, sizeof *all);
    size_t n = 0;

    if (!all)
        abort(); /* both are few */
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

static int fill_request(struct call *c, const struct e2b_create *q, int64_t usual_s,
                        struct create_request *ret, struct err *e)
{
    int r = check_create(q, e);

    if (r >= 0)
        r = metadata_to_labels(&q->metadata, &c->arena, &ret->labels, e);
    if (r >= 0)
        r = e2b_template_fill(c, q->template, ret, e);
    if (r < 0)
        return r;
    ret->env = join(&ret->env, &q->env, &c->own);
    r = e2b_network_fill(&q->network, control_catalog(c->api->control), ret, e);
    if (r < 0)
        return r;
    ret->ttl_ns = (q->timeout_s ? q->timeout_s : usual_s) * NS_PER_S;
    ret->on_timeout = q->auto_pause ? ASK_END_PAUSE : ASK_END_USUAL;
    return create_request_check(ret, &c->arena, e);
}

static void create(struct call *c, int64_t usual_s)
{
    struct creation *n = creation_new(c, created);
    struct e2b_create q = { 0 };
    struct err e;

    if (e2b_bind(c, c->json, create_fields, COUNT_OF(create_fields), &q, &e) < 0 ||
        fill_request(c, &q, usual_s, &n->request, &e) < 0)
        call_fail(c, &e);
    else
        creation_start(n);
}

static void create_v1(struct call *c)
{
    create(c, E2B_TIMEOUT_V1_S);
}

static void create_v2(struct call *c)
{
    create(c, E2B_TIMEOUT_V2_S);
}

const struct route routes_e2b_create[] = {
    { H1_POST, VERB_CREATE, "/sandboxes", ROUTE_JSON | ROUTE_CONTENT, create_v1,
      .face = &e2b_face },
    { H1_POST, VERB_CREATE, "/v2/sandboxes", ROUTE_JSON | ROUTE_CONTENT, create_v2,
      .face = &e2b_face },
    { .path = NULL },
};
