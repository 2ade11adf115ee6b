/* SPDX-License-Identifier: Apache-2.0 */
/* Turns image layers and mounts, given as descriptors of the caller or as paths below the
 * launcher's roots, into detached trees. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/proc/sys.h"
#include "engine/runtime/build.h"
#include "engine/runtime/mounts.h"
#include "lib/proc/sealed.h"
#include "lib/proc/spawn.h"

/* A plain user's launcher runs in its own mount namespace, where descriptors opened before cannot
 * be mounted. The object is opened again by the kernel's path for it, and must be the same object:
 * an attacker gains nothing by moving files meanwhile, and the rights are the caller's own. */
static int reopen_by_path(int fd, int *ret, struct err *e)
{
    AUTO_CLOSE int again = -1;
    char link[64], path[PATH_MAX];
    struct stat before, after;
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path - 1);
    if (n < 0)
        return err_sys(e, "finding the path of a mount's source");
    path[n] = '\0';
    again = openat(AT_FDCWD, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (again < 0 || fstat(fd, &before) < 0 || fstat(again, &after) < 0)
        return err_sys(e, "opening %s again", path);
    if (before.st_dev != after.st_dev || before.st_ino != after.st_ino)
        return err_set(e, ERR_CONFLICT, "%s was replaced while the sandbox was being built", path);
    *ret = take_fd(&again);
    return 0;
}

static int replace_by_tree(const struct sandbox_build *b, int *fd, struct err *e)
{
    AUTO_CLOSE int again = -1;
    int tree, r = b->is_root ? 0 : reopen_by_path(*fd, &again, e);

    if (r >= 0)
        r = mounts_copy(b->is_root ? *fd : again, "", &tree, e);
    if (r < 0)
        return r;
    close(*fd);
    *fd = tree;
    return 0;
}

/* Opens the caller's path beneath a root, following no link, so that nothing can be exchanged
 * meanwhile. */
static int tree_below(const struct sandbox_build *b, uint32_t number, const char *path,
                      bool dir_only, int *ret, struct err *e)
{
    const char *root = number == PLAN_STORE ? b->store : b->roots[number - 1];
    AUTO_CLOSE int dir = openat(AT_FDCWD, root, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;
    int r;

    if (dir < 0)
        return err_sys(e, "opening the root %s", root);
    fd = sys_openat2(dir, path, O_PATH, 0,
                     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
    if (fd < 0 && (errno == ELOOP || errno == EXDEV))
        return err_set(e, ERR_DENIED, "'%s' below %s is, or leads through, a symbolic link", path,
                       root);
    if (fd < 0)
        return err_sys(e, "opening %s below %s", path, root);
    r = plan_check_file(fd, dir_only, path, e);
    return r < 0 ? r : mounts_copy(fd, "", ret, e);
}

int build_sources(struct sandbox_build *b, bool by_path, struct err *e)
{
    const struct plan *p = b->plan;
    int r = 0;

    for (uint32_t i = 0; i < p->n_layers && r >= 0; i++)
        if (by_path && p->layers[i].root)
            r = tree_below(b, p->layers[i].root, p->layers[i].path, true, &b->layers[i], e);
        else if (!by_path && !p->layers[i].root)
            r = replace_by_tree(b, &b->layers[i], e);
    for (uint32_t i = 0; i < p->n_mounts && r >= 0; i++)
        if (by_path && p->mounts[i].root && p->mounts[i].root != PLAN_GRANT)
            r = tree_below(b, p->mounts[i].root, p->mounts[i].source, false, &b->mounts[i], e);
        else if (!by_path && b->mounts[i] >= 0)
            r = replace_by_tree(b, &b->mounts[i], e);
    return r;
}

enum { PROGRAM_MAX = 64 << 20 };

int program_seal(const char *name, int *ret, struct err *e)
{
    AUTO_CLOSE int from = -1;
    char path[PATH_MAX];
    int r = spawn_find(name, path, sizeof path, e);

    if (r < 0)
        return r;
    from = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (from < 0)
        return err_sys(e, "opening %s", path);
    return sealed_copy(from, name, PROGRAM_MAX, ret, e);
}
