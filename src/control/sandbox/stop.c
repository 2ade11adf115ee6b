/* SPDX-License-Identifier: Apache-2.0 */
/* Stopping ends the processes of a sandbox and keeps its files. The sandbox is paused, with the
 * stop on record, and then its box is torn down: a crash between the two leaves a frozen box, which
 * is removed before a rebuild. */
#include "base/fault_point.h"
#include "control/sandbox/sandbox.h"

bool sandbox_stopped(const struct sandbox *s)
{
    return s->record.state == SANDBOX_PAUSED && s->detail.has_paused && s->detail.paused.stopped;
}

/* A resume that was requested meanwhile has waited for this. */
static void on_stopped_box_removed(struct sandbox *s)
{
    s->stopping = false;
    /* The destroy continues by itself. */
    if (s->destroying)
        return;
    s->frozen = false;
    ttl_start(s);
    sandbox_ops_complete(&s->stops, 0, NULL);
    if (s->resume)
        resume_begin(s);
}

void stop_paused(struct sandbox *s, struct sandbox_op *op)
{
    fault_point("stop.remove");
    list_append(&s->stops, &op->link_);
    if (s->destroying) {
        stop_abort(s);
    } else if (!s->stopping) {
        s->stopping = true;
        sandbox_teardown(s, on_stopped_box_removed);
    }
}

void stop_abort(struct sandbox *s)
{
    struct err e;

    s->stopping = false;
    sandbox_ops_complete(
        &s->stops, err_set(&e, ERR_CONFLICT, "sandbox %s is being destroyed", s->record.id), &e);
}

/* --- stopping a paused sandbox --- */

static int check_paused(const struct change *ch, struct err *e)
{
    const struct sandbox *s = ch->sandbox;

    if (pause_check_stored(s, e) < 0) /* its processes hold its files */
        return -(int)ERR_CONFLICT;
    if (s->record.state == SANDBOX_PAUSED && !s->resume && !s->destroying && !s->salvage &&
        !s->after_teardown)
        return 0;
    return err_set(e, ERR_CONFLICT, "sandbox %s is %s: it cannot be stopped now", s->record.id,
                   s->destroying || s->salvage ? "being destroyed"
                   : s->resume                 ? "being resumed"
                                               : sandbox_state_names[s->record.state]);
}

void stop_edit(struct change *ch, struct sandbox_record *next)
{
    ch->sandbox->detail.paused.stopped = true;
    sandbox_write_detail(ch->sandbox, next);
}

static void on_stop_recorded(struct change *ch, int r, const struct err *e)
{
    if (r < 0)
        sandbox_op_complete(ch->user, r, e);
    else
        stop_paused(ch->sandbox, ch->user);
}

static void stop_frozen(struct sandbox *s, const struct actor *who, struct sandbox_op *op)
{
    struct change *ch = change_new(s, who, "stop");

    op->sandbox = sandbox_ref(s);
    ch->type = "sandbox.stopped";
    ch->always = true; /* it ends something, and can only be repeated after a resume */
    ch->check = check_paused;
    ch->edit = stop_edit;
    ch->done = on_stop_recorded;
    ch->user = op;
    change_submit(ch);
}

void sandbox_stop(struct sandbox *s, const struct actor *who, struct sandbox_op *op)
{
    struct err e;
    int r;

    if (s->pausing) {
        r = err_set(&e, ERR_BUSY, "sandbox %s is being paused already", s->record.id);
        sandbox_op_finish(op, s, r, &e);
    } else if (s->stopping) {
        op->sandbox = sandbox_ref(s);
        list_append(&s->stops, &op->link_);
    } else if (sandbox_stopped(s) && !s->resume && !s->after_teardown) {
        sandbox_op_finish(op, s, 0, NULL); /* idempotent */
    } else if (s->record.state == SANDBOX_PAUSED) {
        stop_frozen(s, who, op);
    } else {
        sandbox_begin_pause(s, who, true, op);
    }
}
