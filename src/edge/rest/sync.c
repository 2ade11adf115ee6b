/* /v1/sandboxes/{id}/sync: the changes of a mirrored workspace, brought back. */
#include <fcntl.h>
#include <stdlib.h>

#include "api/inside.h"
#include "api/route.h"
#include "control/event_share.h"
#include "control/workspace.h"
#include "json/reader.h"

enum { SYNC_ARENA_MAX = 16 << 20 };

struct sync_request {
    bool force, dry_run, accept_all;
    struct json_strs accept;
};

static const struct json_field sync_fields[] = {
    { "force", JSON_KIND_BOOL, JSON_AT(struct sync_request, force),
      .doc = "Where both sides changed, the sandbox wins." },
    { "dry_run", JSON_KIND_BOOL, JSON_AT(struct sync_request, dry_run),
      .doc = "Only say what would be done." },
    { "accept", JSON_KIND_STRS, JSON_AT(struct sync_request, accept), .max = WORKSPACE_ACCEPT_MAX,
      .doc =
          "Paths of the workspace whose changes and deletions are applied though they are held "
          "back, each with everything beneath it. For the workspace's user, on the unix socket." },
    { "accept_all", JSON_KIND_BOOL, JSON_AT(struct sync_request, accept_all),
      .doc = "The same for every path that is held back." },
};
static const size_t sync_field_count = COUNT_OF(sync_fields);

struct sync {
    struct call *call;
    struct workspace_op op;
    bool dry_run;
    struct workspace_accept accept;
};

static void sync_end(struct call *c)
{
    struct sync *s = c->state;

    workspace_op_done(&s->op);
    drop_fd(&s->accept.client);
    free(s);
}

static void put_counts(struct json_writer *w, const struct mirror_report *r)
{
    json_key(w, STR("counts"));
    json_begin_object(w);
    for (unsigned i = 0; i < MIRROR_ACTION_COUNT_; i++) {
        if (!r->count[i])
            continue;
        json_key(w, str_from(mirror_action_name((enum mirror_action)i)));
        json_put_uint(w, r->count[i]);
    }
    json_end_object(w);
}

/* The lines are text by now: they were written while they came. */
static void put_changes(struct json_writer *w, const struct buf *text, struct arena *a)
{
    const struct json_limits limits = { .bytes = text->n, .depth = 4 };
    const struct json *lines;

    json_key(w, STR("changes"));
    if (json_read(buf_str(text), limits, a, &lines, NULL) >= 0) {
        json_put_tree(w, lines);
    } else {
        json_begin_array(w);
        json_end_array(w);
    }
}

void sync_put_outcome(struct json_writer *w, const struct workspace_op *op)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(SYNC_ARENA_MAX);

    json_key(w, STR("bytes"));
    json_put_uint(w, op->report.bytes);
    put_counts(w, &op->report);
    put_changes(w, &op->lines, &a);
}

static void write_sync(struct json_writer *w, const void *what)
{
    const struct sync *s = what;
    const struct mirror_report *r = &s->op.report;

    json_begin_object(w);
    json_key(w, STR("sandbox_id"));
    json_put_str(w, str_from(sandbox_view(s->call->sandbox).record->id));
    json_key(w, STR("dry_run"));
    json_put_bool(w, s->dry_run);
    sync_put_outcome(w, &s->op);
    if (r->count[MIRROR_SENSITIVE]) {
        json_key(w, STR("hint"));
        json_put_str(w, STR("changes and deletions with the action 'sensitive' were held back; "
                            "review them, then sync again with accept: [PATH, ...] or "
                            "accept_all: true"));
    }
    json_end_object(w);
}

static void synced(struct workspace_op *op, int r, const struct err *e)
{
    struct sync *s = container_of(op, struct sync, op);
    struct call *c = s->call;

    if (r < 0)
        call_fail(c, e);
    else
        call_answer(c, 200, write_sync, s);
    call_unref(c);
}

static void moved(struct workspace_op *op, uint64_t bytes)
{
    call_progress(container_of(op, struct sync, op)->call, "workspace", bytes);
}

/* A model or a program with a token must not accept for the person whose machine obeys the files;
 * the supervisor looks at the connection again. */
static bool may_accept(struct call *c, const struct sync_request *q)
{
    if (!q->accept.n && !q->accept_all)
        return true;
    if (http_peer(c->x)->is_unix && !c->caller.by_token && !c->caller.peer)
        return true;
    call_fail_with(
        c, 403, "denied",
        "accept: only the user of the workspace accepts names that are held back, on the "
        "daemon's unix socket");
    return false;
}

/* As when it is destroyed, what was deleted inside is deleted outside. */
static void bring_back(struct call *c)
{
    struct sync_request q = { 0 };
    struct sync *s;
    struct err e;

    if (json_bind(c->json, sync_fields, sync_field_count, &q, &c->arena, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    if (!may_accept(c, &q))
        return;
    if (event_share_check(c->api->control, sandbox_view(c->sandbox).record->owner, &c->caller.actor,
                          &e) < 0) {
        call_fail(c, &e);
        return;
    }
    s = calloc(1, sizeof *s);
    if (!s)
        abort();
    *s = (struct sync){ .call = call_ref(c), .dry_run = q.dry_run, .accept = { .client = -1 } };
    s->op.flags = MIRROR_DELETE | (q.force ? MIRROR_FORCE : 0u) |
                  (q.dry_run ? MIRROR_DRY_RUN : 0u) | (q.accept_all ? MIRROR_ALLOW_SENSITIVE : 0u);
    if (q.accept.n || q.accept_all) {
        s->accept = (struct workspace_accept){ fcntl(http_connection_fd(c->x), F_DUPFD_CLOEXEC, 0),
                                               q.accept };
        s->op.accept = &s->accept;
    }
    s->op.done = synced;
    s->op.moved = moved;
    c->state = s;
    c->on_end = sync_end;
    workspace_sync(c->sandbox, &c->caller.actor, &s->op);
}

const struct route routes_sync[] = {
    { H1_POST, VERB_FILES, "/v1/sandboxes/{id}/sync", ROUTE_JSON | ROUTE_SANDBOX | ROUTE_LIVE,
      bring_back, "Bring the changes of a mirrored workspace back", .fields = sync_fields,
      .field_count = &sync_field_count, .answer = "SyncReport" },
    { .path = NULL },
};
