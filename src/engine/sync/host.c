/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sync/host.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "lib/proc/sys.h"
#include "lib/tar/at.h"
#include "lib/tar/walk.h"

#define TEMP_PREFIX  ".sandboxer-mirror-"
#define SAVED_PREFIX ".sandboxer-saved-"
enum { TEMP_DIGITS = 16 };

int host_open(int dir, const char *path, int flags, mode_t mode)
{
    const uint64_t resolve =
        RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
    int fd = -1;

    /* The kernel returns EAGAIN if a concurrent rename elsewhere may have interfered. */
    for (int i = 0; i < TREE_RACES_MAX; i++) {
        fd = sys_openat2(dir, path, (uint64_t)(unsigned)flags, mode, resolve);
        if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
            break;
    }
    return fd;
}

int host_lock(int dir, int *ret, struct err *e)
{
    AUTO_CLOSE int fd = host_open(dir, ".", O_RDONLY | O_DIRECTORY, 0);

    if (fd < 0)
        return err_sys(e, "opening the directory");
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return err_set(e, ERR_BUSY, "another sync of this directory is running; try again");
    /* On a file system without locks there is nothing to wait for. */
    *ret = take_fd(&fd);
    return 0;
}

enum sync_kind host_kind(const struct stat *st)
{
    switch (st->st_mode & S_IFMT) {
    case S_IFREG:
        return KIND_FILE;
    case S_IFDIR:
        return KIND_DIR;
    case S_IFLNK:
        return KIND_LINK;
    default:
        return KIND_NONE;
    }
}

int host_find(int dir, const struct tree_path *path, struct found_file *ret, struct err *e)
{
    char parent[TREE_PATH_MAX];

    *ret =
        (struct found_file){ .parent = -1, .name = tree_path_name(path), .now_ns = clock_wall() };
    tree_path_parent(path, parent);
    ret->parent = host_open(dir, parent, O_PATH | O_DIRECTORY, 0);
    if (ret->parent < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
        return 0;
    if (ret->parent < 0)
        return err_sys(e, "opening its directory");
    if (fstatat(ret->parent, ret->name, &ret->st, AT_SYMLINK_NOFOLLOW) == 0) {
        ret->there = true;
        ret->kind = host_kind(&ret->st);
    } else if (errno != ENOENT) {
        return err_sys(e, "reading its attributes");
    }
    return 0;
}

void found_file_done(struct found_file *f)
{
    drop_fd(&f->parent);
}

ssize_t host_target(int dir, const char *name, char out[static TREE_PATH_MAX])
{
    ssize_t n = readlinkat(dir, name, out, TREE_PATH_MAX);

    if (n == TREE_PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (n >= 0)
        out[n] = '\0';
    return n;
}

bool host_unchanged(const struct found_file *f, const struct sync_entry *was,
                    const struct sip_key *key)
{
    struct sync_identity now = sync_identity_of(&f->st, INT64_MAX);
    char target[TREE_PATH_MAX];
    AUTO_CLOSE int fd = -1;
    uint64_t hash;

    if (f->kind != was->value.kind)
        return false;
    if (f->kind == KIND_LINK) {
        ssize_t n = host_target(f->parent, f->name, target);

        return n >= 0 && sip_str(key, (struct str){ target, (size_t)n }) == was->value.hash;
    }
    if ((f->st.st_mode & 0777) != was->value.mode)
        return false;
    if (f->kind == KIND_DIR || sync_identity_eq(&was->identity, &now))
        return true;
    fd = host_open(f->parent, f->name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0);
    return fd >= 0 && sip_fd(key, fd, &hash, NULL) >= 0 && hash == was->value.hash;
}

int host_temp_name(char out[static HOST_TEMP_MAX], struct err *e)
{
    uint64_t random;

    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return err_sys(e, "generating a temporary name");
    snprintf(out, HOST_TEMP_MAX, TEMP_PREFIX "%016llx", (unsigned long long)random);
    return 0;
}

bool host_is_temp(const char *name)
{
    const size_t prefix = sizeof TEMP_PREFIX - 1;

    return strncmp(name, TEMP_PREFIX, prefix) == 0 && strlen(name) == prefix + TEMP_DIGITS &&
           strspn(name + prefix, "0123456789abcdef") == TEMP_DIGITS;
}

static int rename_with_flags(int dir, const char *from, const char *to, unsigned flags)
{
    return (int)syscall(SYS_renameat2, dir, from, dir, to, flags);
}

/* Some file systems do not support the flags of renameat2(). */
static bool is_rename_unsupported(void)
{
    return errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP;
}

/* True if the name refers to the file that was found. The rename changed its ctime, so that is not
 * compared. */
static bool is_still_found(const struct found_file *f, const char *name)
{
    struct stat st;

    return fstatat(f->parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == f->st.st_ino &&
           st.st_mode == f->st.st_mode && st.st_size == f->st.st_size &&
           st.st_mtim.tv_sec == f->st.st_mtim.tv_sec && st.st_mtim.tv_nsec == f->st.st_mtim.tv_nsec;
}

/* Without RENAME_EXCHANGE there is a race between check and rename. */
static int put_without_exchange(const struct found_file *f, const char *temp, struct err *e)
{
    struct stat st;
    bool there = fstatat(f->parent, f->name, &st, AT_SYMLINK_NOFOLLOW) == 0;

    if (there != f->there || (there && !is_still_found(f, f->name)))
        return HOST_RACED;
    if (renameat(f->parent, temp, f->parent, f->name) == 0)
        return HOST_DONE;
    if (errno != ENOTDIR || at_clear(f->parent, f->name) < 0 || /* a directory over a file */
        renameat(f->parent, temp, f->parent, f->name) < 0)
        return err_sys(e, "renaming it into place");
    return HOST_DONE;
}

/* Renames the host's file back, unless the name was taken meanwhile. A file that cannot be restored
 * gets another name, so that no later run treats it as a leftover. */
static int restore_host_name(const struct found_file *f, const char *temp, struct err *e)
{
    char saved[HOST_TEMP_MAX];

    if (rename_with_flags(f->parent, temp, f->name, RENAME_NOREPLACE) == 0)
        return HOST_RACED;
    if (is_rename_unsupported() && linkat(f->parent, temp, f->parent, f->name, 0) == 0 &&
        unlinkat(f->parent, temp, 0) == 0)
        return HOST_RACED;
    snprintf(saved, sizeof saved, SAVED_PREFIX "%s", temp + sizeof TEMP_PREFIX - 1);
    (void)err_set(e, ERR_CONFLICT, "the host's version could not be restored; it is saved as '%s'",
                  renameat(f->parent, temp, f->parent, saved) < 0 ? temp : saved);
    return HOST_LOST;
}

int host_put(const struct found_file *f, const char *temp, struct err *e)
{
    unsigned flags = f->there ? RENAME_EXCHANGE : RENAME_NOREPLACE;

    if (rename_with_flags(f->parent, temp, f->name, flags) < 0) {
        if (errno == (f->there ? ENOENT : EEXIST))
            return HOST_RACED;
        return is_rename_unsupported() ? put_without_exchange(f, temp, e)
                                       : err_sys(e, "renaming it into place");
    }
    if (!f->there)
        return HOST_DONE;
    if (!is_still_found(f, temp))
        return rename_with_flags(f->parent, temp, f->name, RENAME_EXCHANGE) == 0
                   ? HOST_RACED
                   : restore_host_name(f, temp, e);
    (void)at_clear(f->parent, temp); /* on failure, the next run removes it */
    return HOST_DONE;
}

int host_remove(const struct found_file *f, struct err *e)
{
    char temp[HOST_TEMP_MAX];
    int r = host_temp_name(temp, e);

    if (r < 0)
        return r;
    if (renameat(f->parent, f->name, f->parent, temp) < 0)
        return errno == ENOENT ? HOST_RACED : err_sys(e, "removing it");
    if (!is_still_found(f, temp))
        return restore_host_name(f, temp, e);
    if (at_clear(f->parent, temp) < 0)
        return err_sys(e, "removing it");
    return HOST_DONE;
}

/* Directories that are too deep or not readable contain no temporary files. */
int host_sweep(int dir, struct err *e)
{
    AUTO(walk_done) struct walk w;
    int r, fd = host_open(dir, ".", O_RDONLY | O_DIRECTORY, 0);

    walk_init(&w);
    if (fd < 0)
        return err_sys(e, "opening the directory");
    r = walk_enter(&w, fd, "", e);
    for (const char *name; r >= 0 && (r = walk_next_any(&w, &name, e)) > 0;) {
        int top = walk_top(&w)->fd;

        if (host_is_temp(name))
            (void)at_clear(top, name);
        else if ((fd = host_open(top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0)) >= 0)
            (void)walk_enter(&w, fd, "", NULL);
    }
    return err_wrap(e, r, "removing temporary files of an earlier run");
}
