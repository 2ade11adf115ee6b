/* SPDX-License-Identifier: Apache-2.0 */
/* The store's file: sandboxer.db in the state directory.
 *
 * A new or upgraded file is built under another name and then renamed, so the store is always
 * complete or absent. The file is checked before the first write: a foreign, newer or damaged file
 * is rejected and not changed.
 *
 * While it is open it belongs to the process (vfs.h), and only SQLite may open and close it: the
 * functions below read its header and copy it before they open the connection that they return.
 * Another program that has it open, even to read, keeps it from being opened: -ERR_BUSY. */
#ifndef DOMAIN_STORE_SQLITE_FILE_H
#define DOMAIN_STORE_SQLITE_FILE_H

#include "base/err.h"
#include "domain/store/sqlite/db.h"
#include "domain/store/sqlite/schema.h"
#include "domain/store/sqlite/vfs.h"

#define STORE_FILE_NAME "sandboxer.db"
#define STORE_FILE_COPY STORE_FILE_NAME ".copy" /* an unfinished backup */

enum {
    STORE_FILE_PATH_MAX = VFS_PATH_MAX,
    /* Up to this size, every page is checked at the start (2 ms per megabyte). In a larger file
     * only the root page of each table and index is checked; other damage fails the query that
     * reads it. */
    STORE_FILE_CHECK_MAX = 8 << 20,
};

struct store_file {
    int lock;                       /* descriptor of the lock file; -1 if not open */
    char path[STORE_FILE_PATH_MAX]; /* of the file, from vfs_path() */
};

/* Locks, checks, makes or upgrades the file and opens it for writing. `dir` is borrowed until the
 * last connection is closed. */
int store_file_open(struct store_file *f, int dir, const struct schema *schema, struct db *ret,
                    struct err *e);
void store_file_close(struct store_file *f); /* after the last connection */
/* See store_probe(). */
int store_file_probe(int dir, const struct schema *schema, struct err *e);

#endif
