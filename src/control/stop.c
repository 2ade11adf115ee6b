/* Stopping: what a sandbox has written stays, its processes end. It is paused, with that on record,
 * and then what there is of it is removed: so a death of ours between the two leaves something that
 * stands still, and is removed before it is built again. */
#include "base/hook.h"
#include "control/sandbox.h"

bool sandbox_stopped(const struct sandbox *s)
{
    return s->record.state == SANDBOX_PAUSED && s->facts.has_paused && s->facts.paused.stopped;
}

static void removed(struct sandbox *s)
{
    struct sandbox_op *op = take_ptr(s->stop);

    if (s->destroying)
        return; /* its own way goes on */
    s->still = false;
    ttl_start(s);
    if (op)
        sandbox_op_tell(op, 0, NULL);
}

void stop_paused(struct sandbox *s, struct sandbox_op *op)
{
    hook_point("stop.remove");
    s->stop = op;
    if (s->destroying)
        stop_abort(s);
    else
        sandbox_teardown(s, removed);
}

void stop_abort(struct sandbox *s)
{
    struct sandbox_op *op = take_ptr(s->stop);
    struct err e;
    int r = err_set(&e, ERR_CONFLICT, "sandbox %s is being destroyed", s->record.id);

    if (op)
        sandbox_op_tell(op, r, &e);
}

/* --- of one that is paused already --- */

static int check_paused(const struct change *ch, struct err *e)
{
    const struct sandbox *s = ch->sandbox;

    if (s->record.state == SANDBOX_PAUSED && !s->resume && !s->destroying && !s->after_teardown)
        return 0;
    return err_set(e, ERR_CONFLICT, "sandbox %s is %s: it cannot be stopped now", s->record.id,
                   s->destroying ? "being destroyed"
                   : s->resume   ? "being resumed"
                                 : sandbox_state_names[s->record.state]);
}

static void edit_stopped(struct change *ch, struct sandbox_record *next)
{
    ch->sandbox->facts.paused.stopped = true;
    sandbox_put_facts(ch->sandbox, next);
}

static void told_stopped(struct change *ch, int r, const struct err *e)
{
    if (r < 0)
        sandbox_op_tell(ch->user, r, e);
    else
        stop_paused(ch->sandbox, ch->user);
}

static void stop_frozen(struct sandbox *s, const struct actor *who, struct sandbox_op *op)
{
    struct change *ch = change_new(s, who, "stop");

    op->sandbox = sandbox_ref(s);
    ch->type = "sandbox.stopped";
    ch->check = check_paused;
    ch->edit = edit_stopped;
    ch->done = told_stopped;
    ch->user = op;
    change_submit(ch);
}

void sandbox_stop(struct sandbox *s, const struct actor *who, struct sandbox_op *op)
{
    struct err e;
    int r;

    if (s->stop || s->pausing) {
        r = err_set(&e, ERR_BUSY, "sandbox %s is being paused or stopped already", s->record.id);
        sandbox_op_finish(op, s, r, &e);
    } else if (sandbox_stopped(s) && !s->resume && !s->after_teardown) {
        sandbox_op_finish(op, s, 0, NULL); /* as often as one likes */
    } else if (s->record.state == SANDBOX_PAUSED) {
        stop_frozen(s, who, op);
    } else {
        sandbox_begin_pause(s, who, true, op);
    }
}
