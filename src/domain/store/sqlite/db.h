/* SPDX-License-Identifier: Apache-2.0 */
/* One connection to SQLite, with its prepared statements. For one thread at a time. */
#ifndef DOMAIN_STORE_SQLITE_DB_H
#define DOMAIN_STORE_SQLITE_DB_H

#include <sqlite3.h>

#include "base/err.h"
#include "base/str.h"
#include "domain/store/sqlite/sql.h"

enum { DB_BUSY_MS = 2000 }; /* how long to wait for another connection's lock */

struct keyring;

struct db {
    sqlite3 *h;
    bool full;            /* the disk was full since this was last cleared */
    struct keyring *keys; /* of secrets; NULL: secrets are not sealed */
    sqlite3_stmt *stmts_[SQL_COUNT_];
};

/* The file must exist and not be a symbolic link; its path is from vfs_path(). */
int db_open(struct db *d, const char *path, struct err *e);
void db_close(struct db *d);

/* For statements that run once. db_number() returns the first column of the first row. */
int db_exec(struct db *d, const char *sql, struct err *e);
int db_number(struct db *d, const char *sql, int64_t *ret, struct err *e);

/* Whether COMMIT waits until the WAL is on disk (synchronous = FULL). Otherwise commits become
 * durable with a later forced one or a checkpoint. Not inside a transaction. */
int db_set_forced(struct db *d, bool forced, struct err *e);
/* Forces the WAL to disk, with the commits of all connections and processes. The connection must
 * have read something before. */
int db_force(struct db *d, struct err *e);

/* Values for the parameters ?1, ?2, … of a statement: DB_WITH(db_text(id), db_int(7)). They are
 * borrowed until the statement has finished. */
struct db_value {
    enum { DB_END, DB_INT, DB_TEXT, DB_BYTES } kind;
    int64_t number;
    struct str text;
};
#define DB_WITH(...) ((const struct db_value[]){ __VA_ARGS__, { .kind = DB_END } })

static inline struct db_value db_int(int64_t number)
{
    return (struct db_value){ .kind = DB_INT, .number = number };
}

static inline struct db_value db_text(struct str text)
{
    return (struct db_value){ .kind = DB_TEXT, .text = text };
}

static inline struct db_value db_bytes(const void *p, size_t n)
{
    return (struct db_value){ .kind = DB_BYTES, .text = { p, n } };
}

/* Returns a statement, ready to be bound, that is not in use on this connection. */
int db_prepare(struct db *d, enum sql id, sqlite3_stmt **ret, struct err *e);
/* Binds the values (NULL: none) to the parameters from `at` on; ignores values beyond the last
 * parameter, so that similar statements can share a list. */
void db_bind(sqlite3_stmt *st, int at, const struct db_value *with);
/* 1: a row; 0: finished. A finished or failed statement is reset, as after db_prepare(). */
int db_step(struct db *d, sqlite3_stmt *st, struct err *e);
/* Resets a statement that has not finished; does nothing on NULL. */
void db_end(sqlite3_stmt *st);
/* Runs a prepared statement that returns no rows. */
int db_finish(struct db *d, sqlite3_stmt *st, struct err *e);

/* Prepare and bind: a statement to step; one that is at its first row (1, or 0 if there is none);
 * one that returns no rows, and is run. */
int db_start(struct db *d, enum sql id, const struct db_value *with, sqlite3_stmt **ret,
             struct err *e);
int db_first(struct db *d, enum sql id, const struct db_value *with, sqlite3_stmt **ret,
             struct err *e);
int db_run(struct db *d, enum sql id, const struct db_value *with, struct err *e);

/* Maps an error of SQLite: a full disk to ERR_FULL, a failing one to ERR_SYS, a lock of another
 * connection to ERR_BUSY, a violated constraint to ERR_CONFLICT, a damaged file to ERR_INVALID. */
int db_fail(struct db *d, int rc, struct err *e);
static inline bool db_is_disk_error(int r)
{
    return r == -(int)ERR_FULL || r == -(int)ERR_SYS;
}

#endif
