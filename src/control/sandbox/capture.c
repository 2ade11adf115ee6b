#include "control/capture.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hook.h"
#include "control/sandbox.h"

/* Everything has been told: the last word. */
static void on_later(struct loop_later *l)
{
    struct capture *c = container_of(l, struct capture, later_);
    struct sandbox *s = take_ptr(c->sandbox_);

    if (s->capture == c)
        s->capture = NULL;
    if (c->r_ >= 0 && !c->held_)
        layer_ref(s->control, c->layer);
    else if (c->r_ < 0 && c->held_)
        layer_unref(s->control, c->layer);
    if (c->r_ >= 0 && !c->kept)
        layer_made(s->control, c->layer);
    c->done(c, c->r_, c->r_ < 0 ? &c->err_ : NULL);
    sandbox_unref(s);
}

static void tell(struct capture *c)
{
    loop_later(c->sandbox_->control->loop, &c->later_, on_later, NULL);
}

static void thaw(struct capture *c)
{
    struct sandbox *s = c->sandbox_;

    c->thawing_ = true;
    s->ops->thaw(s->box);
}

/* The layer is made, or will not be. It is not told before the sandbox goes on. */
static void finish(struct capture *c, int r, const struct err *e)
{
    if (c->finished_)
        return;
    c->finished_ = true;
    c->r_ = r;
    if (r < 0)
        c->err_ = *e;
    keeper_cancel(&c->job_);
    if (c->freezing_ || c->thawing_)
        return; /* capture_held() goes on */
    if (c->frozen_ && (r < 0 || !c->stay))
        thaw(c);
    else
        tell(c);
}

/* A paused sandbox has been captured. */
static void take_captured(struct capture *c)
{
    const struct sandbox *s = c->sandbox_;

    if (c->held_)
        layer_unref(s->control, c->layer);
    c->held_ = false;
    snprintf(c->layer, sizeof c->layer, "%s", s->facts.paused.layer);
    c->bytes = (uint64_t)s->facts.paused.bytes;
    c->entries = (uint64_t)s->facts.paused.entries;
    c->finished_ = true;
    c->r_ = 0;
    tell(c);
}

/* --- the keeper --- */

static void on_ready(struct keeper_job *j)
{
    struct capture *c = container_of(j, struct capture, job_);
    struct sandbox *s = c->sandbox_;

    hook_point("capture.freeze");
    if (c->paused_) {
        keeper_go(j);
        return;
    }
    c->still_ns_ = clock_mono();
    c->freezing_ = true;
    s->ops->freeze(s->box);
}

static void on_progress(struct keeper_job *j, uint64_t bytes, uint64_t entries)
{
    struct capture *c = container_of(j, struct capture, job_);

    (void)entries;
    if (c->progress)
        c->progress(c, bytes);
}

static void on_taken(struct keeper_job *j)
{
    struct capture *c = container_of(j, struct capture, job_);

    hook_point("capture.taken");
    if (c->frozen_ && !c->stay)
        thaw(c);
}

static void on_done(struct keeper_job *j, int r, const struct err *e,
                    const struct layers_said *said)
{
    struct capture *c = container_of(j, struct capture, job_);

    if (r >= 0) {
        c->bytes = said->bytes;
        c->entries = said->entries;
        c->kept = strcmp(said->text, "kept") == 0;
    }
    hook_point("capture.done");
    if (r == -(int)ERR_NOT_FOUND && c->paused_)
        take_captured(c); /* taken already, though not resumed */
    else
        finish(c, r, e);
}

static const struct keeper_events events = {
    .ready = on_ready, .progress = on_progress, .taken = on_taken, .done = on_done
};

/* --- the box --- */

static int begin(struct capture *c, int upper, struct err *e)
{
    const struct sandbox *s = c->sandbox_;
    struct layers_job job;
    int r = id_make("lay_", c->layer, e);

    if (r < 0)
        return r;
    layer_ref(s->control, c->layer); /* before anybody can take it for nobody's */
    c->held_ = true;
    layers_job_fill(&job, LAYERS_CAPTURE, c->layer);
    snprintf(job.box, sizeof job.box, "%s", s->record.id);
    job.flags = (c->stay ? LAYERS_KEEP : 0) | (c->paused_ ? LAYERS_STILL : 0);
    job.free_min = s->control->storage.free_min;
    return keeper_start(s->control, &c->job_, &events, &job, &upper, upper < 0 ? 0 : 1, e);
}

void capture_upper(struct sandbox *s, int r, const struct err *e, int *fd)
{
    struct capture *c = s->capture;
    struct err why;

    if (!c || c->finished_ || c->job_.running)
        return;
    if (r >= 0) {
        r = begin(c, *fd, &why);
        e = &why;
    }
    if (r < 0)
        finish(c, r, e);
}

static void went_still(struct capture *c, int r, const struct err *e)
{
    c->freezing_ = false;
    c->frozen_ = r >= 0;
    if (c->finished_ && c->frozen_)
        thaw(c);
    else if (c->finished_)
        tell(c);
    else if (r < 0)
        finish(c, r, e);
    else
        keeper_go(&c->job_);
}

static void went_on(struct capture *c)
{
    c->thawing_ = c->frozen_ = false;
    c->pause_ns = clock_mono() - c->still_ns_;
    if (c->finished_)
        tell(c);
}

void capture_held(struct sandbox *s, bool frozen, int r, const struct err *e)
{
    struct capture *c = s->capture;

    if (!c)
        return;
    if (frozen)
        went_still(c, r, e);
    else
        went_on(c);
}

void capture_abort(struct sandbox *s)
{
    struct capture *c = s->capture;

    if (!c || (c->paused_ && !s->destroying)) /* that is read from disk, whoever is gone */
        return;
    s->capture = NULL;
    c->freezing_ = c->thawing_ = c->frozen_ = false; /* nobody tells any more */
    if (!c->finished_) {
        c->finished_ = true;
        c->r_ = err_set(&c->err_, ERR_CONFLICT, "sandbox %s ended meanwhile", s->record.id);
        keeper_cancel(&c->job_);
    }
    tell(c);
}

/* --- */

static int check(const struct sandbox *s, struct err *e)
{
    if (s->capture)
        return err_set(e, ERR_BUSY, "sandbox %s is being captured already; try again",
                       s->record.id);
    if (!sandbox_state_usable(s->record.state) || sandbox_is_ending(s) || s->after_teardown ||
        !s->box)
        return err_set(
            e, ERR_CONFLICT, "sandbox %s is %s: what it wrote cannot be captured", s->record.id,
            sandbox_is_ending(s) ? "being destroyed" : sandbox_state_names[s->record.state]);
    if (!(s->ops->can & EXT_CAN_SNAPSHOT) || !(s->ops->can & EXT_CAN_PAUSE))
        return err_set(e, ERR_UNSUPPORTED, "%s has no snapshots", s->ops->id);
    return 0;
}

static bool is_paused(const struct sandbox *s, const struct capture *c)
{
    return s->record.state == SANDBOX_PAUSED && s->facts.has_paused && !sandbox_is_ending(s) &&
           !c->stay && !s->resume && !s->after_teardown && !s->capture;
}

static void on_box_taken(struct keeper_job *j, int r, const struct err *e,
                         const struct layers_said *said)
{
    struct capture *c = container_of(j, struct capture, job_);
    struct err why;

    (void)said;
    if (r >= 0) {
        c->sandbox_->facts.paused.kept =
            false; /* on record it still is, which is fine: LAYERS_TAKE */
        take_captured(c);
        return;
    }
    if (r == -(int)ERR_BUSY) { /* something of it is left */
        r = begin(c, -1, &why);
        e = &why;
    }
    if (r < 0)
        finish(c, r, e);
}

/* Where nothing runs any more, what is on disk becomes the layer that the pause promised. */
static int take_box(struct capture *c, struct err *e)
{
    static const struct keeper_events taking = { .done = on_box_taken };
    const struct sandbox *s = c->sandbox_;
    struct layers_job job;

    layers_job_fill(&job, LAYERS_TAKE, s->facts.paused.layer);
    snprintf(job.box, sizeof job.box, "%s", s->record.id);
    return keeper_start(s->control, &c->job_, &taking, &job, NULL, 0, e);
}

/* What it wrote is a layer, or on disk, where its box may be gone. */
static void capture_paused(struct sandbox *s, struct capture *c)
{
    bool alive = s->box && !s->facts.paused.stopped; /* as far as we know: it locks what it has */
    struct err e;
    int r;

    if (!s->facts.paused.kept) {
        take_captured(c);
        return;
    }
    s->capture = c;
    c->paused_ = true;
    r = alive ? begin(c, -1, &e) : take_box(c, &e);
    if (r < 0)
        finish(c, r, &e);
}

void capture_start(struct sandbox *s, struct capture *c)
{
    struct err e;
    int r = check(s, &e);

    c->sandbox_ = sandbox_ref(s);
    c->frozen_ = c->freezing_ = c->thawing_ = c->finished_ = c->paused_ = c->kept = false;
    c->job_.running = false;
    c->pause_ns = 0;
    if (is_paused(s, c)) {
        capture_paused(s, c);
        return;
    }
    if (r < 0) {
        c->finished_ = true;
        c->r_ = r;
        c->err_ = e;
        tell(c);
        return;
    }
    s->capture = c;
    s->ops->upper(s->box);
}
