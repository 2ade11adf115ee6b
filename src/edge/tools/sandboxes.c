/* SPDX-License-Identifier: Apache-2.0 */
/* The tools sandbox_create, sandbox_list and sandbox_destroy. */
#include <stdio.h>
#include <stdlib.h>

#include "edge/tools/arguments.h"
#include "base/clock.h"
#include "base/rfc3339.h"
#include "domain/profile/profile.h"

static const char *time_text_on(struct arena *a, int64_t wall_ns)
{
    char text[TIME_TEXT];

    if (!wall_ns)
        return NULL;
    time_text(wall_ns, text);
    return arena_dup(a, str_from(text));
}

static const struct backend_ops *backend_of(const char *id)
{
    const struct backend_ops *ops = backend_find(str_from(id));

    return ops ? ops : &backend_local;
}

/* --- create --- */

struct tool_creation {
    struct mcp_request *request;
    struct tool_create in;
    struct create_op op;
};

static void on_tool_creation_end(struct mcp_request *r)
{
    struct tool_creation *n = r->state;

    arena_done(&n->op.arena);
}

static const char *isolation_name(unsigned bits)
{
    unsigned i = ISOLATION_COUNT_ - 1;

    while (i > 0 && !(bits & 1u << i))
        i--;
    return isolation_names[i];
}

static struct json_strs languages_of(const struct backend_ops *ops)
{
    static const char *const any[] = { "any" };
    struct json_strs list = { ops->vector.languages, 0 };

    while (list.p && list.p[list.n])
        list.n++;
    return list.n ? list : (struct json_strs){ any, 1 };
}

static void answer_created(struct tool_creation *n)
{
    const struct sandbox_record *v = n->op.record;
    const struct backend_ops *ops = backend_of(v->extension);
    struct mcp_client *m = mcp_client_of(n->request);
    struct sandbox_egress egress;
    struct sandbox *s;
    const char *workdir = NULL, *egress_policy = "deny";
    struct tool_created out;

    if (control_find_now(m->control, mcp_caller(n->request->session), str_from(v->id), &s)) {
        workdir = sandbox_workdir(s);
        egress_policy = sandbox_egress(s, &egress) ? "enforced" : "deny";
        sandbox_unref(s);
    }
    out = (struct tool_created){
        .sandbox_id = v->id,
        .profile = v->profile,
        .provider = v->extension,
        .provider_version = ops->version,
        .isolation_level = isolation_name(ops->vector.isolation),
        .egress_policy = egress_policy,
        .expires_at = time_text_on(&n->request->arena, n->op.expires_ns),
        .cold_start_ms =
            v->ready_ns > v->created_ns ? (v->ready_ns - v->created_ns) / NS_PER_MS : 0,
        .language_support = languages_of(ops),
        .attestation = ops->vector.attestation,
        .workdir = workdir,
    };

    mcp_tool_answer(n->request, &out);
}

/* Destroys a sandbox whose request was cancelled meanwhile. */
static void destroy_unwanted_sandbox(struct tool_creation *n)
{
    struct mcp_client *m = mcp_client_of(n->request);
    struct sandbox *s;

    if (!control_find_now(m->control, mcp_caller(n->request->session), str_from(n->op.record->id),
                          &s))
        return;
    sandbox_destroy(s, &m->caller.actor, "its request was cancelled", DESTROY_NO_SYNC, NULL);
    sandbox_unref(s);
}

static void on_tool_sandbox_created(struct create_op *op, int r, const struct err *e)
{
    struct tool_creation *n = container_of(op, struct tool_creation, op);
    struct mcp_request *q = n->request;

    if (r < 0) {
        mcp_fail_err(q, "The sandbox could not be created", e);
    } else if (!op->record || q->cancelled || q->session->ended) {
        if (op->record)
            destroy_unwanted_sandbox(n);
        mcp_tool_fail(q, "The sandbox was created, but cannot be shown. See sandbox_list.");
    } else {
        answer_created(n);
    }
    mcp_request_unref(q);
}

static void on_creation_step(struct create_op *op, const char *step, uint64_t bytes)
{
    struct tool_creation *n = container_of(op, struct tool_creation, op);
    static const char *const steps[] = { "provision", "probe", "workspace", "egress" };
    size_t i = 0;

    while (i + 1 < COUNT_OF(steps) && strcmp(steps[i], step) != 0)
        i++;
    if (i >= n->request->told)
        mcp_progress(n->request, n->request->told = i + 1, 0, str_from(step), NULL, NULL);
}

/* Fails the request and returns false if the provider does not serve the profile. */
static bool check_provider(struct mcp_request *r, const struct tool_create *in)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    const struct mcp_client *m = mcp_client_of(r);
    const char *want = in->provider ? in->provider : m->provider, *name;
    const char *profile = in->request.profile ? in->request.profile : CATALOG_DEFAULT_PROFILE;
    struct err e;

    if (!want[0])
        return true;
    if (catalog_find(control_catalog(m->control), str_from(profile), &p, &e) < 0) {
        mcp_fail_err(r, "The profile cannot be used", &e);
        return false;
    }
    name = strncmp(p->extension, "ext.", 4) == 0 ? p->extension + 4 : p->extension;
    if (strcmp(want, p->extension) == 0 || strcmp(want, name) == 0)
        return true;
    mcp_tool_fail(r,
                  "%s is made by the provider '%s', not by '%s'. Name another profile, or leave "
                  "provider out.",
                  p->id, name, want);
    return false;
}

static bool check_create_request(struct mcp_request *r, struct tool_create *in)
{
    struct err e;

    if (create_request_check(&in->request, &r->arena, &e) >= 0)
        return true;
    mcp_tool_fail(r, "%s. See the tool's input schema.", e.msg);
    return false;
}

void mcp_tool_create(struct mcp_request *r, const struct json *v)
{
    struct tool_creation *n = arena_alloc(&r->arena, sizeof *n);

    if (!n || !mcp_arguments(r, v, &n->in) || !check_create_request(r, &n->in) ||
        !check_provider(r, &n->in))
        return;
    n->request = mcp_request_ref(r);
    r->state = n;
    r->on_end = on_tool_creation_end;
    n->op = (struct create_op){ .caller = mcp_caller(r->session),
                                .request = &n->in.request,
                                .at = on_creation_step,
                                .done = on_tool_sandbox_created };
    if (r->session->approved || r->granted)
        n->op.approved_for = mcp_client_of(r)->peer->record.id;
    control_create(mcp_client_of(r)->control, &n->op);
}

/* --- list --- */

struct tool_listing {
    struct mcp_request *request;
    struct tool_list in;
    struct store_query query;
};

static void on_tool_listing_end(struct mcp_request *r)
{
    struct tool_listing *l = r->state;

    arena_done(&l->query.arena);
}

static struct tool_listed_box make_listed_box(struct tool_listing *l,
                                              const struct sandbox_record *v)
{
    struct control *c = mcp_client_of(l->request)->control;
    struct arena *a = &l->request->arena;

    return (struct tool_listed_box){ .sandbox_id = v->id,
                                     .state = sandbox_state_names[v->state],
                                     .profile = v->profile,
                                     .provider = v->extension,
                                     .created_at = time_text_on(a, v->created_ns),
                                     .expires_at = time_text_on(a, control_expires_ns(c, v)) };
}

static void on_tool_sandboxes_listed(struct store_query *q, int r, const struct err *e)
{
    struct tool_listing *l = container_of(q, struct tool_listing, query);
    struct mcp_request *request = l->request;
    size_t n = q->n < l->in.limit ? q->n : l->in.limit;
    struct tool_listed_box *boxes = arena_array(&request->arena, n + 1, sizeof *boxes);
    struct tool_listed out = { .provider_version = backend_local.version };
    char cursor[64 + ID_MAX];

    if (r < 0) {
        mcp_fail_err(request, "The sandboxes could not be listed", e);
        mcp_request_unref(request);
        return;
    }
    for (size_t i = 0; i < n; i++)
        boxes[i] = make_listed_box(l, &q->sandboxes[i]);
    out.sandboxes = (struct json_objects){ boxes, n };
    if (q->n > n && n) {
        snprintf(cursor, sizeof cursor, "%lld.%s", (long long)q->sandboxes[n - 1].created_ns,
                 q->sandboxes[n - 1].id);
        out.next_cursor = cursor;
    }
    mcp_tool_answer(request, &out);
    mcp_request_unref(request);
}

static bool read_tool_list_cursor(struct tool_listing *l)
{
    struct str time, id = str_cut(str_from(l->in.cursor), '.', &time);

    if (!l->in.cursor)
        return true;
    return str_to_i64(time, &l->query.after.created_ns) && id_valid("sbx_", id) &&
           str_copy(id, l->query.after.id, sizeof l->query.after.id);
}

void mcp_tool_list(struct mcp_request *r, const struct json *v)
{
    struct tool_listing *l = arena_alloc(&r->arena, sizeof *l);
    const struct caller *who = mcp_caller(r->session);
    struct err e;

    if (!l || !mcp_arguments(r, v, &l->in))
        return;
    if (!read_tool_list_cursor(l)) {
        mcp_tool_fail(r,
                      "The cursor is not one that sandbox_list gave. Leave it out to start over.");
        return;
    }
    l->request = mcp_request_ref(r);
    r->state = l;
    r->on_end = on_tool_listing_end;
    l->query.states = ((1u << SANDBOX_STATE_COUNT_) - 1) & ~(1u << SANDBOX_DESTROYED);
    l->query.labels = who->labels;
    l->query.limit = (int)l->in.limit + 1;
    if (control_list(mcp_client_of(r)->control, who, &l->query, on_tool_sandboxes_listed, &e) < 0) {
        mcp_fail_err(r, "The sandboxes could not be listed", &e);
        mcp_request_unref(r);
    }
}

/* --- destroy --- */

struct destruction {
    struct mcp_request *request;
    struct sandbox *sandbox; /* referenced */
    struct sandbox_op op;
    char id[ID_MAX];
};

static void on_tool_sandbox_destroyed(struct sandbox_op *op, int r, const struct err *e)
{
    struct destruction *d = container_of(op, struct destruction, op);
    const char *kept = sandbox_kept_snapshot(d->sandbox);
    const struct tool_destroyed out = { .sandbox_id = d->id,
                                        .state = sandbox_state_names[SANDBOX_DESTROYED],
                                        .kept_snapshot = kept[0] ? kept : NULL };

    if (r < 0) {
        mcp_fail_err(d->request, "The sandbox could not be destroyed", e);
    } else {
        mcp_tool_answer(d->request, &out);
    }
    sandbox_unref(d->sandbox);
    mcp_request_unref(d->request);
}

void mcp_tool_destroy(struct mcp_request *r, const struct json *v)
{
    struct destruction *d = arena_alloc(&r->arena, sizeof *d);
    struct tool_destroy in = { 0 };
    struct sandbox *s;

    if (!d || !mcp_arguments(r, v, &in))
        return;
    s = mcp_sandbox(r, in.sandbox_id);
    if (!s)
        return;
    d->request = mcp_request_ref(r);
    d->op.done = on_tool_sandbox_destroyed;
    d->sandbox = s;
    snprintf(d->id, sizeof d->id, "%s", in.sandbox_id);
    sandbox_destroy(s, &mcp_client_of(r)->caller.actor, "sandbox_destroy", DESTROY_SYNC, &d->op);
}
