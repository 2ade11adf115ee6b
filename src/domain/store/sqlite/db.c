/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/store/sqlite/db.h"

#include <errno.h>
#include <string.h>

#include "domain/store/sqlite/vfs.h"

/* Puts errno's text into the message and leaves err.sys 0: a caller would take err.sys for the
 * error of its own request. */
static int fail_sys(int sys, const char *text, struct err *e)
{
    return err_set(e, ERR_SYS, "%s: %s", text, strerror(sys));
}

static int fail_full(struct err *e)
{
    return err_set(e, ERR_FULL,
                   "the disk of the state directory is full, so the change cannot be stored; "
                   "destroy sandboxes or snapshots, or free space");
}

int db_fail(struct db *d, int rc, struct err *e)
{
    const char *text = d->h ? sqlite3_errmsg(d->h) : sqlite3_errstr(rc);
    int sys = d->h ? sqlite3_system_errno(d->h) : 0;

    d->full |= (rc & 0xff) == SQLITE_FULL || sys == ENOSPC || sys == EDQUOT;
    switch (rc & 0xff) {
    case SQLITE_FULL:
        return fail_full(e);
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
        return sys == ENOSPC || sys == EDQUOT
                   ? fail_full(e)
                   : fail_sys(sys ? sys : EIO, "the store cannot be accessed", e);
    case SQLITE_NOMEM:
        return fail_sys(ENOMEM, "the store", e);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return err_set(e, ERR_BUSY, "another process has the store locked; try again later");
    case SQLITE_CONSTRAINT:
        return err_set(e, ERR_CONFLICT, "the store rejects the change: %s", text);
    case SQLITE_TOOBIG:
        return err_set(e, ERR_TOO_BIG, "the record is too large for the store (SQLite: %s)", text);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return err_set(e, ERR_INVALID, "the store is damaged (%s); restore a backup", text);
    default:
        return err_set(e, ERR_BUG, "the store: %s (SQLite's code %d)", text, rc);
    }
}

int db_open(struct db *d, const char *path, struct err *e)
{
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
    int rc, r;

    *d = (struct db){ 0 };
    rc = sqlite3_open_v2(path, &d->h, flags, VFS_NAME);
    if (rc == SQLITE_OK) {
        sqlite3_extended_result_codes(d->h, 1);
        sqlite3_busy_timeout(d->h, DB_BUSY_MS);
        sqlite3_db_config(d->h, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        sqlite3_db_config(d->h, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
        r = db_exec(d,
                    "PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;"
                    "PRAGMA temp_store = MEMORY; PRAGMA wal_autocheckpoint = 0;"
                    "PRAGMA secure_delete = ON",
                    e);
    } else {
        r = db_fail(d, rc, e);
    }
    if (r < 0)
        db_close(d);
    return r;
}

void db_close(struct db *d)
{
    for (size_t i = 0; i < SQL_COUNT_; i++)
        sqlite3_finalize(d->stmts_[i]);
    sqlite3_close(d->h);
    *d = (struct db){ 0 };
}

int db_exec(struct db *d, const char *sql, struct err *e)
{
    int rc = sqlite3_exec(d->h, sql, NULL, NULL, NULL);

    return rc == SQLITE_OK ? 0 : db_fail(d, rc, e);
}

int db_set_forced(struct db *d, bool forced, struct err *e)
{
    return db_exec(d, forced ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL", e);
}

/* Uses SQLite's own file object, which also syncs the directory if necessary. */
int db_force(struct db *d, struct err *e)
{
    sqlite3_file *log = NULL;
    int rc = sqlite3_file_control(d->h, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);

    if (rc == SQLITE_OK && log && log->pMethods)
        rc = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL | SQLITE_SYNC_DATAONLY);
    return rc == SQLITE_OK ? 0 : db_fail(d, rc, e);
}

int db_number(struct db *d, const char *sql, int64_t *ret, struct err *e)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(d->h, sql, -1, &st, NULL);
    int r = 0;

    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    if (rc == SQLITE_ROW)
        *ret = sqlite3_column_int64(st, 0);
    else
        r = db_fail(d, rc, e);
    sqlite3_finalize(st);
    return r;
}

int db_prepare(struct db *d, enum sql id, sqlite3_stmt **ret, struct err *e)
{
    if (!d->stmts_[id]) {
        int rc = sqlite3_prepare_v3(d->h, sql_texts[id], -1, SQLITE_PREPARE_PERSISTENT,
                                    &d->stmts_[id], NULL);

        if (rc != SQLITE_OK)
            return db_fail(d, rc, e);
    }
    *ret = d->stmts_[id];
    return 0;
}

int db_step(struct db *d, sqlite3_stmt *st, struct err *e)
{
    int rc = sqlite3_step(st), r = 0;

    if (rc == SQLITE_ROW)
        return 1;
    if (rc != SQLITE_DONE)
        r = db_fail(d, rc, e);
    db_end(st);
    return r;
}

void db_end(sqlite3_stmt *st)
{
    if (!st)
        return; /* sqlite3_clear_bindings() requires a statement */
    sqlite3_reset(st);
    sqlite3_clear_bindings(st); /* they point to the caller's memory */
}

int db_finish(struct db *d, sqlite3_stmt *st, struct err *e)
{
    int r = db_step(d, st, e);

    if (r > 0) {
        db_end(st);
        return 0;
    }
    return r;
}

void db_bind(sqlite3_stmt *st, int at, const struct db_value *with)
{
    int last = sqlite3_bind_parameter_count(st);

    for (; with && with->kind != DB_END && at <= last; with++, at++) {
        struct str s = with->text;

        if (with->kind == DB_INT)
            sqlite3_bind_int64(st, at, with->number);
        else if (with->kind == DB_TEXT)
            sqlite3_bind_text64(st, at, s.n ? s.p : "", s.n, SQLITE_STATIC, SQLITE_UTF8);
        else
            sqlite3_bind_blob64(st, at, s.p, s.n, SQLITE_STATIC);
    }
}

int db_start(struct db *d, enum sql id, const struct db_value *with, sqlite3_stmt **ret,
             struct err *e)
{
    int r = db_prepare(d, id, ret, e);

    if (r >= 0)
        db_bind(*ret, 1, with);
    return r;
}

int db_first(struct db *d, enum sql id, const struct db_value *with, sqlite3_stmt **ret,
             struct err *e)
{
    int r = db_start(d, id, with, ret, e);

    return r < 0 ? r : db_step(d, *ret, e);
}

int db_run(struct db *d, enum sql id, const struct db_value *with, struct err *e)
{
    sqlite3_stmt *st;
    int r = db_start(d, id, with, &st, e);

    return r < 0 ? r : db_finish(d, st, e);
}
