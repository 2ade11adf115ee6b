/* One content once: a snapshot that has a layer with the same measure as one of an older snapshot
 * of the same owner gets that one instead, and the newer goes when nothing stands on it any more.
 *
 * Only where the older one still is what it was, which is looked at before: what is kept twice may
 * be damaged once. What belongs to another owner is not looked at, so that nobody learns from the
 * room that something takes what others have. */
#include <stdio.h>
#include <string.h>

#include "base/hook.h"
#include "base/log.h"
#include "control/measuring.h"
#include "control/plane.h"

struct search {
    struct control *control;
    const struct layer *layer;
    const struct layer *twin;        /* the same, older … */
    const struct snapshot *snapshot; /* … and this can have it instead */
    bool owned;                      /* its owner has that already */
};

/* Its place in the stack; the stack's size where it is not there. */
static size_t find_place(const struct json_strs *layers, const struct layer *l)
{
    size_t i = 0;

    while (i < layers->n && strcmp(layers->p[i], l->record.name) != 0)
        i++;
    return i;
}

static bool is_among(const struct json_strs *layers, const struct layer *l)
{
    return find_place(layers, l) < layers->n;
}

static bool has(const struct snapshot *s, const struct layer *l)
{
    return is_among(&s->layers, l);
}

/* How much there is tells where there are holes, as far as a measure looks at them. */
static bool is_same(const struct layer *a, const struct layer *b)
{
    return a->record.measure[0] && strcmp(a->record.measure, b->record.measure) == 0 &&
           a->record.bytes == b->record.bytes && a->record.entries == b->record.entries;
}

/* Whether both stacks are the same from there on. */
static bool same_below(const struct json_strs *a, size_t from_a, const struct json_strs *b,
                       size_t from_b)
{
    if (a->n - from_a != b->n - from_b)
        return false;
    for (size_t i = 0; from_a + i < a->n; i++)
        if (strcmp(a->p[from_a + i], b->p[from_b + i]) != 0)
            return false;
    return true;
}

/* On btrfs, files of a layer have higher inode numbers than those of the layers that it was made on
 * (uppers/seed.h), and perhaps the same as any others: the older one must stand on the same. */
static void look_at_owner(struct index_entry *v, void *user)
{
    const struct snapshot *s = container_of(v, struct snapshot, entry);
    struct search *x = user;
    const struct json_strs *to = &x->snapshot->layers;

    x->owned =
        x->owned || (strcmp(s->record.owner, x->snapshot->record.owner) == 0 && has(s, x->twin) &&
                     same_below(&s->layers, find_place(&s->layers, x->twin) + 1, to, 1) &&
                     same_below(&s->base.layers, 0, &x->snapshot->base.layers, 0));
}

/* The uppermost alone: layers above it have numbers that fit to it. One that would be in one stack
 * twice could not be mounted. */
static void look_at_snapshot(struct index_entry *v, void *user)
{
    const struct snapshot *s = container_of(v, struct snapshot, entry);
    struct search *x = user;

    if (x->snapshot || find_place(&s->layers, x->layer) != 0 || !s->layers.n || has(s, x->twin) ||
        is_among(&s->base.layers, x->twin)) /* of a commit */
        return;
    x->snapshot = s;
    x->owned = false;
    index_each(&x->control->snapshots, look_at_owner, x);
    if (!x->owned)
        x->snapshot = NULL;
}

/* Hardly ever is there one that is the same: snapshots are looked at only then. */
static void look_at_layer(struct index_entry *v, void *user)
{
    const struct layer *o = container_of(v, struct layer, entry);
    struct search *x = user;

    if (x->snapshot || o == x->layer || !o->on_record || !layer_is_captured(o->record.name) ||
        o->record.created_ns >= x->layer->record.created_ns || !is_same(o, x->layer))
        return;
    x->twin = o;
    index_each(&x->control->snapshots, look_at_snapshot, x);
}

static struct json_strs stack(const struct sharing *x)
{
    return x->restack.layers;
}

static void end(struct control *c, int r, const struct err *e)
{
    struct sharing *x = &c->measuring.sharing;
    const struct json_strs held = stack(x);

    if (r < 0)
        LOG(WARN, "layer.not_shared", LOG_S("layer", c->measuring.layer),
            LOG_S("snapshot", x->restack.id), LOG_S("error", e->msg));
    else
        LOG(INFO, "layer.shared", LOG_S("layer", c->measuring.layer),
            LOG_S("with", x->layers[x->twin]), LOG_S("snapshot", x->restack.id));
    layers_unref(c, &held);
    if (r < 0)
        measuring_next(c);
    else
        measuring_share(c); /* another may have it, too */
}

static void restacked(struct restack_op *op, int r, const struct err *e)
{
    hook_point("share.stored");
    end(container_of(op, struct control, measuring.sharing.restack), r, e);
}

/* It may have become one layer meanwhile (control/flattening.c), or be gone. */
static int check_stack(struct control *c, struct err *e)
{
    const struct sharing *x = &c->measuring.sharing;
    struct index_entry *v = index_find(&c->snapshots, str_from(x->restack.id));
    const struct layer *l = layer_known(c, c->measuring.layer);
    const struct layer *twin = layer_known(c, x->layers[x->twin]);

    return v && l && twin && is_same(l, twin) && has(container_of(v, struct snapshot, entry), l)
               ? 0
               : err_set(e, ERR_CONFLICT, "the snapshot has other layers by now");
}

static void looked_at(struct measure_op *op, int r, const struct err *e)
{
    struct control *c = container_of(op, struct control, measuring.sharing.op);
    struct err why;

    if (r >= 0) {
        r = check_stack(c, &why);
        e = &why;
    }
    if (r >= 0) {
        hook_point("share.record");
        r = snapshot_restack(c, &c->measuring.sharing.restack, &why);
        e = &why;
    }
    if (r < 0)
        end(c, r, e);
}

static void begin(struct control *c, const struct search *found)
{
    struct sharing *x = &c->measuring.sharing;
    const struct json_strs *now = &found->snapshot->layers;

    *x = (struct sharing){ .op = { .idle = true, .done = looked_at },
                           .restack = { .layers = { x->layers, now->n }, .done = restacked } };
    snprintf(x->restack.id, sizeof x->restack.id, "%s", found->snapshot->record.id);
    for (size_t i = 0; i < now->n; i++) {
        bool is_it = strcmp(now->p[i], found->layer->record.name) == 0;

        snprintf(x->names[i], LAYER_NAME_MAX, "%s", is_it ? found->twin->record.name : now->p[i]);
        x->layers[i] = x->names[i];
        if (is_it)
            x->twin = i;
    }
    layers_ref(c, &x->restack.layers);
    measure_add(&x->op, &(const struct json_strs){ &x->layers[x->twin], 1 });
    measure_start(c, &x->op);
}

void measuring_share(struct control *c)
{
    struct search x = { .control = c, .layer = layer_known(c, c->measuring.layer) };

    if (x.layer && layer_is_captured(c->measuring.layer) && x.layer->on_record && !c->on_closed &&
        !c->unreadable)
        index_each(&c->layers.known, look_at_layer, &x);
    if (x.snapshot)
        begin(c, &x);
    else
        measuring_next(c);
}
