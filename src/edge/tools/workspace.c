/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/tools/workspace.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "control/sandbox/workspace.h"
#include "edge/mcp/line.h"
#include "edge/tools/workspace_end.h"
#include "lib/json/reader.h"

enum { DEPTH = 16, GRANT_ARENA_MAX = 1 << 20 };
#define EXTEND_EVERY (60 * NS_PER_S)

enum grant_state { GRANT_UNUSED, GRANT_MAKING, GRANT_RESUMING, GRANT_READY };

struct mcp_workspace {
    struct mcp_client *client;
    struct arena arena; /* of the request */
    struct create_request request;
    struct control_client handed; /* the granting connection and its directory */
    struct caller granter;
    bool approves; /* the granter may approve networks */
    enum grant_state state;
    struct mcp_session *session; /* referenced while an operation is under way */
    struct create_op making;
    struct sandbox_op moving;
    struct sandbox *resumed; /* referenced while it is resumed */
    int64_t ttl_ns;          /* of the sandbox, when the session began to use it */
    int64_t extended_ns;     /* the last time that its lifetime was extended */
    struct sandbox *sandbox; /* referenced and attached; NULL: none yet */
    struct list waiting;     /* struct grant_wait */
};

/* --- the grant --- */

static const char *granted_directory(const struct create_request *q)
{
    return json_map_get(&q->inputs, "repo");
}

static bool read_granted_request(struct call *c, struct mcp_workspace *w, struct str text)
{
    const struct json_limits limits = { .bytes = REQUEST_JSON_MAX, .depth = DEPTH };
    const char *copy = arena_dup(&w->arena, text);
    const struct json *v;
    struct err e;

    if (!copy || json_read((struct str){ copy, text.n }, limits, &w->arena, &v, &e) < 0 ||
        create_request_read(v, &w->request, &w->arena, &e) < 0)
        return call_fail_with(c, 400, "invalid", "the workspace of the session: %s",
                              copy ? e.msg : "the request is too large");
    return granted_directory(&w->request) ||
           call_fail_with(c, 400, "invalid",
                          "the workspace of the session: inputs.repo must name its directory");
}

static int dup_granting_fd(int fd)
{
    return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

bool mcp_workspace_read(struct call *c, struct mcp_client *m)
{
    struct str text = call_header(c, MCP_WORKSPACE_FIELD);
    struct mcp_workspace *w;

    if (!text.p)
        return true;
    if (!mcp_line_wanted(c->x) || !c->caller.host_paths || c->caller.by_token)
        return call_fail_with(c, 403, "denied",
                              "only `sandboxer mcp` of a user on the daemon's unix socket can "
                              "grant a workspace to its session");
    w = m->workspace = new0(sizeof *w);
    w->client = m;
    arena_init(&w->arena, GRANT_ARENA_MAX);
    w->handed = (struct control_client){ -1, -1 };
    w->granter = m->caller;
    w->approves = c->caller.role == ROLE_MASTER && c->caller.trusted;
    if (!read_granted_request(c, w, text))
        return false;
    w->handed.connection = dup_granting_fd(http_connection_fd(c->x));
    w->handed.handed = dup_granting_fd(http_received_fd(c->x));
    return true;
}

static void drop_granting_fds(struct mcp_workspace *w)
{
    drop_fd(&w->handed.connection);
    drop_fd(&w->handed.handed);
}

void mcp_workspace_free(struct mcp_workspace *w)
{
    if (!w)
        return;
    drop_granting_fds(w);
    sandbox_unref(w->sandbox);
    arena_done(&w->arena);
    free(w);
}

/* --- calls that wait --- */

struct grant_wait {
    struct mcp_request *request; /* referenced */
    void (*go)(struct mcp_request *r);
    struct link link;
};

static void cancel_grant_wait(struct mcp_request *r)
{
    struct grant_wait *x = r->state;

    link_leave(&x->link);
    mcp_request_unref(r);
}

static void wait_for_grant(struct mcp_workspace *w, struct mcp_request *r,
                           void (*go)(struct mcp_request *r))
{
    struct grant_wait *x = mcp_state(r, sizeof *x, NULL);

    x->request = mcp_request_ref(r);
    x->go = go;
    r->on_cancel = cancel_grant_wait;
    list_append(&w->waiting, &x->link);
}

/* The arguments of the request, with the sandbox of the workspace where they name none. */
static bool fill_sandbox_id(struct mcp_request *r, const char *id)
{
    const struct json *old = r->arguments;
    struct json *all = arena_array(&r->arena, old->list.n + 2, sizeof *all);
    size_t n = 0;

    if (!all)
        return false;
    for (size_t i = 0; old->list.p && i < old->list.n; i++)
        if (!str_eq(old->list.p[i].key, STR("sandbox_id")))
            all[++n] = old->list.p[i];
    all[++n] = (struct json){ .type = JSON_STR, .key = STR("sandbox_id"), .s = str_from(id) };
    all[0] = (struct json){ .type = JSON_OBJECT, .list = { all + 1, n } };
    r->arguments = all;
    return true;
}

static void continue_with_grant(struct mcp_workspace *w, struct mcp_request *r,
                                void (*go)(struct mcp_request *r))
{
    if (mcp_is_finished(r))
        return;
    if (fill_sandbox_id(r, w->client->peer->workspace.sandbox))
        go(r);
    else
        mcp_tool_fail(r, "The arguments are too large. Do it in smaller parts.");
}

static void fail_for_grant(const struct mcp_workspace *w, struct mcp_request *r,
                           const struct err *e)
{
    mcp_tool_fail(r,
                  "The sandbox with the copy of %s is not available: %s. Report this to the user; "
                  "calls with the id of a sandbox of your own still work.",
                  granted_directory(&w->request), e->msg);
}

static void settle_grant_waits(struct mcp_workspace *w, const struct err *e)
{
    struct mcp_session *s = take_ptr(w->session);

    for (struct link *m; (m = list_take(&w->waiting));) {
        struct grant_wait *x = container_of(m, struct grant_wait, link);
        struct mcp_request *r = x->request;

        r->on_cancel = NULL;
        r->state = NULL;
        if (e && !mcp_is_finished(r))
            fail_for_grant(w, r, e);
        else
            continue_with_grant(w, r, x->go);
        mcp_request_unref(r);
    }
    mcp_session_unref(s);
}

/* --- the sandbox --- */

static bool is_granted_elsewhere(const struct mcp_client *m, const struct sandbox *s)
{
    LIST_EACH (const struct mcp_session, other, &m->api->mcp.sessions, link) {
        const struct mcp_client *x = other->user;

        if (x != m && x->workspace && x->workspace->sandbox == s)
            return true;
    }
    return false;
}

/* After the end of the daemon's API the sandbox goes on, as all others. */
static void leave_granted_sandbox(const struct mcp_workspace *w, struct sandbox *s)
{
    if (!w->client->api->on_closed && !is_granted_elsewhere(w->client, s))
        workspace_end_begin(s, &w->granter.actor);
}

static void fail_grant(struct mcp_workspace *w, const struct err *e)
{
    w->state = w->sandbox ? GRANT_READY : GRANT_UNUSED;
    settle_grant_waits(w, e);
}

/* From here on the peer sees it. */
static void use_granted_sandbox(struct mcp_workspace *w, struct sandbox *s)
{
    struct mcp_client *m = w->client;
    struct peer *p = m->peer;

    w->state = GRANT_READY;
    if (!w->sandbox) {
        w->sandbox = sandbox_ref(s);
        w->ttl_ns = sandbox_view(s).record->ttl_ns;
        sandbox_attach(s);
        snprintf(p->workspace.sandbox, sizeof p->workspace.sandbox, "%s",
                 sandbox_view(s).record->id);
        p->workspace.network = w->approves;
        memcpy(m->caller.also, p->workspace.sandbox, sizeof m->caller.also);
    }
    settle_grant_waits(w, NULL);
}

static void on_granted_sandbox_made(struct create_op *op, int r, const struct err *e)
{
    struct mcp_workspace *w = container_of(op, struct mcp_workspace, making);
    struct sandbox *s = NULL;
    struct err gone;

    if (r >= 0 && (!op->record || !control_find_now(w->client->control, &w->granter,
                                                    str_from(op->record->id), &s))) {
        (void)err_set(&gone, ERR_CONFLICT, "it ended as soon as it was made");
        e = &gone;
    }
    arena_done(&op->arena);
    if (s)
        drop_granting_fds(w); /* their packet was taken */
    if (!s) {
        fail_grant(w, e);
    } else if (w->session->ended) { /* it has no changes yet */
        sandbox_destroy(s, &w->granter.actor, "its session ended", DESTROY_NO_SYNC, NULL);
        fail_grant(w, e);
    } else {
        use_granted_sandbox(w, s);
    }
    sandbox_unref(s);
}

static void make_granted_sandbox(struct mcp_workspace *w)
{
    w->state = GRANT_MAKING;
    w->making = (struct create_op){ .caller = &w->granter,
                                    .request = &w->request,
                                    .client = &w->handed,
                                    .done = on_granted_sandbox_made };
    control_create(w->client->control, &w->making);
}

static void on_granted_sandbox_resumed(struct sandbox_op *op, int r, const struct err *e)
{
    struct mcp_workspace *w = container_of(op, struct mcp_workspace, moving);
    struct sandbox *s = take_ptr(w->resumed);

    if (r >= 0 && !w->session->ended) {
        use_granted_sandbox(w, s);
    } else {
        if (r >= 0)
            leave_granted_sandbox(w, s);
        fail_grant(w, e);
    }
    sandbox_unref(s);
}

/* For its whole lifetime again. */
static void resume_granted_sandbox(struct mcp_workspace *w, struct sandbox *s)
{
    w->state = GRANT_RESUMING;
    w->resumed = sandbox_ref(s);
    w->moving = (struct sandbox_op){ .done = on_granted_sandbox_resumed };
    sandbox_resume_for(s, &w->granter.actor, w->ttl_ns ? w->ttl_ns : sandbox_view(s).record->ttl_ns,
                       &w->moving);
}

/* A sandbox of that name is used if it has the same directory and access. */
static int check_granted_name(const struct mcp_workspace *w, const struct sandbox *s, struct err *e)
{
    const char *dir = workspace_directory(s), *want = granted_directory(&w->request);
    bool rw = workspace_syncs(s);

    if (!dir || strcmp(dir, want) != 0)
        return err_set(e, ERR_CONFLICT,
                       "the sandbox '%s' exists, and its workspace is %s; choose another --name",
                       w->request.name, dir ? dir : "no directory of this machine");
    if (rw != (w->request.workspace.access != ASK_ACCESS_RO))
        return err_set(e, ERR_CONFLICT,
                       "the sandbox '%s' exists, and its workspace is %s; choose another --name",
                       w->request.name, rw ? "writable" : "read-only");
    if (!sandbox_state_usable(sandbox_state(s)) && sandbox_state(s) != SANDBOX_PAUSED)
        return err_set(e, ERR_CONFLICT, "the sandbox '%s' is %s; end it: sandboxer destroy %s",
                       w->request.name, sandbox_state_names[sandbox_state(s)], w->request.name);
    return 0;
}

static bool find_granted_name(const struct mcp_workspace *w, struct sandbox **ret)
{
    return w->request.name &&
           control_find_named(w->client->control, &w->granter, str_from(w->request.name), ret);
}

static void begin_grant(struct mcp_workspace *w)
{
    struct sandbox *s = NULL;
    struct err e;

    if (!find_granted_name(w, &s))
        make_granted_sandbox(w);
    else if (check_granted_name(w, s, &e) < 0)
        fail_grant(w, &e);
    else if (sandbox_state(s) == SANDBOX_PAUSED)
        resume_granted_sandbox(w, s);
    else
        use_granted_sandbox(w, s);
    sandbox_unref(s);
}

/* --- use --- */

static void on_grant_extended(struct sandbox_op *op, int r, const struct err *e)
{
    free(op);
}

/* A session in use keeps its sandbox; one that is not used for the whole time finds it paused. */
static void extend_granted_sandbox(struct mcp_workspace *w)
{
    int64_t now = clock_wall();
    struct sandbox_op *op;

    if (sandbox_view(w->sandbox).deadline_ns - now > w->ttl_ns / 2 ||
        now - w->extended_ns < EXTEND_EVERY)
        return;
    w->extended_ns = now;
    op = new0(sizeof *op);
    op->done = on_grant_extended;
    sandbox_extend(w->sandbox, &w->granter.actor, w->ttl_ns, op);
}

static bool takes_granted_sandbox(const struct mcp_workspace *w, const struct mcp_request *r)
{
    const struct json *id = json_get(r->arguments, STR("sandbox_id"));
    bool takes = false;

    for (size_t i = 0; i < r->tool->field_count; i++)
        takes |= strcmp(r->tool->fields[i].name, "sandbox_id") == 0;
    if (!takes || (r->tool->hints & MCP_NO_PRESET))
        return false;
    return !id || id->type == JSON_NULL ||
           (id->type == JSON_STR && w->sandbox &&
            str_eq(id->s, str_from(w->client->peer->workspace.sandbox)));
}

void mcp_workspace_fill(struct mcp_request *r, void (*go)(struct mcp_request *r))
{
    struct mcp_workspace *w = mcp_client_of(r)->workspace;
    bool begins;

    if (!w || !takes_granted_sandbox(w, r)) {
        go(r);
        return;
    }
    begins = w->state == GRANT_UNUSED || (w->state == GRANT_READY && sandbox_timed_out(w->sandbox));
    if (w->state == GRANT_READY && !begins) {
        extend_granted_sandbox(w);
        continue_with_grant(w, r, go);
        return;
    }
    wait_for_grant(w, r, go);
    if (!begins)
        return;
    w->session = mcp_session_ref(r->session);
    if (w->sandbox)
        resume_granted_sandbox(w, w->sandbox);
    else
        begin_grant(w);
}

bool mcp_workspace_is(const struct mcp_client *m, const char *id)
{
    return m->peer && m->peer->workspace.sandbox[0] && strcmp(m->peer->workspace.sandbox, id) == 0;
}

struct sandbox *mcp_workspace_sandbox(const struct mcp_client *m)
{
    struct sandbox *s;

    return m->peer && m->peer->workspace.sandbox[0] &&
                   control_find_now(m->control, &m->caller, str_from(m->peer->workspace.sandbox),
                                    &s)
               ? s
               : NULL;
}

void mcp_workspace_leave(struct mcp_client *m)
{
    struct mcp_workspace *w = m->workspace;

    if (!w || !w->sandbox)
        return;
    sandbox_detach(w->sandbox);
    leave_granted_sandbox(w, w->sandbox);
}
