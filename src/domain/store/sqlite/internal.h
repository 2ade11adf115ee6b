/* SPDX-License-Identifier: Apache-2.0 */
/* Private declarations of the store.
 *
 * The loop's thread passes work to slots: a writer that commits, readers that run queries, and a
 * maintenance slot for checkpoints and backups. Each slot has its own connection and at most one
 * job in the pool. */
#ifndef DOMAIN_STORE_SQLITE_INTERNAL_H
#define DOMAIN_STORE_SQLITE_INTERNAL_H

#include <pthread.h>

#include "lib/loop/timer.h"
#include "domain/store/sqlite/backup.h"
#include "domain/store/sqlite/db.h"
#include "base/buf.h"
#include "domain/store/sqlite/file.h"
#include "domain/store/sqlite/reserve.h"
#include "domain/store/sqlite/row.h"
#include "domain/store/store.h"

enum {
    STORE_READERS = 2,
    STORE_ASKED_MAX = 4096,        /* pending queries */
    STORE_BATCH_MAX = 512,         /* transactions committed together */
    STORE_TXN_MAX = 16 << 20,      /* bytes of one transaction */
    STORE_ANSWER_MAX = 256 << 20,  /* bytes of one answer: ten thousand live sandboxes fit */
    STORE_LOG_PAGES = 1000,        /* of WAL, after which the maintenance slot runs a checkpoint */
    STORE_LOG_PAGES_SCARCE = 256,  /* … the writer does, on a full disk */
    STORE_LOG_PAGES_MAX = 8 << 10, /* … the writer does in any case */
};

struct store_slot;
struct slot_ops {
    bool (*pull)(struct store_slot *x);    /* loop's thread: takes the next work; false: no work */
    void (*run)(struct store_slot *x);     /* pool's thread */
    void (*deliver)(struct store_slot *x); /* loop's thread: calls the callers' callbacks */
};

struct store_slot {
    struct store *store;
    const struct slot_ops *ops;
    struct db db;
    struct thread_job job;
    bool loaded;          /* work was pulled and not delivered */
    bool started;         /* the pool has the job */
    bool settled;         /* … but store_close() has delivered the result already */
    pthread_mutex_t lock; /* protects the connection and `ran` */
    pthread_cond_t ended;
    bool ran;
};

struct store {
    struct loop *loop;
    struct thread_pool *work;
    int dir;
    struct store_file file;
    struct reserve reserve;
    struct loop_timer retry; /* the pool was full */
    bool hub, closing;
    int64_t events_keep; /* 0: all */
    int jobs;            /* in the pool; may outlast store_close() */

    struct list waiting; /* transactions */
    struct list queries; /* queries */
    struct list backups;
    size_t asked_count;

    struct store_slot writer;
    struct ledger ledger; /* the writer's */
    struct list batch;    /* that the writer commits */
    int log_pages;        /* of WAL after the last commit; as the next two, the writer's */
    int log_pages_next;   /* at which the writer runs a checkpoint */
    int log_pages_scarce; /* … on a full disk */
    int log_pages_seen;   /* log_pages, for the loop's thread */
    int log_pages_kept;   /* log_pages_seen at the last checkpoint of the maintenance slot */

    struct store_slot readers[STORE_READERS];
    struct store_query *question[STORE_READERS];

    struct store_slot maintenance;
    bool checkpoint; /* the maintenance slot runs a checkpoint; else a step of the backup */
    struct store_query *saved;
    struct store_backup backup;
};

/* txn.c: applies the transaction's operations, inside a transaction of SQLite. */
int txn_apply(struct store_txn *t, struct db *d, struct err *e);
/* commit.c: on the writer's connection; sets result_ and err_ of each transaction. */
void commit_batch(struct store *s, struct list *batch);
void commit_init(struct store *s);
/* seal.c: seals and opens a text, or a part of it, that is bound to `name`, from seal_name(). */
struct str seal_name(const char *what, const char *id, char buf[static 192]);
int seal_text(struct keyring *k, enum row_kind kind, unsigned depth, struct str name,
              struct str text, struct buf *out, struct err *e);
int unseal_text(struct keyring *k, enum row_kind kind, unsigned depth, struct str name,
                struct str text, struct buf *out, struct err *e);
/* Seals all secrets with the active key; inside a transaction. */
int seal_all(struct db *d, struct err *e);
/* Erases the start requests of a sandbox's processes. */
int seal_erase_specs(struct db *d, const char *sandbox, struct err *e);
bool seal_applies(struct str setting);
/* ledger.c: on the writer's connection. */
/* Moves the head behind the event and returns it; NULL without a ledger. */
const struct ledger_head *ledger_chain_event(struct ledger *l, const struct event_record *v);
/* After a conflict: moves the head behind rows that another process has inserted. */
int ledger_skip_inserted(struct ledger *l, struct db *d, struct err *e);
int ledger_write_head(struct ledger *l, struct db *d, struct err *e);
int ledger_put_egress_head(struct ledger *l, const struct egress_head_record *h, struct db *d,
                           struct err *e);
/* Adds an event to a run of removed events. Stores the run as a cut when the next event is not
 * adjacent; call ledger_note_cut() after the last one. */
int ledger_cut_event(struct ledger *l, struct ledger_cut *run, int64_t seq, sqlite3_stmt *st,
                     int column, struct db *d, struct err *e);
int ledger_note_cut(struct ledger *l, struct ledger_cut *run, struct db *d, struct err *e);
/* … on a reader's connection. */
int ledger_walk_on(struct db *d, struct store_query *q, struct err *e);
bool ledger_knows_head(struct crypto_hmac *mac, const struct egress_head_record *h);
void ledger_done(struct ledger *l);
/* query.c */
int query_run(struct db *d, struct store_query *q, struct err *e);
/* Appends a row to the answer. */
int query_add(struct store_query *q, const void *row, size_t size, struct err *e);

static inline struct store_txn *txn_of(struct link *m)
{
    return m ? container_of(m, struct store_txn, link_) : NULL;
}

static inline struct store_query *query_of(struct link *m)
{
    return m ? container_of(m, struct store_query, link_) : NULL;
}

#endif
