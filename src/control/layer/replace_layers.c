/* Other layers in the place of a snapshot's, which show the same: on record first, then here. What
 * was built on the snapshot before holds the layers that it was built on. */
#include "control/plane.h"
#include "control/snapshots.h"

static struct snapshot *find(const struct control *c, const char *id)
{
    struct index_entry *v = index_find(&c->snapshots, str_from(id));

    return v ? container_of(v, struct snapshot, entry) : NULL;
}

/* What is on disk already: nothing here can fail. */
static void replace(struct control *c, struct snapshot *old, struct snapshot *next)
{
    next->stays = old->stays;
    index_remove(&c->snapshots, &old->entry);
    snapshot_keep(c, next);
    layers_unref(c, &old->layers);
    layers_unref(c, &old->base.layers);
    snapshot_free(old);
}

static void stored(struct store_txn *t, int r, const struct err *e)
{
    struct restack_op *op = container_of(t, struct restack_op, txn_);
    struct control *c = op->control_;
    struct snapshot *s = find(c, op->id), *next = take_ptr(op->next_);

    c->changes--;
    if (r >= 0 && s)
        replace(c, s, next);
    else
        snapshot_free(next);
    op->done(op, r, e);
}

int snapshot_restack(struct control *c, struct restack_op *op, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(LAYERS_NAMES_MAX);
    const struct snapshot *s = find(c, op->id);
    struct snapshot_record record;
    int r;

    if (!s)
        return err_set(e, ERR_NOT_FOUND, "the snapshot was deleted meanwhile");
    r = layers_join(&op->layers, &text);
    if (r < 0)
        return err_set(e, ERR_TOO_BIG, "too many layers");
    record = s->record;
    record.layers = buf_str(&text);
    r = snapshot_new(&record, &op->next_, e);
    if (r < 0)
        return r;
    op->control_ = c;
    c->changes++;
    store_txn_begin(&op->txn_, c->store);
    store_set_snapshot_layers(&op->txn_, op->id, text.p);
    store_commit(&op->txn_, stored);
    return 0;
}
