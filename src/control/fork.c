/* One capture, and several sandboxes on it. */
#include <stdlib.h>

#include "control/sandbox.h"
#include "control/snapshots.h"

enum { AT_ONCE = 8, FORK_ARENA_MAX = 256 << 10 };

static void go_on(struct fork_op *op);

static void finish(struct fork_op *op)
{
    struct sandbox *s = take_ptr(op->sandbox_);

    layers_unref(s->control, &op->layers_); /* the copies have their own */
    op->done(op, op->r_, op->r_ < 0 ? &op->err_ : NULL);
    sandbox_unref(s);
}

static void created(struct create_op *made, int r, const struct err *e)
{
    struct fork_op *op = made->fork;

    op->pending_--;
    if (r < 0 && op->r_ >= 0) {
        op->r_ = r;
        op->err_ = *e;
    }
    go_on(op);
}

/* The first failure ends it: what was made stays, and is told. */
static void go_on(struct fork_op *op)
{
    while (op->r_ >= 0 && op->next_ < op->count && op->pending_ < AT_ONCE) {
        struct create_op *made = &op->made[op->next_++];

        *made = (struct create_op){ .caller = op->caller,
                                    .request = &op->request_,
                                    .layers = &op->layers_,
                                    .base = &op->sandbox_->facts.base,
                                    .fork = op,
                                    .done = created };
        op->pending_++;
        control_create(op->sandbox_->control, made);
    }
    if (!op->pending_)
        finish(op);
}

static void fail(struct fork_op *op, int r, const struct err *e)
{
    op->r_ = r;
    op->err_ = *e;
    finish(op);
}

static void flattened(struct flatten_op *f)
{
    struct fork_op *op = container_of(f, struct fork_op, flatten_);

    layer_unref(op->sandbox_->control,
                op->capture_.layer); /* the stack holds it, or has its files */
    op->layers_ = f->stack;
    go_on(op);
}

static void captured(struct capture *c, int r, const struct err *e)
{
    struct fork_op *op = container_of(c, struct fork_op, capture_);
    struct control *plane = op->sandbox_->control;
    struct err why;

    op->pause_ns = c->pause_ns;
    if (r < 0) {
        fail(op, r, e);
        return;
    }
    op->flatten_ = (struct flatten_op){ .on = sandbox_floor(op->sandbox_),
                                        .most = LAYERS_HIGH,
                                        .done = flattened };
    r = layers_stack(c->layer, &op->sandbox_->facts.layers, &op->arena_, &op->flatten_.stack, &why);
    if (r < 0) {
        layer_unref(plane, c->layer);
        fail(op, r, &why);
        return;
    }
    layers_flatten(plane, &op->flatten_);
}

/* A copy is asked for as its source was, but it has no workspace outside to be copied to: what was
 * there is in the layers. */
void sandbox_fork(struct sandbox *s, struct fork_op *op)
{
    op->sandbox_ = sandbox_ref(s);
    op->made = calloc(op->count, sizeof *op->made);
    if (!op->made)
        abort();
    arena_init(&op->arena_, FORK_ARENA_MAX);
    op->layers_ = (struct json_strs){ NULL, 0 };
    op->next_ = op->pending_ = 0;
    op->r_ = 0;
    op->request_ = s->request;
    if (op->ttl_ns)
        op->request_.ttl_ns = op->ttl_ns;
    op->request_.workspace.access = ASK_ACCESS_NONE;
    op->request_.snapshot = NULL;
    op->request_.inputs = (struct json_map){ NULL, 0 };
    op->capture_ = (struct capture){ .done = captured };
    capture_start(s, &op->capture_);
}

void fork_op_done(struct fork_op *op)
{
    for (unsigned i = 0; i < op->next_; i++)
        arena_done(&op->made[i].arena);
    free(op->made);
    op->made = NULL;
    arena_done(&op->arena_);
}
