/* SPDX-License-Identifier: Apache-2.0 */
/* The tools sandbox_create, sandbox_list and sandbox_destroy. */
#include "edge/tools/arguments.h"
#include "edge/tools/workspace.h"
#include "base/clock.h"
#include "domain/profile/profile.h"

/* "" without a time. */
static void show_time(int64_t wall_ns, char ret[static TIME_TEXT])
{
    ret[0] = '\0';
    if (wall_ns)
        time_text(wall_ns, ret);
}

/* --- create --- */

struct tool_creation {
    struct mcp_request *request;
    struct tool_create in;
    struct create_op op;
};

static void release_creation(void *state)
{
    arena_done(&((struct tool_creation *)state)->op.arena);
}

/* The level that every sandbox of the backend has at least. */
static const char *isolation_name(unsigned bits)
{
    unsigned i = 0;

    while (i < ISOLATION_COUNT_ - 1 && !(bits & 1u << i))
        i++;
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

/* The new sandbox, referenced; NULL: it has ended already. */
static struct sandbox *find_created(const struct tool_creation *n)
{
    struct sandbox *s;

    return control_find_now(mcp_client_of(n->request)->control, mcp_caller(n->request->session),
                            str_from(n->op.record->id), &s)
               ? s
               : NULL;
}

static void answer_created(struct tool_creation *n)
{
    const struct sandbox_record *v = n->op.record;
    const struct backend_ops *found = backend_find(str_from(v->extension)),
                             *ops = found ? found : &backend_local;
    struct tool_created out = {
        .record = v,
        .provider_version = ops->version,
        .isolation_level = isolation_name(ops->vector.isolation),
        .egress_policy = "deny",
        .cold_start_ms =
            v->ready_ns > v->created_ns ? (v->ready_ns - v->created_ns) / NS_PER_MS : 0,
        .language_support = languages_of(ops),
        .attestation = ops->vector.attestation,
    };
    struct sandbox_egress egress;
    struct sandbox *s = find_created(n);

    show_time(n->op.expires_ns, out.expires_at);
    if (s) {
        out.workdir = sandbox_workdir(s);
        out.egress_policy = sandbox_egress(s, &egress) ? "enforced" : "deny";
    }
    mcp_tool_answer(n->request, &out);
    if (s)
        sandbox_unref(s);
}

/* Destroys a sandbox whose request was cancelled meanwhile. */
static void on_tool_sandbox_created(struct create_op *op, int r, const struct err *e)
{
    struct tool_creation *n = container_of(op, struct tool_creation, op);
    struct mcp_request *q = n->request;
    struct sandbox *s;

    if (r < 0) {
        mcp_fail_err(q, "The sandbox could not be created", e);
    } else if (!op->record || q->cancelled || q->session->ended) {
        s = op->record ? find_created(n) : NULL;
        if (s) {
            sandbox_destroy(s, &mcp_client_of(q)->caller.actor, "its request was cancelled",
                            DESTROY_NO_SYNC, NULL);
            sandbox_unref(s);
        }
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

void mcp_tool_create(struct mcp_request *r, const struct json *v)
{
    struct tool_creation *n = mcp_state(r, sizeof *n, release_creation);
    struct err e;

    if (!mcp_arguments(r, v, &n->in))
        return;
    if (create_request_check(&n->in.request, &r->arena, &e) < 0) {
        mcp_tool_fail(r, "%s. See the tool's input schema.", e.msg);
        return;
    }
    if (!check_provider(r, &n->in))
        return;
    n->request = mcp_request_ref(r);
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
    struct mcp_box_query list;
    struct tool_list in;
};

static void fill_listed_sandbox(struct mcp_request *r, const struct sandbox_record *v,
                                struct tool_listed_sandbox *ret)
{
    ret->record = v;
    show_time(v->created_ns, ret->created_at);
    show_time(control_expires_ns(mcp_client_of(r)->control, v), ret->expires_at);
}

/* The sandbox of the workspace comes first, besides the page. */
static void on_tool_sandboxes_listed(struct store_query *q, int r, const struct err *e)
{
    struct tool_listing *l = container_of(q, struct tool_listing, list.query);
    struct mcp_request *request = l->list.request;
    size_t n = q->n < l->in.limit ? q->n : l->in.limit;
    struct tool_listed_sandbox *boxes = arena_array(&request->arena, n + 2, sizeof *boxes);
    struct sandbox *own = l->in.cursor ? NULL : mcp_workspace_sandbox(mcp_client_of(request));
    struct tool_listed out = { backend_local.version, NULL, { boxes, n } };
    char cursor[SANDBOX_PAGE_CURSOR];

    if (r < 0) {
        mcp_fail_err(request, "The sandboxes could not be listed", e);
        sandbox_unref(own);
        mcp_request_unref(request);
        return;
    }
    if (own)
        fill_listed_sandbox(request, sandbox_view(own).record, &boxes[out.sandboxes.n++]);
    for (size_t i = 0; i < n; i++)
        fill_listed_sandbox(request, &q->sandboxes[i], &boxes[own ? i + 1 : i]);
    if (q->n > n && n) {
        sandbox_page_cursor(&q->sandboxes[n - 1], cursor);
        out.next_cursor = cursor;
    }
    mcp_tool_answer(request, &out);
    sandbox_unref(own);
    mcp_request_unref(request);
}

void mcp_tool_list(struct mcp_request *r, const struct json *v)
{
    struct tool_listing *l = mcp_state(r, sizeof *l, mcp_query_done);
    struct err e;

    if (!mcp_arguments(r, v, &l->in))
        return;
    if (!mcp_box_query_after(&l->list, str_from(l->in.cursor)))
        mcp_tool_fail(r,
                      "The cursor is not one that sandbox_list gave. Leave it out to start over.");
    else if (mcp_box_query_start(&l->list, r, l->in.limit, on_tool_sandboxes_listed, &e) < 0)
        mcp_fail_err(r, "The sandboxes could not be listed", &e);
}

/* --- destroy --- */

struct destruction {
    struct mcp_request *request;
    struct sandbox *sandbox; /* referenced */
    struct sandbox_op op;
    struct tool_destroy in;
};

static void on_tool_sandbox_destroyed(struct sandbox_op *op, int r, const struct err *e)
{
    struct destruction *d = container_of(op, struct destruction, op);
    const struct tool_destroyed out = { .sandbox_id = d->in.sandbox_id,
                                        .state = sandbox_state_names[SANDBOX_DESTROYED],
                                        .kept_snapshot = sandbox_kept_snapshot(d->sandbox) };

    if (r < 0)
        mcp_fail_err(d->request, "The sandbox could not be destroyed", e);
    else
        mcp_tool_answer(d->request, &out);
    sandbox_unref(d->sandbox);
    mcp_request_unref(d->request);
}

void mcp_tool_destroy(struct mcp_request *r, const struct json *v)
{
    struct destruction *d = mcp_state(r, sizeof *d, NULL);

    if (!mcp_arguments(r, v, &d->in))
        return;
    if (mcp_workspace_is(mcp_client_of(r), d->in.sandbox_id)) {
        mcp_tool_fail(r, "The sandbox with the user's directory ends with the session. "
                         "sandbox_sync brings its changes back.");
        return;
    }
    d->sandbox = mcp_sandbox(r, d->in.sandbox_id);
    if (!d->sandbox)
        return;
    d->request = mcp_request_ref(r);
    d->op.done = on_tool_sandbox_destroyed;
    sandbox_destroy(d->sandbox, &mcp_client_of(r)->caller.actor, "sandbox_destroy", DESTROY_USUAL,
                    &d->op);
}
