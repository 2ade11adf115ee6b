/* SPDX-License-Identifier: Apache-2.0 */
/* Changing what is mounted where, by every door: the old calls, the new ones, and a new root. */
#include "attacks/attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h> /* not <sys/mount.h>: the two do not go together in every libc */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DETACH = 2 }; /* MNT_DETACH */

struct mount_row {
    const char *source, *target, *type;
    unsigned long flags;
    const char *data;
};

static enum verdict mount_row(const void *with)
{
    const struct mount_row *m = with;

    return refused(syscall(SYS_mount, m->source, m->target, m->type, m->flags, m->data), "mount");
}

static enum verdict umount_path(const void *with)
{
    return refused(syscall(SYS_umount2, with, DETACH), "umount2 of %s", (const char *)with);
}

static enum verdict fsopen_type(const void *with)
{
    long fs = syscall(SYS_fsopen, with, FSOPEN_CLOEXEC);

    return refused(fs, "fsopen of %s", (const char *)with);
}

static enum verdict fspick_root(const void *with)
{
    return refused(syscall(SYS_fspick, AT_FDCWD, "/", FSPICK_CLOEXEC), "fspick");
}

static enum verdict clone_tree(const void *with)
{
    return refused(
        syscall(SYS_open_tree, AT_FDCWD, with, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE),
        "open_tree of %s", (const char *)with);
}

/* move_mount first looks up both paths, so they exist. */
static enum verdict move_proc(const void *with)
{
    return refused(syscall(SYS_move_mount, AT_FDCWD, "/proc", AT_FDCWD, "/tmp", 0), "move_mount");
}

static enum verdict make_writable(const void *with)
{
    struct mount_attr attr = { .attr_clr =
                                   MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV };

    return refused(syscall(SYS_mount_setattr, AT_FDCWD, with, 0, &attr, sizeof attr),
                   "clearing ro, nosuid, nodev of %s", (const char *)with);
}

static enum verdict pivot(const void *with)
{
    if (chdir("/") < 0)
        return escaped("chdir: %s", strerror(errno));
    return refused(syscall(SYS_pivot_root, ".", "."), "pivot_root");
}

/* The old way out: a new root below, while the working directory stays above it. */
static enum verdict chroot_and_climb(const void *with)
{
    struct stat before, after;
    int r;

    if (stat("/", &before) < 0 || (mkdir("/tmp/jail", 0700) < 0 && errno != EEXIST))
        return escaped("set-up: %s", strerror(errno));
    r = chroot("/tmp/jail");
    if (r < 0)
        return refused(r, "chroot");
    for (int i = 0; i < 64; i++)
        if (chdir("..") < 0)
            break;
    rmdir("tmp/jail");
    if (stat(".", &after) == 0 && (after.st_ino != before.st_ino || after.st_dev != before.st_dev))
        return escaped("chroot worked and led to another root");
    return escaped("chroot worked");
}

static enum verdict climb(const void *with)
{
    struct stat root, top;

    if (chdir("/") < 0 || stat("/", &root) < 0)
        return escaped("set-up: %s", strerror(errno));
    for (int i = 0; i < 64; i++)
        if (chdir("..") < 0)
            return escaped("chdir: %s", strerror(errno));
    if (stat(".", &top) < 0 || top.st_ino != root.st_ino || top.st_dev != root.st_dev)
        return escaped("above / is something else");
    return held("/.. is /");
}

#define MOUNT(label, ...)                                                                          \
    {                                                                                              \
        "mounts: " label, mount_row, &(const struct mount_row){ __VA_ARGS__ }, SEEN                \
    }

static const struct attack attacks[] = {
    MOUNT("tmpfs", "none", "/tmp", "tmpfs", 0, NULL),
    MOUNT("proc", "none", "/tmp", "proc", 0, NULL),
    MOUNT("sysfs", "none", "/tmp", "sysfs", 0, NULL),
    MOUNT("devpts", "none", "/tmp", "devpts", 0, "newinstance"),
    MOUNT("mqueue", "none", "/tmp", "mqueue", 0, NULL),
    MOUNT("cgroup v2", "none", "/tmp", "cgroup2", 0, NULL),
    MOUNT("cgroup v1 (release_agent)", "none", "/tmp", "cgroup", 0, "none,name=escape"),
    MOUNT("overlay", "none", "/tmp", "overlay", 0, "lowerdir=/usr:/etc"),
    MOUNT("bind of the root", "/", "/tmp", NULL, MS_BIND, NULL),
    MOUNT("recursive bind of the root", "/", "/tmp", NULL, MS_BIND | MS_REC, NULL),
    MOUNT("move of /proc", "/proc", "/tmp", NULL, MS_MOVE, NULL),
    MOUNT("remount of /proc read-write", NULL, "/proc", NULL, MS_BIND | MS_REMOUNT, NULL),
    MOUNT("remount of / read-write", NULL, "/", NULL, MS_BIND | MS_REMOUNT, NULL),
    MOUNT("making / shared", NULL, "/", NULL, MS_SHARED, NULL),
    { "mounts: umount of /proc", umount_path, "/proc", SEEN },
    { "mounts: umount of /dev", umount_path, "/dev", SEEN },
    { "mounts: umount of the mask over /proc/kcore", umount_path, "/proc/kcore",
      UNSEEN }, /* no mask */
    { "mounts: fsopen tmpfs", fsopen_type, "tmpfs", SEEN },
    { "mounts: fsopen proc", fsopen_type, "proc", SEEN },
    { "mounts: fspick", fspick_root, NULL, SEEN },
    { "mounts: open_tree of /", clone_tree, "/", SEEN },
    { "mounts: open_tree of /proc", clone_tree, "/proc", SEEN },
    { "mounts: move_mount", move_proc, NULL, SEEN },
    { "mounts: mount_setattr of /", make_writable, "/", SEEN },
    { "mounts: mount_setattr of /proc", make_writable, "/proc", SEEN },
    { "mounts: pivot_root", pivot, NULL, SEEN },
    { "mounts: chroot and climb", chroot_and_climb, NULL, SEEN },
    { "mounts: climbing above /", climb, NULL, UNSEEN }, /* so everywhere */
};

const struct attack_group attacks_mounts = GROUP(attacks);
