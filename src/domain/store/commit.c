/* Group commit: everything that waits becomes one transaction of SQLite's, with a savepoint for
 * each, so that one that is refused does not take the others with it. */
#include "base/hook.h"
#include "store/inside.h"

static void fail_txn(struct store_txn *t, int r, const struct err *e)
{
    t->result_ = r;
    t->err_ = *e;
    t->first_seq = t->last_seq = 0;
}

/* All of them: nothing of the batch is on disk. Those that failed by themselves keep their reason.
 */
static void fail_all(struct list *batch, int r, const struct err *e)
{
    for (struct link *m = list_first(batch); m; m = list_after(batch, m))
        if (txn_of(m)->result_ >= 0)
            fail_txn(txn_of(m), r, e);
}

static int undo_one(struct db *d, struct err *e)
{
    int r = db_run(d, SQL_ROLLBACK_TO, e);

    return r < 0 ? r : db_run(d, SQL_RELEASE, e);
}

/* Fails only if the whole batch has to: after a failed write SQLite may have given up all of it. */
static int apply_one(struct db *d, struct store_txn *t, struct err *e)
{
    struct ledger_state before = t->store->ledger.at;
    int r = db_run(d, SQL_SAVEPOINT, e);

    if (r < 0)
        return r;
    r = txn_apply(t, d, e);
    if (r >= 0)
        return db_run(d, SQL_RELEASE, e);
    fail_txn(t, r, e);
    t->store->ledger.at = before;
    return r == -ERR_SYS || sqlite3_get_autocommit(d->h) ? r : undo_one(d, e);
}

static int apply_all(struct store *s, struct list *batch, struct err *e)
{
    struct db *d = &s->writer.db;
    int r = db_run(d, SQL_BEGIN, e);

    for (struct link *m = list_first(batch); r >= 0 && m; m = list_after(batch, m))
        if (txn_of(m)->result_ >= 0)
            r = apply_one(d, txn_of(m), e);
    if (r >= 0 && s->ledger.at.moved)
        r = ledger_write_head(&s->ledger, d, e);
    if (r < 0)
        return r;
    hook_point("store.commit.before");
    r = db_run(d, SQL_COMMIT, e);
    hook_point("store.commit.after");
    return r;
}

/* A log that is written back is used again from its beginning, and needs no room. */
static void write_log_back(struct store *s)
{
    pthread_mutex_lock(&s->keeper.lock); /* two cannot do it at once */
    sqlite3_wal_checkpoint_v2(s->writer.db.h, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    pthread_mutex_unlock(&s->keeper.lock);
}

/* The keeper did not keep up. Here, where nothing is appended meanwhile, the log can be written
 * back to its end, so that the next commit begins it anew; unless somebody reads from it for long.
 */
static void bound_log(struct store *s)
{
    if (s->log_pages < s->log_pages_next)
        return;
    write_log_back(s);
    s->log_pages_next = s->log_pages + STORE_LOG_PAGES_MAX / 4;
}

/* On a full disk the log stays short. */
static void bound_scarce_log(struct store *s)
{
    if (s->log_pages < s->log_pages_scarce)
        return;
    write_log_back(s);
    s->log_pages_scarce = s->log_pages + STORE_LOG_PAGES_SCARCE;
}

static bool is_durable(struct list *batch)
{
    for (struct link *m = list_first(batch); m; m = list_after(batch, m))
        if (txn_of(m)->durable)
            return true;
    return false;
}

/* A disk that cannot be forced fails the commit: nothing of it happened then, which it could not
 * say if the log were forced afterwards. */
static int commit_all(struct store *s, struct list *batch, struct err *e)
{
    struct ledger_state before = s->ledger.at;
    struct db *d = &s->writer.db;
    bool durable = is_durable(batch);
    int r = durable ? db_set_forced(d, true, e) : 0;

    if (r >= 0)
        r = apply_all(s, batch, e);
    if (r < 0) /* nothing of it happened */
        s->ledger.at = before;
    if (r < 0 && !sqlite3_get_autocommit(d->h))
        db_run(d, SQL_ROLLBACK, NULL);
    if (durable)
        db_set_forced(d, false, NULL);
    return r;
}

/* Those that failed because the disk was full are tried again. */
static void forgive_full(struct list *batch)
{
    for (struct link *m = list_first(batch); m; m = list_after(batch, m))
        if (txn_of(m)->result_ == -(int)ERR_SYS) {
            txn_of(m)->result_ = 0;
            txn_of(m)->err_ = (struct err){ 0 };
        }
}

/* On a full disk, with room that the reserve gives up. */
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

    if (r < 0)
        fail_all(batch, r, &e);
    else if (s->reserve.size < s->reserve.wanted)
        bound_scarce_log(s);
    else
        bound_log(s);
    reserve_mend(&s->reserve);
}

static int on_log(void *store, sqlite3 *h, const char *name, int pages)
{
    struct store *s = store;

    (void)h;
    (void)name;
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
