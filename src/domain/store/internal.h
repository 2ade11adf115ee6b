/* What the module's files share.
 *
 * The loop's thread hands work to slots: one that commits, some that answer, one that keeps the
 * file in order. Each has a connection of its own and is one job of the pool at a time. */
#ifndef STORE_INSIDE_H
#define STORE_INSIDE_H

#include <pthread.h>

#include "loop/timer.h"
#include "store/backup.h"
#include "store/db.h"
#include "base/buf.h"
#include "store/file.h"
#include "store/reserve.h"
#include "store/row.h"
#include "store/store.h"

enum {
    STORE_READERS = 2,
    STORE_ASKED_MAX = 4096,       /* questions that wait */
    STORE_BATCH_MAX = 512,        /* transactions committed together */
    STORE_TXN_MAX = 16 << 20,     /* bytes of one transaction */
    STORE_ANSWER_MAX = 256 << 20, /* bytes of one answer: ten thousand live sandboxes fit */
    STORE_LOG_PAGES = 1000,       /* of WAL after which it is written back beside the commits … */
    STORE_LOG_PAGES_SCARCE = 256, /* … on a full disk, by the commits … */
    STORE_LOG_PAGES_MAX = 8 << 10, /* … and after which a commit does it itself */
};

struct slot;
struct slot_ops {
    bool (*pull)(struct slot *x);    /* loop's thread: takes what is next; false: nothing to do */
    void (*run)(struct slot *x);     /* pool's thread */
    void (*deliver)(struct slot *x); /* loop's thread: tells who asked */
};

struct slot {
    struct store *store;
    const struct slot_ops *ops;
    struct db db;
    struct work_job job;
    bool loaded;          /* something was pulled and not delivered */
    bool started;         /* the pool has the job */
    bool settled;         /* … and it was delivered without it, because the store closes */
    pthread_mutex_t lock; /* over the connection and `ran` */
    pthread_cond_t ended;
    bool ran;
};

struct store {
    struct loop *loop;
    struct work_pool *work;
    int dir;
    struct store_file file;
    struct reserve reserve;
    struct loop_timer retry; /* the pool was full */
    bool hub, closing;
    int64_t events_keep; /* 0: all */
    int jobs;            /* that the pool has; it may have some longer than the store is open */

    struct list waiting; /* transactions */
    struct list asked;   /* questions */
    struct list backups;
    size_t asked_count;

    struct slot writer;
    struct ledger ledger; /* the writer's */
    struct list batch;    /* what the writer commits */
    int log_pages;        /* of WAL after the last commit; with log_pages_next the writer's */
    int log_pages_next;   /* when a commit writes them back itself */
    int log_pages_scarce; /* … on a full disk */
    int log_pages_seen;   /* log_pages, for the loop's thread */
    int log_pages_kept;   /* how many of them the keeper has seen */

    struct slot readers[STORE_READERS];
    struct store_query *question[STORE_READERS];

    struct slot keeper;
    bool checkpoint; /* it writes the WAL back; else it works on the backup */
    struct store_query *saved;
    struct backup backup;
};

/* txn.c: does what the transaction says, inside of SQLite's. */
int txn_apply(struct store_txn *t, struct db *d, struct err *e);
/* commit.c: on the writer's connection; leaves result_ and err_ in each. */
void commit_batch(struct store *s, struct list *batch);
void commit_init(struct store *s);
/* seal.c: a text that is sealed, or partly sealed, for the column `name` of a record. */
struct str seal_name(const char *what, const char *id, char buf[static 192]);
int seal_text(struct keyring *k, enum row_kind kind, unsigned depth, struct str name,
              struct str text, struct buf *out, struct err *e);
int unseal_text(struct keyring *k, enum row_kind kind, unsigned depth, struct str name,
                struct str text, struct buf *out, struct err *e);
/* Everything with the active key, inside of a transaction. */
int seal_all(struct db *d, struct err *e);
/* The variables of a sandbox's processes. */
int seal_erase_specs(struct db *d, const char *sandbox, struct err *e);
bool seal_applies(struct str setting);
/* ledger.c: on the writer's connection. */
void ledger_chain_event(struct ledger *l, const struct event_record *v, sqlite3_stmt *st);
/* Rows that somebody else inserted have the next numbers: ours go on behind them. */
int ledger_skip_inserted(struct ledger *l, struct db *d, struct err *e);
int ledger_write_head(struct ledger *l, struct db *d, struct err *e);
int ledger_put_egress_head(struct ledger *l, const struct egress_head_record *h, struct db *d,
                           struct err *e);
/* A run of events that are removed one after the other; ledger_note_cut() also ends one. */
int ledger_cut_event(struct ledger *l, struct ledger_cut *run, int64_t seq, sqlite3_stmt *st,
                     int column, struct db *d, struct err *e);
int ledger_note_cut(struct ledger *l, struct ledger_cut *run, struct db *d, struct err *e);
/* … on a reader's. */
int ledger_walk_on(struct db *d, struct store_query *q, struct err *e);
bool ledger_knows_head(struct crypto_hmac *mac, const struct egress_head_record *h);
void ledger_done(struct ledger *l);
/* query.c */
int query_run(struct db *d, struct store_query *q, struct err *e);

static inline struct store_txn *txn_of(struct link *m)
{
    return m ? container_of(m, struct store_txn, link_) : NULL;
}

static inline struct store_query *query_of(struct link *m)
{
    return m ? container_of(m, struct store_query, link_) : NULL;
}

#endif
