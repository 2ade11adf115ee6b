/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of a transaction: each is recorded on the loop's thread and applied on the
 * writer's. */
#include <stdio.h>

#include "base/clock.h"
#include "lib/secrets/env.h"
#include "domain/store/sqlite/internal.h"

struct txn_op;
typedef int op_fn(const struct txn_op *op, struct store_txn *t, struct db *d, struct err *e);

/* Without `apply`, the operation is one statement: with the members of the record, if it has one,
 * and the values as its parameters. */
struct txn_op {
    struct link link;
    op_fn *apply;
    enum sql sql;
    const struct row_shape *shape;
    const void *record;
    struct db_value values[3]; /* the last one is DB_END */
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

static struct txn_op *add_record_op(struct store_txn *t, op_fn *apply, const struct row_shape *s,
                                    const void *record)
{
    const void *copy = row_copy(s, record, &t->arena_);
    struct txn_op *op = add_op(t, apply);

    op->shape = s;
    op->record = copy;
    if (!copy)
        fail_too_big(t);
    return op;
}

static struct db_value copy_text(struct store_txn *t, const char *text)
{
    struct str s = str_from(text);

    s.p = arena_dup(&t->arena_, s);
    if (!s.p)
        fail_too_big(t);
    return db_text(s);
}

/* Adds a statement with the text and the value (DB_END: none) as its parameters. */
static struct txn_op *add_statement(struct store_txn *t, enum sql sql, const char *text,
                                    struct db_value value)
{
    struct txn_op *op = add_op(t, NULL);

    op->sql = sql;
    op->values[0] = copy_text(t, text);
    op->values[1] = value;
    return op;
}

int txn_apply(struct store_txn *t, struct db *d, struct err *e)
{
    LIST_EACH (struct txn_op, op, &t->ops_, link) {
        int r = op->apply    ? op->apply(op, t, d, e)
                : op->record ? row_write(d, op->sql, op->shape, op->record, op->values, e)
                             : db_run(d, op->sql, op->values, e);

        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- sandboxes */

static int put_tag(const struct sandbox_record *b, enum sql sql, const char *key, const char *value,
                   struct db *d, struct err *e)
{
    return db_run(d, sql,
                  DB_WITH(db_text(str_from(key)), db_text(str_from(value)),
                          db_text(str_from(b->owner)), db_int(b->state != SANDBOX_DESTROYED),
                          db_int(b->created_ns), db_text(str_from(b->id))),
                  e);
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
static int delete_sandbox_tags(const char *id, struct store_txn *t, struct db *d, struct err *e)
{
    struct sandbox_record *old = arena_alloc(&t->arena_, sizeof *old);
    sqlite3_stmt *st;
    int r;

    if (!old)
        return err_set(e, ERR_TOO_BIG,
                       "a store transaction needs more memory than the allowed %zu bytes",
                       t->arena_.max);
    r = db_first(d, SQL_SANDBOX, DB_WITH(db_text(str_from(id)), db_text(STR(""))), &st, e);
    if (r <= 0)
        return r;
    r = row_read(d, &sandbox_shape, st, &t->arena_, old, e);
    db_end(st);
    return r < 0 ? r : put_tags(old, SQL_DELETE_TAG, d, e);
}

static int put_sandbox_row(const struct sandbox_record *b, enum sql sql, struct db *d,
                           struct err *e)
{
    return row_write(d, sql, &sandbox_shape, b, DB_WITH(db_int(b->state != SANDBOX_DESTROYED)), e);
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
        r = delete_sandbox_tags(b->id, t, d, e);
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
    struct event_record row = *v;
    const struct ledger_head *h = ledger_chain_event(l, v);

    row.seq = h ? h->seq : 0;
    return row_write(d, SQL_ADD_EVENT, &event_shape, &row,
                     h ? DB_WITH(db_bytes(h->digest, LEDGER_SIZE)) : NULL, e);
}

static int add_event(const struct event_record *v, bool hub, struct store_txn *t, struct db *d,
                     struct err *e)
{
    struct ledger *l = &t->store->ledger;
    struct ledger_state before = l->at;
    int r = insert_event(v, l, d, e);

    if (r == -ERR_CONFLICT && l->on) {
        l->at = before;
        r = ledger_skip_inserted(l, d, e);
        if (r >= 0)
            r = insert_event(v, l, d, e);
    }
    if (r < 0)
        return r;
    t->last_seq = sqlite3_last_insert_rowid(d->h);
    if (!t->first_seq)
        t->first_seq = t->last_seq;
    return hub ? db_run(d, SQL_ADD_OUTBOX, DB_WITH(db_int(t->last_seq)), e) : 0;
}

static int apply_add_event(const struct txn_op *op, struct store_txn *t, struct db *d,
                           struct err *e)
{
    return add_event(op->record, op->hub, t, d, e);
}

void store_add_event(struct store_txn *t, const struct event_record *r)
{
    add_record_op(t, apply_add_event, &event_shape, r)->hub = t->store->hub;
}

void store_outbox_sent(struct store_txn *t, int64_t seq)
{
    struct txn_op *op = add_op(t, NULL);

    op->sql = SQL_DELETE_OUTBOX;
    op->values[0] = db_int(seq);
}

/* ---- records that are one row each */

/* Functions that insert or replace a record, or delete the one with an id. */
#define PUT(function, statement, type, shape, durable_)                                            \
    void function(struct store_txn *t, const type *r)                                              \
    {                                                                                              \
        t->durable |= (durable_);                                                                  \
        add_record_op(t, NULL, &(shape), r)->sql = (statement);                                    \
    }
#define DROP(function, statement, durable_)                                                        \
    void function(struct store_txn *t, const char *id)                                             \
    {                                                                                              \
        t->durable |= (durable_);                                                                  \
        add_statement(t, statement, id, (struct db_value){ .kind = DB_END });                      \
    }
PUT(store_put_process, SQL_PUT_PROCESS, struct process_record, process_shape, false)
PUT(store_put_egress, SQL_PUT_EGRESS, struct egress_record, egress_shape, false)
PUT(store_put_token, SQL_PUT_TOKEN, struct token_record, token_shape, false)
PUT(store_put_host, SQL_PUT_HOST, struct host_record, host_shape, false)
PUT(store_put_peer, SQL_PUT_PEER, struct peer_record, peer_shape, false)
PUT(store_add_approval, SQL_ADD_APPROVAL, struct approval_record, approval_shape, false)
PUT(store_put_grant, SQL_PUT_GRANT, struct grant_record, grant_shape, false)
PUT(store_put_snapshot, SQL_PUT_SNAPSHOT, struct snapshot_record, snapshot_shape, true)
PUT(store_put_image, SQL_PUT_IMAGE, struct image_record, image_shape, true)
PUT(store_put_layer, SQL_PUT_LAYER, struct layer_record, layer_shape, true)
DROP(store_remove_host, SQL_DELETE_HOST, false)
DROP(store_remove_peer, SQL_DELETE_PEER, false)
DROP(store_remove_grant, SQL_DELETE_GRANT, false)
DROP(store_unset, SQL_DELETE_SETTING, false)
DROP(store_remove_snapshot, SQL_DELETE_SNAPSHOT, true)
DROP(store_remove_image, SQL_DELETE_IMAGE, true)
DROP(store_remove_layer, SQL_DELETE_LAYER, true)
#undef PUT
#undef DROP

void store_delete_process(struct store_txn *t, const char *sandbox, uint32_t proc)
{
    add_statement(t, SQL_DELETE_PROCESS, sandbox, db_int(proc));
}

void store_end_token(struct store_txn *t, const char *id, int64_t revoked_ns)
{
    add_statement(t, SQL_END_TOKEN, id, db_int(revoked_ns));
}

void store_set_snapshot_layers(struct store_txn *t, const char *id, const char *layers)
{
    t->durable = true;
    add_statement(t, SQL_SET_SNAPSHOT_LAYERS, id, copy_text(t, layers));
}

/* ---- the others */

static int apply_put_egress_head(const struct txn_op *op, struct store_txn *t, struct db *d,
                                 struct err *e)
{
    return ledger_put_egress_head(&t->store->ledger, op->record, d, e);
}

void store_put_egress_head(struct store_txn *t, const struct egress_head_record *r)
{
    add_record_op(t, apply_put_egress_head, &egress_head_shape, r);
}

static int apply_put_idempotency(const struct txn_op *op, struct store_txn *t, struct db *d,
                                 struct err *e)
{
    const struct idempotency_record *i = op->record;
    int r = row_write(d, SQL_ADD_IDEMPOTENCY, op->shape, i, NULL, e);

    if (r == -ERR_CONFLICT)
        return err_set(e, ERR_CONFLICT, "the idempotency key '%s' is taken", i->key);
    return r;
}

void store_put_idempotency(struct store_txn *t, const struct idempotency_record *r)
{
    add_record_op(t, apply_put_idempotency, &idempotency_shape, r);
}

static int apply_move_approval(const struct txn_op *op, struct store_txn *t, struct db *d,
                               struct err *e)
{
    const struct approval_record *a = op->record;
    int r = row_write(d, SQL_MOVE_APPROVAL, op->shape, a, op->values, e);

    if (r >= 0 && sqlite3_changes(d->h) == 0)
        return err_set(e, ERR_CONFLICT, "%s is no longer %s", a->id,
                       approval_state_names[op->values[0].number]);
    return r;
}

void store_move_approval(struct store_txn *t, const struct approval_record *r,
                         enum approval_state from)
{
    add_record_op(t, apply_move_approval, &approval_shape, r)->values[0] = db_int(from);
}

static int apply_set_setting(const struct txn_op *op, struct store_txn *t, struct db *d,
                             struct err *e)
{
    struct str key = op->values[0].text, value = op->values[1].text;
    AUTO(buf_done) struct buf sealed = BUF_INIT(2 * value.n + 256);
    char name[192];
    int r = 0;

    if (d->keys && seal_applies(key)) {
        r = seal_text(d->keys, ROW_SEALED, 0, seal_name("setting value", key.p, name), value,
                      &sealed, e);
        value = buf_str(&sealed);
    }
    return r < 0 ? r : db_run(d, SQL_PUT_SETTING, DB_WITH(db_text(key), db_text(value)), e);
}

void store_set(struct store_txn *t, const char *key, const char *value)
{
    add_statement(t, SQL_PUT_SETTING, key, copy_text(t, value))->apply = apply_set_setting;
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

static int apply_force(const struct txn_op *op, struct store_txn *t, struct db *d, struct err *e)
{
    return db_force(d, e);
}

void store_force(struct store_txn *t)
{
    add_op(t, apply_force);
}

/* ---- pruning */

/* The record of the operation. */
struct prune {
    int64_t sandboxes_before_ns, others_before_ns, now_ns, events_keep;
    int limit; /* rows per kind */
    bool hub;
};

/* Collects the ids first, so that no statement iterates over rows that another deletes. Returns
 * their number. */
static int find_old(const struct prune *p, enum sql sql, int64_t before, struct store_txn *t,
                    struct db *d, char (**ret)[ID_MAX], struct err *e)
{
    char(*ids)[ID_MAX] = arena_array(&t->arena_, (size_t)p->limit, ID_MAX);
    sqlite3_stmt *st;
    int n = 0, r;

    if (!ids)
        return err_set(e, ERR_TOO_BIG, "%d rows are too many to prune at once", p->limit);
    r = db_start(d, sql, DB_WITH(db_int(before), db_int(p->limit)), &st, e);
    if (r < 0)
        return r;
    while ((r = db_step(d, st, e)) > 0 && n < p->limit)
        if (str_copy(str_from((const char *)sqlite3_column_text(st, 0)), ids[n], ID_MAX))
            n++;
    *ret = ids;
    return r < 0 ? r : n;
}

static int prune_sandboxes(const struct prune *p, enum sql find, enum sql drop, struct store_txn *t,
                           struct db *d, struct err *e)
{
    struct ledger_state *l = &t->store->ledger.at;
    char(*ids)[ID_MAX];
    int n = find_old(p, find, p->sandboxes_before_ns, t, d, &ids, e), r = n;

    if (n > 0 && l->pruned_ns < p->sandboxes_before_ns) {
        l->pruned_ns = p->sandboxes_before_ns;
        l->moved = true;
    }
    for (int i = 0; r >= 0 && i < n; i++) {
        const struct db_value *with = DB_WITH(db_text(str_from(ids[i])));

        r = delete_sandbox_tags(ids[i], t, d, e);
        if (r >= 0)
            r = db_run(d, SQL_DELETE_IDEMPOTENCY, with, e);
        if (r >= 0)
            r = db_run(d, drop, with, e);
    }
    return r < 0 ? r : n;
}

/* Deletes the rows that `find` returns, with `drop`. */
static int prune_rows(const struct prune *p, enum sql find, enum sql drop, struct store_txn *t,
                      struct db *d, struct err *e)
{
    char(*ids)[ID_MAX];
    int n = find_old(p, find, p->others_before_ns, t, d, &ids, e), r = n;

    for (int i = 0; r >= 0 && i < n; i++)
        r = db_run(d, drop, DB_WITH(db_text(str_from(ids[i]))), e);
    return r < 0 ? r : n;
}

/* The last event beyond the limit of events to keep; 0 or less: none. Events are numbered without
 * gaps, so counting is not necessary. */
static int find_surplus(const struct prune *p, struct db *d, int64_t *ret, struct err *e)
{
    sqlite3_stmt *st;
    int r;

    *ret = 0;
    if (!p->events_keep)
        return 0;
    r = db_first(d, SQL_LAST_EVENT, NULL, &st, e);
    if (r <= 0)
        return r;
    *ret = sqlite3_column_int64(st, 0) - p->events_keep;
    db_end(st);
    return 0;
}

/* Deletes events from the oldest on; returns their number. */
static int prune_events(const struct prune *p, enum sql find, enum sql drop, struct store_txn *t,
                        struct db *d, struct err *e)
{
    struct store_pruned *ret = &t->pruned;
    struct ledger_cut run = { 0 };
    sqlite3_stmt *st;
    int64_t surplus;
    int n = 0, r = find_surplus(p, d, &surplus, e);

    if (r >= 0)
        r = db_start(d, find, DB_WITH(db_int(0)), &st, e);
    if (r < 0)
        return r;
    while (n < p->limit && (r = db_step(d, st, e)) > 0) {
        int64_t seq = sqlite3_column_int64(st, 0);
        bool in_outbox = sqlite3_column_int(st, 2);

        if (seq > surplus && sqlite3_column_int64(st, 1) >= p->others_before_ns)
            break;
        if (in_outbox && p->hub && seq > surplus)
            continue;
        r = ledger_cut_event(&t->store->ledger, &run, seq, st, 3, d, e);
        if (r >= 0)
            r = in_outbox ? db_run(d, SQL_DELETE_OUTBOX, DB_WITH(db_int(seq)), e) : 0;
        if (r >= 0)
            r = db_run(d, drop, DB_WITH(db_int(seq)), e);
        if (r < 0)
            break;
        if (in_outbox && p->hub) {
            ret->unsent.first = ret->unsent.first ? ret->unsent.first : seq;
            ret->unsent.last = seq;
            ret->unsent.n++;
        }
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

bool store_gap_event(const struct store_txn *t, char detail[static STORE_GAP_MAX],
                     struct event_record *ret)
{
    if (!fill_gap_event(&t->pruned, detail, ret))
        return false;
    ret->seq = t->last_seq;
    return true;
}

static int apply_prune(const struct txn_op *op, struct store_txn *t, struct db *d, struct err *e)
{
    static const struct {
        int (*run)(const struct prune *p, enum sql find, enum sql drop, struct store_txn *t,
                   struct db *d, struct err *e);
        enum sql find, drop;
    } steps[] = {
        { prune_sandboxes, SQL_OLD_SANDBOXES, SQL_DELETE_SANDBOX },
        { prune_rows, SQL_OLD_APPROVALS, SQL_DELETE_APPROVAL },
        { prune_rows, SQL_OLD_TOKENS, SQL_DELETE_TOKEN },
        { prune_rows, SQL_EXPIRED_TOKENS, SQL_DELETE_TOKEN },
        { prune_events, SQL_OLD_EVENTS, SQL_DELETE_EVENT },
    };
    const struct prune *p = op->record;
    char detail[STORE_GAP_MAX];
    struct event_record gap;

    t->pruned = (struct store_pruned){ .time_ns = p->now_ns };
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        int r = steps[i].run(p, steps[i].find, steps[i].drop, t, d, e);

        if (r < 0)
            return r;
        if (r > t->pruned.rows)
            t->pruned.rows = r;
    }
    return fill_gap_event(&t->pruned, detail, &gap) ? add_event(&gap, p->hub, t, d, e) : 0;
}

void store_prune(struct store_txn *t, int64_t sandboxes_before_ns, int64_t events_before_ns,
                 int limit)
{
    struct txn_op *op = add_op(t, apply_prune);
    struct prune *p = arena_alloc(&t->arena_, sizeof *p);

    if (!p) {
        fail_too_big(t);
        return;
    }
    *p = (struct prune){ .sandboxes_before_ns = sandboxes_before_ns,
                         .others_before_ns = events_before_ns,
                         .now_ns = clock_wall(),
                         .events_keep = t->store->events_keep,
                         .limit = limit < 0 ? 0 : limit,
                         .hub = t->store->hub };
    op->record = p;
}
