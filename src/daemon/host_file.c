/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/host_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/id.h"
#include "base/io.h"
#include "base/own.h"

int host_file_read(int fd, struct host_file *ret, struct err *e)
{
    struct statx st = { 0 };

    if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &st) < 0)
        return err_sys(e, "reading the attributes of a granted file");
    *ret = (struct host_file){ .inode = st.stx_ino,
                               .device = (uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor,
                               .has_birth = (st.stx_mask & STATX_BTIME) != 0,
                               .uid = st.stx_uid,
                               .mode = st.stx_mode };
    if (ret->has_birth) {
        ret->birth_s = st.stx_btime.tv_sec;
        ret->birth_ns = st.stx_btime.tv_nsec;
    }
    return 0;
}

bool host_file_same(const struct host_file *a, const struct host_file *b)
{
    return a->inode == b->inode && a->has_birth == b->has_birth &&
           (a->has_birth ? a->birth_s == b->birth_s && a->birth_ns == b->birth_ns
                         : a->device == b->device);
}

int host_file_path(int fd, char ret[static HOST_FILE_PATH_MAX], struct err *e)
{
    static const char gone[] = " (deleted)";
    char link[32];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, ret, HOST_FILE_PATH_MAX - 1);
    if (n < 0)
        return err_sys(e, "finding the path of a granted file");
    ret[n] = 0;
    if (n == HOST_FILE_PATH_MAX - 1)
        return err_set(e, ERR_TOO_BIG, "%.100s…: the path has more than %d bytes", ret,
                       HOST_FILE_PATH_MAX - 2);
    if (ret[0] != '/' ||
        (n >= (ssize_t)sizeof gone && strcmp(ret + n - (sizeof gone - 1), gone) == 0))
        return err_set(e, ERR_INVALID, "%.200s cannot be found by its path", ret);
    return 0;
}

int host_record_write(int dir, const char *name, const void *data, size_t n, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    char fresh[ID_MAX + 16];
    int r;

    snprintf(fresh, sizeof fresh, ".%s.new", name);
    fd = openat(dir, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    r = fd < 0 ? err_sys(e, "opening %s", fresh) : write_all(fd, (struct str){ data, n }, e);
    if (r >= 0 && (fdatasync(fd) < 0 || renameat(dir, fresh, dir, name) < 0))
        r = err_sys(e, "writing %s", fresh);
    return r;
}

ssize_t host_record_read(int dir, const char *name, void *ret, size_t cap, struct err *e)
{
    AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t n;

    if (fd < 0 && errno == ENOENT)
        return err_set(e, ERR_NOT_FOUND, "there is no record %s", name);
    n = fd < 0 ? -1 : read(fd, ret, cap);
    return n < 0 ? err_sys(e, "reading the record %s", name) : n;
}
