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
#include "store/file.h"
#include "store/store.h"

enum {
    STORE_READERS = 2,
    STORE_ASKED_MAX = 4096,       /* questions that wait */
    STORE_BATCH_MAX = 512,        /* transactions committed together */
    STORE_TXN_MAX = 16 << 20,     /* bytes of one transaction */
    STORE_ANSWER_MAX = 256 << 20, /* bytes of one answer: ten thousand live sandboxes fit */
    STORE_LOG_PAGES = 1000,       /* of WAL after which it is written back beside the commits … */
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
    struct loop_timer retry; /* the pool was full */
    bool hub, closing;
    int jobs; /* that the pool has; it may have some longer than the store is open */

    struct list waiting; /* transactions */
    struct list asked;   /* questions */
    struct list backups;
    size_t asked_count;

    struct slot writer;
    struct list batch;  /* what the writer commits */
    int log_pages;      /* of WAL after the last commit; with log_pages_next the writer's */
    int log_pages_next; /* when a commit writes them back itself */
    int log_pages_seen; /* log_pages, for the loop's thread */
    int log_pages_kept; /* how many of them the keeper has seen */

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
