/* SPDX-License-Identifier: Apache-2.0 */
/* The keys that seal secrets in the store: loading and rotation. */
#include "base/log.h"
#include "control/control.h"
#include "control/plane/plane.h"
#include "lib/secrets/keyring.h"

struct keyring *control_keys(struct control *c)
{
    return c->keys;
}

/* Completes an interrupted rotation: the store has resealed everything by now. */
int control_open_secrets(struct control *c, struct err *e)
{
    struct err why;
    int r;

    if (!c->keys)
        return 0;
    r = store_seal_with(c->store, c->keys, e);
    if (r >= 0 && keyring_has_old(c->keys) && keyring_retire(c->keys, &why) < 0)
        LOG(WARN, "secrets.old_keys", LOG_S("error", why.msg));
    return r;
}

static void on_resealed(struct store_txn *t, int r, const struct err *e)
{
    struct rotate_op *op = container_of(t, struct rotate_op, txn_);
    struct control *c = op->control_;
    struct err own;

    if (r >= 0) {
        r = keyring_retire(c->keys, &own);
        e = &own;
    }
    if (r >= 0)
        LOG(INFO, "secrets.rotated", LOG_I("key", keyring_active(c->keys)));
    c->rotating = false;
    op->done(op, r, e);
}

void control_rotate_key(struct control *c, struct rotate_op *op)
{
    struct err e;
    int r = 0;

    op->control_ = c;
    if (!c->keys)
        r = err_set(&e, ERR_UNSUPPORTED, "this daemon has no key for secrets");
    else if (c->rotating)
        r = err_set(&e, ERR_BUSY, "a key rotation is already under way; try again later");
    else
        r = keyring_rotate(c->keys, &e);
    if (r < 0) {
        op->done(op, r, &e);
        return;
    }
    c->rotating = true;
    store_txn_begin(&op->txn_, c->store);
    store_reseal(&op->txn_);
    store_commit(&op->txn_, on_resealed);
}
