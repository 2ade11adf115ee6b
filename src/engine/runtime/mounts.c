/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/mounts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/own.h"
#include "base/str.h"

enum {
    IN_ROOT = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    PART_MAX = 256,
};

/* Adds the kernel's message about a refused option, which is read from the descriptor. */
static int refusal_error(int fs, const char *kind, const char *what, struct err *e)
{
    char message[160];
    int saved = errno;
    ssize_t n = read(fs, message, sizeof message - 1);

    errno = saved;
    if (n <= 2)
        return err_sys(e, "%s: %s", kind, what);
    message[n] = '\0';
    return err_sys(e, "%s: %s (%.*s)", kind, what, (int)strcspn(message + 2, "\n"), message + 2);
}

int mounts_make(const char *kind, const struct mount_option *options, uint64_t attributes, int *ret,
                struct err *e)
{
    AUTO_CLOSE int fs = sys_fsopen(kind);
    int tree;

    if (fs < 0)
        return err_sys(e, "%s: opening the file system", kind);
    for (const struct mount_option *o = options; o && o->key; o++)
        if (sys_fsconfig(fs, o->value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, o->key, o->value,
                         0) < 0)
            return refusal_error(fs, kind, o->key, e);
    if (sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return refusal_error(fs, kind, "creating it", e);
    tree = sys_fsmount(fs, (unsigned)attributes);
    if (tree < 0)
        return refusal_error(fs, kind, "mounting it", e);
    *ret = tree;
    return 0;
}

static int copy_mount(int dir, const char *path, unsigned how, int *ret, struct err *e)
{
    unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW | how;
    int tree = sys_open_tree(dir, path, path[0] ? flags : flags | AT_EMPTY_PATH);

    if (tree < 0)
        return err_sys(e, "copying the mount of %s", path[0] ? path : "a directory");
    *ret = tree;
    return 0;
}

int mounts_copy(int dir, const char *path, int *ret, struct err *e)
{
    return copy_mount(dir, path, AT_RECURSIVE, ret, e);
}

int mounts_copy_bare(int dir, const char *path, int *ret, struct err *e)
{
    return copy_mount(dir, path, 0, ret, e);
}

int mounts_restrict(int tree, uint64_t attributes, int userns, struct err *e)
{
    /* Leaves the host's peer group, so that later mounts do not propagate in either direction. */
    struct mount_attr attr = { .attr_set = attributes, .propagation = MS_PRIVATE };

    if (userns >= 0) {
        attr.attr_set |= MOUNT_ATTR_IDMAP;
        attr.userns_fd = (unsigned)userns;
        if (sys_mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr) == 0)
            return 0;
        if (errno != EINVAL && errno != EPERM)
            return err_sys(e, "mapping owners");
        attr = (struct mount_attr){ .attr_set = attributes, .propagation = MS_PRIVATE };
    }
    if (sys_mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr) < 0)
        return err_sys(e, "restricting a mount");
    return 0;
}

int mounts_restrict_mapped(int tree, uint64_t attributes, int userns, struct err *e)
{
    struct mount_attr attr = { .attr_set = attributes | MOUNT_ATTR_IDMAP,
                               .propagation = MS_PRIVATE,
                               .userns_fd = (unsigned)userns };

    if (sys_mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr) == 0)
        return 0;
    if (errno != EINVAL && errno != EPERM)
        return err_sys(e, "mapping owners");
    return err_set(e, ERR_UNSUPPORTED,
                   "its file system, or one that is mounted below it, cannot map owners; mount a "
                   "directory of a local file system, or copy the files with 'sandboxer cp'");
}

int mounts_find(int root, const char *path, int *ret, struct err *e)
{
    int fd = sys_openat2(root, path, O_PATH, 0, IN_ROOT);

    if (fd < 0 && errno == ELOOP)
        return err_set(e, ERR_DENIED, "'%s' is, or leads through, a symbolic link in the image",
                       path);
    if (fd < 0)
        return err_sys(e, "opening %s", path);
    *ret = fd;
    return 0;
}

int mounts_attach(int tree, int root, const char *path, struct err *e)
{
    AUTO_CLOSE int place = -1;
    int r = mounts_find(root, path, &place, e);

    if (r < 0)
        return r;
    if (sys_move_mount(tree, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
        return err_sys(e, "mounting on %s", path);
    return 0;
}

int mounts_attach_known(int tree, int dir, const char *path, struct err *e)
{
    if (sys_move_mount(tree, "", dir, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return err_sys(e, "mounting on %s", path);
    return 0;
}

int mounts_new(const char *kind, int root, const char *path, unsigned long flags, const char *data,
               struct err *e)
{
    AUTO_CLOSE int place = -1;
    char target[32];
    int r = mounts_find(root, path, &place, e);

    if (r < 0)
        return r;
    snprintf(target, sizeof target, "/proc/self/fd/%d", place);
    if (mount("none", target, kind, flags, data) < 0)
        return err_sys(e, "mounting %s on %s", kind, path);
    return 0;
}

/* Enters the directory `part` of *dir, making it if it is missing. */
static int step_into(int *dir, const char *part, mode_t mode, struct err *e)
{
    int next;

    if (mkdirat(*dir, part, mode) < 0 && errno != EEXIST)
        return err_sys(e, "making directory %s", part);
    next = sys_openat2(*dir, part, O_PATH | O_DIRECTORY, 0,
                       RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
    if (next < 0 && (errno == ELOOP || errno == ENOTDIR))
        return err_set(e, ERR_DENIED, "'%s' is not a directory", part);
    if (next < 0)
        return err_sys(e, "entering directory %s", part);
    close(*dir);
    *dir = next;
    return 0;
}

/* Enters all directories of path except the last component, which is copied to `last`. */
static int enter_parent_dirs(int root, const char *path, char last[PART_MAX], int *ret,
                             struct err *e)
{
    AUTO_CLOSE int dir = fcntl(root, F_DUPFD_CLOEXEC, 0);
    struct str rest = str_from(path), part;
    int r;

    if (dir < 0)
        return err_sys(e, "duplicating a descriptor");
    while (rest.n && rest.p[0] == '/')
        rest = (struct str){ rest.p + 1, rest.n - 1 };
    for (;;) {
        rest = str_cut(rest, '/', &part);
        if (!str_copy(part, last, PART_MAX))
            return err_set(e, ERR_TOO_BIG, "a component of '%s' has more than %d bytes", path,
                           PART_MAX - 1);
        if (rest.n == 0)
            break;
        r = step_into(&dir, last, 0755, e);
        if (r < 0)
            return err_wrap(e, r, "preparing %s", path);
    }
    *ret = take_fd(&dir);
    return 0;
}

int mounts_place_dir(int root, const char *path, mode_t mode, struct err *e)
{
    AUTO_CLOSE int dir = -1;
    char last[PART_MAX];
    int r = enter_parent_dirs(root, path, last, &dir, e);

    if (r < 0)
        return r;
    r = step_into(&dir, last, mode, e);
    return err_wrap(e, r, "preparing %s", path);
}

int mounts_place_file(int root, const char *path, struct err *e)
{
    AUTO_CLOSE int dir = -1, file = -1;
    char last[PART_MAX];
    int r = enter_parent_dirs(root, path, last, &dir, e);

    if (r < 0)
        return r;
    file = openat(dir, last, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (file < 0 && errno != EEXIST)
        return err_sys(e, "preparing %s", path);
    return 0;
}
