#include "layers/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/own.h"
#include "base/room.h"
#include "layers/ahead.h"
#include "layers/attributes.h"
#include "layers/content.h"
#include "layers/count.h"
#include "layers/view.h"
#include "tree/at.h"
#include "tree/path.h"
#include "tree/remove.h"
#include "tree/walk.h"

enum {
    LINK_NAME_MAX = 32,
    NAME_ROOM = 512, /* about what a name takes on a disk, and as much as in an archive */
};

struct copying {
    const struct copy_options *options;
    struct copy_report report;
    uint64_t bytes_max, entries_max;
    uint64_t written; /* of report.bytes: not cloned */
    struct owners owners;
    dev_t dev;
    int links;
    bool may_clone;
    struct walk walk;       /* the source */
    int to[TREE_DEPTH_MAX]; /* beside its levels */
    struct stat level[TREE_DEPTH_MAX];
    bool covers[TREE_DEPTH_MAX]; /* onto: a directory of the floor shows through */
};

static void copying_done(struct copying *c)
{
    for (unsigned i = 1; i < c->walk.depth; i++)
        drop_fd(&c->to[i]);
    walk_done(&c->walk);
}

static int top(const struct copying *c)
{
    return c->to[c->walk.depth - 1];
}

/* A clone shares what is on the disk already, and takes no room but that of its name: on a disk
 * that has too little left, a sandbox can still be captured where that adds no data. So names are
 * looked at when there are many, what is written with its first byte. It is not the sandbox that is
 * too big, and may work later. */
static int check_room(const struct copying *c, uint64_t at, uint64_t n, struct err *e)
{
    int r = room_check(c->to[0], c->options->free_min, at, n, e);

    if (r == -(int)ERR_TOO_BIG && c->options->ahead >= 0) {
        ahead_drop(c->options->ahead);
        r = room_check(c->to[0], c->options->free_min, 0, n, e);
    }
    if (r != -(int)ERR_TOO_BIG)
        return r;
    e->code = ERR_BUSY;
    return -(int)ERR_BUSY;
}

static int count_entry(struct copying *c, struct err *e)
{
    if (c->report.entries >= c->entries_max)
        return err_set(e, ERR_TOO_BIG, "more than %llu files", (unsigned long long)c->entries_max);
    c->report.entries++;
    if (c->options->progress)
        c->options->progress(c->options->user, c->report.bytes, c->report.entries);
    return check_room(c, c->report.entries * NAME_ROOM, NAME_ROOM, e);
}

static int count_bytes(struct copying *c, uint64_t n, struct err *e)
{
    if (n > c->bytes_max - c->report.bytes)
        return err_set(e, ERR_TOO_BIG, "more than %llu bytes", (unsigned long long)c->bytes_max);
    c->report.bytes += n;
    if (c->options->progress)
        c->options->progress(c->options->user, c->report.bytes, c->report.entries);
    return 0;
}

/* A content's count. */
static int count_content(void *user, uint64_t n, bool written, struct err *e)
{
    struct copying *c = user;
    int r = written ? check_room(c, c->written, n, e) : 0;

    c->written += written ? n : 0;
    return r < 0 ? r : count_bytes(c, n, e);
}

/* --- content --- */

static int copy_content(struct copying *c, int from, int to, const struct stat *st, struct err *e)
{
    const struct content content = { count_content, c };

    if (st->st_size == 0)
        return 0;
    if (c->may_clone && ioctl(to, FICLONE, from) == 0) {
        c->report.cloned++;
        return count_bytes(c, layers_data_of(st), e);
    }
    c->may_clone = false; /* neither will the next */
    return content_copy(&content, from, to, st->st_size, e);
}

/* --- names --- */

/* The file was copied under another name already: gives it this one, too. 1, or 0 if it was not. */
static int link_again(struct copying *c, const char *name, const struct stat *st, struct err *e)
{
    char known[LINK_NAME_MAX];

    if (st->st_nlink < 2)
        return 0;
    snprintf(known, sizeof known, "%llx", (unsigned long long)st->st_ino);
    if (linkat(c->links, known, top(c), name, 0) == 0)
        return 1;
    return errno == ENOENT ? 0 : err_sys(e, "giving it another name");
}

static int remember_link(struct copying *c, const char *name, const struct stat *st, struct err *e)
{
    char known[LINK_NAME_MAX];

    if (st->st_nlink < 2)
        return 0;
    snprintf(known, sizeof known, "%llx", (unsigned long long)st->st_ino);
    return linkat(top(c), name, c->links, known, 0) < 0 ? err_sys(e, "remembering its other names")
                                                        : 0;
}

static int copy_file(struct copying *c, const char *name, struct err *e)
{
    const struct content content = { count_content, c };
    AUTO_CLOSE int to = -1;
    AUTO_CLOSE int from = at_open_unseen(walk_top(&c->walk)->fd, name, O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    bool ahead;
    int r;

    if (from < 0 || fstat(from, &st) < 0)
        return err_sys(e, "opening");
    if (!S_ISREG(st.st_mode) || st.st_dev != c->dev)
        return err_set(e, ERR_CONFLICT, "it was replaced while it was copied");
    to = ahead_take(c->options->ahead, &st, top(c), name);
    ahead = to >= 0;
    if (!ahead)
        to = at_open(top(c), name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (to < 0)
        return err_sys(e, "making a copy");
    r = ahead ? content_mend(&content, from, to, st.st_size, e) : copy_content(c, from, to, &st, e);
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
    return symlinkat(target, top(c), name) < 0 ? err_sys(e, "making a link") : 0;
}

/* A device is nothing that a sandbox can make, but for the one that says "removed". */
static int copy_node(struct copying *c, const char *name, const struct stat *st, struct err *e)
{
    if (S_ISBLK(st->st_mode) || (S_ISCHR(st->st_mode) && st->st_rdev != makedev(0, 0)))
        return err_set(e, ERR_DENIED, "it is a device");
    if (mknodat(top(c), name, (st->st_mode & S_IFMT) | 0600, 0) < 0)
        return err_sys(e, "making it");
    return 0;
}

/* --- onto another layer --- */

enum way { WAY_FREE, WAY_MADE, WAY_MERGES };

/* What is further down makes way, unless both are directories that show as one. */
static int make_way(struct copying *c, const char *name, int from, enum way *ret, struct err *e)
{
    struct stat st;
    int r;

    *ret = WAY_FREE;
    if (!c->options->onto || fstatat(top(c), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    *ret = from >= 0 && S_ISDIR(st.st_mode) && !view_is_opaque(from) ? WAY_MERGES : WAY_MADE;
    if (*ret == WAY_MERGES)
        return 0;
    r = tree_remove(top(c), name, e);
    return r == -(int)ERR_NOT_FOUND ? 0 : r;
}

/* As the floor would call it: false where that has nothing to say. */
static bool name_on_floor(const struct copying *c, const char *name, char out[static TREE_PATH_MAX])
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

/* What the floor has at a name of the deepest level. */
static bool shows(const struct copying *c, const char *name, struct stat *ret)
{
    const struct floor *f = &c->options->floor;
    char path[TREE_PATH_MAX];

    if (!c->covers[c->walk.depth - 1] || !name_on_floor(c, name, path))
        return false;
    for (size_t i = 0; i < f->n; i++) {
        enum view v = view_ask(f->trees[i], path, ret);

        if (v != VIEW_NOT)
            return v == VIEW_THERE;
    }
    return false;
}

static bool shows_dir(const struct copying *c, const char *name)
{
    struct stat st;

    if (c->walk.depth == 1 && c->options->floor.top)
        return strcmp(name, c->options->floor.top) == 0;
    return shows(c, name, &st) && S_ISDIR(st.st_mode);
}

/* A directory in place of something else, or on one that ends what shows through, ends it, too. */
static int join(struct copying *c, const char *name, int from, int to, enum way way, bool *ret,
                struct err *e)
{
    bool opaque = way == WAY_MADE || view_is_opaque(from) || view_is_opaque(to);
    bool covers = shows_dir(c, name);
    int r = way == WAY_MERGES ? attributes_clear_extended(to, e) : 0;

    if (r >= 0 && covers && opaque)
        r = view_set_opaque(to, e);
    *ret = covers && !opaque;
    return r;
}

static int enter(struct copying *c, const char *name, struct err *e)
{
    char copy[TREE_NAME_MAX + 1];
    AUTO_CLOSE int to = -1;
    AUTO_CLOSE int from = at_open_unseen(walk_top(&c->walk)->fd, name, O_DIRECTORY);
    struct stat st;
    bool covers;
    enum way way;
    int r;

    if (from < 0 || fstat(from, &st) < 0)
        return err_sys(e, "opening");
    if (st.st_dev != c->dev)
        return err_set(e, ERR_CONFLICT, "something is mounted there");
    r = make_way(c, name, from, &way, e);
    if (r < 0)
        return r;
    if ((way != WAY_MERGES && mkdirat(top(c), name, 0700) < 0) ||
        (to = at_open(top(c), name, O_RDONLY | O_DIRECTORY, 0)) < 0)
        return err_sys(e, "making a directory");
    r = join(c, name, from, to, way, &covers, e);
    if (r < 0)
        return r;
    snprintf(copy, sizeof copy, "%s", name);
    r = walk_enter(&c->walk, take_fd(&from), copy, e);
    if (r < 0)
        return r;
    c->to[c->walk.depth - 1] = take_fd(&to);
    c->level[c->walk.depth - 1] = st;
    c->covers[c->walk.depth - 1] = covers;
    return 0;
}

/* What says "removed" is needed where something would show; in a directory that nothing shows
 * through, overlayfs would show its name. */
static bool is_needless(const struct copying *c, const char *name, const struct stat *st)
{
    struct stat below;

    return c->options->onto && S_ISCHR(st->st_mode) && !shows(c, name, &below);
}

/* Its attributes are the last thing it gets: its times change as it is filled. */
static int leave(struct copying *c, struct err *e)
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

static bool is_skipped(const struct copying *c, const char *name)
{
    for (const char *const *s = c->options->skip; c->walk.depth == 1 && s && *s; s++)
        if (strcmp(*s, name) == 0)
            return true;
    return false;
}

static int copy_name(struct copying *c, const char *name, struct err *e)
{
    struct stat st;
    enum way way;
    int r;

    if (fstatat(walk_top(&c->walk)->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(e, "looking at it");
    r = count_entry(c, e);
    if (r < 0)
        return r;
    if (S_ISDIR(st.st_mode))
        return enter(c, name, e);
    r = make_way(c, name, -1, &way, e);
    if (r < 0 || is_needless(c, name, &st))
        return r;
    r = link_again(c, name, &st, e);
    if (r != 0)
        return r < 0 ? r : 0;
    if (S_ISREG(st.st_mode))
        return copy_file(c, name, e);
    r = S_ISLNK(st.st_mode) ? copy_link(c, name, e) : copy_node(c, name, &st, e);
    if (r >= 0 && !S_ISCHR(st.st_mode)) /* what says "removed" is nobody's: overlayfs made it */
        r = attributes_set_at(&c->owners, top(c), name, &st, e);
    return r < 0 ? r : remember_link(c, name, &st, e);
}

static int copy_all(struct copying *c, struct err *e)
{
    const char *name;
    int r = 0;

    while (r >= 0 && c->walk.depth > 0) {
        char shown[TREE_SHOWN_MAX];

        r = walk_next(&c->walk, &name, e);
        if (r == 0) {
            r = leave(c, e);
        } else if (r > 0 && is_skipped(c, name)) {
            r = 0;
        } else if (r > 0) {
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
        r = err_sys(e, "opening what is to be copied");
        drop_fd(&first);
        return r;
    }
    c.dev = c.level[0].st_dev;
    c.owners = owners_of(&c.level[0]);
    c.to[0] = to;
    c.covers[0] = o->floor.n > 0;
    r = walk_enter(&c.walk, first, "", e);
    if (r >= 0)
        r = copy_all(&c, e);
    copying_done(&c);
    if (r >= 0)
        *ret = c.report;
    return r;
}
