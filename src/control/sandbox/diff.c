/* SPDX-License-Identifier: Apache-2.0 */
/* The changes of a sandbox: a layer worker compares its writable directory with the layers
 * below. */
#include <stdio.h>

#include "control/sandbox/sandbox.h"
#include "control/snapshot/snapshots.h"

enum { CHANGES_MAX = 100000 };

static void on_diff_later(struct loop_later *l)
{
    struct diff_op *op = container_of(l, struct diff_op, later_);
    struct sandbox *s = take_ptr(op->sandbox_);

    link_leave(&op->link_);
    s->control->changes--;
    if (op->layer_[0])
        layer_unref(s->control, op->layer_);
    if (op->r_ < 0)
        drop_fd(&op->file);
    op->done(op, op->r_, op->r_ < 0 ? &op->err_ : NULL);
    sandbox_unref(s);
}

static void finish_diff(struct diff_op *op, int r, const struct err *e)
{
    op->r_ = r;
    if (r < 0)
        op->err_ = *e;
    loop_later(op->sandbox_->control->loop, &op->later_, on_diff_later, NULL);
}

static void on_diff_job_done(struct layer_job *j, int r, const struct err *e,
                             const struct layers_said *said)
{
    struct diff_op *op = container_of(j, struct diff_op, job_);
    const struct sandbox *s = op->sandbox_;
    struct err why;

    op->changes = said ? said->entries : 0;
    /* Its writable directory was removed under the layer worker. */
    if (r < 0 && !op->layer_[0] && (s->destroying || s->after_teardown || !s->box)) {
        r = err_set(&why, ERR_CONFLICT, "sandbox %s ended meanwhile", s->record.id);
        e = &why;
    }
    finish_diff(op, r, e);
}

static const struct layer_worker_events events = { .done = on_diff_job_done };

/* The caller may have deleted the snapshot meanwhile. */
static int fill_against(struct diff_op *op, struct layers_job *job, struct err *e)
{
    const struct sandbox *s = op->sandbox_;
    const struct snapshot *than = snapshot_find(s->control, op->caller, str_from(op->against));

    if (!than)
        return err_set(e, ERR_NOT_FOUND, "snapshot: there is no '%.80s'", op->against);
    if (!than->base.layers.n != !s->detail.base.layers.n)
        return err_set(e, ERR_CONFLICT,
                       "sandbox %s and snapshot %s cannot be compared: one is built on an image, "
                       "the other on the system of this machine",
                       s->record.id, than->record.id);
    layers_list(&than->layers, job->against, &job->n_against);
    layers_list(&than->base.layers, job->against, &job->n_against);
    return 0;
}

/* upper < 0: the sandbox is paused, and its files are a layer, or still in its writable
 * directory. */
static int start_diff_job(struct diff_op *op, int upper, struct err *e)
{
    const struct sandbox *s = op->sandbox_;
    const struct layer_charge charge = layer_charge_caller(s->control, op->caller);
    struct layers_job job;
    int fds[2], r;
    size_t n = 0;

    layers_job_fill(&job, op->against ? LAYERS_COMPARE : LAYERS_DIFF, op->layer_);
    if (op->layer_[0] && s->detail.paused.kept)
        snprintf(job.box, sizeof job.box, "%s", s->record.id);
    job.entries_max = CHANGES_MAX;
    job.bytes_max = DIFF_BYTES_MAX;
    layers_list(&s->detail.layers, job.below, &job.n_below);
    layers_list(&s->detail.base.layers, job.below, &job.n_below);
    r = op->against ? fill_against(op, &job, e) : 0;
    if (r < 0)
        return r;
    op->file = control_scratch(s->control, e);
    if (op->file < 0)
        return op->file;
    if (upper >= 0)
        fds[n++] = upper;
    fds[n++] = op->file;
    return layer_worker_queue(s->control, &charge, &op->job_, &events, &job, fds, n, e);
}

/* All waiting operations share one answer. */
void diff_on_upper(struct sandbox *s, int r, const struct err *e, const int *fd)
{
    for (struct link *m; (m = list_take(&s->diffs));) {
        struct diff_op *op = container_of(m, struct diff_op, link_);
        struct err why;

        if (r >= 0 && start_diff_job(op, *fd, &why) < 0)
            finish_diff(op, -(int)why.code, &why);
        else if (r < 0)
            finish_diff(op, r, e);
    }
}

static bool can_diff_paused(const struct sandbox *s)
{
    return s->record.state == SANDBOX_PAUSED && s->detail.has_paused && !s->destroying &&
           !s->resume && !s->detail.paused.in_memory;
}

void sandbox_diff(struct sandbox *s, struct diff_op *op)
{
    struct err e;
    int r;

    op->sandbox_ = sandbox_ref(s);
    s->control->changes++; /* closing waits for it */
    op->file = -1;
    op->layer_[0] = '\0';
    if (can_diff_paused(s)) {
        snprintf(op->layer_, sizeof op->layer_, "%s", s->detail.paused.layer);
        layer_ref(s->control, op->layer_);
        r = start_diff_job(op, -1, &e);
    } else {
        r = sandbox_check_usable(s, BACKEND_CAN_SNAPSHOT, &e);
    }
    if (r < 0) {
        finish_diff(op, r, &e);
    } else if (!op->layer_[0]) {
        list_append(&s->diffs, &op->link_);
        s->ops->upper(s->box);
    }
}
