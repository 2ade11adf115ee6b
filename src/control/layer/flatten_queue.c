/* Snapshots on high stacks get one layer instead, one after the other, while nobody waits for it.
 *
 * The new layer is made, then named in the snapshot's record, then the old ones are let go: whoever
 * dies in between leaves a layer without a name, which the next start removes and makes again. What
 * was built on the snapshot before holds the layers that it was built on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hook.h"
#include "base/log.h"
#include "base/own.h"
#include "control/plane.h"
#include "control/snapshots.h"

struct flattening {
    struct control *control;
    struct snapshot *was; /* a copy: it may be deleted meanwhile */
    struct flatten_op flatten;
    struct restack_op restack;
    bool storing;
};

static struct snapshot *find(const struct flattening *f)
{
    struct index_entry *v = index_find(&f->control->snapshots, str_from(f->was->record.id));

    return v ? container_of(v, struct snapshot, entry) : NULL;
}

static void end(struct flattening *f)
{
    struct control *c = f->control;

    c->flattening = NULL;
    snapshot_free(f->was);
    free(f);
    snapshots_flatten(c);
}

static void give_up(struct flattening *f)
{
    struct snapshot *s = find(f);

    if (s)
        s->stays = true;
    layers_unref(f->control, &f->flatten.stack);
    end(f);
}

static void restacked(struct restack_op *op, int r, const struct err *e)
{
    struct flattening *f = container_of(op, struct flattening, restack);

    hook_point("flatten.stored");
    if (r < 0) {
        LOG(WARN, "snapshot.not_flattened", LOG_S("snapshot", op->id), LOG_S("error", e->msg));
        give_up(f);
        return;
    }
    layers_unref(f->control, &f->flatten.stack);
    end(f);
}

static void flattened(struct flatten_op *op)
{
    struct flattening *f = container_of(op, struct flattening, flatten);
    struct err e;

    if (op->stack.n > 1) {
        give_up(f);
        return;
    }
    hook_point("flatten.record");
    f->restack = (struct restack_op){ .layers = op->stack, .done = restacked };
    snprintf(f->restack.id, sizeof f->restack.id, "%s", f->was->record.id);
    if (snapshot_restack(f->control, &f->restack, &e) < 0)
        give_up(f);
    else
        f->storing = true;
}

/* Where its profile is gone, or named a directory as its image, nobody knows what was hidden. */
static struct layers_floor floor_of(const struct control *c, const struct snapshot *s)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;

    if (s->base.layers.n)
        return (struct layers_floor){ FLOOR_IMAGE, s->base.layers };
    if (s->record.image.n || catalog_find(c->catalog, str_from(s->record.profile), &p, NULL) < 0 ||
        p->image)
        return (struct layers_floor){ FLOOR_UNSEEN, { NULL, 0 } };
    return (struct layers_floor){ FLOOR_HOST, { NULL, 0 } };
}

static void start(struct control *c, struct snapshot *s)
{
    struct flattening *f = calloc(1, sizeof *f);
    struct err e;

    if (!f)
        abort();
    if (snapshot_new(&s->record, &f->was, &e) < 0) {
        s->stays = true;
        free(f);
        return;
    }
    f->control = c;
    f->flatten = (struct flatten_op){
        .on = floor_of(c, f->was), .most = LAYERS_FLAT, .stack = f->was->layers, .done = flattened
    };
    c->flattening = f;
    layers_flatten(c, &f->flatten);
}

static void look(struct index_entry *v, void *user)
{
    struct snapshot *s = container_of(v, struct snapshot, entry), **found = user;

    if (s->layers.n > LAYERS_FLAT && !s->stays)
        *found = s;
}

void snapshots_flatten(struct control *c)
{
    struct snapshot *next = NULL;

    if (c->flattening || c->on_closed || c->unreadable) /* such a record may name any layer */
        return;
    index_each(&c->snapshots, look, &next);
    if (next)
        start(c, next);
}

/* What is being stored is told by the store's end. */
void snapshots_flatten_stop(struct control *c)
{
    struct flattening *f = c->flattening;

    if (!f || f->storing)
        return;
    layers_flatten_cancel(&f->flatten);
    c->flattening = NULL;
    snapshot_free(f->was);
    free(f);
}
