/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/sandboxes/{id}/sync: syncs the changes of a mirrored workspace back to the host. */
#include <fcntl.h>

#include "edge/core/answers.h"
#include "edge/core/internal.h"
#include "edge/core/operation.h"
#include "base/own.h"
#include "edge/rest/routes.h"
#include "control/owner/event_share.h"
#include "control/sandbox/workspace.h"
#include "lib/json/reader.h"

enum { SYNC_ARENA_MAX = 16 << 20 };

struct sync_request {
    bool force, dry_run, accept_all, only_accepted;
    struct json_strs accept;
};

static const struct json_field sync_fields[] = {
    { "force", JSON_KIND_BOOL, JSON_AT(struct sync_request, force),
      .doc = "Overwrite host files that changed on both sides." },
    { "dry_run", JSON_KIND_BOOL, JSON_AT(struct sync_request, dry_run),
      .doc = "Only report the changes." },
    { "accept", JSON_KIND_STRS, JSON_AT(struct sync_request, accept), .max = WORKSPACE_ACCEPT_MAX,
      .doc = "Held-back paths of the workspace whose changes and deletions are applied, including "
             "everything below. For the workspace's user, on the unix socket." },
    { "accept_all", JSON_KIND_BOOL, JSON_AT(struct sync_request, accept_all),
      .doc = "The same for every path that is held back." },
    { "only_accepted", JSON_KIND_BOOL, JSON_AT(struct sync_request, only_accepted),
      .doc =
          "Apply the paths in accept alone, without what is below them; every other change stays "
          "inside and is not listed." },
};

struct sync_call {
    struct call *call;
    struct workspace_op op;
    bool dry_run;
    struct workspace_accept accept;
};

static void release_sync_call(void *state)
{
    struct sync_call *s = state;

    workspace_op_done(&s->op);
    drop_fd(&s->accept.client);
}

static void write_counts(struct json_writer *w, const char *name, const void *answer)
{
    const struct sync_report *r = &((const struct sync_answer *)answer)->op->report;

    json_field_begin_object(w, name);
    for (unsigned i = 0; i < SYNC_ACTION_COUNT_; i++)
        if (r->count[i])
            json_field_uint(w, sync_action_names[i], r->count[i]);
    json_end_object(w);
}

/* Writes the list of changes, which was serialized while the sync ran. */
static void write_changes(struct json_writer *w, const char *name, const void *answer)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(SYNC_ARENA_MAX);
    const struct buf *text = &((const struct sync_answer *)answer)->op->lines;
    const struct json_limits limits = { .bytes = text->n, .depth = 4 };
    const struct json *lines;

    json_key(w, str_from(name));
    if (json_read(buf_str(text), limits, &a, &lines, NULL) >= 0) {
        json_put_tree(w, lines);
    } else {
        json_begin_array(w);
        json_end_array(w);
    }
}

#define AT(member) JSON_AT(struct sync_answer, member)
#define OP(member) .via = offsetof(struct sync_answer, op), JSON_AT(struct workspace_op, member)

const struct json_field sync_answer_fields[SYNC_ANSWER_FIELDS] = {
    { "bytes", JSON_KIND_UINT, OP(report.bytes), .required = true },
    { "counts", JSON_KIND_OBJECT, .required = true, .write = write_counts },
    { "changes", JSON_KIND_OBJECTS, .required = true, .schema = "SyncChange",
      .write = write_changes },
    /* not in an outcome: */
    { "sandbox_id", JSON_KIND_TEXT, AT(sandbox_id), .required = true },
    { "dry_run", JSON_KIND_BOOL, AT(dry_run), .required = true },
    { "hint", JSON_KIND_TEXT, AT(hint) },
};
const struct json_shape synced_answer = { "Synced", sync_answer_fields, SYNCED_FIELDS };
static const struct json_shape sync_answer = { "SyncReport", JSON_FIELDS(sync_answer_fields) };

static void on_workspace_synced(struct workspace_op *op, int r, const struct err *e)
{
    struct sync_call *s = container_of(op, struct sync_call, op);
    const struct sync_answer a = {
        .sandbox_id = call_sandbox_id(s->call),
        .op = op,
        .dry_run = s->dry_run,
        .hint = op->report.count[SYNC_SENSITIVE]
                    ? "changes and deletions with the action 'sensitive' were held back; review "
                      "them, then sync again with accept: [PATH, ...] or accept_all: true"
                    : NULL,
    };

    call_settle_as(s->call, r, e, 200, &sync_answer, &a);
}

static void on_sync_progress(struct workspace_op *op, uint64_t bytes)
{
    call_progress(container_of(op, struct sync_call, op)->call, "workspace", bytes);
}

/* Only the workspace's user may accept held-back files, since that user's machine would execute
 * them; a model or program with a token may not. The supervisor checks the connection again. */
static bool may_accept(struct call *c, const struct sync_request *q)
{
    if (q->only_accepted && (q->accept_all || !q->accept.n))
        return call_fail_with(c, 400, "invalid",
                              "only_accepted: accept must name the paths, and accept_all excludes "
                              "it");
    return (!q->accept.n && !q->accept_all) ||
           (http_peer(c->x)->is_unix && !c->caller.by_token && !c->caller.peer) ||
           call_fail_with(c, 403, "denied",
                          "accept: only the user of the workspace may accept held-back files, on "
                          "the daemon's unix socket");
}

/* Deletions inside are applied outside, as for a destroy. */
static void rest_sync_workspace(struct call *c)
{
    struct sync_request q = { 0 };
    struct sync_call *s;
    struct err e;

    if (!call_read(c, &q) || !may_accept(c, &q))
        return;
    if (event_share_check(c->api->control, sandbox_view(c->sandbox).record->owner, &c->caller.actor,
                          &e) < 0) {
        call_fail(c, &e);
        return;
    }
    s = call_state(c, sizeof *s, release_sync_call);
    *s =
        (struct sync_call){ .call = call_ref(c), .dry_run = q.dry_run, .accept = { .client = -1 } };
    s->op.flags = SYNC_DELETE | (q.force ? SYNC_FORCE : 0u) | (q.dry_run ? SYNC_DRY_RUN : 0u) |
                  (q.accept_all ? SYNC_ALLOW_SENSITIVE : 0u) |
                  (q.only_accepted ? SYNC_ONLY_ACCEPTED : 0u);
    if (q.accept.n || q.accept_all) {
        s->accept = (struct workspace_accept){ fcntl(http_connection_fd(c->x), F_DUPFD_CLOEXEC, 0),
                                               q.accept };
        s->op.accept = &s->accept;
    }
    s->op.done = on_workspace_synced;
    s->op.moved = on_sync_progress;
    workspace_sync(c->sandbox, &c->caller.actor, &s->op);
}

const struct route routes_sync[] = {
    { H1_POST, VERB_FILES, "/v1/sandboxes/{id}/sync", ROUTE_JSON | ROUTE_SANDBOX | ROUTE_LIVE,
      rest_sync_workspace, "Sync the changes of a mirrored workspace back",
      ROUTE_FIELDS(sync_fields), .answer = "SyncReport" },
    { .path = NULL },
};

const struct json_shape *const answers_sync[] = { &sync_answer, &synced_answer, &sync_change_answer,
                                                  NULL };
