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

/* It is left with changes, or could not be compared with its directory. */
static void on_destroy_refused(struct sandbox_op *op, int r, const struct err *e)
{
    struct workspace_end *x = container_of(op, struct workspace_end, ending);

    if (r >= 0 || !sandbox_state_usable(sandbox_state(x->sandbox))) {
        on_workspace_ended(op, r, e);
        return;
    }
    x->ending = (struct sandbox_op){ .done = on_workspace_ended };
    sandbox_stop(x->sandbox, &x->actor, &x->ending);
}

void workspace_end_begin(struct sandbox *s, const struct actor *who)
{
    struct workspace_end *x;

    if (!sandbox_state_usable(sandbox_state(s)))
        return;
    x = new0(sizeof *x);
    *x = (struct workspace_end){ .sandbox = sandbox_ref(s),
                                 .actor = *who,
                                 .ending = { .done = on_destroy_refused } };
    sandbox_destroy_as(s, &x->actor, END_REASON,
                       workspace_syncs(s) ? DESTROY_COMPARE : DESTROY_NO_SYNC, DESTROY_REFUSE,
                       &x->ending);
}
