/* SPDX-License-Identifier: Apache-2.0 */
/* Files as records of LIST, STAT and WATCH. */
#include "engine/init/init.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"

enum { NAMES_MAX = 64 << 10 };

/* Adds one attribute; leaves out values that do not fit or contain NUL. */
static size_t add_user_xattr(int fd, const char *name, char *room, size_t cap)
{
    size_t n = strlen(name) + 1;
    ssize_t got;

    if (strncmp(name, "user.", 5) != 0 || n + 1 >= cap)
        return 0;
    got = fgetxattr(fd, name, room + n, cap - n - 1);
    if (got < 0 || memchr(room + n, 0, (size_t)got))
        return 0;
    memcpy(room, name, n - 1);
    room[n - 1] = '=';
    room[n + (size_t)got] = '\0';
    return n + (size_t)got + 1;
}

/* Reads the extended attributes of a regular file that the user may read. */
static size_t read_user_xattrs(int dir, const char *path, char *room, size_t cap)
{
    static char names[NAMES_MAX];
    AUTO_CLOSE int fd = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t all = fd < 0 ? 0 : flistxattr(fd, names, sizeof names);
    size_t n = 0;

    for (ssize_t at = 0; at < all; at += (ssize_t)strlen(names + at) + 1)
        n += add_user_xattr(fd, names + at, room + n, cap - n);
    return n;
}

/* Resolves a link to the kernel's path of its target, and to the target's mode; 0: dangling, or
 * without a path. */
static ssize_t resolve_symlink(int dir, const char *path, char *room, size_t cap,
                               uint32_t *ret_mode)
{
    AUTO_CLOSE int fd = openat(dir, path, O_PATH | O_CLOEXEC);
    char name[32];
    struct stat st;
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0)
        return 0;
    *ret_mode = st.st_mode;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    n = readlink(name, room, cap);
    return n > 0 && (size_t)n < cap && room[0] == '/' ? n : 0;
}

int file_record_read(int dir, const char *path, const char *name, uint32_t mode,
                     struct file_record *ret, struct err *e)
{
    struct stat st;
    uint32_t target_mode = 0;
    ssize_t n = 0;

    if (fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(e, "reading the attributes of %s", name);
    if (S_ISLNK(st.st_mode))
        n = mode & START_RESOLVE
                ? resolve_symlink(dir, path, ret->target, sizeof ret->target, &target_mode)
                : readlinkat(dir, path, ret->target, sizeof ret->target);
    ret->name = name;
    ret->head = (struct control_entry){
        .size = (uint64_t)st.st_size,
        .mtime_ns = (int64_t)st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec,
        .mode = st.st_mode | target_mode << CONTROL_TARGET_MODE,
        .uid = st.st_uid,
        .gid = st.st_gid,
        .nlink = (uint32_t)st.st_nlink,
        .name_len = (uint16_t)strlen(name),
        .link_len = n > 0 ? (uint16_t)n : 0,
    };
    if ((mode & START_ATTRIBUTES) && S_ISREG(st.st_mode))
        ret->head.attributes_len =
            (uint32_t)read_user_xattrs(dir, path, ret->attributes, sizeof ret->attributes);
    return 0;
}

uint32_t file_record_size(const struct file_record *v)
{
    return (uint32_t)sizeof v->head + v->head.name_len + v->head.link_len + v->head.attributes_len;
}

int file_record_write(const struct file_record *v, struct err *e)
{
    int r = files_write_output(&v->head, sizeof v->head, e);

    if (r >= 0)
        r = files_write_output(v->name, v->head.name_len, e);
    if (r >= 0)
        r = files_write_output(v->target, v->head.link_len, e);
    return r < 0 ? r : files_write_output(v->attributes, v->head.attributes_len, e);
}

int file_record_report(int dir, const char *path, const char *name, uint32_t mode, struct err *e)
{
    static struct file_record v;
    int r = file_record_read(dir, path, name, mode, &v, e);

    return r < 0 ? r : file_record_write(&v, e);
}
