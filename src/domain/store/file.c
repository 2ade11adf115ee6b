#include "store/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "store/vfs.h"

#define NEW  STORE_FILE_NAME ".new" /* in the making */
#define LOCK STORE_FILE_NAME ".lock"

enum { HEADER = 100 };

/* ---- the lock */

static int say_holder(int fd, struct err *e)
{
    struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

    if (fcntl(fd, F_GETLK, &l) == 0 && l.l_type != F_UNLCK && l.l_pid > 0)
        return err_set(e, ERR_BUSY, "the store is in use by process %d; only one daemon can be",
                       (int)l.l_pid);
    return err_set(e, ERR_BUSY, "the store is in use by another process; only one daemon can be");
}

/* A lock that belongs to the process: it ends with it, whatever children it leaves behind, and the
 * kernel knows whose it is. */
static int take_lock(int dir, int *ret, struct err *e)
{
    struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    AUTO_CLOSE int fd = openat(dir, LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return err_sys(e, "opening %s", LOCK);
    if (fcntl(fd, F_SETLK, &l) < 0) {
        if (errno == EAGAIN || errno == EACCES)
            return say_holder(fd, e);
        return err_sys(e, "locking %s", LOCK);
    }
    *ret = take_fd(&fd);
    return 0;
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

/* A log or journal that lies beside a new file would be taken for its own. */
static void unlink_sides(int dir, const char *name)
{
    unlink_at(dir, name, "-wal");
    unlink_at(dir, name, "-shm");
    unlink_at(dir, name, "-journal");
}

static int sync_dir(int dir, struct err *e)
{
    AUTO_CLOSE int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 || fsync(fd) < 0 ? err_sys(e, "syncing the state directory") : 0;
}

/* ---- making and upgrading */

static int migrate(struct db *d, const struct schema *schema, int64_t from, struct err *e)
{
    char pragmas[96];
    int r = db_exec(d, "BEGIN IMMEDIATE", e);

    for (size_t i = 0; r >= 0 && i < schema->n; i++)
        if (schema->migrations[i].number > from)
            r = err_wrap(e, db_exec(d, schema->migrations[i].sql, e), "change %d of the schema",
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
    r = migrate(&d, schema, from, e);
    if (r >= 0)
        r = db_exec(&d, "PRAGMA journal_mode = WAL", e);
    db_close(&d);
    return r;
}

static int open_new(int dir, struct err *e)
{
    int fd;

    unlinkat(dir, NEW, 0);
    unlink_sides(dir, NEW);
    fd = openat(dir, NEW, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd < 0 ? err_sys(e, "making %s", NEW) : fd;
}

static int move_new(int dir, struct err *e)
{
    if (renameat(dir, NEW, dir, STORE_FILE_NAME) < 0)
        return err_sys(e, "renaming %s", NEW);
    return sync_dir(dir, e);
}

static int make(const struct store_file *f, int dir, const struct schema *schema, struct err *e)
{
    int fd = open_new(dir, e), r;

    if (fd < 0)
        return fd;
    close(fd);
    r = finish_new(f, schema, 0, e);
    if (r < 0)
        return r;
    unlink_sides(dir, STORE_FILE_NAME);
    return move_new(dir, e);
}

/* Writes everything into the one file: no log beside it afterwards. */
static int settle_log(const struct store_file *f, int dir, struct err *e)
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

/* The file as it was before it became `version` stays. */
static int keep_old(int dir, int version, struct err *e)
{
    char name[64];

    snprintf(name, sizeof name, "%s.before-%d", STORE_FILE_NAME, version);
    unlinkat(dir, name, 0);
    if (linkat(dir, STORE_FILE_NAME, dir, name, 0) < 0)
        return err_sys(e, "keeping the old store as %s", name);
    return 0;
}

static int copy_all(int from, int to, struct err *e)
{
    ssize_t n;

    while ((n = copy_file_range(from, NULL, to, NULL, 1 << 30, 0)) > 0)
        ;
    return n < 0 ? err_sys(e, "copying the store") : 0;
}

static int copy_to_new(int dir, struct err *e)
{
    AUTO_CLOSE int from = openat(dir, STORE_FILE_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    AUTO_CLOSE int to = -1;

    if (from < 0)
        return err_sys(e, "opening %s", STORE_FILE_NAME);
    to = open_new(dir, e);
    return to < 0 ? to : copy_all(from, to, e);
}

static int upgrade(const struct store_file *f, int dir, const struct schema *schema, int64_t from,
                   struct err *e)
{
    int r = settle_log(f, dir, e);

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

/* Reads id and version from the header, without SQLite, which would begin by writing beside it. The
 * version is never only in the log: it changes in files that have none. */
static int read_version(int fd, int64_t *ret, struct err *e)
{
    static const char magic[16] = "SQLite format 3";
    unsigned char head[HEADER];
    struct stat st;
    ssize_t n;

    if (fstat(fd, &st) < 0)
        return err_sys(e, "looking at %s", STORE_FILE_NAME);
    n = S_ISREG(st.st_mode) ? pread(fd, head, sizeof head, 0) : 0;
    if (n < 0)
        return err_sys(e, "reading %s", STORE_FILE_NAME);
    if (n < HEADER || memcmp(head, magic, sizeof magic) != 0 ||
        big_endian(head + 68) != SCHEMA_APPLICATION || big_endian(head + 60) < 1)
        return err_set(e, ERR_INVALID,
                       "%s is no store of sandboxer, or damaged; move it away or restore a backup",
                       STORE_FILE_NAME);
    *ret = big_endian(head + 60);
    return 0;
}

/* The version of the file that is there; 0 if there is none. */
static int look(int dir, const struct schema *schema, int64_t *ret, struct err *e)
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
        return err_set(e, ERR_UNSUPPORTED,
                       "%s has version %d and this sandboxer knows up to %d; use a newer one",
                       STORE_FILE_NAME, (int)version, schema_version(schema));
    *ret = version;
    return 0;
}

static int check_all(struct db *d, struct err *e)
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

/* The first page of every table and index, by a statement for each that cannot do without it. A
 * table WITHOUT ROWID is an index itself, which NOT INDEXED does not mean. */
static int check_roots(struct db *d, struct err *e)
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

static int check(struct db *d, struct err *e)
{
    int64_t pages = 0, size = 0;
    int r = db_number(d, "PRAGMA page_count", &pages, e);

    if (r >= 0)
        r = db_number(d, "PRAGMA page_size", &size, e);
    if (r < 0)
        return r;
    return pages * size <= STORE_FILE_CHECK_MAX ? check_all(d, e) : check_roots(d, e);
}

/* Opens the file and checks it; one that is refused is left with nothing that was not there. */
static int open_checked(const struct store_file *f, int dir, struct db *ret, struct err *e)
{
    bool wal = is_at(dir, STORE_FILE_NAME, "-wal"), shm = is_at(dir, STORE_FILE_NAME, "-shm");
    struct db d;
    int r = db_open(&d, f->path, e);

    if (r >= 0) {
        sqlite3_db_config(d.h, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        r = check(&d, e);
        if (r < 0)
            db_close(&d);
    }
    if (r < 0) {
        if (!wal)
            unlink_at(dir, STORE_FILE_NAME, "-wal");
        if (!shm)
            unlink_at(dir, STORE_FILE_NAME, "-shm");
        return r;
    }
    sqlite3_db_config(d.h, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    *ret = d;
    return 0;
}

static int prepare(const struct store_file *f, int dir, const struct schema *schema, struct db *ret,
                   struct err *e)
{
    int64_t version;
    int r = look(dir, schema, &version, e);

    if (r < 0)
        return r;
    unlinkat(dir, STORE_FILE_COPY, 0); /* of one that died in a backup */
    if (version == 0) {
        r = make(f, dir, schema, e);
    } else if (version < schema_version(schema)) {
        struct db old;

        r = open_checked(f, dir, &old, e); /* a damaged one is not copied around */
        if (r >= 0) {
            db_close(&old);
            r = upgrade(f, dir, schema, version, e);
        }
    }
    return r < 0 ? r : open_checked(f, dir, ret, e);
}

int store_file_open(struct store_file *f, int dir, const struct schema *schema, struct db *ret,
                    struct err *e)
{
    struct store_file made = { .lock = -1 };
    int r = vfs_register(e);

    vfs_path(dir, STORE_FILE_NAME, made.path);
    if (r >= 0)
        r = take_lock(dir, &made.lock, e);
    if (r >= 0)
        r = prepare(&made, dir, schema, ret, e);
    if (r < 0) {
        store_file_close(&made);
        return r;
    }
    *f = made;
    return 0;
}

void store_file_close(struct store_file *f)
{
    drop_fd(&f->lock);
}
