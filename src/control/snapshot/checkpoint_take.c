/* SPDX-License-Identifier: Apache-2.0 */
/* Takes a checkpoint: compares the files with the last one, and stores them if they differ. */
#include "base/fault_point.h"
#include "base/own.h"
#include "control/sandbox/sandbox.h"
#include "control/snapshot/checkpoints.h"

void checkpoint_begin(struct sandbox *s, struct checkpoint_op *op)
{
    op->sandbox_ = s;
    op->checkpoint = NULL;
    op->taken = op->holds_ = false;
}

static void finish_checkpoint(struct checkpoint_op *op, int r, const struct err *e)
{
    struct sandbox *s = op->sandbox_;
    bool holds = op->holds_;

    if (holds)
        s->checkpointing = false;
    op->done(op, r, e);
    if (holds)
        sandbox_unref(s);
}

/* --- comparing --- */

/* Too many changes to be listed are changes, too. */
static void on_checkpoint_compared(struct diff_op *d, int r, const struct err *e)
{
    struct checkpoint_op *op = container_of(d, struct checkpoint_op, diff_);

    drop_fd(&d->file);
    if (r == -(int)ERR_TOO_BIG) {
        op->note_.changed = -1;
        r = 0;
    } else if (r >= 0) {
        op->note_.changed = (int64_t)d->changes;
    }
    op->compared_(op, r, e);
}

/* Without a checkpoint to compare with, the changes since the sandbox was made are counted. */
void checkpoint_compare(struct checkpoint_op *op)
{
    struct sandbox *s = op->sandbox_;
    const struct snapshot *last = checkpoint_find(s, s->detail.checkpoint.at);

    op->checkpoint = last;
    op->note_ = (struct checkpoint_note){ .number = s->detail.checkpoint.last + 1,
                                          .parent = s->detail.checkpoint.at,
                                          .changed = -1,
                                          .cause = op->cause,
                                          .automatic = op->automatic,
                                          .spare = op->note_.spare };
    op->diff_ = (struct diff_op){ .caller = op->caller,
                                  .against = last ? last->record.id : NULL,
                                  .done = on_checkpoint_compared };
    sandbox_diff(s, &op->diff_);
}

/* --- recording --- */

static void on_checkpoint_stored(struct snapshot_op *o, int r, const struct err *e)
{
    struct checkpoint_op *op = container_of(o, struct checkpoint_op, snapshot_);

    if (r >= 0) {
        op->checkpoint = o->snapshot;
        op->taken = true;
        checkpoints_prune(op->sandbox_, op->note_.spare);
    }
    finish_checkpoint(op, r, e);
}

void checkpoint_record(struct checkpoint_op *op)
{
    fault_point("checkpoint.store");
    op->snapshot_ = (struct snapshot_op){ .caller = op->caller,
                                          .checkpoint = &op->note_,
                                          .done = on_checkpoint_stored };
    sandbox_snapshot(op->sandbox_, &op->snapshot_);
}

/* --- */

static void on_taken_compared(struct checkpoint_op *op, int r, const struct err *e)
{
    struct sandbox *s = op->sandbox_;

    op->checkpoint = checkpoint_find(s, op->note_.parent);
    if (r >= 0 && (op->note_.changed || !op->checkpoint)) {
        checkpoint_record(op);
        return;
    }
    finish_checkpoint(op, r, e);
}

static void on_checkpoint_refused(struct loop_later *l)
{
    struct checkpoint_op *op = container_of(l, struct checkpoint_op, later_);
    struct sandbox *s = op->sandbox_;
    struct err e;
    int r =
        err_set(&e, ERR_BUSY, "sandbox %s has a checkpoint or an undo under way already; try again",
                s->record.id);

    finish_checkpoint(op, r, &e);
    sandbox_unref(s);
}

void checkpoint_take(struct sandbox *s, struct checkpoint_op *op)
{
    checkpoint_begin(sandbox_ref(s), op);
    op->compared_ = on_taken_compared;
    op->note_.spare = 0;
    if (s->checkpointing) {
        loop_later(s->control->loop, &op->later_, on_checkpoint_refused, NULL);
        return;
    }
    s->checkpointing = op->holds_ = true;
    checkpoint_compare(op);
}
