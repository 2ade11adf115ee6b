/* SPDX-License-Identifier: Apache-2.0 */
/* Group commit: all pending transactions become one transaction of SQLite, with a savepoint each,
 * so that a rejected one does not fail the others. */
#include "base/fault_point.h"
#include "domain/store/sqlite/internal.h"

static void fail_txn(struct store_txn *t, int r, const struct err *e)
{
    t->result_ = r;
    t->err_ = *e;
    t->first_seq = t->last_seq = 0;
}

/* Fails only if the whole batch must fail: after a failed write SQLite may have rolled it back. */
static int apply_txn(struct db *d, struct store_txn *t, struct err *e)
{
    struct ledger_state before = t->store->ledger.at;
    int r = db_run(d, SQL_SAVEPOINT, NULL, e);

    if (r < 0)
        return r;
    r = txn_apply(t, d, e);
    if (r >= 0)
        return db_run(d, SQL_RELEASE, NULL, e);
    fail_txn(t, r, e);
    t->store->ledger.at = before;
    if (db_is_disk_error(r) || sqlite3_get_autocommit(d->h))
        return r;
    r = db_run(d, SQL_ROLLBACK_TO, NULL, e);
    return r < 0 ? r : db_run(d, SQL_RELEASE, NULL, e);
}

static int apply_batch(struct store *s, struct list *batch, struct err *e)
{
    struct db *d = &s->writer.db;
    int r = db_run(d, SQL_BEGIN, NULL, e);

    for (struct link *m = list_first(batch); r >= 0 && m; m = list_after(batch, m))
        if (txn_of(m)->result_ >= 0)
            r = apply_txn(d, txn_of(m), e);
    if (r >= 0 && s->ledger.at.moved)
        r = ledger_write_head(&s->ledger, d, e);
    if (r < 0)
        return r;
    fault_point("store.commit.before");
    r = db_run(d, SQL_COMMIT, NULL, e);
    fault_point("store.commit.after");
    return r;
}

/* Runs a checkpoint if the WAL has reached `*at` pages, and moves that: the next commit then
 * overwrites the WAL from its start, and needs no disk space. On the writer's thread nothing is
 * appended meanwhile, so the checkpoint is complete, unless a long read prevents it. */
static void bound_log(struct store *s, int *at, int step)
{
    if (s->log_pages < *at)
        return;
    pthread_mutex_lock(&s->maintenance.lock); /* one checkpoint at a time */
    sqlite3_wal_checkpoint_v2(s->writer.db.h, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    pthread_mutex_unlock(&s->maintenance.lock);
    *at = s->log_pages + step;
}

/* Commits with synchronous = FULL if one of the transactions is durable: if the sync fails, the
 * commit fails and has no effect, which a sync after the commit could not guarantee. */
static int commit_all(struct store *s, struct list *batch, struct err *e)
{
    struct ledger_state before = s->ledger.at;
    struct db *d = &s->writer.db;
    bool durable = false;
    int r;

    LIST_EACH (struct store_txn, t, batch, link_)
        durable |= t->durable;
    r = durable ? db_set_forced(d, true, e) : 0;
    if (r >= 0)
        r = apply_batch(s, batch, e);
    if (r < 0) /* the commit had no effect */
        s->ledger.at = before;
    if (r < 0 && !sqlite3_get_autocommit(d->h))
        db_run(d, SQL_ROLLBACK, NULL, NULL);
    if (durable)
        db_set_forced(d, false, NULL);
    return r;
}

/* Clears the errors of transactions that failed because the disk was full. */
static void forgive_full(struct list *batch)
{
    LIST_EACH (struct store_txn, t, batch, link_)
        if (db_is_disk_error(t->result_)) {
            t->result_ = 0;
            t->err_ = (struct err){ 0 };
        }
}

/* Commits; on a full disk, frees parts of the reserve and repeats. */
static int commit_with_reserve(struct store *s, struct list *batch, struct err *e)
{
    struct db *d = &s->writer.db;
    uint64_t step = RESERVE_STEP;
    int r;

    d->full = false;
    while ((r = commit_all(s, batch, e)) < 0 && d->full && reserve_cut(&s->reserve, step)) {
        forgive_full(batch);
        d->full = false;
        step *= 2;
    }
    return r;
}

void commit_batch(struct store *s, struct list *batch)
{
    struct err e = { 0 };
    int r = commit_with_reserve(s, batch, &e);

    LIST_EACH (struct store_txn, t, batch, link_)
        if (r < 0 && t->result_ >= 0) /* those that failed by themselves keep their error */
            fail_txn(t, r, &e);
    if (r >= 0 && s->reserve.size < s->reserve.wanted) /* a full disk: keeps the WAL short */
        bound_log(s, &s->log_pages_scarce, STORE_LOG_PAGES_SCARCE);
    else if (r >= 0) /* only if the maintenance slot has fallen behind */
        bound_log(s, &s->log_pages_next, STORE_LOG_PAGES_MAX / 4);
    reserve_mend(&s->reserve);
}

static int on_log(void *store, sqlite3 *h, const char *name, int pages)
{
    struct store *s = store;

    s->log_pages = pages;
    if (pages < STORE_LOG_PAGES_SCARCE)
        s->log_pages_scarce = STORE_LOG_PAGES_SCARCE;
    if (pages < STORE_LOG_PAGES_MAX)
        s->log_pages_next = STORE_LOG_PAGES_MAX;
    return SQLITE_OK;
}

void commit_init(struct store *s)
{
    s->log_pages_next = STORE_LOG_PAGES_MAX;
    sqlite3_wal_hook(s->writer.db.h, on_log, s);
}
