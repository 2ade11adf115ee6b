/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/store/sqlite/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "domain/store/sqlite/reserve.h"
#include "domain/store/sqlite/vfs.h"

#define NEW  STORE_FILE_NAME ".new" /* unfinished */
#define LOCK STORE_FILE_NAME ".lock"

enum { HEADER = 100 };

/* ---- the lock */

/* A lock of the process (fcntl), not of the descriptor: it ends with the process even if children
 * survive, and F_GETLK names its holder. */
static int take_store_lock(int dir, int *ret, struct err *e)
{
    struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    char holder[40] = "another process";
    AUTO_CLOSE int fd = openat(dir, LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return err_sys(e, "opening %s", LOCK);
    if (fcntl(fd, F_SETLK, &l) < 0) {
        if (errno != EAGAIN && errno != EACCES)
            return err_sys(e, "locking %s", LOCK);
        if (fcntl(fd, F_GETLK, &l) == 0 && l.l_type != F_UNLCK && l.l_pid > 0)
            snprintf(holder, sizeof holder, "process %d", (int)l.l_pid);
        return err_set(e, ERR_BUSY, "the store is in use by %s; only one daemon can use it",
                       holder);
    }
    *ret = take_fd(&fd);
    return 0;
}

/* Whether another process has the lock. */
static bool is_store_locked(int dir)
{
    struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    AUTO_CLOSE int fd = openat(dir, LOCK, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    return fd >= 0 && fcntl(fd, F_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

/* ---- names */

static void unlink_at(int dir, const char *name, const char *suffix)
{
    char path[64];

    snprintf(path, sizeof path, "%s%s", name, suffix);
    unlinkat(dir, path, 0);
}

static bool is_at(int dir, const char *name, const char *suffix)
{
    char path[64];
    struct stat st;

    snprintf(path, sizeof path, "%s%s", name, suffix);
    return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Removes WAL and journal files of an older file, which SQLite would apply to the new one. */
static void unlink_sides(int dir, const char *name)
{
    unlink_at(dir, name, "-wal");
    unlink_at(dir, name, "-shm");
    unlink_at(dir, name, "-journal");
}

/* ---- making and upgrading */

static int migrate_schema(struct db *d, const struct schema *schema, int64_t from, struct err *e)
{
    char pragmas[96];
    int r = db_exec(d, "BEGIN IMMEDIATE", e);

    for (size_t i = 0; r >= 0 && i < schema->n; i++)
        if (schema->migrations[i].number > from)
            r = err_wrap(e, db_exec(d, schema->migrations[i].sql, e), "migration %d of the schema",
                         schema->migrations[i].number);
    snprintf(pragmas, sizeof pragmas,
             "PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT", SCHEMA_APPLICATION,
             schema_version(schema));
    return r < 0 ? r : db_exec(d, pragmas, e);
}

/* Brings the file NEW from version `from` to the newest, and into WAL mode. */
static int finish_new(const struct store_file *f, const struct schema *schema, int64_t from,
                      struct err *e)
{
    char path[STORE_FILE_PATH_MAX + sizeof ".new"];
    struct db d;
    int r;

    snprintf(path, sizeof path, "%s.new", f->path);
    r = db_open(&d, path, e);
    if (r < 0)
        return r;
    r = migrate_schema(&d, schema, from, e);
    if (r >= 0)
        r = db_exec(&d, "PRAGMA journal_mode = WAL", e);
    db_close(&d);
    return r;
}

static int open_new_store(int dir, struct err *e)
{
    int fd;

    unlinkat(dir, NEW, 0);
    unlink_sides(dir, NEW);
    fd = openat(dir, NEW, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd < 0 ? err_sys(e, "making %s", NEW) : fd;
}

static int move_new(int dir, struct err *e)
{
    AUTO_CLOSE int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (renameat(dir, NEW, dir, STORE_FILE_NAME) < 0)
        return err_sys(e, "renaming %s", NEW);
    return fd < 0 || fsync(fd) < 0 ? err_sys(e, "syncing the state directory") : 0;
}

static int make_store(const struct store_file *f, int dir, const struct schema *schema,
                      struct err *e)
{
    int fd = open_new_store(dir, e), r;

    if (fd < 0)
        return fd;
    close(fd);
    r = finish_new(f, schema, 0, e);
    if (r < 0)
        return r;
    unlink_sides(dir, STORE_FILE_NAME);
    return move_new(dir, e);
}

/* Checkpoints the WAL and removes it. */
static int fold_log(const struct store_file *f, int dir, struct err *e)
{
    struct db d;
    int r = db_open(&d, f->path, e);

    if (r < 0)
        return r;
    r = db_exec(&d, "PRAGMA journal_mode = DELETE", e);
    db_close(&d);
    if (r >= 0 && is_at(dir, STORE_FILE_NAME, "-wal"))
        r = err_set(e, ERR_BUSY, "another process has the store open");
    return r;
}

/* Keeps the file as it was before its upgrade to `version`. */
static int keep_old(int dir, int version, struct err *e)
{
    char name[64];

    snprintf(name, sizeof name, "%s.before-%d", STORE_FILE_NAME, version);
    unlinkat(dir, name, 0);
    if (linkat(dir, STORE_FILE_NAME, dir, name, 0) < 0)
        return err_sys(e, "backing up the old store as %s", name);
    return 0;
}

static int copy_to_new(int dir, struct err *e)
{
    AUTO_CLOSE int from = openat(dir, STORE_FILE_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    AUTO_CLOSE int to = -1;
    ssize_t n;

    if (from < 0)
        return err_sys(e, "opening %s", STORE_FILE_NAME);
    to = open_new_store(dir, e);
    if (to < 0)
        return to;
    while ((n = copy_file_range(from, NULL, to, NULL, 1 << 30, 0)) > 0)
        ;
    return n < 0 ? err_sys(e, "copying the store") : 0;
}

static int upgrade_store(const struct store_file *f, int dir, const struct schema *schema,
                         int64_t from, struct err *e)
{
    int r = fold_log(f, dir, e);

    if (r >= 0)
        r = keep_old(dir, schema_version(schema), e);
    if (r >= 0)
        r = copy_to_new(dir, e);
    if (r >= 0)
        r = finish_new(f, schema, from, e);
    if (r >= 0)
        r = move_new(dir, e);
    return err_wrap(e, r, "upgrading the store from version %d to %d", (int)from,
                    schema_version(schema));
}

/* ---- checking */

static int64_t big_endian(const unsigned char *p)
{
    return (int64_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
}

/* Reads application id and version from the header, without SQLite, which would make files beside
 * it. The version in the header is current, because upgrades happen without a WAL. */
static int read_version(int fd, int64_t *ret, struct err *e)
{
    static const char magic[16] = "SQLite format 3";
    unsigned char head[HEADER];
    struct stat st;
    ssize_t n;

    if (fstat(fd, &st) < 0)
        return err_sys(e, "reading the header of %s", STORE_FILE_NAME);
    n = S_ISREG(st.st_mode) ? pread(fd, head, sizeof head, 0) : 0;
    if (n < 0)
        return err_sys(e, "reading %s", STORE_FILE_NAME);
    if (n < HEADER || memcmp(head, magic, sizeof magic) != 0 ||
        big_endian(head + 68) != SCHEMA_APPLICATION || big_endian(head + 60) < 1)
        return err_set(
            e, ERR_INVALID,
            "%s is not a sandboxer store, or is damaged; move it away or restore a backup",
            STORE_FILE_NAME);
    *ret = big_endian(head + 60);
    return 0;
}

/* Returns the version of the file in *ret, or 0 if it is absent. */
static int probe_store_version(int dir, const struct schema *schema, int64_t *ret, struct err *e)
{
    AUTO_CLOSE int fd =
        openat(dir, STORE_FILE_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    int64_t version = 0;
    int r;

    if (fd < 0 && errno != ENOENT)
        return err_sys(e, "opening %s", STORE_FILE_NAME);
    r = fd < 0 ? 0 : read_version(fd, &version, e);
    if (r < 0)
        return r;
    if (version > schema_version(schema))
        return err_set(
            e, ERR_UNSUPPORTED,
            "%s has version %d, but this sandboxer supports versions up to %d; use a newer one",
            STORE_FILE_NAME, (int)version, schema_version(schema));
    *ret = version;
    return 0;
}

static int check_whole_store(struct db *d, struct err *e)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(d->h, "PRAGMA quick_check(1)", -1, &st, NULL), r = 0;

    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    if (rc != SQLITE_ROW)
        r = db_fail(d, rc, e);
    else if (!str_eq(str_from((const char *)sqlite3_column_text(st, 0)), STR("ok")))
        r = err_set(e, ERR_INVALID, "the store is damaged (%.100s); restore a backup",
                    (const char *)sqlite3_column_text(st, 0));
    sqlite3_finalize(st);
    return r;
}

/* Checks the root page of every table and index, with one statement each that must read it. A table
 * WITHOUT ROWID is an index itself, which NOT INDEXED would not select. */
static int check_root_pages(struct db *d, struct err *e)
{
    static const char roots[] =
        "SELECT format('SELECT 1 FROM \"%w\" %s %s LIMIT 1', tbl_name,"
        " CASE WHEN type = 'index' THEN format('INDEXED BY \"%w\"', name)"
        " WHEN sql LIKE '%WITHOUT ROWID' THEN"
        " format('INDEXED BY \"sqlite_autoindex_%w_1\"', name) ELSE 'NOT INDEXED' END,"
        " CASE WHEN sql LIKE '% WHERE %' THEN substr(sql, instr(sql, ' WHERE ')) ELSE '' END)"
        " FROM sqlite_schema WHERE type IN ('table', 'index') AND sql IS NOT NULL";
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(d->h, roots, -1, &st, NULL), r = 0;

    while (rc == SQLITE_OK && r >= 0 && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        r = db_exec(d, (const char *)sqlite3_column_text(st, 0), e);
        rc = SQLITE_OK;
    }
    if (r >= 0 && rc != SQLITE_DONE)
        r = db_fail(d, rc, e);
    sqlite3_finalize(st);
    return r;
}

/* Opens and checks the file. On failure, removes a WAL file that it has made. */
static int open_checked_store(const struct store_file *f, int dir, struct db *ret, struct err *e)
{
    bool wal = is_at(dir, STORE_FILE_NAME, "-wal");
    int64_t pages = 0, size = 0;
    struct db d;
    int r = db_open(&d, f->path, e);

    if (r >= 0) {
        sqlite3_db_config(d.h, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        r = db_number(&d, "PRAGMA page_count", &pages, e);
        if (r >= 0)
            r = db_number(&d, "PRAGMA page_size", &size, e);
        if (r >= 0)
            r = pages * size <= STORE_FILE_CHECK_MAX ? check_whole_store(&d, e)
                                                     : check_root_pages(&d, e);
        if (r < 0)
            db_close(&d);
    }
    if (r == -(int)ERR_BUSY) /* a WAL file is that program's */
        return err_set(e, ERR_BUSY,
                       "another program has %s open; end it, and use 'sandboxer backup' for a copy "
                       "to look into",
                       STORE_FILE_NAME);
    if (r < 0) {
        if (!wal)
            unlink_at(dir, STORE_FILE_NAME, "-wal");
        return r;
    }
    /* The index of an older version, or of another program. It is unused: the connection has the
     * file's lock by now. */
    unlink_at(dir, STORE_FILE_NAME, "-shm");
    sqlite3_db_config(d.h, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    *ret = d;
    return 0;
}

static int prepare_store(const struct store_file *f, int dir, const struct schema *schema,
                         struct db *ret, struct err *e)
{
    int64_t version;
    int r = probe_store_version(dir, schema, &version, e);

    if (r < 0)
        return r;
    unlinkat(dir, STORE_FILE_COPY, 0); /* left by a process that died in a backup */
    if (version == 0) {
        r = make_store(f, dir, schema, e);
    } else if (version < schema_version(schema)) {
        struct db old;

        r = open_checked_store(f, dir, &old, e); /* do not upgrade a damaged file */
        if (r >= 0) {
            db_close(&old);
            r = upgrade_store(f, dir, schema, version, e);
        }
    }
    return r < 0 ? r : open_checked_store(f, dir, ret, e);
}

int store_file_open(struct store_file *f, int dir, const struct schema *schema, struct db *ret,
                    struct err *e)
{
    struct store_file made = { .lock = -1 };
    int r = vfs_register(e);

    vfs_path(dir, STORE_FILE_NAME, made.path);
    if (r >= 0)
        r = take_store_lock(dir, &made.lock, e);
    if (r >= 0)
        reserve_give(dir);
    if (r >= 0)
        r = prepare_store(&made, dir, schema, ret, e);
    if (r < 0) {
        store_file_close(&made);
        return r;
    }
    *f = made;
    return 0;
}

int store_file_probe(int dir, const struct schema *schema, struct err *e)
{
    int64_t version;
    int r = probe_store_version(dir, schema, &version, e);

    return r < 0 ? r : is_store_locked(dir);
}

void store_file_close(struct store_file *f)
{
    drop_fd(&f->lock);
}
