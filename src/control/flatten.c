/* High stacks of layers become one layer before anything is built on them. */
#include <stdio.h>

#include "control/layers.h"
#include "control/plane.h"

static void finish(struct flatten_op *op, int r, const struct err *e)
{
    if (r >= 0)
        layers_ref(op->control_, &op->stack);
    op->done(op, r, e);
}

static void on_later(struct loop_later *l)
{
    finish(container_of(l, struct flatten_op, later_), 0, NULL);
}

static void on_done(struct keeper_job *j, int r, const struct err *e,
                    const struct layers_said *said)
{
    struct flatten_op *op = container_of(j, struct flatten_op, job_);
    struct json_strs were = op->stack;

    (void)said;
    if (r >= 0) {
        op->one_ = op->layer_;
        op->stack = (struct json_strs){ &op->one_, 1 };
    }
    finish(op, r, e);
    layers_unref(op->control_, &were); /* held while they were read */
}

static const struct keeper_events events = { .done = on_done };

static int begin(struct flatten_op *op, struct err *e)
{
    struct layers_job job;
    int r = id_make("lay_", op->layer_, e);

    if (r < 0)
        return r;
    layers_job_fill(&job, LAYERS_FLATTEN, op->layer_);
    for (size_t i = 0; i < op->stack.n; i++)
        snprintf(job.below[job.n_below++], LAYER_NAME_MAX, "%s", op->stack.p[i]);
    return keeper_start(op->control_, &op->job_, &events, &job, NULL, 0, e);
}

/* One that cannot be flattened now may be as high as it is. */
void layers_flatten(struct control *c, struct flatten_op *op)
{
    struct err e;

    op->control_ = c;
    op->job_.running = false;
    if (op->stack.n > LAYERS_FLAT && !op->on_image && begin(op, &e) >= 0)
        layers_ref(c, &op->stack);
    else
        loop_later(c->loop, &op->later_, on_later, NULL);
}

void layers_flatten_cancel(struct flatten_op *op)
{
    loop_later_stop(&op->later_);
    if (!op->job_.running)
        return;
    keeper_cancel(&op->job_);
    layers_unref(op->control_, &op->stack);
}
