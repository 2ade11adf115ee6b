/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_diff and sandbox_sync: the changes in the workspace of the session, and their way to the
 * directory of the host. A client can neither accept a change that is held back nor overwrite a
 * file that changed on both sides: that is left to the user of the workspace. */
#include "edge/tools/arguments.h"
#include "edge/tools/workspace.h"

#include "base/own.h"
#include "control/owner/event_share.h"
#include "control/sandbox/workspace.h"
#include "lib/json/reader.h"

enum { DEPTH = 4, CHANGES_BYTES = 256 << 10 };

#define LEFT_HINT                                                                                  \
    "The changes with the actions conflict, sensitive, refused and failed stay in the sandbox. "   \
    "Report them to the user, who can review and accept them: sandboxer sync --interactive "       \
    "SANDBOX_ID"

struct workspace_call {
    struct mcp_request *request;
    struct sandbox *sandbox; /* referenced */
    struct workspace_op op;
    struct tool_sync in;
};

static void release_workspace_call(void *state)
{
    struct workspace_call *x = state;

    workspace_op_done(&x->op);
    sandbox_unref(x->sandbox);
}

/* --- the answer --- */

static uint64_t count_actions(const struct sync_report *r, bool applied)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < SYNC_SKIPPED; i++)
        n += (i <= SYNC_OVERWRITTEN) == applied ? r->count[i] : 0;
    return n;
}

static bool is_applied_action(const char *action)
{
    for (unsigned i = 0; i <= SYNC_OVERWRITTEN; i++)
        if (strcmp(sync_action_names[i], action) == 0)
            return true;
    return false;
}

/* The changes that are left come first: they need attention. */
static void list_changes(const struct workspace_call *x, const struct json *lines, bool applied,
                         struct tool_synced *out)
{
    struct tool_change *all = out->changes.p;

    for (const struct json *v = json_first(lines); v != json_end(lines); v++) {
        struct tool_change c = { mcp_text(v, "action").p, mcp_text(v, "path").p,
                                 mcp_text(v, "reason").p };
        size_t n = mcp_text(v, "path").n + mcp_text(v, "reason").n;

        if (!c.action || (is_applied_action(c.action) != applied))
            continue;
        if (out->changes.n < x->in.limit && out->bytes + n <= CHANGES_BYTES) {
            all[out->changes.n++] = c;
            out->bytes += n;
        }
    }
}

static void answer_synced(struct workspace_call *x)
{
    const struct sync_report *rep = &x->op.report;
    const struct json_limits limits = { .bytes = x->op.lines.n, .depth = DEPTH };
    struct mcp_request *r = x->request;
    struct tool_synced out = { .sandbox_id = x->in.sandbox_id,
                               .directory = workspace_directory(x->sandbox),
                               .applied = count_actions(rep, true),
                               .left = count_actions(rep, false) };
    const struct json *lines;

    out.changes.p = arena_array(&r->arena, x->in.limit, sizeof(struct tool_change));
    if (!out.changes.p || json_read(buf_str(&x->op.lines), limits, &r->arena, &lines, NULL) < 0) {
        mcp_tool_fail(r, "The list of changes is too large.");
        return;
    }
    list_changes(x, lines, false, &out);
    list_changes(x, lines, true, &out);
    out.more = out.applied + out.left - out.changes.n;
    if (out.left)
        out.hint = LEFT_HINT;
    mcp_tool_answer(r, &out);
}

static void on_tool_synced(struct workspace_op *op, int r, const struct err *e)
{
    struct workspace_call *x = container_of(op, struct workspace_call, op);
    struct mcp_request *request = x->request;

    if (r < 0)
        mcp_fail_err(request, "The directory could not be compared with its copy", e);
    else if (!mcp_is_finished(request))
        answer_synced(x);
    mcp_request_unref(request);
}

/* --- the call --- */

static bool find_workspace_of_call(struct workspace_call *x, struct mcp_request *r)
{
    if (!mcp_workspace_is(mcp_client_of(r), x->in.sandbox_id)) {
        mcp_tool_fail(r, "This sandbox has no copy of the user's directory. Leave out sandbox_id "
                         "for the one that has it.");
        return false;
    }
    x->sandbox = mcp_sandbox(r, x->in.sandbox_id);
    if (x->sandbox && !workspace_syncs(x->sandbox))
        mcp_tool_fail(r, "The user granted the directory read-only: nothing is brought back.");
    return x->sandbox && workspace_syncs(x->sandbox);
}

static void start_workspace_call(struct workspace_call *x, struct mcp_request *r)
{
    const struct actor *who = &mcp_client_of(r)->caller.actor;
    struct err e;

    if (!find_workspace_of_call(x, r))
        return;
    if (event_share_check(mcp_client_of(r)->control, sandbox_view(x->sandbox).record->owner, who,
                          &e) < 0) {
        mcp_fail_err(r, "The directory was not compared with its copy", &e);
        return;
    }
    x->request = mcp_request_ref(r);
    x->op.flags = SYNC_DELETE | (x->in.dry_run ? SYNC_DRY_RUN : 0u);
    x->op.done = on_tool_synced;
    workspace_sync(x->sandbox, who, &x->op);
}

void mcp_tool_diff(struct mcp_request *r, const struct json *v)
{
    struct workspace_call *x = mcp_state(r, sizeof *x, release_workspace_call);

    if (!mcp_arguments(r, v, &x->in))
        return;
    x->in.dry_run = true;
    start_workspace_call(x, r);
}

void mcp_tool_sync(struct mcp_request *r, const struct json *v)
{
    struct workspace_call *x = mcp_state(r, sizeof *x, release_workspace_call);

    if (mcp_arguments(r, v, &x->in))
        start_workspace_call(x, r);
}
