#include "store/store.h"

#include <fcntl.h>

#include "base/clock.h"
#include "base/own.h"
#include "store/inside.h"

static const int64_t RETRY_NS = NS_PER_MS; /* when the pool was full */

/* ---- slots */

static void kick_all(struct store *s);

static struct slot *slot_at(struct store *s, size_t i)
{
    return i == 0 ? &s->writer : i == 1 ? &s->keeper : &s->readers[i - 2];
}

enum { SLOTS = 2 + STORE_READERS };

static void slot_init(struct slot *x, struct store *s, const struct slot_ops *ops)
{
    x->store = s;
    x->ops = ops;
    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->ended, NULL);
}

static void slot_done(struct slot *x)
{
    pthread_cond_destroy(&x->ended);
    pthread_mutex_destroy(&x->lock);
}

static void run_slot(struct slot *x)
{
    pthread_mutex_lock(&x->lock);
    x->ops->run(x);
    x->ran = true;
    pthread_cond_signal(&x->ended);
    pthread_mutex_unlock(&x->lock);
}

static void deliver_slot(struct slot *x)
{
    x->ran = x->loaded = false;
    x->ops->deliver(x);
}

static void on_run(struct work_job *j)
{
    run_slot(container_of(j, struct slot, job));
}

static void release(struct store *s)
{
    if (s->jobs > 0 || !s->closing)
        return;
    for (size_t i = 0; i < SLOTS; i++)
        slot_done(slot_at(s, i));
    free(s);
}

static void on_ran(struct work_job *j, enum work_end end)
{
    struct slot *x = container_of(j, struct slot, job);
    struct store *s = x->store;

    s->jobs--;
    x->started = false;
    if (x->settled) {
        release(s);
        return;
    }
    if (end == WORK_CANCELLED) /* the pool is ending: what was promised is done here */
        run_slot(x);
    deliver_slot(x);
    kick_all(s);
}

static void on_retry(struct loop_timer *t)
{
    kick_all(container_of(t, struct store, retry));
}

/* Gives the pool the slot's next work, if there is any. */
static void kick(struct slot *x)
{
    struct store *s = x->store;

    if (x->started || s->closing)
        return;
    if (!x->loaded)
        x->loaded = x->ops->pull(x);
    if (!x->loaded)
        return;
    if (work_submit(s->work, &x->job, NULL, on_run, on_ran, NULL) < 0) {
        if (!loop_timer_started(&s->retry))
            loop_timer_start(s->loop, &s->retry, clock_mono() + RETRY_NS, on_retry, NULL);
        return;
    }
    x->started = true;
    s->jobs++;
}

static void kick_all(struct store *s)
{
    for (size_t i = 0; i < SLOTS; i++)
        kick(slot_at(s, i));
}

/* Finishes what the pool has of the slot, without waiting for the loop. */
static void settle(struct slot *x)
{
    if (!x->started || x->settled)
        return;
    if (work_cancel(&x->job)) {
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

/* The rest, one after the other on this thread. True if there was any. */
static bool drain(struct slot *x)
{
    bool some = false;

    while (x->loaded || x->ops->pull(x)) {
        some = x->loaded = true;
        run_slot(x);
        deliver_slot(x);
    }
    return some;
}

/* ---- the writer */

static bool pull_batch(struct slot *x)
{
    struct store *s = x->store;
    struct link *m;

    for (int n = 0; n < STORE_BATCH_MAX && (m = list_take(&s->waiting)); n++)
        list_append(&s->batch, m);
    return list_first(&s->batch) != NULL;
}

static void run_batch(struct slot *x)
{
    commit_batch(x->store, &x->store->batch);
}

static void deliver_batch(struct slot *x)
{
    struct store *s = x->store;
    struct list batch = { 0 };

    s->log_pages_seen = s->log_pages;
    if (s->log_pages_seen < s->log_pages_kept)
        s->log_pages_kept = 0; /* all of it was written back, and the log begins again */
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
    kick(&s->writer);
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

static const struct slot_ops writer_ops = { pull_batch, run_batch, deliver_batch };

/* ---- readers */

static void begin_answer(struct store_query *q)
{
    if (!q->arena.max)
        arena_init(&q->arena, STORE_ANSWER_MAX);
    q->rows = NULL;
    q->n = 0;
    q->result_ = 0;
    q->err_ = (struct err){ 0 };
}

static void give_answer(struct store *s, struct store_query *q)
{
    struct err e = q->err_;

    s->asked_count--;
    q->answer_(q, q->result_, &e);
}

static size_t reader_number(const struct slot *x)
{
    return (size_t)(x - x->store->readers);
}

static bool pull_question(struct slot *x)
{
    struct store_query *q = query_of(list_take(&x->store->asked));

    x->store->question[reader_number(x)] = q;
    return q != NULL;
}

static void run_question(struct slot *x)
{
    struct store_query *q = x->store->question[reader_number(x)];

    q->result_ = query_run(&x->db, q, &q->err_);
}

static void deliver_answer(struct slot *x)
{
    give_answer(x->store, take_ptr(x->store->question[reader_number(x)]));
}

static const struct slot_ops reader_ops = { pull_question, run_question, deliver_answer };

int store_ask(struct store *s, struct store_query *q, store_answer_fn *answer, struct err *e)
{
    if (s->asked_count >= STORE_ASKED_MAX)
        return err_set(e, ERR_BUSY, "%d questions to the store are waiting; try again later",
                       STORE_ASKED_MAX);
    begin_answer(q);
    q->ledger_key_ = store_ledger_key(s);
    q->answer_ = answer;
    s->asked_count++;
    if (q->kind == STORE_BACKUP) {
        list_append(&s->backups, &q->link_);
        kick(&s->keeper);
        return 0;
    }
    list_append(&s->asked, &q->link_);
    for (size_t i = 0; i < STORE_READERS && link_joined(&q->link_); i++)
        kick(&s->readers[i]);
    return 0;
}

static int backup_now(struct store *s, struct store_query *q, struct err *e)
{
    AUTO(backup_done) struct backup b = { 0 };
    int r;

    if (s->saved)
        return err_set(e, ERR_BUSY, "another backup is being made");
    while ((r = backup_step(&b, s->file.path, s->dir, q->fd, e)) > 0)
        ;
    return r;
}

int store_ask_now(struct store *s, struct store_query *q, struct err *e)
{
    struct slot *x = &s->readers[0];
    int r;

    begin_answer(q);
    q->ledger_key_ = store_ledger_key(s);
    if (q->kind == STORE_BACKUP)
        return backup_now(s, q, e);
    pthread_mutex_lock(&x->lock);
    r = query_run(&x->db, q, e);
    pthread_mutex_unlock(&x->lock);
    return r;
}

/* ---- the keeper */

/* A backup goes first: while it reads, the log cannot be emptied anyway. */
static bool pull_upkeep(struct slot *x)
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

static void run_upkeep(struct slot *x)
{
    struct store *s = x->store;

    if (s->checkpoint)
        sqlite3_wal_checkpoint_v2(x->db.h, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    else
        s->saved->result_ =
            backup_step(&s->backup, s->file.path, s->dir, s->saved->fd, &s->saved->err_);
}

static void deliver_upkeep(struct slot *x)
{
    struct store *s = x->store;

    if (s->checkpoint || s->saved->result_ > 0)
        return; /* nobody waits for it, or the next piece follows */
    backup_done(&s->backup);
    give_answer(s, take_ptr(s->saved));
}

static const struct slot_ops keeper_ops = { pull_upkeep, run_upkeep, deliver_upkeep };

void store_keep_events(struct store *s, uint64_t n)
{
    s->events_keep = n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

int store_check_room(const struct store *s, struct err *e)
{
    if (!reserve_is_needed(&s->reserve))
        return 0;
    return err_set(e, ERR_FULL,
                   "the disk of the state directory is full: what ends sandboxes and reads is "
                   "served, nothing new is begun; destroy sandboxes or snapshots, or make room");
}

void store_hub(struct store *s, bool on)
{
    s->hub = on;
}

/* ---- opening and closing */

static int open_others(struct store *s, struct err *e)
{
    int r = db_open(&s->keeper.db, s->file.path, e);

    for (size_t i = 0; r >= 0 && i < STORE_READERS; i++) {
        struct db *d = &s->readers[i].db;

        r = db_open(d, s->file.path, e);
        if (r >= 0)
            r = db_exec(d, "PRAGMA query_only = ON", e);
    }
    return r;
}

static int open_all(struct store *s, int dir, struct err *e)
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
    if (r >= 0) /* what the last life has committed is acted upon, and it may not be forced yet */
        r = db_force(&s->writer.db, e);
    commit_init(s);
    reserve_open(&s->reserve, s->dir);
    return r < 0 ? r : open_others(s, e);
}

/* The writer is the last, so that it is the one that empties the log. */
static void close_all(struct store *s)
{
    for (size_t i = SLOTS; i-- > 0;)
        db_close(&slot_at(s, i)->db);
    store_file_close(&s->file);
    ledger_done(&s->ledger);
    reserve_close(&s->reserve);
    drop_fd(&s->dir);
    s->closing = true;
}

int store_open(int dir, struct loop *l, struct work_pool *w, struct store **ret, struct err *e)
{
    struct store *s = calloc(1, sizeof *s);
    int r;

    if (!s)
        abort();
    s->loop = l;
    s->work = w;
    s->dir = s->file.lock = s->reserve.fd = -1;
    slot_init(&s->writer, s, &writer_ops);
    slot_init(&s->keeper, s, &keeper_ops);
    for (size_t i = 0; i < STORE_READERS; i++)
        slot_init(&s->readers[i], s, &reader_ops);
    r = open_all(s, dir, e);
    if (r < 0) {
        close_all(s);
        release(s);
        return r;
    }
    *ret = s;
    return 0;
}

void store_close(struct store *s)
{
    bool more = true;

    if (!s)
        return;
    s->closing = true;
    loop_timer_stop(&s->retry);
    for (size_t i = 0; i < SLOTS; i++)
        settle(slot_at(s, i));
    while (more) {
        more = false;
        for (size_t i = 0; i < SLOTS; i++)
            more |= drain(slot_at(s, i));
    }
    close_all(s);
    release(s);
}
