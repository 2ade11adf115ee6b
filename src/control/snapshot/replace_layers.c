/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces a snapshot's layer list by an equivalent one: commits to the store first, then
 * updates memory. Sandboxes that were built on the snapshot before keep their references to its
 * old layers. */
#include "control/plane/plane.h"
#include "control/snapshot/snapshots.h"

static void on_replacement_stored(struct store_txn *t, int r, const struct err *e)
{
    struct replace_layers_op *op = container_of(t, struct replace_layers_op, txn_);
    struct control *c = op->control_;
    struct snapshot *s = snapshot_known(c, str_from(op->id)), *next = take_ptr(op->next_);

    c->changes--;
    if (r >= 0 && s) { /* the record is on disk already: nothing here can fail */
        next->stays = s->stays;
        snapshot_leave(c, s);
        snapshot_keep(c, next);
        snapshot_release(c, s);
    } else {
        snapshot_free(next);
    }
    op->done(op, r, e);
}

int snapshot_replace_layers(struct control *c, struct replace_layers_op *op, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(LAYERS_NAMES_MAX);
    const struct snapshot *s = snapshot_known(c, str_from(op->id));
    struct snapshot_record record;
    int r;

    if (!s)
        return err_set(e, ERR_NOT_FOUND, "snapshot %s was deleted meanwhile", op->id);
    r = layers_join(&op->layers, &text);
    if (r < 0)
        return err_set(e, ERR_TOO_BIG, "the names of %zu layers have more than %d bytes",
                       op->layers.n, LAYERS_NAMES_MAX);
    record = s->record;
    record.layers = buf_str(&text);
    r = snapshot_new(&record, &op->next_, e);
    if (r < 0)
        return r;
    op->control_ = c;
    c->changes++;
    store_txn_begin(&op->txn_, c->store);
    store_set_snapshot_layers(&op->txn_, op->id, text.p);
    store_commit(&op->txn_, on_replacement_stored);
    return 0;
}
