/* One connection to SQLite, with its statements. Used by one thread at a time. */
#ifndef STORE_DB_H
#define STORE_DB_H

#include <sqlite3.h>

#include "base/err.h"
#include "base/str.h"
#include "store/sql.h"

enum { DB_BUSY_MS = 2000 }; /* how long to wait for somebody else's lock */

struct keyring;

struct db {
    sqlite3 *h;
    bool full;            /* the disk was, since this was last cleared */
    struct keyring *keys; /* of secrets; NULL: nothing is sealed */
    sqlite3_stmt *stmts_[SQL_COUNT_];
};

/* The file must be there, and no symbolic link; its path is of vfs_path(). */
int db_open(struct db *d, const char *path, struct err *e);
void db_close(struct db *d);

/* For statements that are run once. */
int db_exec(struct db *d, const char *sql, struct err *e);
int db_number(struct db *d, const char *sql, int64_t *ret, struct err *e);

/* Whether what is committed from now on is on disk when its COMMIT is over, or only after one that
 * is forced or a while. Not inside of a transaction. */
int db_set_forced(struct db *d, bool forced, struct err *e);
/* Forces the log to disk: everything that was committed by whichever connection or process. The
 * connection has read something before. */
int db_force(struct db *d, struct err *e);

/* A statement, ready to be bound. Nothing else on this connection may be using it. */
int db_prepare(struct db *d, enum sql id, sqlite3_stmt **ret, struct err *e);
/* 1: a row; 0: finished. Finished or failed, the statement is as db_prepare() gave it. */
int db_step(struct db *d, sqlite3_stmt *st, struct err *e);
/* Ends one that was not stepped to its end; harmless on NULL. */
void db_end(sqlite3_stmt *st);
/* For those that give no rows: bound already, or with nothing to bind. */
int db_finish(struct db *d, sqlite3_stmt *st, struct err *e);
int db_run(struct db *d, enum sql id, struct err *e);

static inline int db_bind(sqlite3_stmt *st, int at, struct str s)
{
    return sqlite3_bind_text64(st, at, s.n ? s.p : "", s.n, SQLITE_STATIC, SQLITE_UTF8);
}

/* What SQLite says, as one of ours: full and failing disks are ERR_SYS with errno, a lock held by
 * others ERR_BUSY, a broken constraint ERR_CONFLICT, a damaged file ERR_INVALID. */
int db_fail(struct db *d, int rc, struct err *e);

#endif
