/* SPDX-License-Identifier: Apache-2.0 */
/* Deduplication: if a layer of a snapshot has the same digest as a layer of an older snapshot of
 * the same owner, the snapshot gets the older layer instead, and the newer layer is removed with
 * its last reference.
 *
 * The older layer is verified first, since after deduplication its damage would be the damage of
 * both. Layers of other owners are not considered, so that the space that is used does not reveal
 * their contents. */
#include <stdio.h>
#include <string.h>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/own.h"
#include "control/layer/digest_queue.h"
#include "control/plane/plane.h"
#include "control/snapshot/snapshots.h"

/* One that is under way. */
struct dedup {
    struct control *control;
    const char *layers[LAYERS_OF_SNAPSHOT_MAX]; /* the new layers of the snapshot */
    char names[LAYERS_OF_SNAPSHOT_MAX][LAYER_NAME_MAX];
    size_t twin;         /* index of the layer that replaces the queue's */
    struct digest_op op; /* verifies that one */
    struct replace_layers_op replace_layers;
};

struct dedup_search {
    struct control *control;
    const struct layer *layer;
    const struct layer *twin;        /* the older layer of the same content … */
    const struct snapshot *snapshot; /* … and the snapshot that can have it instead */
    bool owned;                      /* its owner has the older layer already */
};

/* Its index in the stack; the stack's size if it is missing. */
static size_t find_layer_index(const struct json_strs *layers, const struct layer *l)
{
    size_t i = 0;

    while (i < layers->n && strcmp(layers->p[i], l->record.name) != 0)
        i++;
    return i;
}

static bool list_has_layer(const struct json_strs *layers, const struct layer *l)
{
    return find_layer_index(layers, l) < layers->n;
}

/* Sizes are compared, too: they reveal holes, which a digest covers only in part. */
static bool is_same_content(const struct layer *a, const struct layer *b)
{
    return a->record.digest[0] && strcmp(a->record.digest, b->record.digest) == 0 &&
           a->record.bytes == b->record.bytes && a->record.entries == b->record.entries;
}

/* Whether both stacks are the same from these indexes on. */
static bool is_same_below(const struct json_strs *a, size_t from_a, const struct json_strs *b,
                          size_t from_b)
{
    if (a->n - from_a != b->n - from_b)
        return false;
    for (size_t i = 0; from_a + i < a->n; i++)
        if (strcmp(a->p[from_a + i], b->p[from_b + i]) != 0)
            return false;
    return true;
}

/* On btrfs, files of a layer have higher inode numbers than those of the layers below it
 * (engine/storage/seed.h), and may have the same ones as any others: so the older layer must have
 * the same layers below. */
static void check_owner_snapshot(struct map_entry *v, void *user)
{
    const struct snapshot *s = container_of(v, struct snapshot, entry);
    struct dedup_search *x = user;
    const struct json_strs *to = &x->snapshot->layers;

    x->owned =
        x->owned || (strcmp(s->record.owner, x->snapshot->record.owner) == 0 &&
                     list_has_layer(&s->layers, x->twin) &&
                     is_same_below(&s->layers, find_layer_index(&s->layers, x->twin) + 1, to, 1) &&
                     is_same_below(&s->base.layers, 0, &x->snapshot->base.layers, 0));
}

/* Only the uppermost layer: the inode numbers of layers above depend on it. A layer that is twice
 * in a stack could not be mounted. */
static void check_dedup_snapshot(struct map_entry *v, void *user)
{
    const struct snapshot *s = container_of(v, struct snapshot, entry);
    struct dedup_search *x = user;

    if (x->snapshot || find_layer_index(&s->layers, x->layer) != 0 || !s->layers.n ||
        list_has_layer(&s->layers, x->twin) || list_has_layer(&s->base.layers, x->twin))
        return;
    x->snapshot = s;
    x->owned = false;
    map_each(&x->control->snapshots, check_owner_snapshot, x);
    if (!x->owned)
        x->snapshot = NULL;
}

/* Snapshots are searched only for layers of the same content, which are rare. */
static void check_dedup_layer(struct map_entry *v, void *user)
{
    const struct layer *o = container_of(v, struct layer, entry);
    struct dedup_search *x = user;

    if (x->snapshot || o == x->layer || !o->on_record || !layer_is_captured(o->record.name) ||
        o->record.created_ns >= x->layer->record.created_ns || !is_same_content(o, x->layer))
        return;
    x->twin = o;
    map_each(&x->control->snapshots, check_dedup_snapshot, x);
}

static void dedup_free(struct dedup *x)
{
    layers_unref(x->control, &x->replace_layers.layers);
    x->control->dedup = NULL;
    free(x);
}

static void finish_dedup(struct dedup *x, int r, const struct err *e)
{
    struct control *c = x->control;

    if (r < 0)
        LOG(WARN, "layer.not_shared", LOG_S("layer", c->digest_queue->layer),
            LOG_S("snapshot", x->replace_layers.id), LOG_S("error", e->msg));
    else
        LOG(INFO, "layer.shared", LOG_S("layer", c->digest_queue->layer),
            LOG_S("with", x->layers[x->twin]), LOG_S("snapshot", x->replace_layers.id));
    dedup_free(x);
    if (r < 0)
        digest_queue_next(c);
    else
        digest_queue_dedup(c); /* another snapshot may have it, too */
}

static void on_dedup_replaced(struct replace_layers_op *op, int r, const struct err *e)
{
    fault_point("share.stored");
    finish_dedup(container_of(op, struct dedup, replace_layers), r, e);
}

/* The snapshot may have been flattened (control/snapshot/flatten_queue.c) or deleted meanwhile. */
static int check_dedup_stack(const struct dedup *x, struct err *e)
{
    struct control *c = x->control;
    const struct snapshot *s = snapshot_known(c, str_from(x->replace_layers.id));
    const struct layer *l = layer_known(c, c->digest_queue->layer);
    const struct layer *twin = layer_known(c, x->layers[x->twin]);

    return s && l && twin && is_same_content(l, twin) && list_has_layer(&s->layers, l)
               ? 0
               : err_set(e, ERR_CONFLICT, "the snapshot's layers have changed meanwhile");
}

static void on_twin_digested(struct digest_op *op, int r, const struct err *e)
{
    struct dedup *x = container_of(op, struct dedup, op);
    struct err why;

    if (r >= 0) {
        r = check_dedup_stack(x, &why);
        e = &why;
    }
    if (r >= 0) {
        fault_point("share.record");
        r = snapshot_replace_layers(x->control, &x->replace_layers, &why);
    }
    if (r < 0)
        finish_dedup(x, r, e);
}

static void begin_dedup(struct control *c, const struct dedup_search *found)
{
    struct dedup *x = c->dedup = new0(sizeof *x);
    const struct json_strs *now = &found->snapshot->layers;

    *x = (struct dedup){ .control = c,
                         .op = { .done = on_twin_digested },
                         .replace_layers = { .layers = { x->layers, now->n },
                                             .done = on_dedup_replaced } };
    snprintf(x->replace_layers.id, sizeof x->replace_layers.id, "%s", found->snapshot->record.id);
    for (size_t i = 0; i < now->n; i++) {
        bool is_it = strcmp(now->p[i], found->layer->record.name) == 0;

        snprintf(x->names[i], LAYER_NAME_MAX, "%s", is_it ? found->twin->record.name : now->p[i]);
        x->layers[i] = x->names[i];
        if (is_it)
            x->twin = i;
    }
    layers_ref(c, &x->replace_layers.layers);
    digest_add(&x->op, &(const struct json_strs){ &x->layers[x->twin], 1 });
    digest_start(c, &x->op);
}

void digest_queue_dedup(struct control *c)
{
    struct dedup_search x = { .control = c, .layer = layer_known(c, c->digest_queue->layer) };

    if (x.layer && layer_is_captured(c->digest_queue->layer) && x.layer->on_record &&
        !c->on_closed && !c->unreadable)
        map_each(&c->layers->known, check_dedup_layer, &x);
    if (x.snapshot)
        begin_dedup(c, &x);
    else
        digest_queue_next(c);
}

/* A transaction that was begun is completed by the store. */
void dedup_stop(struct control *c)
{
    struct dedup *x = c->dedup;

    if (!x || !x->op.running_)
        return;
    digest_cancel(&x->op);
    dedup_free(x);
}
