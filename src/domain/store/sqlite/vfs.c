/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/store/sqlite/vfs.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

static int keep_path(sqlite3_vfs *v, const char *name, int cap, char *ret)
{
    return snprintf(ret, (size_t)cap, "%s", name) < cap ? SQLITE_OK : SQLITE_CANTOPEN;
}

/* A copy of the base, but for the name and the path. */
int vfs_register(struct err *e)
{
    static const sqlite3_vfs *base;
    static sqlite3_vfs store_vfs;
    const sqlite3_vfs *found = sqlite3_vfs_find(NULL);

    if (!found || found->iVersion < 2)
        return err_set(e, ERR_UNSUPPORTED, "SQLite has no default VFS");
    if (base == found)
        return 0;
    sqlite3_vfs_unregister(&store_vfs);
    base = found;
    store_vfs = *base;
    store_vfs.iVersion = 2;
    store_vfs.zName = VFS_NAME;
    store_vfs.xFullPathname = keep_path;
    if (sqlite3_vfs_register(&store_vfs, 0) != SQLITE_OK)
        return err_set(e, ERR_BUG, "SQLite rejects the VFS of the store");
    return 0;
}

void vfs_path(int dir, const char *name, char ret[static VFS_PATH_MAX])
{
    snprintf(ret, VFS_PATH_MAX, "/proc/self/fd/%d/%s", dir, name);
}
