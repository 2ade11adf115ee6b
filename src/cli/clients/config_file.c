/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/clients/config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"

enum { BACKUPS_MAX = 99 };

/* --- reading --- */

static int check_config_file(const struct config_file *f, struct err *e)
{
    if (!S_ISREG(f->st.st_mode))
        return err_set(e, ERR_INVALID, "%s: not a regular file", f->path);
    if (f->st.st_nlink > 1)
        return err_set(e, ERR_DENIED,
                       "%s: has other names (hard links), which a new file would not have; change "
                       "it by hand (--print)",
                       f->path);
    return 0;
}

/* Reads the file if it is there. */
static int read_config_file(struct config_file *f, struct err *e)
{
    AUTO_CLOSE int fd =
        openat(f->dir, f->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    int r;

    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 && errno == ELOOP)
        return err_set(e, ERR_DENIED, "%s: is a symbolic link; change its target by hand (--print)",
                       f->path);
    if (fd < 0 || fstat(fd, &f->st) < 0)
        return err_sys(e, "%s", f->path);
    r = check_config_file(f, e);
    if (r < 0)
        return r;
    f->exists = true;
    return err_wrap(e, buf_read_fd(&f->text, fd, e), "%s", f->path);
}

static int open_config_dir(struct config_file *f, int at, const char *path, int flags,
                           struct err *e)
{
    f->dir = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
    if (f->dir >= 0)
        return read_config_file(f, e);
    if (errno == ENOENT)
        return 0;
    if (flags && (errno == ELOOP || errno == ENOTDIR))
        return err_set(e, ERR_DENIED,
                       "%s: its directory is a symbolic link or not a directory (links in a "
                       "project are not followed); change it by hand (--print)",
                       f->path);
    return err_sys(e, "the directory of %s", f->path);
}

static int set_config_path(struct config_file *f, const char *dir, const char *path, size_t max,
                           struct err *e)
{
    const char *slash;
    int n = snprintf(f->path, sizeof f->path, "%s%s%s", dir, dir[0] && dir[1] ? "/" : "", path);

    f->dir = -1;
    f->exists = false;
    f->text = BUF_INIT(max);
    slash = strrchr(f->path, '/');
    if (n >= (int)sizeof f->path || !slash ||
        !str_copy(str_from(slash + 1), f->name, sizeof f->name))
        return err_set(e, ERR_TOO_BIG,
                       "the path of %.80s… is longer than %d bytes, or its name than %d", path,
                       PATH_MAX - 1, NAME_MAX);
    return 0;
}

int config_file_open_below(struct config_file *f, const char *project, const char *path, size_t max,
                           struct err *e)
{
    AUTO_CLOSE int base = open(project, O_PATH | O_DIRECTORY | O_CLOEXEC);
    char parent[NAME_MAX + 1] = ".";
    int r = set_config_path(f, project, path, max, e);

    if (r < 0)
        return r;
    if (base < 0)
        return err_sys(e, "%s", project);
    if (strchr(path, '/'))
        snprintf(parent, sizeof parent, "%.*s", (int)strcspn(path, "/"), path);
    return open_config_dir(f, base, parent, O_NOFOLLOW, e);
}

int config_file_open(struct config_file *f, const char *path, size_t max, struct err *e)
{
    char real[PATH_MAX], parent[PATH_MAX];
    struct stat st;
    int r = set_config_path(f, "", path, max, e);

    if (r < 0)
        return r;
    if (realpath(path, real)) {
        r = set_config_path(f, "", real, max, e);
    } else if (errno != ENOENT || lstat(path, &st) == 0) {
        return err_sys(e, "%s", path);
    }
    if (r < 0)
        return r;
    memcpy(parent, f->path, sizeof parent);
    return open_config_dir(f, AT_FDCWD, dirname(parent), 0, e);
}

void config_file_done(struct config_file *f)
{
    drop_fd(&f->dir);
    buf_done(&f->text);
}

/* --- replacing --- */

/* Makes its directory, with the ones above it. */
static int make_config_dir(struct config_file *f, struct err *e)
{
    char path[PATH_MAX];

    memcpy(path, f->path, sizeof path);
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            return err_sys(e, "making %s", path);
        *at = '/';
    }
    f->dir = open(dirname(path), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return f->dir < 0 ? err_sys(e, "the directory of %s", f->path) : 0;
}

/* A new file with the owner and mode of the old one, on disk. */
static int write_beside(const struct config_file *f, const char *name, struct str text, mode_t mode,
                        struct err *e)
{
    AUTO_CLOSE int fd = openat(f->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int r;

    if (fd < 0)
        return err_sys(e, "a file beside %s", f->path);
    r = write_all(fd, text, e);
    if (r >= 0 && f->exists && (f->st.st_uid != geteuid() || f->st.st_gid != getegid()) &&
        fchown(fd, f->st.st_uid, f->st.st_gid) < 0)
        r = err_sys(e, "%s: its owner could not be kept", f->path);
    if (r >= 0 && (fchmod(fd, f->exists ? f->st.st_mode & 07777 : mode) < 0 || fsync(fd) < 0))
        r = err_sys(e, "a file beside %s", f->path);
    if (r < 0)
        (void)unlinkat(f->dir, name, 0);
    return r;
}

/* Whether a file in the directory has this text. */
static bool has_text(const struct config_file *f, const char *name, struct str text)
{
    AUTO_CLOSE int fd = openat(f->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    AUTO(buf_done) struct buf now = BUF_INIT(f->text.max);

    return fd >= 0 && buf_read_fd(&now, fd, NULL) >= 0 && str_eq(buf_str(&now), text);
}

static int keep_backup(const struct config_file *f, char backup[static PATH_MAX], struct err *e)
{
    char name[NAME_MAX + 1], number[8] = "";
    struct err why;
    int r, n;

    for (int i = 1; i <= BACKUPS_MAX; i++) {
        if (i > 1)
            snprintf(number, sizeof number, "-%d", i);
        n = snprintf(name, sizeof name, "%s.bak-sandboxer%s", f->name, number);
        if (n >= (int)sizeof name ||
            snprintf(backup, PATH_MAX, "%.*s%s", (int)(strlen(f->path) - strlen(f->name)), f->path,
                     name) >= PATH_MAX)
            return err_set(e, ERR_TOO_BIG,
                           "%.80s…: the name of its copy would be longer than %d bytes", f->path,
                           NAME_MAX);
        r = write_beside(f, name, buf_str(&f->text), 0600, &why);
        if (r >= 0 || has_text(f, name, buf_str(&f->text)))
            return 0;
        if (why.sys != EEXIST)
            return err_set(e, why.code, "%s", why.msg);
    }
    return err_set(e, ERR_CONFLICT, "%s.bak-sandboxer and %d more copies exist; remove old ones",
                   f->path, BACKUPS_MAX - 1);
}

static int fail_changed(const struct config_file *f, struct err *e)
{
    return err_set(e, ERR_CONFLICT, "%s: another program changed it meanwhile; try again", f->path);
}

/* Whether this name is still the file that was read. */
static bool is_as_read(const struct config_file *f, const char *name)
{
    struct stat st;

    return fstatat(f->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_dev == f->st.st_dev &&
           st.st_ino == f->st.st_ino && has_text(f, name, buf_str(&f->text));
}

/* Swaps new and old file, and swaps them back if the old one is not what was read. */
static int swap_files(const struct config_file *f, const char *made, struct err *e)
{
    if (syscall(SYS_renameat2, f->dir, made, f->dir, f->name, RENAME_EXCHANGE) == 0) {
        if (is_as_read(f, made))
            return unlinkat(f->dir, made, 0) < 0 ? err_sys(e, "a file beside %s", f->path) : 0;
        (void)syscall(SYS_renameat2, f->dir, made, f->dir, f->name, RENAME_EXCHANGE);
        return fail_changed(f, e);
    }
    if (errno == ENOENT)
        return fail_changed(f, e);
    if (errno != EINVAL && errno != ENOSYS)
        return err_sys(e, "%s", f->path);
    if (!is_as_read(f, f->name)) /* a file system that cannot swap */
        return fail_changed(f, e);
    return renameat(f->dir, made, f->dir, f->name) < 0 ? err_sys(e, "%s", f->path) : 0;
}

/* linkat() never replaces a file. */
static int place_new_file(const struct config_file *f, const char *made, struct err *e)
{
    if (syscall(SYS_renameat2, f->dir, made, f->dir, f->name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno == EINVAL || errno == ENOSYS) {
        if (linkat(f->dir, made, f->dir, f->name, 0) == 0) {
            (void)unlinkat(f->dir, made, 0);
            return 0;
        }
    }
    return errno == EEXIST ? fail_changed(f, e) : err_sys(e, "%s", f->path);
}

int config_file_replace(struct config_file *f, struct str text, mode_t mode,
                        char backup[static PATH_MAX], struct err *e)
{
    char made[64];
    uint64_t random;
    int r = 0;

    backup[0] = '\0';
    if (f->dir < 0)
        r = make_config_dir(f, e);
    else if (f->exists)
        r = keep_backup(f, backup, e);
    if (r < 0)
        return r;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return err_sys(e, "random numbers");
    snprintf(made, sizeof made, ".sandboxer-setup-%016llx", (unsigned long long)random);
    r = write_beside(f, made, text, mode, e);
    if (r < 0)
        return r;
    r = f->exists ? swap_files(f, made, e) : place_new_file(f, made, e);
    if (r < 0) {
        (void)unlinkat(f->dir, made, 0);
        return r;
    }
    return fsync(f->dir) < 0 ? err_sys(e, "forcing the directory of %s to disk", f->path) : 0;
}
