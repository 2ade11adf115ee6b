/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/layers/view.h"

#include <fcntl.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"
#include "lib/tar/at.h"
#include "lib/tar/tree.h"

bool view_is_whiteout(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static const char opaque[] = "user.overlay.opaque";

bool view_is_opaque(int dir)
{
    char value = 0;

    return fgetxattr(dir, opaque, &value, 1) == 1 && value == 'y';
}

int view_set_opaque(int dir, struct err *e)
{
    return fsetxattr(dir, opaque, "y", 1, 0) < 0 ? err_sys(e, "making a directory opaque") : 0;
}

enum view view_look_up(int tree, const char *path, struct stat *ret)
{
    AUTO_CLOSE int dir = at_open(tree, ".", O_RDONLY | O_DIRECTORY, 0);
    struct str rest = str_from(path), part;
    bool hides = false;

    while (dir >= 0) {
        char name[TREE_NAME_MAX + 1];
        int next;

        rest = str_cut(rest, '/', &part);
        if (!str_copy(part, name, sizeof name) || fstatat(dir, name, ret, AT_SYMLINK_NOFOLLOW) < 0)
            return hides ? VIEW_WHITEOUT : VIEW_UNMENTIONED;
        if (view_is_whiteout(ret))
            return VIEW_WHITEOUT;
        if (!rest.n)
            return VIEW_PRESENT;
        next = at_open(dir, name, O_RDONLY | O_DIRECTORY, 0);
        if (next < 0)
            return VIEW_WHITEOUT; /* not a directory */
        close(dir);
        dir = next;
        hides = hides || view_is_opaque(dir);
    }
    return VIEW_UNMENTIONED;
}

bool view_shows(const int *trees, size_t n, const char *path, struct stat *ret)
{
    enum view v = VIEW_UNMENTIONED;

    for (size_t i = 0; i < n && v == VIEW_UNMENTIONED; i++)
        v = view_look_up(trees[i], path, ret);
    return v == VIEW_PRESENT;
}
