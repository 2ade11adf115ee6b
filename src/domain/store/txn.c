/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of a transaction: each is recorded on the loop's thread and applied on the
 * writer's. */
#include <stdio.h>

#include "base/clock.h"
#include "lib/secrets/env.h"
#include "domain/store/internal.h"
#include "domain/store/row.h"

struct txn_op;
typedef int op_fn(const struct txn_op *op, struct store_txn *t, struct db *d, struct err *e);

struct txn_op {
    struct link link;
    op_fn *apply;
    const void *record;
    struct str key, value;
    int64_t number, other, now, keep;
    int limit;
    bool hub;
};

void store_txn_begin(struct store_txn *t, struct store *s)
{
    *t = (struct store_txn){ .store = s };
    arena_init(&t->arena_, STORE_TXN_MAX);
}

static void fail_too_big(struct store_txn *t)
{
    t->result_ =
        err_set(&t->err_, ERR_TOO_BIG, "a store transaction exceeds %d bytes", STORE_TXN_MAX);
}

static struct txn_op *add_op(struct store_txn *t, op_fn *apply)
{
    static struct txn_op none; /* placeholder for operations of a failed transaction */
    struct txn_op *op = arena_alloc(&t->arena_, sizeof *op);

    if (!op) {
        fail_too_big(t);
        return &none;
    }
    op->apply = apply;
    list_append(&t->ops_, &op->link);
    return op;
}

static void add_record_op(struct store_txn *t, op_fn *apply, const struct row_shape *s,
                          const void *record)
{
    const void *copy = row_copy(s, record, &t->arena_);

    if (copy)
        add_op(t, apply)->record = copy;
    else
        fail_too_big(t);
}

static struct str copy_op_text(struct store_txn *t, const char *text)
{
    struct str s = str_from(text);

    s.p = arena_dup(&t->arena_, s);
    if (!s.p)
        fail_too_big(t);
    return s;
}

static void add_pair_op(struct store_txn *t, op_fn *apply, const char *key, const char *value)
{
    struct txn_op *op = add_op(t, apply);

    op->key = copy_op_text(t, key);
    op->value = copy_op_text(t, value);
}

int txn_apply(struct store_txn *t, struct db *d, struct err *e)
{
    int r = 0;

    for (struct link *m = list_first(&t->ops_); m && r >= 0; m = list_after(&t->ops_, m)) {
        const struct txn_op *op = container_of(m, struct txn_op, link);

        r = op->apply(op, t, d, e);
    }
    return r;
}

/* ---- rows */

static int write_record_row(struct db *d, enum sql sql, const struct row_shape *s,
                            const void *record, struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, sql, &st, e);

    if (r < 0)
        return r;
    r = row_bind(s, record, st, d->keys, e);
    if (r < 0) {
        db_end(st);
        return r;
    }
    return db_finish(d, st, e);
}

/* Run a statement with one text, two texts, or one number. */
static int run_with_text(struct db *d, enum sql sql, struct str text, struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, sql, &st, e);

    if (r < 0)
        return r;
    db_bind(st, 1, text);
    return db_finish(d, st, e);
}

static int run_with_pair(struct db *d, enum sql sql, const struct txn_op *op, struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, sql, &st, e);

    if (r < 0)
        return r;
    db_bind(st, 1, op->key);
    db_bind(st, 2, op->value);
    return db_finish(d, st, e);
}

static int run_with_number(struct db *d, enum sql sql, int64_t number, struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, sql, &st, e);

    if (r < 0)
        return r;
    sqlite3_bind_int64(st, 1, number);
    return db_finish(d, st, e);
}

/* ---- sandboxes */

static int put_tag(const struct sandbox_record *b, enum sql sql, const char *key, const char *value,
                   struct db *d, struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, sql, &st, e);

    if (r < 0)
        return r;
    db_bind(st, 1, str_from(key));
    db_bind(st, 2, str_from(value));
    db_bind(st, 3, str_from(b->owner));
    sqlite3_bind_int(st, 4, b->state != SANDBOX_DESTROYED);
    sqlite3_bind_int64(st, 5, b->created_ns);
    db_bind(st, 6, str_from(b->id));
    return db_finish(d, st, e);
}

/* Adds or deletes all tags of the sandbox. */
static int put_tags(const struct sandbox_record *b, enum sql sql, struct db *d, struct err *e)
{
    int r = put_tag(b, sql, "", b->profile, d, e);

    if (r >= 0 && b->maker[0])
        r = put_tag(b, sql, "", b->maker, d, e);
    for (unsigned i = 0; r >= 0 && i < ROW_ORIGINS; i++) {
        AUTO(arena_done) struct arena a = ARENA_INIT(ROW_ORIGIN_BYTES);
        const char *from = row_made_from(b, i, &a);

        if (from)
            r = put_tag(b, sql, "", from, d, e);
    }
    for (size_t i = 0; r >= 0 && i < b->labels.n; i++)
        r = put_tag(b, sql, b->labels.p[i].key, b->labels.p[i].value, d, e);
    return r;
}

/* Label names must be unique and not empty. There are few, so the search is quadratic. */
static int check_record_labels(const struct sandbox_record *b, struct err *e)
{
    const struct json_pair *p = b->labels.p;

    for (size_t i = 0; i < b->labels.n; i++) {
        if (!*p[i].key)
            return err_set(e, ERR_INVALID, "%s has a label without a name", b->id);
        for (size_t k = 0; k < i; k++)
            if (strcmp(p[i].key, p[k].key) == 0)
                return err_set(e, ERR_INVALID, "%s has the label '%s' twice", b->id, p[i].key);
    }
    return 0;
}

/* Deletes the tags of the stored sandbox, if it exists. */
static int drop_tags(const char *id, struct store_txn *t, struct db *d, struct err *e)
{
    struct sandbox_record *old = arena_alloc(&t->arena_, sizeof *old);
    sqlite3_stmt *st;
    int r = db_prepare(d, SQL_SANDBOX, &st, e);

    if (!old)
        return err_set(e, ERR_TOO_BIG, "the store transaction is too large");
    if (r < 0)
        return r;
    db_bind(st, 1, str_from(id));
    db_bind(st, 2, STR(""));
    r = db_step(d, st, e);
    if (r <= 0)
        return r;
    r = row_read(&sandbox_shape, st, &t->arena_, old, d->keys, e);
    db_end(st);
    return r < 0 ? r : put_tags(old, SQL_DROP_TAG, d, e);
}

static int put_sandbox_row(const struct sandbox_record *b, enum sql sql, struct db *d,
                           struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, sql, &st, e);

    if (r < 0)
        return r;
    r = row_bind(&sandbox_shape, b, st, d->keys, e);
    if (r < 0) {
        db_end(st);
        return r;
    }
    sqlite3_bind_int(st, sandbox_shape.n + 1, b->state != SANDBOX_DESTROYED);
    return db_finish(d, st, e);
}

static int apply_put_sandbox(const struct txn_op *op, struct store_txn *t, struct db *d,
                             struct err *e)
{
    const struct sandbox_record *b = op->record;
    AUTO(buf_done) struct buf rest = BUF_INIT(b->request.n + 3);
    struct sandbox_record erased;
    int r = 0;

    if (b->state == SANDBOX_DESTROYED) {
        erased = *b;
        r = env_erase(b->request, 1, &rest);
        if (r >= 0)
            r = seal_erase_specs(d, b->id, e);
        erased.request = buf_str(&rest);
        b = &erased;
    }
    if (r >= 0)
        r = put_sandbox_row(b, SQL_MOVE_SANDBOX, d, e);

    if (r < 0 || sqlite3_changes(d->h) > 0)
        return r;
    r = check_record_labels(b, e);
    if (r >= 0)
        r = drop_tags(b->id, t, d, e);
    if (r >= 0)
        r = put_sandbox_row(b, SQL_PUT_SANDBOX, d, e);
    return r < 0 ? r : put_tags(b, SQL_PUT_TAG, d, e);
}

void store_put_sandbox(struct store_txn *t, const struct sandbox_record *r)
{
    add_record_op(t, apply_put_sandbox, &sandbox_shape, r);
}

/* ---- events */

static int insert_event(const struct event_record *v, struct ledger *l, struct db *d, struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, SQL_ADD_EVENT, &st, e);

    if (r < 0)
        return r;
    r = row_bind(&event_shape, v, st, d->keys, e);
    if (r < 0) {
        db_end(st);
        return r;
    }
    ledger_chain_event(l, v, st);
    return db_finish(d, st, e);
}

static int apply_add_event(const struct txn_op *op, struct store_txn *t, struct db *d,
                           struct err *e)
{
    struct ledger *l = &t->store->ledger;
    struct ledger_state before = l->at;
    int r = insert_event(op->record, l, d, e);

    if (r == -ERR_CONFLICT && l->on) {
        l->at = before;
        r = ledger_skip_inserted(l, d, e);
        if (r >= 0)
            r = insert_event(op->record, l, d, e);
    }
    if (r < 0)
        return r;
    t->last_seq = sqlite3_last_insert_rowid(d->h);
    if (!t->first_seq)
        t->first_seq = t->last_seq;
    return op->hub ? run_with_number(d, SQL_ADD_OUTBOX, t->last_seq, e) : 0;
}

void store_add_event(struct store_txn *t, const struct event_record *r)
{
    const void *copy = row_copy(&event_shape, r, &t->arena_);
    struct txn_op *op = add_op(t, apply_add_event);

    op->record = copy;
    op->hub = t->store->hub;
    if (!copy)
        fail_too_big(t);
}

static int apply_outbox_sent(const struct txn_op *op, struct store_txn *t, struct db *d,
                             struct err *e)
{
    return run_with_number(d, SQL_DROP_OUTBOX, op->number, e);
}

void store_outbox_sent(struct store_txn *t, int64_t seq)
{
    add_op(t, apply_outbox_sent)->number = seq;
}

/* ---- the others */

static int apply_put_process(const struct txn_op *op, struct store_txn *t, struct db *d,
                             struct err *e)
{
    return write_record_row(d, SQL_PUT_PROCESS, &process_shape, op->record, e);
}

void store_put_process(struct store_txn *t, const struct process_record *r)
{
    add_record_op(t, apply_put_process, &process_shape, r);
}

static int apply_remove_process(const struct txn_op *op, struct store_txn *t, struct db *d,
                                struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, SQL_DROP_PROCESS, &st, e);

    if (r < 0)
        return r;
    db_bind(st, 1, op->key);
    sqlite3_bind_int64(st, 2, op->number);
    return db_finish(d, st, e);
}

void store_remove_process(struct store_txn *t, const char *sandbox, uint32_t proc)
{
    struct txn_op *op = add_op(t, apply_remove_process);

    op->key = copy_op_text(t, sandbox);
    op->number = proc;
}

static int apply_put_egress(const struct txn_op *op, struct store_txn *t, struct db *d,
                            struct err *e)
{
    return write_record_row(d, SQL_PUT_EGRESS, &egress_shape, op->record, e);
}

void store_put_egress(struct store_txn *t, const struct egress_record *r)
{
    add_record_op(t, apply_put_egress, &egress_shape, r);
}

static int apply_put_egress_head(const struct txn_op *op, struct store_txn *t, struct db *d,
                                 struct err *e)
{
    return ledger_put_egress_head(&t->store->ledger, op->record, d, e);
}

void store_put_egress_head(struct store_txn *t, const struct egress_head_record *r)
{
    add_record_op(t, apply_put_egress_head, &egress_head_shape, r);
}

static int apply_put_token(const struct txn_op *op, struct store_txn *t, struct db *d,
                           struct err *e)
{
    return write_record_row(d, SQL_PUT_TOKEN, &token_shape, op->record, e);
}

void store_put_token(struct store_txn *t, const struct token_record *r)
{
    add_record_op(t, apply_put_token, &token_shape, r);
}

static int apply_end_token(const struct txn_op *op, struct store_txn *t, struct db *d,
                           struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, SQL_END_TOKEN, &st, e);

    if (r < 0)
        return r;
    db_bind(st, 1, op->key);
    sqlite3_bind_int64(st, 2, op->number);
    return db_finish(d, st, e);
}

void store_end_token(struct store_txn *t, const char *id, int64_t revoked_ns)
{
    struct txn_op *op = add_op(t, apply_end_token);

    op->key = copy_op_text(t, id);
    op->number = revoked_ns;
}

static int apply_put_host(const struct txn_op *op, struct store_txn *t, struct db *d, struct err *e)
{
    return write_record_row(d, SQL_PUT_HOST, &host_shape, op->record, e);
}

void store_put_host(struct store_txn *t, const struct host_record *r)
{
    add_record_op(t, apply_put_host, &host_shape, r);
}

static int apply_remove_host(const struct txn_op *op, struct store_txn *t, struct db *d,
                             struct err *e)
{
    return run_with_text(d, SQL_DROP_HOST, op->key, e);
}

void store_remove_host(struct store_txn *t, const char *name)
{
    add_op(t, apply_remove_host)->key = copy_op_text(t, name);
}

static int apply_put_idempotency(const struct txn_op *op, struct store_txn *t, struct db *d,
                                 struct err *e)
{
    const struct idempotency_record *i = op->record;
    int r = write_record_row(d, SQL_ADD_IDEMPOTENCY, &idempotency_shape, i, e);

    if (r == -ERR_CONFLICT)
        return err_set(e, ERR_CONFLICT, "the idempotency key '%s' is taken", i->key);
    return r;
}

void store_put_idempotency(struct store_txn *t, const struct idempotency_record *r)
{
    add_record_op(t, apply_put_idempotency, &idempotency_shape, r);
}

/* ---- trust */

static int apply_put_peer(const struct txn_op *op, struct store_txn *t, struct db *d, struct err *e)
{
    return write_record_row(d, SQL_PUT_PEER, &peer_shape, op->record, e);
}

void store_put_peer(struct store_txn *t, const struct peer_record *r)
{
    add_record_op(t, apply_put_peer, &peer_shape, r);
}

static int apply_remove_peer(const struct txn_op *op, struct store_txn *t, struct db *d,
                             struct err *e)
{
    return run_with_text(d, SQL_DROP_PEER, op->key, e);
}

void store_remove_peer(struct store_txn *t, const char *id)
{
    add_op(t, apply_remove_peer)->key = copy_op_text(t, id);
}

static int apply_add_approval(const struct txn_op *op, struct store_txn *t, struct db *d,
                              struct err *e)
{
    return write_record_row(d, SQL_ADD_APPROVAL, &approval_shape, op->record, e);
}

void store_add_approval(struct store_txn *t, const struct approval_record *r)
{
    add_record_op(t, apply_add_approval, &approval_shape, r);
}

static int apply_move_approval(const struct txn_op *op, struct store_txn *t, struct db *d,
                               struct err *e)
{
    const struct approval_record *a = op->record;
    sqlite3_stmt *st;
    int r = db_prepare(d, SQL_MOVE_APPROVAL, &st, e);

    if (r < 0)
        return r;
    r = row_bind(&approval_shape, a, st, d->keys, e);
    if (r < 0) {
        db_end(st);
        return r;
    }
    sqlite3_bind_int64(st, approval_shape.n + 1, op->number);
    r = db_finish(d, st, e);
    if (r >= 0 && sqlite3_changes(d->h) == 0)
        return err_set(e, ERR_CONFLICT, "%s is no longer %s", a->id,
                       approval_state_names[op->number]);
    return r;
}

void store_move_approval(struct store_txn *t, const struct approval_record *r,
                         enum approval_state from)
{
    const void *copy = row_copy(&approval_shape, r, &t->arena_);
    struct txn_op *op = add_op(t, apply_move_approval);

    op->record = copy;
    op->number = from;
    if (!copy)
        fail_too_big(t);
}

static int apply_put_grant(const struct txn_op *op, struct store_txn *t, struct db *d,
                           struct err *e)
{
    return write_record_row(d, SQL_PUT_GRANT, &grant_shape, op->record, e);
}

void store_put_grant(struct store_txn *t, const struct grant_record *r)
{
    add_record_op(t, apply_put_grant, &grant_shape, r);
}

static int apply_remove_grant(const struct txn_op *op, struct store_txn *t, struct db *d,
                              struct err *e)
{
    return run_with_text(d, SQL_DROP_GRANT, op->key, e);
}

void store_remove_grant(struct store_txn *t, const char *id)
{
    add_op(t, apply_remove_grant)->key = copy_op_text(t, id);
}

static int apply_put_snapshot(const struct txn_op *op, struct store_txn *t, struct db *d,
                              struct err *e)
{
    return write_record_row(d, SQL_PUT_SNAPSHOT, &snapshot_shape, op->record, e);
}

void store_put_snapshot(struct store_txn *t, const struct snapshot_record *r)
{
    t->durable = true;
    add_record_op(t, apply_put_snapshot, &snapshot_shape, r);
}

static int apply_set_snapshot_layers(const struct txn_op *op, struct store_txn *t, struct db *d,
                                     struct err *e)
{
    return run_with_pair(d, SQL_SET_SNAPSHOT_LAYERS, op, e);
}

void store_set_snapshot_layers(struct store_txn *t, const char *id, const char *layers)
{
    t->durable = true;
    add_pair_op(t, apply_set_snapshot_layers, id, layers);
}

static int apply_remove_snapshot(const struct txn_op *op, struct store_txn *t, struct db *d,
                                 struct err *e)
{
    return run_with_text(d, SQL_DROP_SNAPSHOT, op->key, e);
}

void store_remove_snapshot(struct store_txn *t, const char *id)
{
    t->durable = true;
    add_op(t, apply_remove_snapshot)->key = copy_op_text(t, id);
}

/* ---- images */

static int apply_put_image(const struct txn_op *op, struct store_txn *t, struct db *d,
                           struct err *e)
{
    return write_record_row(d, SQL_PUT_IMAGE, &image_shape, op->record, e);
}

void store_put_image(struct store_txn *t, const struct image_record *r)
{
    t->durable = true;
    add_record_op(t, apply_put_image, &image_shape, r);
}

static int apply_remove_image(const struct txn_op *op, struct store_txn *t, struct db *d,
                              struct err *e)
{
    return run_with_text(d, SQL_DROP_IMAGE, op->key, e);
}

void store_remove_image(struct store_txn *t, const char *ref)
{
    t->durable = true;
    add_op(t, apply_remove_image)->key = copy_op_text(t, ref);
}

static int apply_put_layer(const struct txn_op *op, struct store_txn *t, struct db *d,
                           struct err *e)
{
    return write_record_row(d, SQL_PUT_LAYER, &layer_shape, op->record, e);
}

void store_put_layer(struct store_txn *t, const struct layer_record *r)
{
    t->durable = true;
    add_record_op(t, apply_put_layer, &layer_shape, r);
}

static int apply_remove_layer(const struct txn_op *op, struct store_txn *t, struct db *d,
                              struct err *e)
{
    return run_with_text(d, SQL_DROP_LAYER, op->key, e);
}

void store_remove_layer(struct store_txn *t, const char *name)
{
    t->durable = true;
    add_op(t, apply_remove_layer)->key = copy_op_text(t, name);
}

static int apply_set_setting(const struct txn_op *op, struct store_txn *t, struct db *d,
                             struct err *e)
{
    AUTO(buf_done) struct buf sealed = BUF_INIT(2 * op->value.n + 256);
    struct txn_op with = *op;
    char name[192];
    int r = 0;

    if (d->keys && seal_applies(op->key)) {
        r = seal_text(d->keys, ROW_SEALED, 0, seal_name("setting value", op->key.p, name),
                      op->value, &sealed, e);
        with.value = buf_str(&sealed);
    }
    return r < 0 ? r : run_with_pair(d, SQL_PUT_SETTING, &with, e);
}

static int apply_reseal(const struct txn_op *op, struct store_txn *t, struct db *d, struct err *e)
{
    return seal_all(d, e);
}

void store_reseal(struct store_txn *t)
{
    t->durable = true;
    add_op(t, apply_reseal);
}

void store_set(struct store_txn *t, const char *key, const char *value)
{
    add_pair_op(t, apply_set_setting, key, value);
}

static int apply_force(const struct txn_op *op, struct store_txn *t, struct db *d, struct err *e)
{
    return db_force(d, e);
}

void store_force(struct store_txn *t)
{
    add_op(t, apply_force);
}

/* ---- pruning */

/* Collects the ids first, so that no statement iterates over rows that another deletes. */
static int find_old(const struct txn_op *op, enum sql sql, int64_t before, struct store_txn *t,
                    struct db *d, char (**ret)[ID_MAX], struct err *e)
{
    char(*ids)[ID_MAX] = arena_array(&t->arena_, (size_t)op->limit, ID_MAX);
    sqlite3_stmt *st;
    int n = 0, r = db_prepare(d, sql, &st, e);

    if (!ids)
        return err_set(e, ERR_TOO_BIG, "%d rows are too many to prune at once", op->limit);
    if (r < 0)
        return r;
    sqlite3_bind_int64(st, 1, before);
    sqlite3_bind_int(st, 2, op->limit);
    while ((r = db_step(d, st, e)) > 0 && n < op->limit)
        if (str_copy(str_from((const char *)sqlite3_column_text(st, 0)), ids[n], ID_MAX))
            n++;
    *ret = ids;
    return r < 0 ? r : n;
}

static int prune_sandboxes(const struct txn_op *op, struct store_txn *t, struct db *d,
                           struct err *e)
{
    char(*ids)[ID_MAX];
    int n = find_old(op, SQL_OLD_SANDBOXES, op->number, t, d, &ids, e), r = n;

    if (n > 0 && t->store->ledger.at.pruned_ns < op->number) {
        t->store->ledger.at.pruned_ns = op->number;
        t->store->ledger.at.moved = true;
    }
    for (int i = 0; r >= 0 && i < n; i++) {
        r = drop_tags(ids[i], t, d, e);
        if (r >= 0)
            r = run_with_text(d, SQL_DROP_IDEMPOTENCY, str_from(ids[i]), e);
        if (r >= 0)
            r = run_with_text(d, SQL_DROP_SANDBOX, str_from(ids[i]), e);
    }
    return r < 0 ? r : n;
}

static int prune_approvals(const struct txn_op *op, struct store_txn *t, struct db *d,
                           struct err *e)
{
    char(*ids)[ID_MAX];
    int n = find_old(op, SQL_OLD_APPROVALS, op->other, t, d, &ids, e), r = n;

    for (int i = 0; r >= 0 && i < n; i++)
        r = run_with_text(d, SQL_DROP_APPROVAL, str_from(ids[i]), e);
    return r < 0 ? r : n;
}

static int prune_tokens(const struct txn_op *op, enum sql sql, struct store_txn *t, struct db *d,
                        struct err *e)
{
    char(*ids)[ID_MAX];
    int n = find_old(op, sql, op->other, t, d, &ids, e), r = n;

    for (int i = 0; r >= 0 && i < n; i++)
        r = run_with_text(d, SQL_DROP_TOKEN, str_from(ids[i]), e);
    return r < 0 ? r : n;
}

/* The only place where events are deleted. */
static int drop_event(struct db *d, int64_t seq, bool in_outbox, struct err *e)
{
    int r = in_outbox ? run_with_number(d, SQL_DROP_OUTBOX, seq, e) : 0;

    return r < 0 ? r : run_with_number(d, SQL_DROP_EVENT, seq, e);
}

static void note_unsent(struct store_pruned *p, int64_t seq)
{
    if (!p->unsent.first)
        p->unsent.first = seq;
    p->unsent.last = seq;
    p->unsent.n++;
}

/* The last event beyond the limit of events to keep; 0 or less: none. Events are numbered without
 * gaps, so counting is not necessary. */
static int find_surplus(const struct txn_op *op, struct db *d, int64_t *ret, struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, SQL_LAST_EVENT, &st, e);

    *ret = 0;
    if (r < 0 || !op->keep)
        return r;
    r = db_step(d, st, e);
    if (r <= 0)
        return r;
    *ret = sqlite3_column_int64(st, 0) - op->keep;
    db_end(st);
    return 0;
}

/* Deletes events from the oldest on; returns their number. */
static int prune_events(const struct txn_op *op, struct store_txn *t, struct db *d, struct err *e)
{
    struct ledger_cut run = { 0 };
    sqlite3_stmt *st;
    int64_t surplus;
    int n = 0, r = find_surplus(op, d, &surplus, e);

    if (r >= 0)
        r = db_prepare(d, SQL_OLD_EVENTS, &st, e);
    if (r < 0)
        return r;
    sqlite3_bind_int64(st, 1, 0);
    while (n < op->limit && (r = db_step(d, st, e)) > 0) {
        int64_t seq = sqlite3_column_int64(st, 0);
        bool in_outbox = sqlite3_column_int(st, 2);

        if (seq > surplus && sqlite3_column_int64(st, 1) >= op->other)
            break;
        if (in_outbox && op->hub && seq > surplus)
            continue;
        r = ledger_cut_event(&t->store->ledger, &run, seq, st, 3, d, e);
        if (r >= 0)
            r = drop_event(d, seq, in_outbox, e);
        if (r < 0)
            break;
        if (in_outbox && op->hub)
            note_unsent(&t->pruned, seq);
        n++;
    }
    db_end(st);
    if (r >= 0)
        r = ledger_note_cut(&t->store->ledger, &run, d, e);
    return r < 0 ? r : n;
}

static bool fill_gap_event(const struct store_pruned *p, char detail[static STORE_GAP_MAX],
                           struct event_record *ret)
{
    if (!p->unsent.n)
        return false;
    *ret = (struct event_record){
        .time_ns = p->time_ns, .type = "events.dropped", .from = -1, .to = -1, .actor = ACTOR_DAEMON
    };
    snprintf(ret->reason, sizeof ret->reason,
             "the hub did not receive them, and there are more than limits.events_keep");
    snprintf(detail, STORE_GAP_MAX, "{\"events\":%lld,\"first\":%lld,\"last\":%lld}",
             (long long)p->unsent.n, (long long)p->unsent.first, (long long)p->unsent.last);
    ret->detail = str_from(detail);
    return true;
}

static int apply_gap_event(const struct txn_op *op, struct store_txn *t, struct db *d,
                           struct err *e)
{
    struct txn_op add_gap = { .hub = op->hub };
    char detail[STORE_GAP_MAX];
    struct event_record v;

    if (!fill_gap_event(&t->pruned, detail, &v))
        return 0;
    add_gap.record = &v;
    return apply_add_event(&add_gap, t, d, e);
}

bool store_gap_event(const struct store_txn *t, char detail[static STORE_GAP_MAX],
                     struct event_record *ret)
{
    if (!fill_gap_event(&t->pruned, detail, ret))
        return false;
    ret->seq = t->last_seq;
    return true;
}

static void note_pruned(struct store_txn *t, int n)
{
    if (n > t->pruned.rows)
        t->pruned.rows = n;
}

static int apply_prune(const struct txn_op *op, struct store_txn *t, struct db *d, struct err *e)
{
    int r;

    t->pruned = (struct store_pruned){ .time_ns = op->now };
    r = prune_sandboxes(op, t, d, e);
    if (r >= 0) {
        note_pruned(t, r);
        r = prune_approvals(op, t, d, e);
    }
    if (r >= 0) {
        note_pruned(t, r);
        r = prune_tokens(op, SQL_OLD_TOKENS, t, d, e);
    }
    if (r >= 0) {
        note_pruned(t, r);
        r = prune_tokens(op, SQL_EXPIRED_TOKENS, t, d, e);
    }
    if (r >= 0) {
        note_pruned(t, r);
        r = prune_events(op, t, d, e);
    }
    if (r >= 0) {
        note_pruned(t, r);
        r = apply_gap_event(op, t, d, e);
    }
    return r < 0 ? r : 0;
}

void store_prune(struct store_txn *t, int64_t sandboxes_before_ns, int64_t events_before_ns,
                 int limit)
{
    struct txn_op *op = add_op(t, apply_prune);

    op->number = sandboxes_before_ns;
    op->other = events_before_ns;
    op->now = clock_wall();
    op->keep = t->store->events_keep;
    op->limit = limit < 0 ? 0 : limit;
    op->hub = t->store->hub;
}
