/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/store/sqlite/vfs.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

static sqlite3_vfs *base;

static int keep_path(sqlite3_vfs *v, const char *name, int cap, char *ret)
{
    return snprintf(ret, (size_t)cap, "%s", name) < cap ? SQLITE_OK : SQLITE_CANTOPEN;
}

/* With the base's own structure, because SQLite's unix VFS recognizes "unix-excl" by the name in
 * it. */
static int open_with_base(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *ret)
{
    return base->xOpen(base, name, f, flags, ret);
}

/* SQLite's default VFS, but "unix-excl" where that is "unix". */
static sqlite3_vfs *find_base(void)
{
    sqlite3_vfs *found = sqlite3_vfs_find(NULL);

    return found && strcmp(found->zName, "unix") == 0 ? sqlite3_vfs_find("unix-excl") : found;
}

/* A copy of the base, but for the name, the path and xOpen. */
int vfs_register(struct err *e)
{
    static sqlite3_vfs store_vfs;
    sqlite3_vfs *found = find_base();

    if (!found || found->iVersion < 2)
        return err_set(e, ERR_UNSUPPORTED, "SQLite has no VFS \"unix-excl\"");
    if (base == found)
        return 0;
    sqlite3_vfs_unregister(&store_vfs);
    base = found;
    store_vfs = *base;
    store_vfs.iVersion = 2;
    store_vfs.zName = VFS_NAME;
    store_vfs.xFullPathname = keep_path;
    store_vfs.xOpen = open_with_base;
    if (sqlite3_vfs_register(&store_vfs, 0) != SQLITE_OK)
        return err_set(e, ERR_BUG, "SQLite rejects the VFS of the store");
    return 0;
}

void vfs_path(int dir, const char *name, char ret[static VFS_PATH_MAX])
{
    snprintf(ret, VFS_PATH_MAX, "/proc/self/fd/%d/%s", dir, name);
}
