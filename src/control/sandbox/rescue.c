/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox that died with a workspace. Where its files are on disk, it is not failed but paused, as
 * after a stop: a resume rebuilds it on its files, and its end brings the changes back or keeps them.
 * Files in memory are gone with it. */
#include <stdio.h>
#include <stdlib.h>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/own.h"
#include "control/sandbox/sandbox.h"

struct rescue {
    struct sandbox *sandbox; /* referenced */
    struct capture capture;
};

static bool may_have_files(const struct sandbox *s)
{
    return workspace_syncs(s) && s->control->supervisor.layer_worker && !s->detail.one_shot &&
           (sandbox_state_usable(s->record.state) || paused_in_memory(s));
}

bool rescue_pending(const struct sandbox *s)
{
    return s->rescuing || (sandbox_is_failing(s) && may_have_files(s));
}

static struct sandbox *end_rescue(struct rescue *u)
{
    struct sandbox *s = u->sandbox;

    s->rescuing = false;
    free(u);
    return s;
}

static void edit_rescued(struct change *ch, struct sandbox_record *next)
{
    const struct rescue *u = ch->user;

    pause_note(ch->sandbox, next, &u->capture, true);
}

static void on_rescue_recorded(struct change *ch, int r, const struct err *e)
{
    struct rescue *u = ch->user;
    struct sandbox *s = u->sandbox;

    fault_point("rescue.told");
    if (r < 0) /* a destroy was recorded before */
        layer_unref(s->control, u->capture.layer);
    else if (!s->destroying && !s->salvage)
        ttl_start(s);
    sandbox_unref(end_rescue(u));
}

static void record_rescue(struct rescue *u)
{
    struct sandbox *s = u->sandbox;
    char reason[RECORD_REASON_MAX];
    struct change *ch;

    fault_point("rescue.record");
    LOG(WARN, "sandbox.rescued", LOG_S("sandbox", s->record.id), LOG_S("reason", s->failure.msg));
    snprintf(reason, sizeof reason, "%.120s; its files are kept with the changes of its workspace",
             s->failure.msg);
    ch = change_new(s, &ACTOR_DAEMON, reason);
    if (paused_in_memory(s)) /* it stays paused, from now on without processes */
        ch->type = "sandbox.stopped";
    else
        change_to(ch, SANDBOX_PAUSED);
    ch->edit = edit_rescued;
    ch->done = on_rescue_recorded;
    ch->user = u;
    ch->stubborn = true;
    change_submit(ch);
}

/* -ERR_NOT_FOUND: its files were in memory. After any other error the files are assumed to be on
 * disk, and the resume reports the error again. */
static void on_remains_captured(struct capture *c, int r, const struct err *e)
{
    struct rescue *u = container_of(c, struct rescue, capture);
    struct sandbox *s = u->sandbox;

    if (r < 0 && r != -(int)ERR_NOT_FOUND && c->layer[0] && !s->destroying) {
        LOG(WARN, "sandbox.not_synced", LOG_S("sandbox", s->record.id), LOG_S("error", e->msg));
        layer_ref(s->control, c->layer);
        c->kept = true;
        r = 0;
    }
    if (r >= 0 && !s->destroying) {
        record_rescue(u);
        return;
    }
    if (r >= 0)
        layer_unref(s->control, c->layer);
    end_rescue(u);
    sandbox_record_failure(s);
    sandbox_unref(s);
}

bool rescue_begin(struct sandbox *s)
{
    struct rescue *u;

    if (!may_have_files(s))
        return false;
    u = new0(sizeof *u);
    *u = (struct rescue){ .sandbox = sandbox_ref(s),
                          .capture = { .stay_frozen = true, .done = on_remains_captured } };
    s->rescuing = true;
    capture_remains(s, &u->capture);
    return true;
}
