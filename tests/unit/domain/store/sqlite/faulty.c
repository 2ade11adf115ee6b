/* SPDX-License-Identifier: Apache-2.0 */
#include "faulty.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "base/own.h"
#include "harness/tap.h"

struct faulty_file {
    sqlite3_file base;
    sqlite3_file *real;
    bool database;
};

static sqlite3_vfs *real_vfs;
static sqlite3_vfs vfs;
static atomic_int kind, calls, first, times_left, failed;
/* Which calls count. */
enum { OF_FILES = 1, OF_DATABASE = 2, OF_SYNC = 4 };
static atomic_uint counted;

static bool due(unsigned of)
{
    int n;

    if (!(atomic_load(&counted) & of))
        return false;
    n = atomic_fetch_add(&calls, 1) + 1;
    if (atomic_load(&kind) == FAULT_NONE || n < atomic_load(&first))
        return false;
    if (atomic_fetch_sub(&times_left, 1) <= 0)
        return false;
    atomic_fetch_add(&failed, 1);
    return true;
}

static int fault(int io)
{
    return atomic_load(&kind) == FAULT_FULL ? SQLITE_FULL : io;
}

static unsigned place(sqlite3_file *f)
{
    return container_of(f, struct faulty_file, base)->database ? OF_DATABASE : OF_FILES;
}

static bool due_on(sqlite3_file *f)
{
    return due(place(f));
}

static sqlite3_file *real(sqlite3_file *f)
{
    return container_of(f, struct faulty_file, base)->real;
}

static int f_close(sqlite3_file *f)
{
    sqlite3_file *r = real(f);
    int rc = r->pMethods ? r->pMethods->xClose(r) : SQLITE_OK;

    sqlite3_free(r);
    return rc;
}

static int f_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
    return real(f)->pMethods->xRead(real(f), p, n, at);
}

static int f_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    return due_on(f) ? fault(SQLITE_IOERR_WRITE) : real(f)->pMethods->xWrite(real(f), p, n, at);
}

static int f_truncate(sqlite3_file *f, sqlite3_int64 n)
{
    return due_on(f) ? SQLITE_IOERR_TRUNCATE : real(f)->pMethods->xTruncate(real(f), n);
}

static int f_sync(sqlite3_file *f, int flags)
{
    return due(place(f) | OF_SYNC) ? fault(SQLITE_IOERR_FSYNC)
                                   : real(f)->pMethods->xSync(real(f), flags);
}

static int f_size(sqlite3_file *f, sqlite3_int64 *n)
{
    return real(f)->pMethods->xFileSize(real(f), n);
}

static int f_lock(sqlite3_file *f, int l)
{
    return real(f)->pMethods->xLock(real(f), l);
}

static int f_unlock(sqlite3_file *f, int l)
{
    return real(f)->pMethods->xUnlock(real(f), l);
}

static int f_reserved(sqlite3_file *f, int *ret)
{
    return real(f)->pMethods->xCheckReservedLock(real(f), ret);
}

static int f_control(sqlite3_file *f, int op, void *arg)
{
    return real(f)->pMethods->xFileControl(real(f), op, arg);
}

static int f_sector(sqlite3_file *f)
{
    return real(f)->pMethods->xSectorSize(real(f));
}

static int f_device(sqlite3_file *f)
{
    return real(f)->pMethods->xDeviceCharacteristics(real(f));
}

static int f_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **ret)
{
    if (extend && due(OF_FILES))
        return SQLITE_IOERR_SHMSIZE;
    return real(f)->pMethods->xShmMap(real(f), page, size, extend, ret);
}

static int f_shm_lock(sqlite3_file *f, int at, int n, int flags)
{
    return real(f)->pMethods->xShmLock(real(f), at, n, flags);
}

static void f_shm_barrier(sqlite3_file *f)
{
    real(f)->pMethods->xShmBarrier(real(f));
}

static int f_shm_unmap(sqlite3_file *f, int del)
{
    return real(f)->pMethods->xShmUnmap(real(f), del);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = f_close,
    .xRead = f_read,
    .xWrite = f_write,
    .xTruncate = f_truncate,
    .xSync = f_sync,
    .xFileSize = f_size,
    .xLock = f_lock,
    .xUnlock = f_unlock,
    .xCheckReservedLock = f_reserved,
    .xFileControl = f_control,
    .xSectorSize = f_sector,
    .xDeviceCharacteristics = f_device,
    .xShmMap = f_shm_map,
    .xShmLock = f_shm_lock,
    .xShmBarrier = f_shm_barrier,
    .xShmUnmap = f_shm_unmap,
};

static int v_open(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *ret_flags)
{
    struct faulty_file *x = container_of(f, struct faulty_file, base);
    int rc;

    f->pMethods = NULL;
    if (due(OF_FILES))
        return SQLITE_CANTOPEN;
    x->database = flags & SQLITE_OPEN_MAIN_DB;
    x->real = sqlite3_malloc(real_vfs->szOsFile);
    memset(x->real, 0, (size_t)real_vfs->szOsFile);
    rc = real_vfs->xOpen(real_vfs, name, x->real, flags, ret_flags);
    if (rc == SQLITE_OK)
        f->pMethods = &methods;
    else
        sqlite3_free(x->real);
    return rc;
}

static int v_delete(sqlite3_vfs *v, const char *name, int sync)
{
    return due(OF_FILES) ? SQLITE_IOERR_DELETE : real_vfs->xDelete(real_vfs, name, sync);
}

void faulty_install(void)
{
    real_vfs = sqlite3_vfs_find("unix-excl"); /* as the store has it */
    vfs = *real_vfs;
    vfs.zName = "faulty";
    vfs.szOsFile = sizeof(struct faulty_file);
    vfs.xOpen = v_open;
    vfs.xDelete = v_delete;
    CHECK_INT(sqlite3_vfs_register(&vfs, 1), SQLITE_OK);
}

static void arm(enum fault f, int n, int times, unsigned of)
{
    atomic_store(&kind, FAULT_NONE);
    atomic_store(&counted, of);
    atomic_store(&calls, 0);
    atomic_store(&failed, 0);
    atomic_store(&first, n);
    atomic_store(&times_left, times);
    atomic_store(&kind, (int)f);
}

void faulty_arm(enum fault f, int n, int times)
{
    arm(f, n, times, OF_FILES | OF_DATABASE);
}

void faulty_arm_database(enum fault f, int n, int times)
{
    arm(f, n, times, OF_DATABASE);
}

void faulty_arm_sync(enum fault f, int n, int times)
{
    arm(f, n, times, OF_SYNC);
}

int faulty_failed(void)
{
    return atomic_load(&failed);
}

int faulty_calls(void)
{
    return atomic_load(&calls);
}
