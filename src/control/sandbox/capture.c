/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sandbox/capture.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "control/layer/digest_queue.h"
#include "control/sandbox/sandbox.h"

/* Releases the capture and calls `done`. */
static void on_capture_later(struct loop_later *l)
{
    struct capture *c = container_of(l, struct capture, later_);
    struct sandbox *s = take_ptr(c->sandbox_);

    if (s->capture == c)
        s->capture = NULL;
    if (c->r_ >= 0 && !c->held_ && !c->in_memory)
        layer_ref(s->control, c->layer);
    else if (c->r_ < 0 && c->held_)
        layer_unref(s->control, c->layer);
    if (c->r_ >= 0 && !c->kept && !c->in_memory)
        digest_queue_add(s->control, c->layer);
    c->done(c, c->r_, c->r_ < 0 ? &c->err_ : NULL);
    sandbox_unref(s);
}

static void report_capture(struct capture *c)
{
    loop_later(c->sandbox_->control->loop, &c->later_, on_capture_later, NULL);
}

/* → capture_on_held() */
static void freeze_captured_box(struct capture *c)
{
    struct sandbox *s = c->sandbox_;

    c->frozen_ns_ = clock_mono();
    c->freezing_ = true;
    s->ops->freeze(s->box);
}

static void thaw_captured_box(struct capture *c)
{
    struct sandbox *s = c->sandbox_;

    c->thawing_ = true;
    s->ops->thaw(s->box);
}

/* The layer is complete, or failed. Reported after the sandbox is thawed. */
static void finish_capture(struct capture *c, int r, const struct err *e)
{
    if (c->finished_)
        return;
    c->finished_ = true;
    c->r_ = r;
    if (r < 0)
        c->err_ = *e;
    layer_worker_cancel(&c->job_);
    /* capture_on_held() continues. */
    if (c->freezing_ || c->thawing_)
        return;
    if (c->frozen_ && (r < 0 || !c->stay_frozen))
        thaw_captured_box(c);
    else
        report_capture(c);
}

/* The result is the layer of the pause. */
static void use_paused_layer(struct capture *c)
{
    const struct sandbox *s = c->sandbox_;

    if (c->held_)
        layer_unref(s->control, c->layer);
    c->held_ = false;
    snprintf(c->layer, sizeof c->layer, "%s", s->detail.paused.layer);
    c->bytes = (uint64_t)s->detail.paused.bytes;
    c->entries = (uint64_t)s->detail.paused.entries;
    c->finished_ = true;
    c->r_ = 0;
    report_capture(c);
}

/* --- the layer worker --- */

static void on_capture_job_ready(struct layer_job *j)
{
    struct capture *c = container_of(j, struct capture, job_);

    fault_point("capture.freeze");
    if (c->paused_)
        layer_worker_go(j);
    else
        freeze_captured_box(c);
}

static void on_capture_progress(struct layer_job *j, uint64_t bytes, uint64_t entries)
{
    struct capture *c = container_of(j, struct capture, job_);

    if (c->progress)
        c->progress(c, bytes);
}

static void on_capture_files_taken(struct layer_job *j)
{
    struct capture *c = container_of(j, struct capture, job_);

    fault_point("capture.taken");
    if (c->frozen_ && !c->stay_frozen)
        thaw_captured_box(c);
}

static void on_capture_job_done(struct layer_job *j, int r, const struct err *e,
                                const struct layers_said *said)
{
    struct capture *c = container_of(j, struct capture, job_);

    if (r >= 0) {
        c->bytes = said->bytes;
        c->entries = said->entries;
        c->kept = strcmp(said->text, "kept") == 0;
    }
    fault_point("capture.done");
    if (r == -(int)ERR_NOT_FOUND && c->paused_ && c->sandbox_->detail.has_paused &&
        !c->sandbox_->detail.paused.in_memory)
        use_paused_layer(c); /* an earlier capture took it, and the sandbox was not resumed since */
    else
        finish_capture(c, r, e);
}

static const struct layer_worker_events events = { .ready = on_capture_job_ready,
                                                   .progress = on_capture_progress,
                                                   .taken = on_capture_files_taken,
                                                   .done = on_capture_job_done };

/* --- the box --- */

static struct layer_charge charge_of_capture(const struct capture *c)
{
    return c->caller ? layer_charge_caller(c->sandbox_->control, c->caller)
                     : sandbox_layer_charge(c->sandbox_);
}

static int start_capture_job(struct capture *c, int upper, struct err *e)
{
    const struct layer_charge charge = charge_of_capture(c);
    const struct sandbox *s = c->sandbox_;
    struct layers_job job;
    int r = id_make("lay_", c->layer, e);

    if (r < 0)
        return r;
    layer_ref(s->control, c->layer); /* before the orphan sweep can see it */
    c->held_ = true;
    layers_job_fill(&job, LAYERS_CAPTURE, c->layer);
    snprintf(job.box, sizeof job.box, "%s", s->record.id);
    job.flags = (c->stay_frozen ? LAYERS_KEEP : 0) | (c->paused_ ? LAYERS_FROZEN : 0);
    job.free_min = s->control->storage.free_min;
    return layer_worker_queue(s->control, &charge, &c->job_, &events, &job, &upper,
                              upper < 0 ? 0 : 1, e);
}

void capture_on_upper(struct sandbox *s, int r, const struct err *e, int *fd)
{
    struct capture *c = s->capture;
    struct err why;

    if (!c || c->finished_ || c->job_.running)
        return;
    if (r >= 0) {
        r = start_capture_job(c, *fd, &why);
        e = &why;
    }
    if (r < 0)
        finish_capture(c, r, e);
}

void capture_on_held(struct sandbox *s, bool frozen, int r, const struct err *e)
{
    struct capture *c = s->capture;

    if (!c)
        return;
    if (frozen) {
        c->freezing_ = false;
        c->frozen_ = r >= 0;
    } else {
        c->thawing_ = c->frozen_ = false;
        c->pause_ns = clock_mono() - c->frozen_ns_;
    }
    if (c->finished_ && c->frozen_)
        thaw_captured_box(c);
    else if (c->finished_)
        report_capture(c);
    else if (frozen && (r < 0 || c->in_memory))
        finish_capture(c, r, e);
    else if (frozen)
        layer_worker_go(&c->job_);
}

void capture_abort(struct sandbox *s)
{
    struct capture *c = s->capture;
    struct err e;

    /* A paused sandbox is read from disk, even if its box is gone. */
    if (!c || (c->paused_ && !s->destroying))
        return;
    s->capture = NULL;
    c->freezing_ = c->thawing_ = c->frozen_ = false; /* the box reports nothing after this */
    if (c->finished_)
        report_capture(c);
    else
        finish_capture(c, err_set(&e, ERR_CONFLICT, "sandbox %s ended meanwhile", s->record.id),
                       &e);
}

/* --- */

static int check_capturable(const struct sandbox *s, struct err *e)
{
    if (s->capture)
        return err_set(e, ERR_BUSY, "sandbox %s is being captured already; try again",
                       s->record.id);
    if (pause_check_stored(s, e) < 0)
        return -(int)ERR_CONFLICT;
    if (!sandbox_state_usable(s->record.state) || sandbox_is_ending(s) || s->after_teardown ||
        !s->box)
        return err_set(
            e, ERR_CONFLICT, "sandbox %s is %s: its files cannot be captured", s->record.id,
            sandbox_is_ending(s) ? "being destroyed" : sandbox_state_names[s->record.state]);
    if (!(s->ops->can & BACKEND_CAN_SNAPSHOT) || !(s->ops->can & BACKEND_CAN_PAUSE))
        return err_set(e, ERR_UNSUPPORTED, "%s does not support snapshots", s->ops->id);
    return 0;
}

static void on_box_layer_taken(struct layer_job *j, int r, const struct err *e,
                               const struct layers_said *said)
{
    struct capture *c = container_of(j, struct capture, job_);
    struct err why;

    if (r >= 0) {
        /* The record still says `kept`, which is harmless: see LAYERS_TAKE. */
        c->sandbox_->detail.paused.kept = false;
        use_paused_layer(c);
        return;
    }
    if (r == -(int)ERR_BUSY) { /* a part of its box is left */
        r = start_capture_job(c, -1, &why);
        e = &why;
    }
    if (r < 0)
        finish_capture(c, r, e);
}

/* The files are a layer already, or still on disk; the box may be gone. */
static void capture_paused(struct sandbox *s, struct capture *c)
{
    /* As far as is known: a live box locks its files. */
    bool alive = s->box && !s->detail.paused.stopped;
    static const struct layer_worker_events taking = { .done = on_box_layer_taken };
    struct layer_charge charge;
    struct layers_job job;
    struct err e;
    int r;

    if (!s->detail.paused.kept) {
        use_paused_layer(c);
        return;
    }
    s->capture = c;
    c->paused_ = true;
    /* If no process is left, its files on disk become the layer that the pause named. */
    layers_job_fill(&job, LAYERS_TAKE, s->detail.paused.layer);
    snprintf(job.box, sizeof job.box, "%s", s->record.id);
    charge = charge_of_capture(c);
    r = alive ? start_capture_job(c, -1, &e)
              : layer_worker_queue(s->control, &charge, &c->job_, &taking, &job, NULL, 0, &e);
    if (r < 0)
        finish_capture(c, r, &e);
}

static void init_capture(struct sandbox *s, struct capture *c)
{
    c->sandbox_ = sandbox_ref(s);
    c->frozen_ = c->freezing_ = c->thawing_ = c->finished_ = c->paused_ = c->kept = false;
    c->job_.running = false;
    c->pause_ns = 0;
}

void capture_remains(struct sandbox *s, struct capture *c)
{
    struct err e;
    int r = 0;

    init_capture(s, c);
    if (s->capture)
        r = err_set(&e, ERR_BUG, "a capture of %s has outlived its box", s->record.id);
    else
        s->capture = c;
    c->paused_ = true;
    r = r < 0 ? r : start_capture_job(c, -1, &e);
    if (r < 0)
        finish_capture(c, r, &e);
}

void capture_start(struct sandbox *s, struct capture *c)
{
    struct err e;
    int r = check_capturable(s, &e);

    init_capture(s, c);
    if (s->record.state == SANDBOX_PAUSED && s->detail.has_paused && !sandbox_is_ending(s) &&
        !s->detail.paused.in_memory && !c->stay_frozen && !s->resume && !s->after_teardown &&
        !s->capture) {
        capture_paused(s, c);
    } else if (r < 0) {
        finish_capture(c, r, &e);
    } else if (c->in_memory) {
        s->capture = c;
        freeze_captured_box(c);
    } else {
        s->capture = c;
        s->ops->upper(s->box);
    }
}
