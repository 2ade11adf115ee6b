/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/tar/remove.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/own.h"
#include "lib/tar/at.h"
#include "lib/tar/path.h"
#include "lib/tar/walk.h"

struct tree_removal {
    int dir; /* where the tree is */
    unsigned races;
    unsigned hoisted;
    struct walk walk;
};

static int fail_tree_removal(struct err *e)
{
    if (errno == EXDEV || errno == EBUSY)
        return err_set(e, ERR_BUSY, "a file system is mounted there; unmount it first");
    return err_sys(e, "removing");
}

/* Moves a directory that is too deep to the first level, and rewinds that level. */
static int hoist_directory(struct tree_removal *m, const char *name, struct err *e)
{
    struct walk_level *first = &m->walk.levels[0];
    char to[32];

    for (int i = 0; i < TREE_RACES_MAX; i++) {
        snprintf(to, sizeof to, ".deep-%u", m->hoisted++);
        if (renameat(walk_top(&m->walk)->fd, name, first->fd, to) == 0 || errno == ENOENT) {
            first->resume = 0;
            return 0;
        }
        if (errno != ENOTDIR && errno != ENOTEMPTY && errno != EEXIST) /* that name is taken */
            return err_sys(e, "moving a deep directory");
    }
    return err_set(e, ERR_BUSY, "every temporary name for a deep directory is taken");
}

/* Enters a directory that is not empty. */
static int enter_removed_dir(struct tree_removal *m, int dir, const char *name, struct err *e)
{
    AUTO_CLOSE int fd = at_open_dir(dir, name, true);

    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
        return 0; /* replaced meanwhile: leave_removed_dir() retries on the non-empty parent */
    if (fd < 0)
        return fail_tree_removal(e);
    if (m->walk.depth == TREE_DEPTH_MAX)
        return hoist_directory(m, name, e);
    return walk_enter(&m->walk, take_fd(&fd), name, e);
}

static int remove_name(struct tree_removal *m, int dir, const char *name, struct err *e)
{
    if (at_clear(dir, name) == 0)
        return 0;
    if (errno == ENOTEMPTY || errno == EEXIST)
        return enter_removed_dir(m, dir, name, e);
    return fail_tree_removal(e);
}

/* Leaves the deepest level, which was emptied, and removes it from its parent. */
static int leave_removed_dir(struct tree_removal *m, struct err *e)
{
    char name[TREE_NAME_MAX + 1];
    int parent;

    memcpy(name, walk_top(&m->walk)->name, sizeof name);
    walk_leave(&m->walk);
    parent = m->walk.depth > 0 ? walk_top(&m->walk)->fd : m->dir;
    if (m->walk.depth > 0) /* removals invalidate the offset on some file systems */
        walk_top(&m->walk)->resume = 0;
    if (at_clear(parent, name) == 0)
        return 0;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return fail_tree_removal(e);
    if (++m->races > TREE_RACES_MAX)
        return err_set(e, ERR_BUSY,
                       "another process adds files while they are removed; stop it and try again");
    return enter_removed_dir(m, parent, name, e);
}

int tree_remove(int dir, const char *name, struct err *e)
{
    struct tree_removal m;
    char shown[TREE_SHOWN_MAX];
    const char *inner;
    struct stat st;
    int r;

    m.dir = dir;
    m.races = m.hoisted = 0;
    walk_init(&m.walk);
    tree_path_show(str_from(name), shown);
    if (name[0] == '\0' || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return err_set(e, ERR_INVALID, "'%s' is not the name of something to remove", shown);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
        return err_set(e, ERR_NOT_FOUND, "'%s' does not exist", shown);
    r = remove_name(&m, dir, name, e);
    while (r >= 0 && m.walk.depth > 0) {
        r = walk_next(&m.walk, &inner, e);
        if (r > 0)
            r = remove_name(&m, walk_top(&m.walk)->fd, inner, e);
        else if (r == 0)
            r = leave_removed_dir(&m, e);
    }
    walk_done(&m.walk);
    return err_wrap(e, r, "removing '%s'", shown);
}
