/* SPDX-License-Identifier: Apache-2.0 */
/* Flattens snapshots with high stacks in the background, one at a time.
 *
 * The new layer is created, then stored in the snapshot's record, then the old layers are
 * released: a crash in between leaves a layer without references, which the next start removes
 * and creates again. Sandboxes that were built on the snapshot before keep their references to
 * its old layers. */
#include <stdio.h>
#include <stdlib.h>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/own.h"
#include "control/plane/plane.h"
#include "control/snapshot/snapshots.h"

struct snapshot_flatten {
    struct control *control;
    struct snapshot *was; /* a copy: the snapshot may be deleted meanwhile */
    struct flatten_op flatten;
    struct replace_layers_op replace_layers;
    bool storing;
};

/* stays: it could not be flattened. */
static void end_snapshot_flatten(struct snapshot_flatten *f, bool stays)
{
    struct control *c = f->control;
    struct snapshot *s = snapshot_known(c, str_from(f->was->record.id));

    if (s && stays)
        s->stays = true;
    layers_unref(c, &f->flatten.stack);
    c->flatten_queue = NULL;
    snapshot_free(f->was);
    free(f);
    snapshots_flatten(c);
}

static void on_flattened_replaced(struct replace_layers_op *op, int r, const struct err *e)
{
    struct snapshot_flatten *f = container_of(op, struct snapshot_flatten, replace_layers);

    fault_point("flatten.stored");
    if (r < 0)
        LOG(WARN, "snapshot.not_flattened", LOG_S("snapshot", op->id), LOG_S("error", e->msg));
    end_snapshot_flatten(f, r < 0);
}

static void on_queued_flattened(struct flatten_op *op)
{
    struct snapshot_flatten *f = container_of(op, struct snapshot_flatten, flatten);
    struct err e;

    if (op->stack.n > 1) {
        end_snapshot_flatten(f, true);
        return;
    }
    fault_point("flatten.record");
    f->replace_layers =
        (struct replace_layers_op){ .layers = op->stack, .done = on_flattened_replaced };
    snprintf(f->replace_layers.id, sizeof f->replace_layers.id, "%s", f->was->record.id);
    if (snapshot_replace_layers(f->control, &f->replace_layers, &e) < 0)
        end_snapshot_flatten(f, true);
    else
        f->storing = true;
}

/* If its profile is gone, or has a directory as its image, it is unknown what whiteouts hide. */
static struct layers_floor find_snapshot_floor(const struct control *c, const struct snapshot *s)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;

    if (s->base.layers.n)
        return (struct layers_floor){ FLOOR_IMAGE, s->base.layers };
    if (s->record.image.n || catalog_find(c->catalog, str_from(s->record.profile), &p, NULL) < 0 ||
        p->image)
        return (struct layers_floor){ FLOOR_UNSEEN, { NULL, 0 } };
    return (struct layers_floor){ FLOOR_HOST, { NULL, 0 } };
}

static void start_snapshot_flatten(struct control *c, struct snapshot *s)
{
    struct snapshot_flatten *f = new0(sizeof *f);
    struct err e;

    if (snapshot_new(&s->record, &f->was, &e) < 0) {
        s->stays = true;
        free(f);
        return;
    }
    f->control = c;
    f->flatten = (struct flatten_op){ .on = find_snapshot_floor(c, f->was),
                                      .most = LAYERS_FLAT,
                                      .stack = f->was->layers,
                                      .done = on_queued_flattened };
    c->flatten_queue = f;
    layers_flatten(c, NULL, &f->flatten);
}

static void find_high_snapshot(struct map_entry *v, void *user)
{
    struct snapshot *s = container_of(v, struct snapshot, entry), **found = user;

    if (s->layers.n > LAYERS_FLAT && !s->stays)
        *found = s;
}

void snapshots_flatten(struct control *c)
{
    struct snapshot *next = NULL;

    /* An unreadable record may name any layer. */
    if (c->flatten_queue || c->on_closed || c->unreadable)
        return;
    map_each(&c->snapshots, find_high_snapshot, &next);
    if (next)
        start_snapshot_flatten(c, next);
}

/* A transaction that was begun is completed by the store. */
void snapshots_flatten_stop(struct control *c)
{
    struct snapshot_flatten *f = c->flatten_queue;

    if (!f || f->storing)
        return;
    layers_flatten_cancel(&f->flatten);
    c->flatten_queue = NULL;
    snapshot_free(f->was);
    free(f);
}
