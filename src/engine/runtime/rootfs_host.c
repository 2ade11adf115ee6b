/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the host inside a sandbox: bind-mounted, or shown through a read-only overlay.
 *
 * A bind-mounted file is the inode that the host and every other sandbox use: a watch (inotify) on
 * it reports accesses of others, and a lock or a lease on it affects them. An overlay has inodes of
 * its own, while pages stay shared. One overlay of the host's root serves all files on that mount;
 * only the entries that the sandbox may see are copied from it. */
#include "engine/runtime/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "engine/runtime/host_mounts.h"
#include "engine/runtime/mounts.h"

enum { READ_ONLY = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_RDONLY };

/* An overlay without an upper directory needs two lower ones; this one is empty. */
static const char second_lower[] = ".host";

/* Trees with one overlay each. A plain user's launcher cannot use "/": the mounts on it are
 * locked. */
static const char *const views[] = { "/", "/etc" };
_Static_assert(COUNT_OF(views) == BUILD_HOST_VIEWS, "a descriptor for each");

/* Before Linux 6.15 only an attached mount can be a layer, or be copied. They are attached to this
 * directory of the old root, one on top of the other, and removed with it. So no path below it may
 * be used afterwards: host_mounts_read() opens the mounts there before. */
static const char cover[] = "/usr";

/* Opens a file of the host, on any mount. */
static int open_host(const struct sandbox_build *b, const char *path, int *ret, struct err *e)
{
    const struct host_mount *m = host_mounts_of(&b->host_mounts, path);
    const char *rest = m ? path + strlen(m->path) : path;
    int fd;

    if (!m)
        fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    else if (!rest[0])
        fd = fcntl(m->fd, F_DUPFD_CLOEXEC, 0);
    else
        fd = sys_openat2(m->fd, rest + 1, O_PATH | O_NOFOLLOW, 0,
                         RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
    if (fd < 0)
        return err_sys(e, "opening %s of the host", path);
    *ret = fd;
    return 0;
}

/* Maps owners for the sandbox, which a layer of root's overlay must do itself. */
static int map_layer(const struct sandbox_build *b, int tree, struct err *e)
{
    AUTO_CLOSE int lower = -1;
    int r = mounts_copy_bare(tree, "", &lower, e);

    if (r >= 0)
        r = mounts_restrict(lower, READ_ONLY, b->identity.userns, e);
    return r < 0 ? r : mounts_attach_known(lower, AT_FDCWD, cover, e);
}

/* Makes a detached overlay of a directory. */
static int make_overlay(const struct sandbox_build *b, int tree, int *ret, struct err *e)
{
    char layers[64];
    const struct mount_option options[] = { { "lowerdir", layers },
                                            { "userxattr", NULL },
                                            { NULL, NULL } };
    int r = b->is_root ? map_layer(b, tree, e) : 0;

    if (r < 0)
        return r;
    if (mkdirat(b->storage, second_lower, 0755) < 0 && errno != EEXIST)
        return err_sys(e, "creating an empty directory");
    if (fchdir(b->storage) < 0)
        return err_sys(e, "entering the writable layer");
    if (b->is_root)
        snprintf(layers, sizeof layers, "%s:%s", cover, second_lower);
    else
        snprintf(layers, sizeof layers, "/proc/self/fd/%d:%s", tree, second_lower);
    return mounts_make("overlay", options, READ_ONLY, ret, e);
}

/* The overlay of a view, made when first needed; -1: it cannot be made. */
static int open_view(struct sandbox_build *b, size_t i)
{
    AUTO_CLOSE int tree = -1, overlay = -1;

    if (b->host_views[i] != BUILD_VIEW_UNKNOWN)
        return b->host_views[i];
    b->host_views[i] = -1;
    if (!b->is_root && strcmp(views[i], "/") == 0)
        return -1;
    if (open_host(b, views[i], &tree, NULL) >= 0 && make_overlay(b, tree, &overlay, NULL) >= 0 &&
        mounts_attach_known(overlay, AT_FDCWD, cover, NULL) >= 0)
        b->host_views[i] = take_fd(&overlay);
    return b->host_views[i];
}

/* Copies an entry from a view of the same mount; false if no view has it. */
static bool copy_from_view(struct sandbox_build *b, const char *path, int *ret)
{
    for (size_t i = 0; i < COUNT_OF(views); i++) {
        size_t n = strcmp(views[i], "/") == 0 ? 0 : strlen(views[i]);
        AUTO_CLOSE int entry = -1;
        int view;

        if (strncmp(path, views[i], n) != 0 || path[n] != '/' ||
            host_mounts_of(&b->host_mounts, views[i]) != host_mounts_of(&b->host_mounts, path))
            continue;
        view = open_view(b, i);
        if (view >= 0)
            entry = sys_openat2(view, path + n + 1, O_PATH | O_NOFOLLOW, 0,
                                RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
        if (entry >= 0 && mounts_copy_bare(entry, "", ret, NULL) >= 0)
            return true;
    }
    return false;
}

static int attach_overlay(struct sandbox_build *b, const struct host_entry *at, int host,
                          struct err *e)
{
    AUTO_CLOSE int tree = -1;
    int r = 0;

    if (!copy_from_view(b, at->path, &tree))
        r = at->is_dir ? make_overlay(b, host, &tree, e)
                       : err_set(e, ERR_UNSUPPORTED, "overlayfs cannot show a single file");
    return r < 0 ? r : mounts_attach_known(tree, at->dir, at->name, e);
}

static int bind_host(const struct sandbox_build *b, int host, int *ret, struct err *e)
{
    AUTO_CLOSE int tree = -1;
    int r = mounts_copy(host, "", &tree, e);

    if (r >= 0)
        r = mounts_restrict(tree, READ_ONLY, b->is_root ? b->identity.userns : -1, e);
    if (r >= 0)
        *ret = take_fd(&tree);
    return r;
}

/* Attaches the mounts below a directory, which an overlay does not include. A single file cannot be
 * a layer: it is bind-mounted. */
static int attach_nested(struct sandbox_build *b, const char *path, struct err *e)
{
    size_t n = strlen(path);
    int r = 0;

    for (size_t i = 0; i < b->host_mounts.n && r >= 0; i++) {
        const struct host_mount *m = &b->host_mounts.mounts[i];
        AUTO_CLOSE int tree = -1;

        if (m->fd < 0 || strncmp(m->path, path, n) != 0 || m->path[n] != '/')
            continue;
        r = m->is_dir ? make_overlay(b, m->fd, &tree, e) : bind_host(b, m->fd, &tree, e);
        if (r >= 0)
            r = mounts_attach(tree, b->root, m->path + 1, e);
    }
    return r;
}

static int attach_shared(const struct sandbox_build *b, const struct host_entry *at, int host,
                         struct err *e)
{
    AUTO_CLOSE int tree = -1;
    int r = bind_host(b, host, &tree, e);

    return r < 0 ? r : mounts_attach_known(tree, at->dir, at->name, e);
}

int rootfs_attach_host(struct sandbox_build *b, const struct host_entry *at, struct err *e)
{
    bool apart = b->plan->flags & PLAN_SYSTEM_APART;
    AUTO_CLOSE int host = -1;
    int r, known = 0;

    if (apart && !b->host_mounts.read)
        known = host_mounts_read("/proc/self/mountinfo", &b->host_mounts, e);
    r = open_host(b, at->path, &host, e);
    if (r < 0)
        return r;
    if (!apart)
        return attach_shared(b, at, host, e);
    r = known < 0 ? known : attach_overlay(b, at, host, e);
    if (r >= 0 && at->is_dir)
        r = attach_nested(b, at->path, e);
    if (r < 0 && (at->is_dir || known < 0) && (b->plan->flags & PLAN_SYSTEM_EITHER))
        return attach_shared(b, at, host, e);
    return err_wrap(
        e, r,
        "cannot show %s through an overlay (use isolation.system: shared, or --system shared)",
        at->path);
}

int rootfs_host_done(struct sandbox_build *b, struct err *e)
{
    for (size_t i = 0; i < COUNT_OF(views); i++) {
        if (b->host_views[i] >= 0)
            drop_fd(&b->host_views[i]);
        b->host_views[i] = BUILD_VIEW_UNKNOWN;
    }
    host_mounts_done(&b->host_mounts);
    if (unlinkat(b->storage, second_lower, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return err_sys(e, "removing the name of the empty directory");
    return 0;
}
