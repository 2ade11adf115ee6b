/* SPDX-License-Identifier: Apache-2.0 */
/* File operations: run in a forked child with the target user's rights, inside the sandbox, so no
 * symlink can lead outside. stdin and stdout carry the data; nothing allocates memory. */
#include "engine/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"
#include "lib/tar/pack.h"
#include "lib/tar/remove.h"
#include "lib/tar/unpack.h"

enum { CHUNK = 64 << 10, SENDFILE_MAX = 1 << 20 };

int files_write_all(int fd, const void *data, size_t n, const char *what, struct err *e)
{
    const char *p = data;

    while (n) {
        ssize_t put = write(fd, p, n);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return err_sys(e, "writing %s", what);
        p += put;
        n -= (size_t)put;
    }
    return 0;
}

int files_open_regular(const char *path, struct err *e)
{
    AUTO_CLOSE int fd = openat(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, "opening %s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_INVALID, "%s is not a regular file", path);
    return take_fd(&fd);
}

static int run_read_file(uint32_t mode, char *const *paths, struct err *e)
{
    AUTO_CLOSE int fd = files_open_regular(paths[0], e);
    ssize_t n;

    if (fd < 0)
        return fd;
    while ((n = sendfile(STDOUT_FILENO, fd, NULL, SENDFILE_MAX)) != 0)
        if (n < 0 && errno != EINTR)
            return err_sys(e, "reading %s", paths[0]);
    return 0;
}

int files_open_parent(int at, const char *path, int *ret_dir, const char **ret_name, struct err *e)
{
    char parent[CONTROL_PATH_MAX];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    struct str dir = slash ? (struct str){ path, (size_t)(slash - path) } : STR(".");

    if (slash == path)
        dir = STR("/");
    if (!name[0] || !strcmp(name, ".") || !strcmp(name, "..") ||
        !str_copy(dir, parent, sizeof parent))
        return err_set(e, ERR_INVALID, "'%s' is not the path of a file", path);
    *ret_dir = openat(at, parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*ret_dir < 0)
        return err_sys(e, "opening %s", parent);
    *ret_name = name;
    return 0;
}

static char out[CHUNK];
static size_t out_n;

int files_flush(struct err *e)
{
    int r = files_write_all(STDOUT_FILENO, out, out_n, "the answer", e);

    out_n = 0;
    return r;
}

int files_write_output(const void *data, size_t n, struct err *e)
{
    if (out_n + n > sizeof out) {
        int r = files_flush(e);

        if (r < 0)
            return r;
    }
    memcpy(out + out_n, data, n);
    out_n += n;
    return 0;
}

static int run_stat_path(uint32_t mode, char *const *paths, struct err *e)
{
    const char *slash = strrchr(paths[0], '/');
    int r =
        file_record_report(AT_FDCWD, paths[0], slash && slash[1] ? slash + 1 : paths[0], mode, e);

    return r < 0 ? r : files_flush(e);
}

static int list_batch(int dir, const char *batch, long n, uint32_t mode, struct err *e)
{
    for (long at = 0; at < n;) {
        const struct kernel_dirent *d = (const void *)(batch + at);
        struct err gone;
        int r;

        at += d->reclen;
        if (!strcmp(d->name, ".") || !strcmp(d->name, ".."))
            continue;
        r = file_record_report(dir, d->name, d->name, mode, &gone);
        if (r < 0 && gone.sys != ENOENT) { /* a file removed meanwhile is not an error */
            *e = gone;
            return r;
        }
    }
    return 0;
}

static int run_list_dir(uint32_t mode, char *const *paths, struct err *e)
{
    static char batch[CHUNK] __attribute__((aligned(8)));
    AUTO_CLOSE int dir = openat(AT_FDCWD, paths[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long n;
    int r = 0;

    if (dir < 0)
        return err_sys(e, "opening %s", paths[0]);
    while (r >= 0 && (n = syscall(SYS_getdents64, dir, batch, sizeof batch)) != 0)
        r = n < 0 ? err_sys(e, "listing %s", paths[0]) : list_batch(dir, batch, n, mode, e);
    return r < 0 ? r : files_flush(e);
}

int files_make_parents(char *path, size_t *ret_made, struct err *e)
{
    size_t made = 0;

    for (char *at = path + 1; path[0] && *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        if (mkdir(path, 0755) == 0)
            made++;
        else if (errno != EEXIST)
            return err_sys(e, "creating %s", path);
        *at = '/';
        *ret_made = made;
    }
    return 0;
}

static int run_make_dir(uint32_t mode, char *const *paths, struct err *e)
{
    char *path = paths[0];
    struct stat st;
    size_t made = 0;
    int r = files_make_parents(path, &made, e);

    if (r < 0)
        return r;
    if (mkdir(path, mode ? mode & 0777 : 0755) == 0)
        return 0;
    if (errno == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return 0;
    return err_sys(e, "creating %s", path);
}

static int run_remove_path(uint32_t mode, char *const *paths, struct err *e)
{
    AUTO_CLOSE int dir = -1;
    const char *name;
    int r = files_open_parent(AT_FDCWD, paths[0], &dir, &name, e);

    return r < 0 ? r : tree_remove(dir, name, e);
}

static int run_rename_path(uint32_t mode, char *const *paths, struct err *e)
{
    size_t made = 0;
    char *slash;
    int r = mode & START_MAKE_PARENTS ? files_make_parents(paths[1], &made, e) : 0;

    if (r >= 0 && rename(paths[0], paths[1]) < 0)
        r = err_sys(e, "renaming %s to %s", paths[0], paths[1]);
    while (r < 0 && made-- && (slash = strrchr(paths[1], '/'))) {
        *slash = '\0';
        if (rmdir(paths[1]) < 0) /* it is in use */
            break;
    }
    return r;
}

static int run_pack_tree(uint32_t mode, char *const *paths, struct err *e)
{
    AUTO_CLOSE int dir = -1;
    struct tree_pack_options options = { 0 };
    struct tree_report report;
    const char *name = ".";
    int r = 0;

    if (strcmp(paths[0], "/") == 0)
        dir = openat(AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    else
        r = files_open_parent(AT_FDCWD, paths[0], &dir, &name, e);
    if (r >= 0 && dir < 0)
        r = err_sys(e, "opening /");
    return r < 0 ? r : tree_pack(STDOUT_FILENO, dir, name, &options, &report, e);
}

static int run_unpack_tree(uint32_t mode, char *const *paths, struct err *e)
{
    AUTO_CLOSE int dir = openat(AT_FDCWD, paths[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct tree_unpack_options options = { .devices = TREE_SKIP,
                                           .owners = TREE_OWNERS_SQUASH,
                                           .keep_root = true };
    struct tree_report report;

    if (dir < 0)
        return err_sys(e, "opening %s", paths[0]);
    return tree_unpack(STDIN_FILENO, dir, &options, &report, e);
}

static int (*const operations[START_WHAT_COUNT_])(uint32_t mode, char *const *paths,
                                                  struct err *e) = {
    [START_READ] = run_read_file,     [START_WRITE] = write_run,
    [START_LIST] = run_list_dir,      [START_STAT] = run_stat_path,
    [START_MKDIR] = run_make_dir,     [START_REMOVE] = run_remove_path,
    [START_RENAME] = run_rename_path, [START_WATCH] = watch_run,
    [START_PACK] = run_pack_tree,     [START_UNPACK] = run_unpack_tree,
    [START_PERMIT] = permit_run,      [START_COMPOSE] = compose_run,
    [START_UPLOAD] = upload_run,
};

int files_run(enum start_what what, uint32_t mode, char *const *paths, struct err *e)
{
    if (!operations[what])
        return err_set(e, ERR_UNSUPPORTED, "unknown file operation");
    return operations[what](mode, paths, e);
}
