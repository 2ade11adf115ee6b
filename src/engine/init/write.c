/* SPDX-License-Identifier: Apache-2.0 */
/* WRITE and COMPOSE: write a file to a temporary beside it, which is renamed when it is complete.
 * Run in a child of PID 1 with the target user's rights, like every file operation. */
#include "engine/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"

enum { CHUNK = 64 << 10, TEMP_TRIES = 100, LINKS_MAX = 40, USUAL_MODE = 0644 };

/* A watch hides temporaries and reports the resulting files. */
#define TEMP_OF_NEW ".sandboxer-new-"
#define TEMP_OF_OLD ".sandboxer-put-"

enum temporary write_temporary(const char *name)
{
    if (strncmp(name, TEMP_OF_NEW, sizeof TEMP_OF_NEW - 1) == 0)
        return TEMPORARY_OF_NEW;
    return strncmp(name, TEMP_OF_OLD, sizeof TEMP_OF_OLD - 1) == 0 ? TEMPORARY_OF_OLD
                                                                   : TEMPORARY_NONE;
}

/* --- target --- */

/* True for another user's link in a sticky, world-writable directory: not followed, as by open()
 * with protected_symlinks. */
static bool is_trap(const struct stat *link, const struct stat *dir)
{
    return (dir->st_mode & S_ISVTX) && (dir->st_mode & S_IWOTH) && link->st_uid != geteuid() &&
           link->st_uid != dir->st_uid;
}

/* Reads a link: 1, or 0 if the name is not a link. */
static int read_untrapped_link(int dir, const char *name, char room[static CONTROL_PATH_MAX],
                               struct err *e)
{
    AUTO_CLOSE int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat st, in;
    ssize_t n;

    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || fstat(fd, &st) < 0 || fstat(dir, &in) < 0)
        return err_sys(e, "reading the attributes of %s", name);
    if (!S_ISLNK(st.st_mode))
        return 0;
    errno = EACCES;
    n = is_trap(&st, &in) ? -1 : readlinkat(fd, "", room, CONTROL_PATH_MAX);
    if (n < 0)
        return err_sys(e, "following %s", name);
    if (n == CONTROL_PATH_MAX)
        return err_set(e, ERR_TOO_BIG, "the target of the link %s has more than %d bytes", name,
                       CONTROL_PATH_MAX - 1);
    room[n] = '\0';
    return 1;
}

/* Follows links at the end of the path; their target need not exist. */
int write_find_place(const char *path, struct write_place *ret, struct err *e)
{
    static char texts[2][CONTROL_PATH_MAX]; /* one holds the current name while the other is
                                               filled */
    AUTO_CLOSE int dir = -1;
    const char *name;
    int r = files_open_parent(AT_FDCWD, path, &dir, &name, e);

    for (unsigned i = 0; r >= 0 && (r = read_untrapped_link(dir, name, texts[i % 2], e)) > 0; i++) {
        AUTO_CLOSE int from = take_fd(&dir);

        errno = ELOOP;
        r = i == LINKS_MAX ? err_sys(e, "following %s", path)
                           : files_open_parent(from, texts[i % 2], &dir, &name, e);
    }
    if (r < 0)
        return r;
    *ret = (struct write_place){ .dir = take_fd(&dir), .name = name };
    return 0;
}

int write_stat_place(struct write_place *p, struct err *e)
{
    p->taken = fstatat(p->dir, p->name, &p->st, AT_SYMLINK_NOFOLLOW) == 0;
    if (!p->taken)
        return errno == ENOENT ? 0 : err_sys(e, "reading the attributes of %s", p->name);
    errno = EISDIR;
    if (S_ISDIR(p->st.st_mode))
        return err_sys(e, "writing %s", p->name);
    return S_ISREG(p->st.st_mode) ? 0
                                  : err_set(e, ERR_INVALID, "%s is not a regular file", p->name);
}

/* --- content --- */

int write_open_temporary(const struct write_place *p, char name[static WRITE_TEMPORARY_MAX],
                         struct err *e)
{
    for (int i = 0; i < TEMP_TRIES; i++) {
        int fd;

        snprintf(name, WRITE_TEMPORARY_MAX, "%s%d-%llx", p->taken ? TEMP_OF_OLD : TEMP_OF_NEW,
                 (int)getpid(), (unsigned long long)clock_mono());
        fd = openat(p->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd >= 0 ? fd : err_sys(e, "creating a temporary file");
    }
    return err_set(e, ERR_BUSY, "cannot create a temporary file: another process takes every name");
}

/* Reads exactly n bytes: n, or 0 at the end of file before the first. */
static ssize_t read_input_bytes(int fd, void *data, size_t n, struct err *e)
{
    size_t have = 0;

    while (have < n) {
        ssize_t got = read(fd, (char *)data + have, n - have);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_sys(e, "reading the data to write");
        if (got == 0 && have == 0)
            return 0;
        if (got == 0)
            return err_set(e, ERR_INVALID, "the data to write is truncated");
        have += (size_t)got;
    }
    return (ssize_t)n;
}

/* Data comes as lengths and bytes; a length of 0 marks the end. If the client dies before that, the
 * file stays unchanged. */
static int copy_chunks(int fd, struct err *e)
{
    static char chunk[CHUNK];
    uint32_t left;

    for (;;) {
        ssize_t n = read_input_bytes(STDIN_FILENO, &left, sizeof left, e);

        if (n < 0)
            return (int)n;
        if (n == 0)
            return err_set(e, ERR_INVALID, "the data to write ended before its end mark");
        if (left == 0)
            return 0;
        while (left) {
            size_t want = left < sizeof chunk ? left : sizeof chunk;
            int r;

            n = read_input_bytes(STDIN_FILENO, chunk, want, e);
            if (n <= 0)
                return n < 0 ? (int)n : err_set(e, ERR_INVALID, "the data to write is truncated");
            r = files_write_all(fd, chunk, want, "the file", e);
            if (r < 0)
                return r;
            left -= (uint32_t)want;
        }
    }
}

int write_set_attributes(int fd, char *const *attributes, struct err *e)
{
    for (; *attributes; attributes++) {
        char *end = strchr(*attributes, '=');
        int r;

        if (!end || strncmp(*attributes, "user.", 5) != 0)
            return err_set(e, ERR_INVALID, "'%s' is not an attribute: use user.NAME=VALUE",
                           *attributes);
        *end = '\0';
        r = fsetxattr(fd, *attributes, end + 1, strlen(end + 1), 0);
        if (r < 0)
            return err_sys(e, "setting the attribute %s", *attributes);
        *end = '='; /* restored for the next file */
    }
    return 0;
}

/* Keeps mode and owner of the replaced file, as far as the user may: without privileges it cannot
 * change the owner. */
int write_set_mode_and_owner(int fd, const struct write_place *p, uint32_t mode, struct err *e)
{
    mode_t kept = p->taken ? p->st.st_mode : USUAL_MODE;

    if (fchmod(fd, (mode ? mode : kept) & 0777) < 0)
        return err_sys(e, "setting the mode");
    if (p->taken && fchown(fd, p->st.st_uid, p->st.st_gid) < 0 && errno != EPERM && errno != EINVAL)
        return err_sys(e, "setting the owner");
    return 0;
}

/* Fills a new file. */
typedef int fill_fn(int fd, char *const *strings, struct err *e);

static int fill_from_input(int fd, char *const *attributes, struct err *e)
{
    int r = copy_chunks(fd, e);

    return r < 0 ? r : write_set_attributes(fd, attributes, e); /* before the mode may forbid it */
}

static int replace_path(const char *path, uint32_t mode, fill_fn *fill, char *const *strings,
                        struct err *e)
{
    char temporary[WRITE_TEMPORARY_MAX] = "";
    struct write_place p = { .dir = -1 };
    AUTO_CLOSE int fd = -1;
    int r = write_find_place(path, &p, e);

    if (r >= 0)
        r = write_stat_place(&p, e);
    if (r >= 0)
        r = fd = write_open_temporary(&p, temporary, e);
    if (r >= 0)
        r = fill(fd, strings, e);
    if (r >= 0)
        r = write_set_mode_and_owner(fd, &p, mode, e);
    if (r >= 0 && renameat(p.dir, temporary, p.dir, p.name) < 0)
        r = err_sys(e, "renaming %s into place", p.name);
    if (r < 0 && fd >= 0)
        unlinkat(p.dir, temporary, 0);
    close_fd_(&p.dir);
    return r;
}

int write_run(uint32_t mode, char *const *paths, struct err *e)
{
    return replace_path(paths[0], mode, fill_from_input, paths + 1, e);
}

/* --- composing --- */

static int append_file(int fd, const char *path, struct err *e)
{
    static char chunk[CHUNK];
    AUTO_CLOSE int from = files_open_regular(path, e);
    ssize_t n;

    if (from < 0)
        return from;
    while ((n = read(from, chunk, sizeof chunk)) != 0) {
        int r = 0;

        if (n < 0 && errno != EINTR)
            return err_sys(e, "reading %s", path);
        if (n > 0)
            r = files_write_all(fd, chunk, (size_t)n, "the file", e);
        if (r < 0)
            return r;
    }
    return 0;
}

static int fill_from_files(int fd, char *const *sources, struct err *e)
{
    int r = 0;

    for (; r >= 0 && *sources; sources++)
        r = append_file(fd, *sources, e);
    return r;
}

/* Removes the sources; one that was removed meanwhile, or is given twice, is no error. */
static int remove_sources(const char *made, char *const *sources, struct err *e)
{
    struct stat st, own;

    if (stat(made, &st) < 0)
        return err_sys(e, "reading the attributes of %s", made);
    for (; *sources; sources++) {
        if (stat(*sources, &own) == 0 && own.st_dev == st.st_dev && own.st_ino == st.st_ino)
            continue; /* it was composed of itself, too */
        if (unlink(*sources) < 0 && errno != ENOENT)
            return err_sys(e, "removing %s", *sources);
    }
    return 0;
}

/* Checks the sources first, so that no directory is made if one is missing. */
static int check_sources(char *const *sources, struct err *e)
{
    for (; *sources; sources++) {
        AUTO_CLOSE int fd = files_open_regular(*sources, e);

        if (fd < 0)
            return fd;
    }
    return 0;
}

int compose_run(uint32_t mode, char *const *paths, struct err *e)
{
    size_t made = 0;
    struct err gone;
    int r = check_sources(paths + 1, e);

    if (r >= 0)
        r = files_make_parents(paths[0], &made, e);
    if (r >= 0)
        r = replace_path(paths[0], mode, fill_from_files, paths + 1, e);
    if (r < 0 && e->sys == ENOENT && check_sources(paths + 1, &gone) >= 0) /* all sources exist */
        return err_set(e, ERR_INVALID,
                       "cannot create a file %s: a component of its path does not exist", paths[0]);
    return r < 0 ? r : remove_sources(paths[0], paths + 1, e);
}
