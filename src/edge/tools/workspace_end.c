/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/tools/workspace_end.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/own.h"
#include "control/sandbox/workspace.h"

#define END_REASON "the session with its workspace ended"

struct workspace_end {
    struct sandbox *sandbox; /* referenced */
    struct actor actor;
    struct workspace_op looking;
    struct sandbox_op ending;
};

static void on_workspace_ended(struct sandbox_op *op, int r, const struct err *e)
{
    struct workspace_end *x = container_of(op, struct workspace_end, ending);

    if (r < 0)
        LOG(WARN, "workspace.not_ended", LOG_S("sandbox", sandbox_view(x->sandbox).record->id),
            LOG_S("error", e->msg));
    sandbox_unref(x->sandbox);
    free(x);
}

/* Special files are never brought back, and are no reason to keep it. */
static bool has_changes(const struct sync_report *r)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < SYNC_ACTION_COUNT_; i++)
        n += i == SYNC_SKIPPED ? 0 : r->count[i];
    return n > 0;
}

/* If the comparison failed, there may be changes. */
static void on_changes_looked_for(struct workspace_op *op, int r, const struct err *e)
{
    struct workspace_end *x = container_of(op, struct workspace_end, looking);
    bool keep = r < 0 || has_changes(&op->report);

    workspace_op_done(op);
    if (keep)
        sandbox_stop(x->sandbox, &x->actor, &x->ending);
    else
        sandbox_destroy(x->sandbox, &x->actor, END_REASON, DESTROY_NO_SYNC, &x->ending);
}

void workspace_end_begin(struct sandbox *s, const struct actor *who)
{
    struct workspace_end *x;

    if (!sandbox_state_usable(sandbox_state(s)))
        return;
    x = new0(sizeof *x);
    *x = (struct workspace_end){ .sandbox = sandbox_ref(s),
                                 .actor = *who,
                                 .looking = { .flags = SYNC_DELETE | SYNC_DRY_RUN,
                                              .done = on_changes_looked_for },
                                 .ending = { .done = on_workspace_ended } };
    if (workspace_syncs(s))
        workspace_sync(s, &x->actor, &x->looking);
    else
        sandbox_destroy(s, &x->actor, END_REASON, DESTROY_NO_SYNC, &x->ending);
}
