/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/store/sqlite/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "domain/store/sqlite/file.h"

enum { PAGES = 256, PIECE = 64 << 10 }; /* pages copied, and bytes sent, per step */

static int open_to(struct store_backup *b, const char *path, int dir, struct err *e)
{
    char copy[STORE_FILE_PATH_MAX + sizeof ".copy"];
    int r;

    b->file = openat(dir, STORE_FILE_COPY, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (b->file < 0)
        return err_sys(e, "making %s", STORE_FILE_COPY);
    snprintf(copy, sizeof copy, "%s.copy", path);
    r = db_open(&b->to, copy, e);
    return r < 0 ? r : db_exec(&b->to, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF", e);
}

static int start_backup(struct store_backup *b, const char *path, int dir, struct err *e)
{
    int r;

    b->file = -1;
    b->dir = dir;
    b->started = true;
    r = open_to(b, path, dir, e);
    if (r >= 0)
        r = db_open(&b->from, path, e);
    /* Keeps a read transaction open, so that all pieces are of the same moment. It blocks neither
     * commits nor other readers, but the WAL cannot be reset meanwhile. */
    if (r >= 0)
        r = db_exec(&b->from, "BEGIN; SELECT 1 FROM sqlite_schema LIMIT 1", e);
    if (r < 0)
        return r;
    b->copy = sqlite3_backup_init(b->to.h, "main", b->from.h, "main");
    return b->copy ? 1 : db_fail(&b->to, sqlite3_errcode(b->to.h), e);
}

static int copy_piece(struct store_backup *b, struct err *e)
{
    int rc = sqlite3_backup_step(b->copy, PAGES), end;

    if (rc == SQLITE_OK)
        return 1;
    end = sqlite3_backup_finish(take_ptr(b->copy));
    db_close(&b->from);
    if (rc == SQLITE_DONE)
        rc = end;
    if (rc != SQLITE_OK)
        return db_fail(&b->to, rc, e);
    db_close(&b->to);
    unlinkat(b->dir, STORE_FILE_COPY, 0); /* only SQLite needs the name */
    return 1;
}

static int send_piece(struct store_backup *b, int out, struct err *e)
{
    char piece[PIECE];
    ssize_t n = pread(b->file, piece, sizeof piece, b->sent);
    int r;

    if (n <= 0)
        return n < 0 ? err_sys(e, "reading the backup") : 0;
    r = err_wrap(e, write_all(out, (struct str){ piece, (size_t)n }, e), "writing the backup");
    b->sent += n;
    return r < 0 ? r : 1;
}

int backup_step(struct store_backup *b, const char *path, int dir, int out, struct err *e)
{
    if (!b->started)
        return start_backup(b, path, dir, e);
    return b->copy ? copy_piece(b, e) : send_piece(b, out, e);
}

void backup_done(struct store_backup *b)
{
    if (!b->started)
        return;
    sqlite3_backup_finish(b->copy);
    db_close(&b->from);
    db_close(&b->to);
    drop_fd(&b->file);
    unlinkat(b->dir, STORE_FILE_COPY, 0);
    *b = (struct store_backup){ 0 };
}
