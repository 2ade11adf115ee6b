/* One capture, and several sandboxes on it: all of them, or none. */
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

/* --- none of them --- */

struct fork_undo {
    struct fork_op *fork;
    struct sandbox_op op;
};

static void tell_undone(struct fork_op *op)
{
    if (op->left_)
        err_wrap(&op->err_, op->r_, "%u of %u were made, and %s is still there", op->undone_,
                 op->count, op->left_);
    else
        err_wrap(&op->err_, op->r_, "%u of %u were made, and are destroyed again", op->undone_,
                 op->count);
    finish(op);
}

static void undone(struct sandbox_op *o, int r, const struct err *e)
{
    struct fork_undo *u = container_of(o, struct fork_undo, op);
    struct fork_op *op = u->fork;

    (void)e; /* why the fork failed is what is asked for */
    if (r < 0)
        op->left_ = op->made[u - op->undo_].record->id;
    if (!--op->pending_)
        tell_undone(op);
}

static void undo_one(struct fork_op *op, unsigned i)
{
    const struct sandbox_record *record = op->made[i].record;
    struct sandbox *s;

    if (!record || !sandbox_state_usable(record->state) ||
        !control_find_now(op->sandbox_->control, op->caller, str_from(record->id), &s))
        return;
    op->undo_[i] = (struct fork_undo){ .fork = op, .op.done = undone };
    op->undone_++;
    op->pending_++;
    sandbox_destroy(s, &op->caller->actor, "another one of its fork could not be made",
                    DESTROY_NO_SYNC, &op->undo_[i].op);
    sandbox_unref(s);
}

/* Whoever asked for all of them is not told which there are: so there are none. */
static void undo(struct fork_op *op)
{
    op->undo_ = calloc(op->count, sizeof *op->undo_);
    if (!op->undo_)
        abort();
    for (unsigned i = 0; i < op->next_; i++)
        undo_one(op, i);
    if (!op->pending_)
        finish(op);
}

/* --- all of them --- */

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

/* The first failure ends it. */
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
    if (op->pending_)
        return;
    if (op->r_ < 0 && !op->partly)
        undo(op);
    else
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
 * there is in the layers. Variables are where credentials are given: they stay the source's, unless
 * it is said that they go along. */
void sandbox_fork(struct sandbox *s, struct fork_op *op)
{
    op->sandbox_ = sandbox_ref(s);
    op->made = calloc(op->count, sizeof *op->made);
    if (!op->made)
        abort();
    arena_init(&op->arena_, FORK_ARENA_MAX);
    op->layers_ = (struct json_strs){ NULL, 0 };
    op->next_ = op->pending_ = op->undone_ = 0;
    op->undo_ = NULL;
    op->left_ = NULL;
    op->r_ = 0;
    op->request_ = s->request;
    if (op->ttl_ns)
        op->request_.ttl_ns = op->ttl_ns;
    op->request_.workspace.access = ASK_ACCESS_NONE;
    op->request_.snapshot = NULL;
    op->request_.inputs = (struct json_map){ NULL, 0 };
    if (!op->keep_env)
        op->request_.env = (struct json_map){ NULL, 0 };
    op->capture_ = (struct capture){ .done = captured };
    capture_start(s, &op->capture_);
}

void fork_op_done(struct fork_op *op)
{
    for (unsigned i = 0; i < op->next_; i++)
        arena_done(&op->made[i].arena);
    free(op->made);
    free(op->undo_);
    op->made = NULL;
    op->undo_ = NULL;
    arena_done(&op->arena_);
}
