/* The store's file: sandboxer.db in the state directory.
 *
 * Made and upgraded beside its place and then renamed to it, so that there is a whole file or none.
 * Looked at before anything may write to it: what is not ours, newer or damaged stays as it is. */
#ifndef STORE_FILE_H
#define STORE_FILE_H

#include "base/err.h"
#include "store/db.h"
#include "store/schema.h"
#include "store/vfs.h"

#define STORE_FILE_NAME "sandboxer.db"
#define STORE_FILE_COPY STORE_FILE_NAME ".copy" /* a backup in the making */

enum {
    STORE_FILE_PATH_MAX = VFS_PATH_MAX,
    /* Up to this size, every page is checked at the start (2 ms a megabyte). Of a larger file, only
     * that each table and index begins as it should; damage behind that is an error of the query
     * that meets it. */
    STORE_FILE_CHECK_MAX = 8 << 20,
};

struct store_file {
    int lock;                       /* holds the store for this process; -1 if not open */
    char path[STORE_FILE_PATH_MAX]; /* of the file, through the directory that it was opened in */
};

/* Locks, checks, makes or upgrades the file and opens it for writing. `dir` is borrowed until the
 * last connection is closed. */
int store_file_open(struct store_file *f, int dir, const struct schema *schema, struct db *ret,
                    struct err *e);
void store_file_close(struct store_file *f); /* after the last connection */

#endif
