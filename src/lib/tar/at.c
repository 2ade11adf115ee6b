/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/tar/at.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "lib/proc/sys.h"
#include "lib/tar/tree.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452 /* Linux 6.6; the same number everywhere */
#endif

static int open_beneath(int dir, const char *path, int flags, mode_t mode, uint64_t resolve)
{
    int fd = -1;

    /* The kernel returns EAGAIN if a concurrent rename prevented a safe resolution. */
    for (int i = 0; i < TREE_RACES_MAX; i++) {
        fd = sys_openat2(dir, path, (uint64_t)(unsigned)flags, mode,
                         RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | resolve);
        if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
            break;
    }
    return fd;
}

int at_open(int dir, const char *path, int flags, mode_t mode)
{
    return open_beneath(dir, path, flags, mode, 0);
}

int at_open_here(int dir, const char *path, int flags)
{
    return open_beneath(dir, path, flags, 0, RESOLVE_NO_XDEV);
}

/* As fchmod(), but on an O_PATH descriptor, which fchmod() refuses. */
static int chmod_path(int fd, mode_t mode)
{
    char link[32];

    if (syscall(SYS_fchmodat2, fd, "", mode, AT_EMPTY_PATH) == 0)
        return 0;
    if (errno != ENOSYS && errno != EPERM) /* EPERM: also from an older seccomp filter */
        return -1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return chmod(link, mode);
}

static int unlock_dir(int dir, const char *path, uint64_t resolve)
{
    AUTO_CLOSE int fd = open_beneath(dir, path, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, resolve);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -1;
    return chmod_path(fd, (st.st_mode & 07777) | S_IRWXU);
}

int at_open_dir(int dir, const char *path, bool same_fs)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
    uint64_t resolve = same_fs ? RESOLVE_NO_XDEV : 0;
    int fd = open_beneath(dir, path, flags, 0, resolve);
    struct stat st;

    if (fd < 0 && errno == EACCES) {
        if (unlock_dir(dir, path, resolve) < 0) {
            errno = EACCES;
            return -1;
        }
        return open_beneath(dir, path, flags, 0, resolve);
    }
    if (fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & S_IRWXU) != S_IRWXU)
        (void)fchmod(fd, (st.st_mode & 07777) | S_IRWXU); /* best effort: the next call fails */
    return fd;
}

int at_clear(int dir, const char *name)
{
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR)
        return -1;
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    return -1;
}

int at_open_unseen(int dir, const char *path, int flags)
{
    int fd = at_open(dir, path, O_RDONLY | O_NOATIME | flags, 0);

    return fd < 0 && errno == EPERM ? at_open(dir, path, O_RDONLY | flags, 0) : fd;
}

int at_write(int fd, const void *p, size_t n, struct err *e)
{
    return write_all(fd, (struct str){ p, n }, e);
}

int at_error(struct err *e, const char *doing)
{
    if (errno == ELOOP)
        return err_set(e, ERR_DENIED, "%s: the path leads through a symbolic link", doing);
    if (errno == ENOENT)
        return err_set(e, ERR_NOT_FOUND, "%s: there is no such file or directory", doing);
    return err_sys(e, "%s", doing);
}
