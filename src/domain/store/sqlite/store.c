/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/store/store.h"

#include <fcntl.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/own.h"
#include "domain/store/sqlite/internal.h"

static const int64_t RETRY_NS = NS_PER_MS; /* if the pool is full */

/* ---- slots */

static void submit_all_slots(struct store *s);

static struct store_slot *slot_at(struct store *s, size_t i)
{
    return i == 0 ? &s->writer : i == 1 ? &s->maintenance : &s->readers[i - 2];
}

enum { SLOTS = 2 + STORE_READERS };

static void slot_init(struct store_slot *x, struct store *s, const struct slot_ops *ops)
{
    x->store = s;
    x->ops = ops;
    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->ended, NULL);
}

static void run_slot(struct store_slot *x)
{
    pthread_mutex_lock(&x->lock);
    x->ops->run(x);
    x->ran = true;
    pthread_cond_signal(&x->ended);
    pthread_mutex_unlock(&x->lock);
}

static void deliver_slot(struct store_slot *x)
{
    x->ran = x->loaded = false;
    x->ops->deliver(x);
}

static void on_slot_run(struct thread_job *j)
{
    run_slot(container_of(j, struct store_slot, job));
}

static void release_store(struct store *s)
{
    if (s->jobs > 0 || !s->closing)
        return;
    for (size_t i = 0; i < SLOTS; i++) {
        pthread_cond_destroy(&slot_at(s, i)->ended);
        pthread_mutex_destroy(&slot_at(s, i)->lock);
    }
    free(s);
}

static void on_slot_ran(struct thread_job *j, enum work_end end)
{
    struct store_slot *x = container_of(j, struct store_slot, job);
    struct store *s = x->store;

    s->jobs--;
    x->started = false;
    if (x->settled) {
        release_store(s);
        return;
    }
    if (end == THREAD_CANCELLED) /* the pool ends: run it on this thread */
        run_slot(x);
    deliver_slot(x);
    submit_all_slots(s);
}

static void on_submit_retry(struct loop_timer *t)
{
    submit_all_slots(container_of(t, struct store, retry));
}

/* Submits the slot's next work to the pool, if there is any. */
static void submit_slot(struct store_slot *x)
{
    struct store *s = x->store;

    if (x->started || s->closing)
        return;
    if (!x->loaded)
        x->loaded = x->ops->pull(x);
    if (!x->loaded)
        return;
    if (thread_submit(s->work, &x->job, NULL, on_slot_run, on_slot_ran, NULL) < 0) {
        if (!loop_timer_started(&s->retry))
            loop_timer_start(s->loop, &s->retry, clock_mono() + RETRY_NS, on_submit_retry, NULL);
        return;
    }
    x->started = true;
    s->jobs++;
}

static void submit_all_slots(struct store *s)
{
    for (size_t i = 0; i < SLOTS; i++)
        submit_slot(slot_at(s, i));
}

/* Finishes and delivers the slot's job in the pool, without waiting for the loop. */
static void settle_slot(struct store_slot *x)
{
    if (!x->started || x->settled)
        return;
    if (thread_cancel(&x->job)) {
        run_slot(x);
    } else {
        pthread_mutex_lock(&x->lock);
        while (!x->ran)
            pthread_cond_wait(&x->ended, &x->lock);
        pthread_mutex_unlock(&x->lock);
    }
    x->settled = true;
    deliver_slot(x);
}

/* ---- the writer */

static bool pull_batch(struct store_slot *x)
{
    struct store *s = x->store;
    struct link *m;

    for (int n = 0; n < STORE_BATCH_MAX && (m = list_take(&s->waiting)); n++)
        list_append(&s->batch, m);
    return list_first(&s->batch) != NULL;
}

static void run_commit_batch(struct store_slot *x)
{
    commit_batch(x->store, &x->store->batch);
}

static void deliver_batch(struct store_slot *x)
{
    struct store *s = x->store;
    struct list batch = { 0 };

    s->log_pages_seen = s->log_pages;
    if (s->log_pages_seen < s->log_pages_kept)
        s->log_pages_kept = 0; /* the WAL was restarted */
    list_move(&s->batch, &batch);
    for (struct store_txn *t; (t = txn_of(list_take(&batch)));) {
        struct err e = t->err_; /* the owner may free the transaction */

        arena_done(&t->arena_);
        t->ops_ = (struct list){ 0 };
        t->done_(t, t->result_, &e);
    }
}

void store_commit(struct store_txn *t, store_done_fn *done)
{
    struct store *s = t->store;

    t->done_ = done;
    list_append(&s->waiting, &t->link_);
    submit_slot(&s->writer);
}

int store_commit_now(struct store_txn *t, struct err *e)
{
    struct store *s = t->store;
    struct list batch = { 0 };
    int r;

    list_append(&batch, &t->link_);
    pthread_mutex_lock(&s->writer.lock);
    commit_batch(s, &batch);
    pthread_mutex_unlock(&s->writer.lock);
    link_leave(&t->link_);
    r = t->result_;
    if (r < 0 && e)
        *e = t->err_;
    arena_done(&t->arena_);
    t->ops_ = (struct list){ 0 };
    return r;
}

static const struct slot_ops writer_ops = { pull_batch, run_commit_batch, deliver_batch };

/* ---- readers */

static void begin_query_answer(struct store_query *q)
{
    if (!q->arena.max)
        arena_init(&q->arena, STORE_ANSWER_MAX);
    q->rows = NULL;
    q->n = 0;
    q->result_ = 0;
    q->err_ = (struct err){ 0 };
}

static void give_query_answer(struct store *s, struct store_query *q)
{
    struct err e = q->err_;

    s->asked_count--;
    q->answer_(q, q->result_, &e);
}

static size_t reader_number(const struct store_slot *x)
{
    return (size_t)(x - x->store->readers);
}

static bool pull_query(struct store_slot *x)
{
    struct store_query *q = query_of(list_take(&x->store->queries));

    x->store->question[reader_number(x)] = q;
    return q != NULL;
}

static void run_query(struct store_slot *x)
{
    struct store_query *q = x->store->question[reader_number(x)];

    if (q->kind == STORE_PROCESSES)
        fault_point("store.read.processes");
    q->result_ = query_run(&x->db, q, &q->err_);
}

static void deliver_query(struct store_slot *x)
{
    give_query_answer(x->store, take_ptr(x->store->question[reader_number(x)]));
}

static const struct slot_ops reader_ops = { pull_query, run_query, deliver_query };

int store_ask(struct store *s, struct store_query *q, store_answer_fn *answer, struct err *e)
{
    if (s->asked_count >= STORE_ASKED_MAX)
        return err_set(e, ERR_BUSY, "%d store queries are pending; try again later",
                       STORE_ASKED_MAX);
    begin_query_answer(q);
    q->ledger_key_ = store_ledger_key(s);
    q->answer_ = answer;
    s->asked_count++;
    if (q->kind == STORE_BACKUP) {
        list_append(&s->backups, &q->link_);
        submit_slot(&s->maintenance);
        return 0;
    }
    list_append(&s->queries, &q->link_);
    for (size_t i = 0; i < STORE_READERS && link_joined(&q->link_); i++)
        submit_slot(&s->readers[i]);
    return 0;
}

int store_ask_now(struct store *s, struct store_query *q, struct err *e)
{
    AUTO(backup_done) struct store_backup b = { 0 };
    struct store_slot *x = &s->readers[0];
    int r;

    begin_query_answer(q);
    q->ledger_key_ = store_ledger_key(s);
    if (q->kind == STORE_BACKUP) {
        if (s->saved)
            return err_set(e, ERR_BUSY, "another backup is being made");
        while ((r = backup_step(&b, s->file.path, s->dir, q->fd, e)) > 0)
            ;
        return r;
    }
    pthread_mutex_lock(&x->lock);
    r = query_run(&x->db, q, e);
    pthread_mutex_unlock(&x->lock);
    return r;
}

/* ---- the maintenance slot */

/* Prefers backups to checkpoints: a backup's read transaction keeps the WAL from being reset. */
static bool pull_upkeep(struct store_slot *x)
{
    struct store *s = x->store;

    if (!s->saved)
        s->saved = query_of(list_take(&s->backups));
    s->checkpoint =
        !s->saved && !s->closing && s->log_pages_seen - s->log_pages_kept >= STORE_LOG_PAGES;
    if (s->checkpoint)
        s->log_pages_kept = s->log_pages_seen;
    return s->saved || s->checkpoint;
}

static void run_upkeep(struct store_slot *x)
{
    struct store *s = x->store;

    if (s->checkpoint)
        sqlite3_wal_checkpoint_v2(x->db.h, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    else
        s->saved->result_ =
            backup_step(&s->backup, s->file.path, s->dir, s->saved->fd, &s->saved->err_);
}

static void deliver_upkeep(struct store_slot *x)
{
    struct store *s = x->store;

    if (s->checkpoint || s->saved->result_ > 0)
        return; /* a checkpoint has no caller; a backup has more pieces */
    backup_done(&s->backup);
    give_query_answer(s, take_ptr(s->saved));
}

static const struct slot_ops maintenance_ops = { pull_upkeep, run_upkeep, deliver_upkeep };

void store_keep_events(struct store *s, uint64_t n)
{
    s->events_keep = n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

int store_check_room(const struct store *s, struct err *e)
{
    if (!reserve_is_needed(&s->reserve))
        return 0;
    return err_set(e, ERR_FULL,
                   "the disk of the state directory is full, so nothing new can be created; "
                   "destroy sandboxes or snapshots, or free space");
}

void store_hub(struct store *s, bool on)
{
    s->hub = on;
}

/* ---- opening and closing */

static int open_reader_connections(struct store *s, struct err *e)
{
    int r = db_open(&s->maintenance.db, s->file.path, e);

    for (size_t i = 0; r >= 0 && i < STORE_READERS; i++) {
        struct db *d = &s->readers[i].db;

        r = db_open(d, s->file.path, e);
        if (r >= 0)
            r = db_exec(d, "PRAGMA query_only = ON", e);
    }
    return r;
}

static int open_store_files(struct store *s, int dir, struct err *e)
{
    char sql[64];
    int r;

    s->dir = fcntl(dir, F_DUPFD_CLOEXEC, 3);
    if (s->dir < 0)
        return err_sys(e, "the state directory");
    r = store_file_open(&s->file, s->dir, &store_schema, &s->writer.db, e);
    if (r < 0)
        return r;
    snprintf(sql, sizeof sql, "PRAGMA journal_size_limit = %d", STORE_LOG_PAGES_MAX * 4096);
    r = db_exec(&s->writer.db, sql, e);
    /* the last process may have committed without a sync, and its commits are used now */
    if (r >= 0)
        r = db_force(&s->writer.db, e);
    commit_init(s);
    reserve_open(&s->reserve, s->dir);
    return r < 0 ? r : open_reader_connections(s, e);
}

/* Closes the writer last, so that its connection runs the final checkpoint. */
static void close_store_files(struct store *s)
{
    for (size_t i = SLOTS; i-- > 0;)
        db_close(&slot_at(s, i)->db);
    store_file_close(&s->file);
    ledger_done(&s->ledger);
    reserve_close(&s->reserve);
    drop_fd(&s->dir);
    s->closing = true;
}

int store_open(int dir, struct loop *l, struct thread_pool *w, struct store **ret, struct err *e)
{
    struct store *s = new0(sizeof *s);
    int r;

    s->loop = l;
    s->work = w;
    s->dir = s->file.lock = s->reserve.fd = -1;
    slot_init(&s->writer, s, &writer_ops);
    slot_init(&s->maintenance, s, &maintenance_ops);
    for (size_t i = 0; i < STORE_READERS; i++)
        slot_init(&s->readers[i], s, &reader_ops);
    r = open_store_files(s, dir, e);
    if (r < 0) {
        close_store_files(s);
        release_store(s);
        return r;
    }
    *ret = s;
    return 0;
}

int store_probe(int dir, struct err *e)
{
    return store_file_probe(dir, &store_schema, e);
}

void store_close(struct store *s)
{
    bool more = true;

    if (!s)
        return;
    s->closing = true;
    loop_timer_stop(&s->retry);
    for (size_t i = 0; i < SLOTS; i++)
        settle_slot(slot_at(s, i));
    while (more) { /* runs the remaining work on this thread */
        more = false;
        for (size_t i = 0; i < SLOTS; i++)
            for (struct store_slot *x = slot_at(s, i); x->loaded || x->ops->pull(x);) {
                more = x->loaded = true;
                run_slot(x);
                deliver_slot(x);
            }
    }
    close_store_files(s);
    release_store(s);
}
