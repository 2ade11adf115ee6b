/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/storage/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/proc/sys.h"

/* A full disk allows no attempt: the type of the file system decides. */
static bool is_full_of_clones(int dir)
{
    struct statfs fs;

    return (errno == ENOSPC || errno == EDQUOT) && fstatfs(dir, &fs) == 0 &&
           (fs.f_type == XFS_SUPER_MAGIC || fs.f_type == BTRFS_SUPER_MAGIC);
}

int probe_reflink(int dir, struct err *e)
{
    AUTO_CLOSE int from = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    AUTO_CLOSE int to = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    static const char block[4096];
    bool written =
        from >= 0 && to >= 0 && write(from, block, sizeof block) == (ssize_t)sizeof block;

    if (!written && is_full_of_clones(dir))
        return 0;
    if (!written)
        return err_set(e, ERR_UNSUPPORTED, "its file system does not support reflinks");
    if (ioctl(to, FICLONE, from) < 0 && !is_full_of_clones(dir))
        return err_set(e, ERR_UNSUPPORTED,
                       "its file system does not support reflinks (xfs and btrfs do): %s",
                       strerror(errno));
    return 0;
}

/* --- overlayfs --- */

static int write_proc_file(const char *path, const char *text)
{
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);

    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

/* A plain user first becomes root of its own user namespace, like its launcher. */
static int enter_namespaces(void)
{
    unsigned uid = geteuid(), gid = getegid();
    char map[32];

    if (uid == 0)
        return unshare(CLONE_NEWNS);
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 ||
        write_proc_file("/proc/self/setgroups", "deny") < 0)
        return -1;
    snprintf(map, sizeof map, "0 %u 1", uid);
    if (write_proc_file("/proc/self/uid_map", map) < 0)
        return -1;
    snprintf(map, sizeof map, "0 %u 1", gid);
    return write_proc_file("/proc/self/gid_map", map);
}

static int try_overlay_mount(int dir)
{
    static const char *const options[][2] = { { "lowerdir", "lower" },
                                              { "upperdir", "upper" },
                                              { "workdir", "work" },
                                              { "userxattr", NULL } };
    AUTO_CLOSE int fs = -1;

    if (fchdir(dir) < 0 || enter_namespaces() < 0) /* in this order: the directory stays
                                                      accessible */
        return errno;
    for (size_t i = 0; i < 3; i++)
        if (mkdir(options[i][1], 0755) < 0 && errno != EEXIST)
            return errno;
    fs = sys_fsopen("overlay");
    if (fs < 0)
        return errno;
    for (size_t i = 0; i < COUNT_OF(options); i++)
        if (sys_fsconfig(fs, options[i][1] ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, options[i][0],
                         options[i][1], 0) < 0)
            return errno;
    return sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0 ? errno : 0;
}

int probe_overlay(int dir, struct err *e)
{
    static const char *const made[] = { "lower", "upper", "work/work", "work" };
    struct statfs fs;
    int status = 0;
    pid_t pid;

    if (fstatfs(dir, &fs) == 0 && (uint32_t)fs.f_type == OVERLAYFS_SUPER_MAGIC)
        return err_set(e, ERR_UNSUPPORTED,
                       "it is on overlayfs (a container's root?), which cannot be nested: put the "
                       "state directory on a volume");
    pid = fork();
    if (pid == 0)
        _exit(try_overlay_mount(dir));
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return err_sys(e, "testing overlayfs");
    for (size_t i = 0; i < COUNT_OF(made); i++)
        unlinkat(dir, made[i], AT_REMOVEDIR);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return err_set(e, ERR_UNSUPPORTED,
                   "overlayfs does not support its file system as upper layer: %s",
                   strerror(WIFEXITED(status) ? WEXITSTATUS(status) : EIO));
}
