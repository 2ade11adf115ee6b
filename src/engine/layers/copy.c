/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/layers/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/disk_space.h"
#include "engine/layers/ahead.h"
#include "engine/layers/attributes.h"
#include "engine/layers/content.h"
#include "engine/layers/count.h"
#include "engine/layers/view.h"
#include "lib/tar/at.h"
#include "lib/tar/path.h"
#include "lib/tar/remove.h"
#include "lib/tar/walk.h"

enum {
    LINK_NAME_MAX = 32,
    NAME_ROOM = 512, /* about the space of a name on disk, and in an archive */
};

struct copying {
    const struct copy_options *options;
    struct copy_report report;
    uint64_t bytes_max, entries_max;
    uint64_t written; /* of report.bytes: copied, not cloned */
    struct owners owners;
    dev_t dev;
    int links;
    bool may_clone;
    struct walk walk;       /* the source */
    int to[TREE_DEPTH_MAX]; /* the target directory of each level */
    struct stat level[TREE_DEPTH_MAX];
    bool covers[TREE_DEPTH_MAX]; /* onto: a directory of the floor is visible here */
};

static int current_target(const struct copying *c)
{
    return c->to[c->walk.depth - 1];
}

/* A clone shares blocks and takes only the space of its name: on a nearly full disk, a sandbox can
 * still be captured if that adds no data. So space is checked once for many names, but with every
 * byte that is written. The failure is ERR_FULL, not ERR_TOO_BIG: the disk is full, and a retry may
 * work. */
static int check_copy_space(const struct copying *c, uint64_t at, uint64_t n, struct err *e)
{
    int r = room_check(c->to[0], c->options->free_min, at, n, e);

    if (r == -(int)ERR_TOO_BIG && c->options->ahead >= 0) {
        ahead_drop(c->options->ahead);
        r = room_check(c->to[0], c->options->free_min, 0, n, e);
    }
    if (r != -(int)ERR_TOO_BIG)
        return r;
    e->code = ERR_FULL;
    return -(int)ERR_FULL;
}

static int count_copied_bytes(struct copying *c, uint64_t n, struct err *e)
{
    if (n > c->bytes_max - c->report.bytes)
        return err_set(e, ERR_TOO_BIG, "the sandbox wrote more than %llu bytes",
                       (unsigned long long)c->bytes_max);
    c->report.bytes += n;
    if (c->options->progress)
        c->options->progress(c->options->user, c->report.bytes, c->report.entries);
    return 0;
}

/* The count function of struct content_counter. */
static int count_content(void *user, uint64_t n, bool written, struct err *e)
{
    struct copying *c = user;
    int r = written ? check_copy_space(c, c->written, n, e) : 0;

    c->written += written ? n : 0;
    return r < 0 ? r : count_copied_bytes(c, n, e);
}

/* --- names --- */

/* Links a file that was copied under another name already: 1, or 0 if it was not. */
static int link_copied_file(struct copying *c, const char *name, const struct stat *st,
                            struct err *e)
{
    char known[LINK_NAME_MAX];

    if (st->st_nlink < 2)
        return 0;
    snprintf(known, sizeof known, "%llx", (unsigned long long)st->st_ino);
    if (linkat(c->links, known, current_target(c), name, 0) == 0)
        return 1;
    return errno == ENOENT ? 0 : err_sys(e, "creating a hard link");
}

static int remember_link(struct copying *c, const char *name, const struct stat *st, struct err *e)
{
    char known[LINK_NAME_MAX];

    if (st->st_nlink < 2)
        return 0;
    snprintf(known, sizeof known, "%llx", (unsigned long long)st->st_ino);
    return linkat(current_target(c), name, c->links, known, 0) < 0
               ? err_sys(e, "linking it for its other names")
               : 0;
}

static int copy_regular_file(struct copying *c, const char *name, struct err *e)
{
    const struct content_counter content = { count_content, c };
    AUTO_CLOSE int to = -1;
    AUTO_CLOSE int from = at_open_unseen(walk_top(&c->walk)->fd, name, O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    bool ahead;
    int r = 0;

    if (from < 0 || fstat(from, &st) < 0)
        return err_sys(e, "opening");
    if (!S_ISREG(st.st_mode) || st.st_dev != c->dev)
        return err_set(e, ERR_CONFLICT, "the file was replaced while it was copied");
    to = ahead_take(c->options->ahead, &st, current_target(c), name);
    ahead = to >= 0;
    if (!ahead)
        to = at_open(current_target(c), name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (to < 0)
        return err_sys(e, "creating the copy");
    if (ahead) {
        r = content_update(&content, from, to, st.st_size, e);
    } else if (st.st_size > 0) {
        c->may_clone = c->may_clone && ioctl(to, FICLONE, from) == 0; /* else no later file can */
        r = c->may_clone ? count_copied_bytes(c, layers_data_bytes(&st), e)
                         : content_copy(&content, from, to, st.st_size, e);
    }
    if (r >= 0)
        r = attributes_copy_extended(&c->owners, from, to, e);
    if (r >= 0)
        r = attributes_set(&c->owners, to, &st, e);
    return r < 0 ? r : remember_link(c, name, &st, e);
}

static int copy_link(struct copying *c, const char *name, struct err *e)
{
    char target[TREE_PATH_MAX];
    ssize_t n = readlinkat(walk_top(&c->walk)->fd, name, target, sizeof target - 1);

    if (n < 0)
        return err_sys(e, "reading a link");
    target[n] = '\0';
    return symlinkat(target, current_target(c), name) < 0 ? err_sys(e, "making a link") : 0;
}

/* --- onto another layer --- */

enum target_state { TARGET_FREE, TARGET_CLEARED, TARGET_MERGES };

/* Removes the lower layer's entry, unless both are directories that merge. */
static int clear_target(struct copying *c, const char *name, int from, enum target_state *ret,
                        struct err *e)
{
    struct stat st;
    int r;

    *ret = TARGET_FREE;
    if (!c->options->onto || fstatat(current_target(c), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    *ret =
        from >= 0 && S_ISDIR(st.st_mode) && !view_is_opaque(from) ? TARGET_MERGES : TARGET_CLEARED;
    if (*ret == TARGET_MERGES)
        return 0;
    r = tree_remove(current_target(c), name, e);
    return r == -(int)ERR_NOT_FOUND ? 0 : r;
}

/* Writes the path of a name in the floor; false if the floor does not cover it. */
static bool floor_path(const struct copying *c, const char *name, char out[static TREE_PATH_MAX])
{
    const char *top = c->options->floor.top;
    unsigned skipped = top ? 2 : 1;
    size_t n = 0;

    if (top && (c->walk.depth < 2 || strcmp(c->walk.levels[1].name, top) != 0))
        return false;
    for (unsigned i = skipped; i <= c->walk.depth; i++) {
        const char *part = i < c->walk.depth ? c->walk.levels[i].name : name;

        n += (size_t)snprintf(out + n, TREE_PATH_MAX - n, "%s%s", n ? "/" : "", part);
        if (n >= TREE_PATH_MAX)
            return false;
    }
    return true;
}

/* Looks up a name of the deepest level in the floor. */
static bool floor_shows(const struct copying *c, const char *name, struct stat *ret)
{
    const struct floor *f = &c->options->floor;
    char path[TREE_PATH_MAX];

    return c->covers[c->walk.depth - 1] && floor_path(c, name, path) &&
           view_shows(f->trees, f->n, path, ret);
}

/* Makes a directory opaque if it replaces another file or if either directory is opaque. */
static int merge_dir(struct copying *c, const char *name, int from, int to, enum target_state way,
                     bool *ret, struct err *e)
{
    const char *top = c->walk.depth == 1 ? c->options->floor.top : NULL;
    struct stat st;
    bool opaque = way == TARGET_CLEARED || view_is_opaque(from) || view_is_opaque(to);
    bool covers = top ? strcmp(name, top) == 0 : floor_shows(c, name, &st) && S_ISDIR(st.st_mode);
    int r = way == TARGET_MERGES ? attributes_clear_extended(to, e) : 0;

    if (r >= 0 && covers && opaque)
        r = view_set_opaque(to, e);
    *ret = covers && !opaque;
    return r;
}

static int enter_copied_dir(struct copying *c, const char *name, struct err *e)
{
    AUTO_CLOSE int to = -1;
    AUTO_CLOSE int from = at_open_unseen(walk_top(&c->walk)->fd, name, O_DIRECTORY);
    struct stat st;
    bool covers;
    enum target_state way;
    int r;

    if (from < 0 || fstat(from, &st) < 0)
        return err_sys(e, "opening");
    if (st.st_dev != c->dev)
        return err_set(e, ERR_CONFLICT, "another file system is mounted there");
    r = clear_target(c, name, from, &way, e);
    if (r < 0)
        return r;
    if ((way != TARGET_MERGES && mkdirat(current_target(c), name, 0700) < 0) ||
        (to = at_open(current_target(c), name, O_RDONLY | O_DIRECTORY, 0)) < 0)
        return err_sys(e, "making a directory");
    r = merge_dir(c, name, from, to, way, &covers, e);
    if (r < 0)
        return r;
    r = walk_enter(&c->walk, take_fd(&from), name, e);
    if (r < 0)
        return r;
    c->to[c->walk.depth - 1] = take_fd(&to);
    c->level[c->walk.depth - 1] = st;
    c->covers[c->walk.depth - 1] = covers;
    return 0;
}

/* Sets the attributes of a directory last: filling it changes its times. */
static int leave_copied_dir(struct copying *c, struct err *e)
{
    unsigned at = c->walk.depth - 1;
    int r = attributes_copy_extended(&c->owners, c->walk.levels[at].fd, c->to[at], e);

    if (r >= 0)
        r = attributes_set(&c->owners, c->to[at], &c->level[at], e);
    if (at > 0)
        drop_fd(&c->to[at]);
    walk_leave(&c->walk);
    return r;
}

static int copy_name(struct copying *c, const char *name, struct err *e)
{
    struct stat st, below;
    enum target_state way;
    int r;

    if (fstatat(walk_top(&c->walk)->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(e, "reading its attributes");
    if (c->report.entries >= c->entries_max)
        return err_set(e, ERR_TOO_BIG, "the sandbox wrote more than %llu files",
                       (unsigned long long)c->entries_max);
    c->report.entries++;
    if (c->options->progress)
        c->options->progress(c->options->user, c->report.bytes, c->report.entries);
    r = check_copy_space(c, c->report.entries * NAME_ROOM, NAME_ROOM, e);
    if (r < 0)
        return r;
    if (S_ISDIR(st.st_mode))
        return enter_copied_dir(c, name, e);
    r = clear_target(c, name, -1, &way, e);
    /* In a directory that does not merge, overlayfs would show the name of a whiteout that hides
     * nothing. */
    if (r < 0 || (c->options->onto && S_ISCHR(st.st_mode) && !floor_shows(c, name, &below)))
        return r;
    r = link_copied_file(c, name, &st, e);
    if (r != 0)
        return r < 0 ? r : 0;
    if (S_ISREG(st.st_mode))
        return copy_regular_file(c, name, e);
    if (S_ISBLK(st.st_mode) || (S_ISCHR(st.st_mode) && !view_is_whiteout(&st)))
        return err_set(e, ERR_DENIED, "it is a device, which cannot be captured");
    if (S_ISLNK(st.st_mode))
        r = copy_link(c, name, e);
    else if (mknodat(current_target(c), name, (st.st_mode & S_IFMT) | 0600, 0) < 0)
        r = err_sys(e, "creating it");
    if (r >= 0 && !S_ISCHR(st.st_mode)) /* whiteouts are made by overlayfs and have no owner */
        r = attributes_set_at(&c->owners, current_target(c), name, &st, e);
    return r < 0 ? r : remember_link(c, name, &st, e);
}

static int copy_tree_entries(struct copying *c, struct err *e)
{
    const char *name;
    int r = 0;

    while (r >= 0 && c->walk.depth > 0) {
        char shown[TREE_SHOWN_MAX];

        r = walk_next(&c->walk, &name, e);
        if (r == 0) {
            r = leave_copied_dir(c, e);
        } else if (r > 0 && !(c->walk.depth == 1 && layers_name_is_in(c->options->skip, name))) {
            tree_path_show(str_from(name), shown);
            r = copy_name(c, name, e);
            err_wrap(e, r, "'%s'", shown);
        }
    }
    return r;
}

int layers_copy(int from, int to, int links, const struct copy_options *o, struct copy_report *ret,
                struct err *e)
{
    static struct copying c; /* large, and there is one job a process */
    int r, first = at_open_unseen(from, ".", O_DIRECTORY);

    c = (struct copying){ .options = o,
                          .bytes_max = o->bytes_max ? o->bytes_max : TREE_BYTES_DEFAULT,
                          .entries_max = o->entries_max ? o->entries_max : TREE_ENTRIES_DEFAULT,
                          .links = links,
                          .may_clone = true };
    walk_init(&c.walk);
    if (first < 0 || fstat(first, &c.level[0]) < 0) {
        r = err_sys(e, "opening the source directory");
        drop_fd(&first);
        return r;
    }
    c.dev = c.level[0].st_dev;
    c.owners = owners_of(&c.level[0]);
    c.to[0] = to;
    c.covers[0] = o->floor.n > 0;
    r = walk_enter(&c.walk, first, "", e);
    if (r >= 0)
        r = copy_tree_entries(&c, e);
    for (unsigned i = 1; i < c.walk.depth; i++)
        drop_fd(&c.to[i]);
    walk_done(&c.walk);
    if (r >= 0)
        *ret = c.report;
    return r;
}
