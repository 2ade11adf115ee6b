/* SPDX-License-Identifier: Apache-2.0 */
/* Flattening: merges a high stack of layers into one layer. */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fault_point.h"
#include "base/log.h"
#include "control/layer/digest_queue.h"
#include "control/layer/layers.h"
#include "control/plane/plane.h"

static void on_flatten_later(struct loop_later *l)
{
    struct flatten_op *op = container_of(l, struct flatten_op, later_);

    layers_ref(op->control_, &op->stack);
    op->done(op);
}

static void on_flatten_done(struct layer_job *j, int r, const struct err *e,
                            const struct layers_said *said)
{
    struct flatten_op *op = container_of(j, struct flatten_op, job_);
    struct json_strs were = op->stack;

    fault_point("flatten.done");
    if (r >= 0) {
        op->one_ = op->layer_;
        op->stack = (struct json_strs){ &op->one_, 1 };
        layers_unref(op->control_, &were);
        digest_queue_add(op->control_, op->layer_);
    } else {
        LOG(WARN, "layers.not_flattened", LOG_S("error", e->msg));
        layer_unref(op->control_, op->layer_);
    }
    op->done(op);
}

static const struct layer_worker_events events = { .done = on_flatten_done };

/* The host's files that whiteouts of a sandbox may hide are in /usr. If /bin and others are not
 * links into it, a layer worker cannot see all of them. */
static int open_host_usr(struct err *e)
{
    struct stat st;
    int fd = -1;

    if (lstat("/bin", &st) < 0 || !S_ISDIR(st.st_mode))
        fd = openat(AT_FDCWD, "/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? err_set(e, ERR_UNSUPPORTED, "the host's /bin is not a link into /usr") : fd;
}

static int start_flatten_job(struct flatten_op *op, const struct layer_charge *charge,
                             struct err *e)
{
    AUTO_CLOSE int usr = -1;
    struct layers_job job;
    int r = id_make("lay_", op->layer_, e);

    if (r < 0)
        return r;
    layers_job_fill(&job, LAYERS_FLATTEN, op->layer_);
    job.free_min = op->control_->storage.free_min;
    layers_list(&op->stack, job.below, &job.n_below);
    layers_list(&op->on.image, job.against, &job.n_against);
    if (op->on.kind == FLOOR_HOST)
        usr = open_host_usr(e);
    if (op->on.kind == FLOOR_HOST && usr < 0)
        return usr;
    return charge ? layer_worker_queue(op->control_, charge, &op->job_, &events, &job, &usr,
                                       usr >= 0, e)
                  : layer_worker_start(op->control_, &op->job_, &events, &job, &usr, usr >= 0, e);
}

/* A stack that cannot be flattened now, for instance on a full disk, is used as it is. */
void layers_flatten(struct control *c, const struct layer_charge *charge, struct flatten_op *op)
{
    struct err e;

    op->control_ = c;
    op->job_.running = false;
    if (op->stack.n <= op->most || op->on.kind == FLOOR_UNSEEN ||
        start_flatten_job(op, charge, &e) < 0) {
        loop_later(c->loop, &op->later_, on_flatten_later, NULL);
        return;
    }
    layers_ref(c, &op->stack);
    layer_ref(c, op->layer_); /* at once, before the orphan sweep can see it */
    fault_point("flatten.begun");
}

void layers_flatten_cancel(struct flatten_op *op)
{
    loop_later_stop(&op->later_);
    if (!op->job_.running)
        return;
    layer_worker_cancel(&op->job_);
    layers_unref(op->control_, &op->stack);
    layer_unref(op->control_, op->layer_);
}
