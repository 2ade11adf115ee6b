/* SPDX-License-Identifier: Apache-2.0 */
/* Goes back to a checkpoint: pauses the sandbox, stores the files that it has, lets its record name
 * the layers of the checkpoint in the place of its own, and resumes it, which builds it anew.
 *
 * The pause comes before the comparison, so that nothing is written after it, and before anything
 * ends: a sandbox that cannot go back is thawed. The record changes in one transaction, of a
 * sandbox that is stopped: a daemon that is killed before leaves it paused with its own files, and
 * one that is killed afterwards, paused with those of the checkpoint. */
#include <stdio.h>
#include <string.h>

#include "base/fault_point.h"
#include "base/own.h"
#include "control/owner/event_share.h"
#include "control/sandbox/change.h"
#include "control/sandbox/sandbox.h"
#include "control/snapshot/checkpoints.h"

/* Each begins a step: 1 if on_undo_moved() or another callback follows, 0 if it is over. */
static int begin_undo_pause(struct undo_op *op, struct err *e);
static int begin_undo_compare(struct undo_op *op, struct err *e);
static int select_undo_target(struct undo_op *op, struct err *e);
static int begin_undo_stop(struct undo_op *op, struct err *e);
static int begin_undo_store(struct undo_op *op, struct err *e);
static int begin_undo_replace(struct undo_op *op, struct err *e);
static int begin_undo_resume(struct undo_op *op, struct err *e);

enum undo_step { STEP_RESUME = 6, STEP_COUNT };

static int (*const steps[STEP_COUNT])(struct undo_op *op, struct err *e) = {
    begin_undo_pause, begin_undo_compare, select_undo_target, begin_undo_stop,
    begin_undo_store, begin_undo_replace, begin_undo_resume,
};

static void finish_undo(struct undo_op *op)
{
    struct sandbox *s = take_ptr(op->sandbox_);

    s->checkpointing = false;
    arena_done(&op->names_);
    op->done(op, op->r_, op->r_ < 0 ? &op->err_ : NULL);
    sandbox_unref(s);
}

/* The first error is reported. */
static void note_undo_error(struct undo_op *op, int r, const struct err *e)
{
    if (op->step_ == STEP_RESUME && op->number) {
        op->err_ = *e;
        op->r_ = err_wrap(&op->err_, r,
                          "sandbox %s has the files of checkpoint %lld, but it is "
                          "still stopped",
                          op->sandbox_->record.id, (long long)op->number);
    } else if (op->r_ >= 0) {
        op->r_ = r;
        op->err_ = *e;
    }
}

/* A step is over: begins the next one. */
static void advance_undo(struct undo_op *op, int r, const struct err *e)
{
    struct err why;

    do {
        if (r < 0)
            note_undo_error(op, r, e);
        op->step_ = r < 0 && op->step_ < STEP_RESUME ? STEP_RESUME : op->step_ + 1;
        if (op->step_ == STEP_COUNT) {
            finish_undo(op);
            return;
        }
        e = &why;
        r = steps[op->step_](op, &why);
    } while (r <= 0);
}

static void on_undo_moved(struct sandbox_op *o, int r, const struct err *e)
{
    struct undo_op *op = container_of(o, struct undo_op, moving_);

    if (r >= 0 && op->step_ == 0)
        op->paused_ = true;
    advance_undo(op, r, e);
}

static int begin_undo_pause(struct undo_op *op, struct err *e)
{
    if (!op->ran_)
        return 0;
    op->moving_ = (struct sandbox_op){ .done = on_undo_moved };
    sandbox_pause(op->sandbox_, &op->caller->actor, &op->moving_);
    return 1;
}

/* --- comparing the files with those of the last checkpoint --- */

static void on_present_compared(struct checkpoint_op *c, int r, const struct err *e)
{
    struct undo_op *op = container_of(c, struct undo_op, present_);

    op->changed = c->note_.changed;
    advance_undo(op, r, e);
}

static int begin_undo_compare(struct undo_op *op, struct err *e)
{
    fault_point("undo.compare");
    op->present_.compared_ = on_present_compared;
    checkpoint_compare(&op->present_);
    return 1;
}

static bool has_new_files(const struct undo_op *op)
{
    return op->changed || !checkpoint_find(op->sandbox_, checkpoint_now(op->sandbox_));
}

static int find_numbered(struct undo_op *op, struct err *e)
{
    const struct sandbox *s = op->sandbox_;

    op->target_ = op->to;
    if (!checkpoint_find(s, op->to))
        return err_set(e, ERR_NOT_FOUND,
                       "sandbox %s has no checkpoint %lld; 'sandboxer undo --list %s' shows them",
                       s->record.id, (long long)op->to, s->record.id);
    if (op->to == checkpoint_now(s) && !has_new_files(op))
        return err_set(e, ERR_CONFLICT, "sandbox %s has the files of checkpoint %lld already",
                       s->record.id, (long long)op->to);
    return 0;
}

/* The newest checkpoint of the sandbox's past whose files are others than it has. */
static int find_past(struct undo_op *op, struct err *e)
{
    const struct sandbox *s = op->sandbox_;
    int64_t now = checkpoint_now(s);
    const struct snapshot *x = checkpoint_find(s, now);

    if (!x)
        x = checkpoint_at_most(s, now ? now : INT64_MAX);
    else if (!has_new_files(op))
        x = checkpoint_at_most(s, x->record.parent);
    if (!x)
        return err_set(e, ERR_NOT_FOUND,
                       "sandbox %s has no checkpoint before its files; 'sandboxer undo --list %s' "
                       "shows others",
                       s->record.id, s->record.id);
    op->target_ = x->record.checkpoint;
    return 0;
}

static int check_budget(struct undo_op *op, struct err *e)
{
    struct sandbox *s = op->sandbox_;
    const struct snapshot *target = checkpoint_find(s, op->target_);

    snprintf(op->cause, sizeof op->cause, "%s", target->record.cause);
    op->created_ns = target->record.created_ns;
    if (!has_new_files(op))
        return 0;
    op->present_.note_.spare = op->target_;
    return checkpoint_could_fit(s, op->caller, &op->present_.note_,
                                (uint64_t)s->detail.paused.bytes, e);
}

static int select_undo_target(struct undo_op *op, struct err *e)
{
    int r = op->to ? find_numbered(op, e) : find_past(op, e);

    return r < 0 ? r : check_budget(op, e);
}

/* --- storing the files that it has --- */

static int begin_undo_stop(struct undo_op *op, struct err *e)
{
    fault_point("undo.stop");
    op->moving_ = (struct sandbox_op){ .done = on_undo_moved };
    sandbox_stop(op->sandbox_, &op->caller->actor, &op->moving_);
    return 1;
}

static void on_present_stored(struct checkpoint_op *c, int r, const struct err *e)
{
    struct undo_op *op = container_of(c, struct undo_op, present_);

    if (r >= 0)
        op->kept = c->checkpoint->record.checkpoint;
    advance_undo(op, r, e);
}

/* The files of its box are a layer now, which nothing else needs. */
static void on_present_captured(struct capture *c, int r, const struct err *e)
{
    struct undo_op *op = container_of(c, struct undo_op, capture_);

    if (r >= 0)
        layer_unref(op->sandbox_->control, c->layer);
    op->kept = checkpoint_now(op->sandbox_);
    advance_undo(op, r, e);
}

static int begin_undo_store(struct undo_op *op, struct err *e)
{
    if (has_new_files(op)) {
        op->present_.done = on_present_stored;
        checkpoint_record(&op->present_);
    } else {
        op->capture_ = (struct capture){ .caller = op->caller, .done = on_present_captured };
        capture_start(op->sandbox_, &op->capture_);
    }
    return 1;
}

/* --- replacing them --- */

static int check_replaceable(const struct change *ch, struct err *e)
{
    const struct sandbox *s = ch->sandbox;

    if (sandbox_stopped(s) && !s->detail.paused.kept && !s->resume && !s->destroying &&
        !s->salvage && !s->after_teardown && !s->capture)
        return 0;
    return err_set(e, ERR_CONFLICT, "the files of sandbox %s cannot be replaced: it is %s",
                   s->record.id,
                   s->destroying || s->salvage ? "being destroyed"
                   : s->resume                 ? "being resumed"
                                               : "in use by another operation; try again");
}

static void edit_replaced(struct change *ch, struct sandbox_record *next)
{
    struct undo_op *op = ch->user;
    struct sandbox_detail *d = &ch->sandbox->detail;

    op->replaced_ = true;
    op->old_layers_ = d->layers;
    snprintf(op->old_layer_, sizeof op->old_layer_, "%s", d->paused.layer);
    op->old_at_ = d->checkpoint.at;
    op->old_bytes_ = d->paused.bytes;
    op->old_entries_ = d->paused.entries;
    sandbox_exchange_layers(ch->sandbox, &op->layers_, &op->names_);
    sandbox_note_paused_layer(ch->sandbox, op->layer_);
    d->paused.bytes = op->bytes_;
    d->paused.entries = op->entries_;
    d->checkpoint.at = op->target_;
    d->checkpoint.undos++;
    sandbox_write_detail(ch->sandbox, next);
}

/* The record could not be changed after edit_replaced(). */
static void restore_detail(struct undo_op *op)
{
    struct sandbox_detail *d = &op->sandbox_->detail;

    if (!op->replaced_)
        return;
    sandbox_exchange_layers(op->sandbox_, &op->old_layers_, &op->names_);
    sandbox_note_paused_layer(op->sandbox_, op->old_layer_);
    d->paused.bytes = op->old_bytes_;
    d->paused.entries = op->old_entries_;
    d->checkpoint.at = op->old_at_;
    d->checkpoint.undos--;
}

static void on_undo_recorded(struct change *ch, int r, const struct err *e)
{
    struct undo_op *op = ch->user;
    struct control *c = ch->sandbox->control;

    fault_point("undo.recorded");
    if (r >= 0) {
        layers_unref(c, &op->old_layers_);
        layer_unref(c, op->old_layer_);
        op->number = op->target_;
    } else {
        restore_detail(op);
        layers_unref(c, &op->layers_);
        layer_unref(c, op->layer_);
    }
    advance_undo(op, r, e);
}

/* Copies the names of the checkpoint's layers, which it may exchange for equal ones. */
static int copy_layer_names(struct undo_op *op, const struct snapshot *x, struct err *e)
{
    op->layers_ = (struct json_strs){ x->layers.p + 1, x->layers.n - 1 };
    if (!json_strs_copy(&op->layers_, &op->names_))
        return err_set(e, ERR_TOO_BIG,
                       "the names of the %zu layers of checkpoint %lld of sandbox %s need more "
                       "memory than the allowed %d bytes",
                       x->layers.n, (long long)op->target_, op->sandbox_->record.id,
                       SANDBOX_ARENA_MAX);
    snprintf(op->layer_, sizeof op->layer_, "%s", x->layers.p[0]);
    op->bytes_ = x->record.bytes;
    op->entries_ = x->record.entries;
    return 0;
}

static int begin_undo_replace(struct undo_op *op, struct err *e)
{
    struct sandbox *s = op->sandbox_;
    const struct snapshot *x = checkpoint_find(s, op->target_);
    struct change *ch;
    int r;

    if (!x)
        return err_set(e, ERR_CONFLICT, "checkpoint %lld of sandbox %s was deleted meanwhile",
                       (long long)op->target_, s->record.id);
    r = copy_layer_names(op, x, e);
    if (r < 0)
        return r;
    layers_ref(s->control, &op->layers_);
    layer_ref(s->control, op->layer_);
    fault_point("undo.record");
    ch = change_new(s, &op->caller->actor, x->record.id);
    snprintf(ch->text, sizeof ch->text, "{\"checkpoint\":%lld,\"kept\":%lld}",
             (long long)op->target_, (long long)op->kept);
    ch->detail = str_from(ch->text);
    ch->type = "sandbox.undone";
    ch->check = check_replaceable;
    ch->edit = edit_replaced;
    ch->done = on_undo_recorded;
    ch->user = op;
    change_submit(ch);
    return 1;
}

/* --- */

static int begin_undo_resume(struct undo_op *op, struct err *e)
{
    if (!op->paused_)
        return 0;
    op->moving_ = (struct sandbox_op){ .done = on_undo_moved };
    sandbox_resume(op->sandbox_, &op->caller->actor, &op->moving_);
    return 1;
}

unsigned undo_programs(const struct sandbox *s)
{
    return sandbox_stopped(s) ? 0 : s->programs;
}

static int check_undoable(const struct sandbox *s, const struct undo_op *op, struct err *e)
{
    if (s->checkpointing)
        return err_set(e, ERR_BUSY,
                       "sandbox %s has a checkpoint or an undo under way already; try again",
                       s->record.id);
    if (!checkpoint_at_most(s, INT64_MAX))
        return err_set(e, ERR_NOT_FOUND,
                       "sandbox %s has no checkpoints; 'sandboxer undo --checkpoint %s' takes one",
                       s->record.id, s->record.id);
    if (s->resume || s->pausing || s->stopping)
        return err_set(e, ERR_BUSY, "sandbox %s is being paused, stopped or resumed; try again",
                       s->record.id);
    if (s->transfer)
        return err_set(e, ERR_BUSY, "the workspace of sandbox %s is being copied; try again",
                       s->record.id);
    if (pause_check_stored(s, e) < 0)
        return -(int)ERR_CONFLICT;
    return event_share_check(s->control, s->record.owner, &op->caller->actor, e);
}

static void on_undo_refused(struct loop_later *l)
{
    struct undo_op *op = container_of(l, struct undo_op, later_);
    struct sandbox *s = take_ptr(op->sandbox_);

    op->done(op, op->r_, &op->err_);
    sandbox_unref(s);
}

static void on_undo_begun(struct loop_later *l)
{
    struct undo_op *op = container_of(l, struct undo_op, later_);
    struct err e = { 0 };
    int r = steps[0](op, &e);

    if (r <= 0)
        advance_undo(op, r, &e);
}

void sandbox_undo(struct sandbox *s, struct undo_op *op)
{
    int r;

    checkpoint_begin(s, &op->present_);
    op->sandbox_ = sandbox_ref(s);
    op->present_.caller = op->caller;
    op->present_.cause = "undo";
    op->present_.automatic = false;
    op->step_ = 0;
    op->number = op->kept = op->changed = op->target_ = 0;
    op->replaced_ = false;
    arena_init(&op->names_, SANDBOX_ARENA_MAX);
    op->ran_ = s->record.state != SANDBOX_PAUSED;
    op->paused_ = false;
    op->r_ = 0;
    r = check_undoable(s, op, &op->err_);
    if (r < 0)
        op->r_ = r;
    else
        s->checkpointing = true;
    loop_later(s->control->loop, &op->later_, r < 0 ? on_undo_refused : on_undo_begun, NULL);
}
