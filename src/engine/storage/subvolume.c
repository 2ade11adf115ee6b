/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/storage/subvolume.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"

enum { SUBVOLUME_INODE = 256 }; /* of the root of every subvolume */

/* Uses syscall(), because the two C libraries differ in the type of `what`. */
int subvolume_ioctl(int fd, unsigned long what, void *args)
{
    return (int)syscall(SYS_ioctl, fd, what, args);
}

bool subvolume_possible(int dir)
{
    struct statfs fs;

    return fstatfs(dir, &fs) == 0 && (uint32_t)fs.f_type == BTRFS_SUPER_MAGIC;
}

bool subvolume_is(int dir)
{
    struct stat st;

    return fstat(dir, &st) == 0 && st.st_ino == SUBVOLUME_INODE && subvolume_possible(dir);
}

/* A call on a name in `parent`: 1 and errno if the kernel refuses it. */
static int call_for_name(int parent, unsigned long what, int dir, const char *name, struct err *e)
{
    struct btrfs_ioctl_vol_args args = { .fd = dir };

    if (!str_copy(str_from(name), args.name, sizeof args.name))
        return err_set(e, ERR_TOO_BIG, "%.80s…: the name of a subvolume has more than %zu bytes",
                       name, sizeof args.name - 1);
    return subvolume_ioctl(parent, what, &args) < 0;
}

int subvolume_make(int parent, const char *name, struct err *e)
{
    int r = call_for_name(parent, BTRFS_IOC_SUBVOL_CREATE, 0, name, e);

    return r > 0 ? err_sys(e, "creating the subvolume %s", name) : r;
}

int subvolume_snapshot(int dir, int parent, const char *name, struct err *e)
{
    int r = call_for_name(parent, BTRFS_IOC_SNAP_CREATE, dir, name, e);

    return r > 0 ? err_sys(e, "creating a snapshot") : r;
}

int subvolume_limit(int dir, uint64_t bytes, struct err *e)
{
    return subvolume_limit_tree(dir, 0, bytes, e);
}

int subvolume_limit_tree(int dir, uint64_t tree, uint64_t bytes, struct err *e)
{
    struct btrfs_ioctl_qgroup_limit_args args = {
        .qgroupid = tree, .lim = { .flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = bytes }
    };

    if (subvolume_ioctl(dir, BTRFS_IOC_QGROUP_LIMIT, &args) == 0)
        return 0;
    if (errno == ENOTCONN || errno == ENOENT || errno == EINVAL)
        return err_set(
            e, ERR_UNSUPPORTED,
            "quotas are not enabled on this btrfs file system: run 'btrfs quota enable'");
    if (errno == EPERM)
        return err_set(e, ERR_UNSUPPORTED, "only root can set btrfs quotas");
    return err_sys(e, "limiting a subvolume");
}

/* The directory of the file system below /sys. Returns its length; 0 if it is not btrfs. */
static size_t name_sysfs_dir(int dir, char *path, size_t cap)
{
    struct btrfs_ioctl_fs_info_args fs = { 0 };
    size_t at;

    if (subvolume_ioctl(dir, BTRFS_IOC_FS_INFO, &fs) < 0)
        return 0;
    at = (size_t)snprintf(path, cap, "fs/btrfs/");
    for (size_t i = 0; i < sizeof fs.fsid; i++) /* written as a UUID */
        at += (size_t)snprintf(path + at, cap - at, "%s%02x",
                               i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", fs.fsid[i]);
    return at;
}

int subvolume_open_sysfs(int sys, int dir, const char *file, int flags)
{
    char path[192];
    size_t at = name_sysfs_dir(dir, path, sizeof path);

    if (!at) {
        errno = ENOENT;
        return -1;
    }
    snprintf(path + at, sizeof path - at, "/%s", file);
    return openat(sys, path, flags | O_NOFOLLOW | O_CLOEXEC);
}

int subvolume_tree(int dir, uint64_t *ret)
{
    struct btrfs_ioctl_ino_lookup_args tree = { .objectid = BTRFS_FIRST_FREE_OBJECTID };

    if (subvolume_ioctl(dir, BTRFS_IOC_INO_LOOKUP, &tree) < 0)
        return -1;
    *ret = tree.treeid;
    return 0;
}

static void open_sysfs_files(int sys, const char *dir, const char *const *names, size_t n, int *ret)
{
    char file[160];

    for (size_t i = 0; i < n; i++) {
        snprintf(file, sizeof file, "%s/%s", dir, names[i]);
        ret[i] = dir[0] ? openat(sys, file, O_RDONLY | O_CLOEXEC) : -1;
    }
}

/* Directories and files of qgroups are in sysfs since Linux 5.9. */
void subvolume_open_counters(int sys, int dir, int ret[static SUBVOLUME_COUNTERS])
{
    static const char *const names[SUBVOLUME_COUNTERS] = { "referenced", "rsv_data" };
    char path[128] = "";
    uint64_t tree;
    size_t at = subvolume_tree(dir, &tree) < 0 ? 0 : name_sysfs_dir(dir, path, sizeof path);

    if (at)
        snprintf(path + at, sizeof path - at, "/qgroups/0_%llu", (unsigned long long)tree);
    open_sysfs_files(sys, path, names, SUBVOLUME_COUNTERS, ret);
}

void subvolume_open_pending(int sys, int dir, int ret[static SUBVOLUME_PENDING])
{
    static const char *const names[SUBVOLUME_PENDING] = { "bytes_may_use", "bytes_reserved",
                                                          "bytes_pinned" };
    char path[128] = "";
    size_t at = name_sysfs_dir(dir, path, sizeof path);

    if (at)
        snprintf(path + at, sizeof path - at, "/allocation/data");
    open_sysfs_files(sys, path, names, SUBVOLUME_PENDING, ret);
}

int subvolume_remove(int parent, const char *name, struct err *e)
{
    int r = call_for_name(parent, BTRFS_IOC_SNAP_DESTROY, 0, name, e);

    if (r <= 0)
        return r;
    if (errno == EPERM || errno == EACCES)
        return err_set(e, ERR_DENIED, "only root can remove subvolumes on this file system");
    return err_sys(e, "removing the subvolume %s", name);
}

static void unlock_nested(int dir, int depth)
{
    struct btrfs_ioctl_get_subvol_rootref_args found = { 0 };
    int r;

    do {
        r = subvolume_ioctl(dir, BTRFS_IOC_GET_SUBVOL_ROOTREF, &found);
        if (r < 0 && errno != EOVERFLOW) /* which means that there are more */
            return;
        for (size_t i = 0; i < found.num_items; i++) {
            struct btrfs_ioctl_ino_lookup_user_args at = { .dirid = found.rootref[i].dirid,
                                                           .treeid = found.rootref[i].treeid };
            AUTO_CLOSE int above = -1, nested = -1;
            uint64_t writable = 0;

            if (subvolume_ioctl(dir, BTRFS_IOC_INO_LOOKUP_USER, &at) < 0)
                continue;
            above = openat(dir, at.path[0] ? at.path : ".",
                           O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            nested = openat(above, at.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (above < 0 || nested < 0)
                continue;
            (void)subvolume_ioctl(nested, BTRFS_IOC_SUBVOL_SETFLAGS, &writable);
            if (depth > 0)
                unlock_nested(nested, depth - 1);
        }
    } while (r < 0);
}

void subvolume_unlock_nested(int dir)
{
    enum { DEPTH_MAX = 32 };

    unlock_nested(dir, DEPTH_MAX);
}

int subvolume_enable_quota(int dir, struct err *e)
{
    struct btrfs_ioctl_quota_ctl_args args = { .cmd = BTRFS_QUOTA_CTL_ENABLE };

    return subvolume_ioctl(dir, BTRFS_IOC_QUOTA_CTL, &args) < 0 ? err_sys(e, "enabling quotas") : 0;
}
