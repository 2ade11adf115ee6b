/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/tar/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/tar/at.h"
#include "lib/tar/path.h"
#include "lib/tar/sink.h"
#include "lib/tar/tar.h"
#include "lib/tar/walk.h"

/* Results of packing one name. */
enum { PACKED, CHANGED /* its type changed meanwhile: try again */ };

struct pack {
    struct tree_pack_options o;
    dev_t dev; /* the file system of the top */
    struct tree_report report;
    uint64_t shrunk; /* files that lost content while they were read */
    char shrunk_name[TREE_SHOWN_MAX];
    struct walk walk;
    struct tar_entry entry; /* the current entry */
    size_t path_n;
    struct tar_sink out;
};

/* Writes the header of the current entry, whose path, link and type are set. */
static int write_entry_header(struct pack *p, const struct stat *st, uint64_t size, struct err *e)
{
    char head[TAR_HEAD_MAX];

    p->entry.mode = st->st_mode & 07777;
    p->entry.uid = p->o.set_owner ? p->o.uid : st->st_uid;
    p->entry.gid = p->o.set_owner ? p->o.gid : st->st_gid;
    p->entry.size = size;
    p->entry.mtime = st->st_mtim;
    p->entry.major = major(st->st_rdev);
    p->entry.minor = minor(st->st_rdev);
    p->report.entries++;
    return tar_sink_write(&p->out, (struct str){ head, tar_encode(&p->entry, head) }, e);
}

static int append_path_name(struct pack *p, const char *name, struct err *e)
{
    size_t n = strlen(name);

    /* Reserves one byte for the slash behind a directory. */
    if (p->path_n + 1 + n + 2 > sizeof p->entry.path)
        return err_set(e, ERR_TOO_BIG, "the path is longer than %d bytes", TREE_PATH_MAX - 1);
    if (p->path_n > 0)
        p->entry.path[p->path_n++] = '/';
    memcpy(p->entry.path + p->path_n, name, n + 1);
    p->path_n += n;
    return 0;
}

static void truncate_path(struct pack *p, size_t path_n)
{
    p->path_n = path_n;
    p->entry.path[path_n] = '\0';
}

/* Opens a name; CHANGED if it vanished or is not of this type. */
static int open_name(int dir, const char *name, int flags, mode_t type, struct stat *ret,
                     int *ret_fd, struct err *e)
{
    AUTO_CLOSE int fd = at_open(dir, name, flags | O_NOFOLLOW, 0);

    if (fd < 0 && (errno == ENOENT || errno == ELOOP || errno == ENOTDIR || errno == ENXIO))
        return CHANGED;
    if (fd < 0 || fstat(fd, ret) < 0)
        return err_sys(e, "opening it");
    if ((ret->st_mode & S_IFMT) != type)
        return CHANGED;
    *ret_fd = take_fd(&fd);
    return PACKED;
}

static int write_entry_content(struct pack *p, int fd, uint64_t left, struct err *e)
{
    while (left > 0) {
        size_t room;
        ssize_t got;
        char *to;
        int r = tar_sink_room(&p->out, &to, &room, e);

        if (r < 0)
            return r;
        got = read(fd, to, left < room ? (size_t)left : room);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_sys(e, "reading it");
        if (got == 0) {
            if (p->shrunk++ == 0)
                tree_path_show(str_from(p->entry.path), p->shrunk_name);
            return tar_sink_zeros(&p->out, left, e);
        }
        p->out.n += (size_t)got;
        left -= (size_t)got;
    }
    return 0;
}

static int pack_file(struct pack *p, int dir, const char *name, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    struct stat st;
    uint64_t size;
    /* A fifo or a terminal may have replaced it: open() must neither block nor make the terminal
     * the controlling one. */
    int r = open_name(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, S_IFREG, &st, &fd, e);

    if (r != PACKED)
        return r;
    size = (uint64_t)st.st_size;
    p->entry.type = TAR_FILE;
    r = write_entry_header(p, &st, size, e);
    if (r >= 0)
        r = write_entry_content(p, fd, size, e);
    if (r >= 0)
        r = tar_sink_zeros(&p->out, tar_padding(size), e);
    p->report.bytes += size;
    return r;
}

static int pack_symlink(struct pack *p, int dir, const char *name, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    struct stat st;
    ssize_t n;
    int r = open_name(dir, name, O_PATH, S_IFLNK, &st, &fd, e);

    if (r != PACKED)
        return r;
    n = readlinkat(fd, "", p->entry.link, sizeof p->entry.link);
    if (n < 0)
        return err_sys(e, "reading the link");
    if ((size_t)n == sizeof p->entry.link)
        return err_set(e, ERR_TOO_BIG, "its target is longer than %d bytes", TREE_PATH_MAX - 1);
    p->entry.link[n] = '\0';
    p->entry.type = TAR_SYMLINK;
    r = write_entry_header(p, &st, 0, e);
    p->entry.link[0] = '\0';
    return r;
}

static int pack_special(struct pack *p, int dir, const char *name, mode_t type, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    struct stat st;
    int r = open_name(dir, name, O_PATH, type, &st, &fd, e);

    if (r != PACKED)
        return r;
    if (type == S_IFSOCK) {
        p->report.sockets_skipped++;
        return PACKED;
    }
    p->entry.type = type == S_IFCHR ? TAR_CHAR : type == S_IFBLK ? TAR_BLOCKDEV : TAR_FIFO;
    return write_entry_header(p, &st, 0, e);
}

/* Writes the directory's own entry and enters it; the walk packs its content. */
static int pack_dir(struct pack *p, int dir, const char *name, struct err *e)
{
    size_t path_n = p->path_n;
    AUTO_CLOSE int fd = -1;
    struct stat st;
    int r = open_name(dir, name, O_RDONLY | O_DIRECTORY, S_IFDIR, &st, &fd, e);

    if (r != PACKED)
        return r;
    if (p->walk.depth == 0)
        p->dev = st.st_dev;
    p->entry.type = TAR_DIR;
    memcpy(p->entry.path + path_n, "/", 2);
    r = write_entry_header(p, &st, 0, e);
    truncate_path(p, path_n);
    if (r < 0 || (p->o.one_file_system && st.st_dev != p->dev))
        return r;
    return walk_enter(&p->walk, take_fd(&fd), "", e); /* p->entry.path has the name */
}

static int pack_once(struct pack *p, int dir, const char *name, struct err *e)
{
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? PACKED : err_sys(e, "looking at it");
    switch (st.st_mode & S_IFMT) {
    case S_IFREG:
        return pack_file(p, dir, name, e);
    case S_IFDIR:
        return pack_dir(p, dir, name, e);
    case S_IFLNK:
        return pack_symlink(p, dir, name, e);
    default:
        return pack_special(p, dir, name, st.st_mode & S_IFMT, e);
    }
}

static int pack_name(struct pack *p, int dir, const char *name, struct err *e)
{
    for (int i = 0; i < TREE_RACES_MAX; i++) {
        int r = pack_once(p, dir, name, e);

        if (r != CHANGED)
            return r;
    }
    return err_set(e, ERR_BUSY, "it keeps changing into something else");
}

static int pack_inner(struct pack *p, const char *name, struct err *e)
{
    unsigned depth = p->walk.depth;
    size_t path_n = p->path_n;
    int r = append_path_name(p, name, e);

    if (r >= 0)
        r = pack_name(p, walk_top(&p->walk)->fd, name, e);
    if (r >= 0 && p->walk.depth == depth) /* else the walk is in the directory now */
        truncate_path(p, path_n);
    return r;
}

static int pack_tree(struct pack *p, int dir, const char *name, struct err *e)
{
    struct stat st;
    int r;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return at_error(e, "looking at it");
    r = pack_name(p, dir, name, e);
    while (r >= 0 && p->walk.depth > 0) {
        const char *inner, *slash;

        r = walk_next(&p->walk, &inner, e);
        if (r > 0) {
            r = pack_inner(p, inner, e);
        } else if (r == 0) {
            walk_leave(&p->walk);
            slash = strrchr(p->entry.path, '/');
            if (p->walk.depth > 0 && slash)
                truncate_path(p, (size_t)(slash - p->entry.path));
        }
    }
    return r;
}

static int pack_path(struct pack *p, int root, const struct tree_path *path, struct err *e)
{
    const char *name = path->n > 0 ? tree_path_name(path) : ".";
    char parent[TREE_PATH_MAX], shown[TREE_SHOWN_MAX];
    AUTO_CLOSE int dir = -1;
    int r = append_path_name(p, p->o.as && p->o.as[0] ? p->o.as : name, e);

    if (r < 0)
        return r;
    tree_path_parent(path, parent);
    dir = at_open(root, parent, O_PATH | O_DIRECTORY, 0);
    r = dir < 0 ? at_error(e, "opening its directory") : pack_tree(p, dir, name, e);
    tree_path_show(str_from(p->entry.path), shown);
    return err_wrap(e, r, "packing '%s'", shown);
}

int tree_pack(int out_fd, int root_dir, const char *path, const struct tree_pack_options *o,
              struct tree_report *ret, struct err *e)
{
    struct pack p; /* not zeroed: most of it is buffers */
    struct tree_path clean;
    int r;

    tar_sink_init(&p.out, out_fd);
    p.o = *o;
    p.dev = 0;
    p.report = (struct tree_report){ 0 };
    p.shrunk = 0;
    p.entry.path[0] = p.entry.link[0] = '\0';
    p.path_n = 0;
    walk_init(&p.walk);
    r = tree_path(str_from(path[0] ? path : "."), &clean, e);
    if (r >= 0)
        r = pack_path(&p, root_dir, &clean, e);
    walk_done(&p.walk);
    if (r >= 0)
        r = tar_sink_zeros(&p.out, 2 * TAR_BLOCK, e); /* the end marker */
    if (r >= 0)
        r = tar_sink_flush(&p.out, e);
    if (r >= 0 && p.shrunk > 0)
        r = err_set(e, ERR_CONFLICT, "'%s' shrank while it was read (%llu such files)",
                    p.shrunk_name, (unsigned long long)p.shrunk);
    if (r >= 0)
        *ret = p.report;
    return r;
}
