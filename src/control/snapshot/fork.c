/* SPDX-License-Identifier: Apache-2.0 */
/* Forks a sandbox: one capture, and several sandboxes on it; all of them, or none. */
#include <stdlib.h>

#include "control/sandbox/sandbox.h"
#include "base/own.h"
#include "control/snapshot/snapshots.h"

enum { AT_ONCE = 8, FORK_ARENA_MAX = 256 << 10 };

static void continue_fork(struct fork_op *op);

static void finish_fork(struct fork_op *op)
{
    struct sandbox *s = take_ptr(op->sandbox_);

    layers_unref(s->control, &op->layers_); /* the copies have their own references */
    op->done(op, op->r_, op->r_ < 0 ? &op->err_ : NULL);
    sandbox_unref(s);
}

/* --- undoing --- */

struct fork_undo {
    struct fork_op *fork;
    struct sandbox_op op;
};

static void on_fork_undone(struct sandbox_op *o, int r, const struct err *e)
{
    struct fork_undo *u = container_of(o, struct fork_undo, op);
    struct fork_op *op = u->fork;

    /* the error of the fork is reported instead */
    if (r < 0)
        op->left_ = op->made[u - op->undo_].record->id;
    if (--op->pending_)
        return;
    err_wrap(&op->err_, op->r_, "%u of %u were created, and %s%s destroyed again", op->undone_,
             op->count, op->left_ ? op->left_ : "were", op->left_ ? " could not be" : "");
    finish_fork(op);
}

/* The caller gets either all sandboxes or an error, so those that were created are destroyed. */
static void undo_fork(struct fork_op *op)
{
    op->undo_ = new0_array(op->count, sizeof *op->undo_);
    for (unsigned i = 0; i < op->next_; i++) {
        const struct sandbox_record *record = op->made[i].record;
        struct sandbox *s;

        if (!record || !sandbox_state_usable(record->state) ||
            !control_find_now(op->sandbox_->control, op->caller, str_from(record->id), &s))
            continue;
        op->undo_[i] = (struct fork_undo){ .fork = op, .op.done = on_fork_undone };
        op->undone_++;
        op->pending_++;
        sandbox_destroy(s, &op->caller->actor, "another sandbox of its fork could not be created",
                        DESTROY_NO_SYNC, &op->undo_[i].op);
        sandbox_unref(s);
    }
    if (!op->pending_)
        finish_fork(op);
}

/* --- creating --- */

static void on_fork_copy_created(struct create_op *made, int r, const struct err *e)
{
    struct fork_op *op = made->fork;

    op->pending_--;
    if (r < 0 && op->r_ >= 0) {
        op->r_ = r;
        op->err_ = *e;
    }
    continue_fork(op);
}

/* Stops at the first failure. */
static void continue_fork(struct fork_op *op)
{
    while (op->r_ >= 0 && op->next_ < op->count && op->pending_ < AT_ONCE) {
        struct create_op *made = &op->made[op->next_++];

        *made = (struct create_op){ .caller = op->caller,
                                    .request = &op->request_,
                                    .layers = &op->layers_,
                                    .base = &op->sandbox_->detail.base,
                                    .fork = op,
                                    .done = on_fork_copy_created };
        op->pending_++;
        control_create(op->sandbox_->control, made);
    }
    if (op->pending_)
        return;
    if (op->r_ < 0 && !op->partly)
        undo_fork(op);
    else
        finish_fork(op);
}

static void fail_fork(struct fork_op *op, int r, const struct err *e)
{
    op->r_ = r;
    op->err_ = *e;
    finish_fork(op);
}

static void on_fork_flattened(struct flatten_op *f)
{
    struct fork_op *op = container_of(f, struct fork_op, flatten_);

    /* The stack references the layer, or has its files. */
    layer_unref(op->sandbox_->control, op->capture_.layer);
    op->layers_ = f->stack;
    continue_fork(op);
}

static void on_fork_captured(struct capture *c, int r, const struct err *e)
{
    struct fork_op *op = container_of(c, struct fork_op, capture_);
    struct control *plane = op->sandbox_->control;
    struct layer_charge charge;
    struct err why;

    op->pause_ns = c->pause_ns;
    if (r < 0) {
        fail_fork(op, r, e);
        return;
    }
    op->flatten_ = (struct flatten_op){ .on = sandbox_floor(op->sandbox_),
                                        .most = LAYERS_HIGH,
                                        .done = on_fork_flattened };
    r = layers_stack(c->layer, &op->sandbox_->detail.layers, &op->arena_, &op->flatten_.stack,
                     &why);
    if (r < 0) {
        layer_unref(plane, c->layer);
        fail_fork(op, r, &why);
        return;
    }
    charge = layer_charge_caller(plane, op->caller);
    charge.must = true;
    layers_flatten(plane, &charge, &op->flatten_);
}

/* A copy has the request of its source, but no host directory as its workspace: those files are in
 * the layers. It has no mounts either: the client granted them to one sandbox. Variables may hold credentials: they are copied only with keep_env. */
void sandbox_fork(struct sandbox *s, struct fork_op *op)
{
    op->sandbox_ = sandbox_ref(s);
    op->made = new0_array(op->count, sizeof *op->made);
    arena_init(&op->arena_, FORK_ARENA_MAX);
    op->layers_ = (struct json_strs){ NULL, 0 };
    op->next_ = op->pending_ = op->undone_ = 0;
    op->undo_ = NULL;
    op->left_ = NULL;
    op->r_ = 0;
    op->request_ = s->request;
    op->request_.name = op->name; /* a name belongs to one sandbox, and so does a hostname */
    op->request_.settings.hostname = NULL;
    if (op->ttl_ns)
        op->request_.ttl_ns = op->ttl_ns;
    op->request_.workspace.access = ASK_ACCESS_NONE;
    op->request_.snapshot = NULL;
    op->request_.inputs = (struct json_map){ NULL, 0 };
    op->request_.mounts = (struct json_objects){ NULL, 0 };
    if (!op->keep_env)
        op->request_.env = (struct json_map){ NULL, 0 };
    op->capture_ = (struct capture){ .caller = op->caller, .done = on_fork_captured };
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
