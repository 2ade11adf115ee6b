/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/store/vfs.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

static sqlite3_vfs *find_base(sqlite3_vfs *v)
{
    return v->pAppData;
}

static int open_vfs_file(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags,
                         int *ret_flags)
{
    return find_base(v)->xOpen(find_base(v), name, f, flags, ret_flags);
}

static int delete_vfs_file(sqlite3_vfs *v, const char *name, int sync)
{
    return find_base(v)->xDelete(find_base(v), name, sync);
}

static int check_access(sqlite3_vfs *v, const char *name, int flags, int *ret)
{
    return find_base(v)->xAccess(find_base(v), name, flags, ret);
}

static int keep_path(sqlite3_vfs *v, const char *name, int cap, char *ret)
{
    return snprintf(ret, (size_t)cap, "%s", name) < cap ? SQLITE_OK : SQLITE_CANTOPEN;
}

static int draw_random(sqlite3_vfs *v, int n, char *ret)
{
    return find_base(v)->xRandomness(find_base(v), n, ret);
}

static int sleep_us(sqlite3_vfs *v, int us)
{
    return find_base(v)->xSleep(find_base(v), us);
}

static int read_clock(sqlite3_vfs *v, double *ret)
{
    return find_base(v)->xCurrentTime(find_base(v), ret);
}

static int read_clock_ms(sqlite3_vfs *v, sqlite3_int64 *ret)
{
    return find_base(v)->xCurrentTimeInt64(find_base(v), ret);
}

static int find_last_error(sqlite3_vfs *v, int n, char *ret)
{
    return find_base(v)->xGetLastError(find_base(v), n, ret);
}

int vfs_register(struct err *e)
{
    static sqlite3_vfs store_vfs = { .iVersion = 2,
                                     .zName = VFS_NAME,
                                     .xOpen = open_vfs_file,
                                     .xDelete = delete_vfs_file,
                                     .xAccess = check_access,
                                     .xFullPathname = keep_path,
                                     .xRandomness = draw_random,
                                     .xSleep = sleep_us,
                                     .xCurrentTime = read_clock,
                                     .xCurrentTimeInt64 = read_clock_ms,
                                     .xGetLastError = find_last_error };
    sqlite3_vfs *base = sqlite3_vfs_find(NULL);

    if (!base || base->iVersion < 2)
        return err_set(e, ERR_UNSUPPORTED, "SQLite has no default VFS");
    if (store_vfs.pAppData == base)
        return 0;
    store_vfs.pAppData = base;
    store_vfs.szOsFile = base->szOsFile;
    store_vfs.mxPathname = base->mxPathname;
    if (sqlite3_vfs_register(&store_vfs, 0) != SQLITE_OK)
        return err_set(e, ERR_BUG, "SQLite rejects the VFS of the store");
    return 0;
}

void vfs_path(int dir, const char *name, char ret[static VFS_PATH_MAX])
{
    snprintf(ret, VFS_PATH_MAX, "/proc/self/fd/%d/%s", dir, name);
}
