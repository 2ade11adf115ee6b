#include "uppers/subvolume.h"

#include <errno.h>
#include <linux/btrfs.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"

enum { SUBVOLUME_INODE = 256 }; /* of the top of every subvolume */

/* A system call, because the two C libraries differ on the type of `what`. */
static int ask(int fd, unsigned long what, void *args)
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

static int name_it(const char *name, char *room, size_t cap, struct err *e)
{
    return str_copy(str_from(name), room, cap)
               ? 0
               : err_set(e, ERR_TOO_BIG, "the name of a subvolume is too long");
}

int subvolume_make(int parent, const char *name, struct err *e)
{
    struct btrfs_ioctl_vol_args args = { 0 };
    int r = name_it(name, args.name, sizeof args.name, e);

    if (r < 0)
        return r;
    return ask(parent, BTRFS_IOC_SUBVOL_CREATE, &args) < 0
               ? err_sys(e, "making the subvolume %s", name)
               : 0;
}

int subvolume_snapshot(int dir, int parent, const char *name, struct err *e)
{
    struct btrfs_ioctl_vol_args args = { .fd = dir };
    int r = name_it(name, args.name, sizeof args.name, e);

    if (r < 0)
        return r;
    return ask(parent, BTRFS_IOC_SNAP_CREATE, &args) < 0 ? err_sys(e, "making a snapshot") : 0;
}

int subvolume_limit(int dir, uint64_t bytes, struct err *e)
{
    struct btrfs_ioctl_qgroup_limit_args args = { .lim = { .flags = BTRFS_QGROUP_LIMIT_MAX_RFER,
                                                           .max_rfer = bytes } };

    if (ask(dir, BTRFS_IOC_QGROUP_LIMIT, &args) == 0)
        return 0;
    if (errno == ENOTCONN || errno == ENOENT || errno == EINVAL)
        return err_set(e, ERR_UNSUPPORTED,
                       "quotas are not enabled on this btrfs: 'btrfs quota enable' does it");
    if (errno == EPERM)
        return err_set(e, ERR_UNSUPPORTED, "only root sets quotas of btrfs");
    return err_sys(e, "limiting a subvolume");
}

int subvolume_remove(int parent, const char *name, struct err *e)
{
    struct btrfs_ioctl_vol_args args = { 0 };
    int r = name_it(name, args.name, sizeof args.name, e);

    if (r < 0)
        return r;
    if (ask(parent, BTRFS_IOC_SNAP_DESTROY, &args) == 0)
        return 0;
    if (errno == EPERM || errno == EACCES)
        return err_set(e, ERR_DENIED, "only root removes subvolumes here");
    return err_sys(e, "removing the subvolume %s", name);
}

int subvolume_enable_quota(int dir, struct err *e)
{
    struct btrfs_ioctl_quota_ctl_args args = { .cmd = BTRFS_QUOTA_CTL_ENABLE };

    return ask(dir, BTRFS_IOC_QUOTA_CTL, &args) < 0 ? err_sys(e, "enabling quotas") : 0;
}
