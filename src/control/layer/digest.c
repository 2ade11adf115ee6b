/* SPDX-License-Identifier: Apache-2.0 */
#include "control/layer/digest.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "control/layer/layer_slots.h"
#include "control/plane/plane.h"
#include "domain/oci/reference.h"

/* A digest in the store's queue; its operation may be cancelled before it is stored. */
struct digest_recording {
    struct control *control;
    struct digest_op *op; /* NULL: cancelled */
    struct layer_record record;
    struct store_txn txn;
};

static void digest_next_layer(struct digest_op *op);

const char *layer_digest(struct control *c, const char *name)
{
    const struct layer *l = layer_on_record(c, name);

    return l ? l->record.digest : "";
}

/* An image holds its own layers: a reference here would outlive the image. */
static void each_held_layer(struct digest_op *op, void (*fn)(struct control *c, const char *name))
{
    for (size_t i = 0; op->caller && i < op->count_; i++)
        if (layer_is_captured(op->names_[i]))
            fn(op->control_, op->names_[i]);
}

static void end_digest(struct digest_op *op)
{
    op->running_ = false;
    op->control_->changes--;
    each_held_layer(op, layer_unref);
}

static void on_digest_later(struct loop_later *l)
{
    struct digest_op *op = container_of(l, struct digest_op, later_);

    end_digest(op);
    op->done(op, op->r_, op->r_ < 0 ? &op->err_ : NULL);
}

static void finish_digest(struct digest_op *op, int r, const struct err *e)
{
    op->r_ = r;
    if (r < 0)
        op->err_ = *e;
    loop_later(op->control_->loop, &op->later_, on_digest_later, NULL);
}

/* --- storing --- */

static void on_digest_stored(struct store_txn *t, int r, const struct err *e)
{
    struct digest_recording *x = container_of(t, struct digest_recording, txn);
    struct layer *l = layer_known(x->control, x->record.name);
    struct digest_op *op = x->op;

    fault_point("measure.stored");
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
        finish_digest(op, r, e);
        return;
    }
    op->first++;
    op->n++;
    digest_next_layer(op);
}

/* The digest counts for comparisons when it is on disk. Two operations may store it at the same
 * time. */
static void store_digest(struct digest_op *op, const struct layers_said *said)
{
    struct control *c = op->control_;
    struct layer *l = layer_known(c, op->names_[op->n]);
    struct digest_recording *x = new0(sizeof *x);

    if (!l)
        abort(); /* it was found just before */
    x->record = l->record;
    str_copy(str_from(said->text), x->record.digest, sizeof x->record.digest);
    x->record.bytes = said->bytes;
    x->record.entries = said->entries;
    if (!x->record.created_ns)
        x->record.created_ns = clock_wall();
    x->control = c;
    x->op = op;
    op->recording_ = x;
    fault_point("measure.record");
    c->changes++;
    store_txn_begin(&x->txn, c->store);
    store_put_layer(&x->txn, &x->record);
    store_commit(&x->txn, on_digest_stored);
}

/* --- comparing --- */

static int set_damage_error(const char *name, struct err *e)
{
    return layer_is_captured(name)
               ? err_set(e, ERR_CONFLICT,
                         "layer %s is damaged: its digest differs from the recorded one, and "
                         "everything built on it is affected; take the snapshot again, or import "
                         "it from a file",
                         name)
               : err_set(e, ERR_CONFLICT,
                         "layer %.19s… is damaged: its digest differs from the recorded one; "
                         "remove the image, and pull or import it again",
                         name);
}

/* 1: not on record yet; another operation may be about to store it, which may fail. */
static int compare_digest(struct digest_op *op, const struct layers_said *said, struct err *e)
{
    const char *name = op->names_[op->n];
    const struct layer *l = layer_known(op->control_, name);

    if (!l || l->leaving || !(l->refs || l->on_record))
        return err_set(e, ERR_NOT_FOUND, "layer %s was removed meanwhile", name);
    if (!oci_digest_valid(str_from(said->text)))
        return err_set(e, ERR_UPSTREAM, "sandboxer-layers returned no digest of layer %s", name);
    if (l->record.digest[0] && !str_eq(str_from(l->record.digest), str_from(said->text)))
        return set_damage_error(name, e);
    return !l->record.digest[0] || !l->on_record;
}

static void on_layer_digested(struct layer_job *j, int r, const struct err *e,
                              const struct layers_said *said)
{
    struct digest_op *op = container_of(j, struct digest_op, job_);
    struct err why;

    if (r >= 0) {
        r = compare_digest(op, said, &why);
        e = &why;
    }
    if (r == -(int)ERR_NOT_FOUND && op->caller) {
        r = err_set(&why, ERR_CONFLICT, "layer %s no longer exists", op->names_[op->n]);
        e = &why;
    }
    if (r < 0) {
        finish_digest(op, r, e);
        return;
    }
    op->bytes += said->bytes;
    if (r > 0) {
        store_digest(op, said);
        return;
    }
    op->n++;
    digest_next_layer(op);
}

static void on_digest_progress(struct layer_job *j, uint64_t bytes, uint64_t entries)
{
    struct digest_op *op = container_of(j, struct digest_op, job_);

    if (op->at)
        op->at(op, op->bytes + bytes);
}

static const struct layer_worker_events events = { .progress = on_digest_progress,
                                                   .done = on_layer_digested };

/* An operation that was let in is not refused later. */
static int start_digest_job(struct digest_op *op, struct err *e)
{
    struct layer_charge charge;
    struct layers_job job;

    layers_job_fill(&job, LAYERS_DIGEST, op->names_[op->n]);
    if (!op->caller) {
        job.flags = LAYERS_IDLE;
        return layer_worker_start(op->control_, &op->job_, &events, &job, NULL, 0, e);
    }
    charge = layer_charge_caller(op->control_, op->caller);
    charge.pool = LAYER_POOL_DIGESTS;
    charge.must = op->n;
    return layer_worker_queue(op->control_, &charge, &op->job_, &events, &job, NULL, 0, e);
}

static void digest_next_layer(struct digest_op *op)
{
    struct err e;
    int r;

    if (op->n == op->count_) {
        finish_digest(op, 0, NULL);
        return;
    }
    r = start_digest_job(op, &e);
    if (r < 0)
        finish_digest(op, r, &e);
}

void digest_add(struct digest_op *op, const struct json_strs *names)
{
    for (size_t i = 0; i < names->n; i++)
        if (op->count_ < LAYERS_STACK_MAX)
            snprintf(op->names_[op->count_++], LAYER_NAME_MAX, "%s", names->p[i]);
        else
            op->r_ = err_set(&op->err_, ERR_TOO_BIG, "more than %d layers", LAYERS_STACK_MAX);
}

void digest_start(struct control *c, struct digest_op *op)
{
    op->control_ = c;
    op->running_ = true;
    c->changes++; /* closing waits for it, or cancels it */
    each_held_layer(op, layer_ref);
    if (op->r_ < 0)
        finish_digest(op, op->r_, &op->err_);
    else
        digest_next_layer(op);
}

void digest_cancel(struct digest_op *op)
{
    if (!op->running_)
        return;
    layer_worker_cancel(&op->job_);
    loop_later_stop(&op->later_);
    if (op->recording_)
        op->recording_->op = NULL;
    op->recording_ = NULL;
    end_digest(op);
}
