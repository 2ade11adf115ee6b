#include "control/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hook.h"
#include "control/plane.h"
#include "oci/reference.h"

/* What the store has of an operation, which may be gone before it is told. */
struct recording {
    struct control *control;
    struct measure_op *op; /* NULL: nobody waits for it any more */
    struct layer_record record;
    struct store_txn txn;
};

static void next(struct measure_op *op);

const char *layer_measure(struct control *c, const char *name)
{
    const struct layer *l = layer_known(c, name);

    return l && l->on_record && !l->leaving ? l->record.measure : "";
}

/* An image's layer is its image's to keep: held here, it would outlive that. */
static void each_held(struct measure_op *op, void (*fn)(struct control *c, const char *name))
{
    for (size_t i = 0; !op->idle && i < op->count_; i++)
        if (layer_is_captured(op->names_[i]))
            fn(op->control_, op->names_[i]);
}

static void end(struct measure_op *op)
{
    op->running_ = false;
    op->control_->measures -= !op->idle;
    op->control_->changes--;
    each_held(op, layer_unref);
}

static void on_later(struct loop_later *l)
{
    struct measure_op *op = container_of(l, struct measure_op, later_);

    end(op);
    op->done(op, op->r_, op->r_ < 0 ? &op->err_ : NULL);
}

static void finish(struct measure_op *op, int r, const struct err *e)
{
    op->r_ = r;
    if (r < 0)
        op->err_ = *e;
    loop_later(op->control_->loop, &op->later_, on_later, NULL);
}

/* --- on record --- */

static void stored(struct store_txn *t, int r, const struct err *e)
{
    struct recording *x = container_of(t, struct recording, txn);
    struct layer *l = layer_known(x->control, x->record.name);
    struct measure_op *op = x->op;

    hook_point("measure.stored");
    x->control->changes--;
    if (l && r >= 0) {
        l->record = x->record;
        l->on_record = true;
    }
    free(x);
    if (!op)
        return;
    op->recording_ = NULL;
    if (r < 0) {
        finish(op, r, e);
        return;
    }
    op->first++;
    op->n++;
    next(op);
}

/* Others compare with it from when it is there. Two may put it there at the same time. */
static void put_on_record(struct measure_op *op, const struct layers_said *said)
{
    struct control *c = op->control_;
    struct layer *l = layer_known(c, op->names_[op->n]);
    struct recording *x = calloc(1, sizeof *x);

    if (!l || !x)
        abort(); /* it was there just now */
    x->record = l->record;
    str_copy(str_from(said->text), x->record.measure, sizeof x->record.measure);
    x->record.bytes = said->bytes;
    x->record.entries = said->entries;
    if (!x->record.created_ns)
        x->record.created_ns = clock_wall();
    x->control = c;
    x->op = op;
    op->recording_ = x;
    hook_point("measure.record");
    c->changes++;
    store_txn_begin(&x->txn, c->store);
    store_put_layer(&x->txn, &x->record);
    store_commit(&x->txn, stored);
}

/* --- what it holds --- */

static int tell_damage(const char *name, struct err *e)
{
    return layer_is_captured(name)
               ? err_set(e, ERR_CONFLICT,
                         "layer %s is not what it was when it was measured: it is damaged, and so "
                         "is what stands on it; take it again, or import it from a file",
                         name)
               : err_set(e, ERR_CONFLICT,
                         "layer %.19s… is not what it was when it was unpacked: it is damaged; "
                         "remove the image and bring it again",
                         name);
}

/* 1: it is not on record yet; or another one is about to put it there, which may fail. */
static int compare(struct measure_op *op, const struct layers_said *said, struct err *e)
{
    const char *name = op->names_[op->n];
    const struct layer *l = layer_known(op->control_, name);

    if (!l || l->leaving || !(l->refs || l->on_record))
        return err_set(e, ERR_NOT_FOUND, "layer %s was removed meanwhile", name);
    if (!oci_digest_valid(str_from(said->text)))
        return err_set(e, ERR_UPSTREAM, "the keeper of layers told no measure of %s", name);
    if (l->record.measure[0] && !str_eq(str_from(l->record.measure), str_from(said->text)))
        return tell_damage(name, e);
    return !l->record.measure[0] || !l->on_record;
}

static void measured(struct keeper_job *j, int r, const struct err *e,
                     const struct layers_said *said)
{
    struct measure_op *op = container_of(j, struct measure_op, job_);
    struct err why;

    if (r >= 0) {
        r = compare(op, said, &why);
        e = &why;
    }
    if (r == -(int)ERR_NOT_FOUND && !op->idle) {
        r = err_set(&why, ERR_CONFLICT, "layer %s is not there any more", op->names_[op->n]);
        e = &why;
    }
    if (r < 0) {
        finish(op, r, e);
        return;
    }
    op->bytes += said->bytes;
    if (r > 0) {
        put_on_record(op, said);
        return;
    }
    op->n++;
    next(op);
}

static void on_progress(struct keeper_job *j, uint64_t bytes, uint64_t entries)
{
    struct measure_op *op = container_of(j, struct measure_op, job_);

    (void)entries;
    if (op->at)
        op->at(op, op->bytes + bytes);
}

static const struct keeper_events events = { .progress = on_progress, .done = measured };

static void next(struct measure_op *op)
{
    struct layers_job job;
    struct err e;
    int r;

    if (op->n == op->count_) {
        finish(op, 0, NULL);
        return;
    }
    layers_job_fill(&job, LAYERS_MEASURE, op->names_[op->n]);
    job.flags = op->idle ? LAYERS_IDLE : 0;
    r = keeper_start(op->control_, &op->job_, &events, &job, NULL, 0, &e);
    if (r < 0)
        finish(op, r, &e);
}

void measure_add(struct measure_op *op, const struct json_strs *names)
{
    for (size_t i = 0; i < names->n; i++)
        if (op->count_ < LAYERS_STACK_MAX)
            snprintf(op->names_[op->count_++], LAYER_NAME_MAX, "%s", names->p[i]);
        else
            op->r_ = err_set(&op->err_, ERR_TOO_BIG, "more than %d layers", LAYERS_STACK_MAX);
}

void measure_start(struct control *c, struct measure_op *op)
{
    op->control_ = c;
    op->running_ = true;
    c->measures += !op->idle;
    c->changes++; /* closing waits for it, or cancels it */
    each_held(op, layer_ref);
    if (c->measures > MEASURES_MAX && !op->idle)
        op->r_ = err_set(&op->err_, ERR_BUSY, "%d snapshots or images are read already; try again",
                         MEASURES_MAX);
    if (op->r_ < 0)
        finish(op, op->r_, &op->err_);
    else
        next(op);
}

void measure_cancel(struct measure_op *op)
{
    if (!op->running_)
        return;
    keeper_cancel(&op->job_);
    loop_later_stop(&op->later_);
    if (op->recording_)
        op->recording_->op = NULL;
    op->recording_ = NULL;
    end(op);
}
