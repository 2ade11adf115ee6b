/* SPDX-License-Identifier: Apache-2.0 */
/* Takes a checkpoint before each tool call that can change files, for clients that ask for it. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/own.h"
#include "control/snapshot/checkpoints.h"
#include "edge/tools/tools.h"

typedef void tool_call_fn(struct mcp_request *r, const struct json *v);

struct tool_checkpoint {
    struct mcp_request *request; /* referenced */
    struct checkpoint_op op;
    struct caller caller; /* the client may end before the operation */
    char cause[RECORD_CAUSE_MAX];
    tool_call_fn *call;
};

/* A call does not fail for its checkpoint: the last one is still there. */
static void on_tool_checkpoint_taken(struct checkpoint_op *op, int r, const struct err *e)
{
    struct tool_checkpoint *x = container_of(op, struct tool_checkpoint, op);
    struct mcp_request *request = x->request;

    if (r < 0)
        LOG(INFO, "checkpoint.not_taken", LOG_S("error", e->msg));
    if (!mcp_is_finished(request))
        x->call(request, request->arguments);
    mcp_request_unref(request);
    free(x);
}

static void begin_tool_checkpoint(struct mcp_request *r, struct sandbox *s, tool_call_fn *call)
{
    const struct sandbox_record *record = sandbox_view(s).record;
    struct tool_checkpoint *x = new0(sizeof *x);

    x->request = mcp_request_ref(r);
    x->call = call;
    x->caller.actor = mcp_caller(r->session)->actor;
    snprintf(x->caller.owner, sizeof x->caller.owner, "%s", record->owner);
    snprintf(x->caller.family, sizeof x->caller.family, "%s", record->family);
    snprintf(x->cause, sizeof x->cause, "before %s", r->tool->name);
    x->op = (struct checkpoint_op){
        .caller = &x->caller, .cause = x->cause, .automatic = true, .done = on_tool_checkpoint_taken
    };
    checkpoint_take(s, &x->op);
}

static void call_after_checkpoint(struct mcp_request *r, const struct json *v, tool_call_fn *call)
{
    const struct mcp_client *m = mcp_client_of(r);
    const struct json *id = json_get(v, STR("sandbox_id"));
    struct sandbox *s;

    if (!m->checkpoints || !id || id->type != JSON_STR ||
        !control_find_now(m->control, mcp_caller(r->session), id->s, &s)) {
        call(r, v);
        return;
    }
    begin_tool_checkpoint(r, s, call);
    sandbox_unref(s);
}

void mcp_undoable_exec(struct mcp_request *r, const struct json *v)
{
    call_after_checkpoint(r, v, mcp_tool_exec);
}

void mcp_undoable_install(struct mcp_request *r, const struct json *v)
{
    call_after_checkpoint(r, v, mcp_tool_install);
}

void mcp_undoable_write(struct mcp_request *r, const struct json *v)
{
    call_after_checkpoint(r, v, mcp_tool_write);
}
