#include "tree/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/own.h"
#include "tree/at.h"
#include "tree/path.h"
#include "tree/tar.h"
#include "tree/walk.h"

/* What packing one name comes to. */
enum { PACKED, CHANGED /* it is not any more what it was: look again */ };

struct pack {
    int out;
    struct tree_pack_options o;
    dev_t dev; /* the file system of the top */
    struct tree_report report;
    uint64_t shrunk; /* files that lost content while they were read */
    char shrunk_name[TREE_SHOWN_MAX];
    struct walk walk;
    struct tar_entry entry; /* its path is that of the name at hand */
    size_t path_n;
    size_t n; /* bytes in buffer */
    char buffer[TREE_CHUNK];
};

static void pack_done(struct pack *p)
{
    walk_done(&p->walk);
}

static int flush(struct pack *p, struct err *e)
{
    int r = at_write(p->out, p->buffer, p->n, e);

    p->n = 0;
    return r;
}

/* Room for at least one byte at the end of the buffer. */
static int make_room(struct pack *p, struct err *e)
{
    return p->n == sizeof p->buffer ? flush(p, e) : 0;
}

static int put(struct pack *p, const char *from, size_t n, struct err *e)
{
    while (n > 0) {
        int r = make_room(p, e);
        size_t step = sizeof p->buffer - p->n;

        if (r < 0)
            return r;
        if (step > n)
            step = n;
        memcpy(p->buffer + p->n, from, step);
        p->n += step;
        from += step;
        n -= step;
    }
    return 0;
}

static int put_zeros(struct pack *p, uint64_t n, struct err *e)
{
    static const char zeros[TAR_BLOCK];

    while (n > 0) {
        size_t step = n < sizeof zeros ? (size_t)n : sizeof zeros;
        int r = put(p, zeros, step, e);

        if (r < 0)
            return r;
        n -= step;
    }
    return 0;
}

/* The header of the current entry, whose path, link and type are set. */
static int put_header(struct pack *p, const struct stat *st, uint64_t size, struct err *e)
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
    return put(p, head, tar_encode(&p->entry, head), e);
}

static int add_name(struct pack *p, const char *name, struct err *e)
{
    size_t n = strlen(name);

    /* One more byte is kept free for the slash behind a directory. */
    if (p->path_n + 1 + n + 2 > sizeof p->entry.path)
        return err_set(e, ERR_TOO_BIG, "the path is longer than %d bytes", TREE_PATH_MAX - 1);
    if (p->path_n > 0)
        p->entry.path[p->path_n++] = '/';
    memcpy(p->entry.path + p->path_n, name, n + 1);
    p->path_n += n;
    return 0;
}

static void cut_name(struct pack *p, size_t path_n)
{
    p->path_n = path_n;
    p->entry.path[path_n] = '\0';
}

/* Opens a name that was of a certain type a moment ago. */
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

static void note_shrunk(struct pack *p)
{
    if (p->shrunk++ == 0)
        tree_path_show(str_from(p->entry.path), p->shrunk_name);
}

static int put_content(struct pack *p, int fd, uint64_t left, struct err *e)
{
    while (left > 0) {
        int r = make_room(p, e);
        size_t room = sizeof p->buffer - p->n;
        ssize_t got;

        if (r < 0)
            return r;
        got = read(fd, p->buffer + p->n, left < room ? (size_t)left : room);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_sys(e, "reading it");
        if (got == 0) {
            note_shrunk(p);
            return put_zeros(p, left, e);
        }
        p->n += (size_t)got;
        left -= (size_t)got;
    }
    return 0;
}

static int pack_file(struct pack *p, int dir, const char *name, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    struct stat st;
    uint64_t size;
    /* Should a fifo or a terminal have taken its place: opening it must neither wait nor adopt it.
     */
    int r = open_name(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, S_IFREG, &st, &fd, e);

    if (r != PACKED)
        return r;
    size = (uint64_t)st.st_size;
    p->entry.type = TAR_FILE;
    r = put_header(p, &st, size, e);
    if (r >= 0)
        r = put_content(p, fd, size, e);
    if (r >= 0)
        r = put_zeros(p, tar_padding(size), e);
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
    r = put_header(p, &st, 0, e);
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
    return put_header(p, &st, 0, e);
}

/* Its entry; what is in it follows when the walk comes to it. */
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
    r = put_header(p, &st, 0, e);
    cut_name(p, path_n);
    if (r < 0 || (p->o.one_file_system && st.st_dev != p->dev))
        return r;
    return walk_enter(&p->walk, take_fd(&fd), "", e); /* the path has the name */
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
    int r = add_name(p, name, e);

    if (r >= 0)
        r = pack_name(p, walk_top(&p->walk)->fd, name, e);
    if (r >= 0 && p->walk.depth == depth) /* else its content comes next */
        cut_name(p, path_n);
    return r;
}

static void leave_dir(struct pack *p)
{
    const char *slash;

    walk_leave(&p->walk);
    slash = strrchr(p->entry.path, '/');
    if (p->walk.depth > 0 && slash)
        cut_name(p, (size_t)(slash - p->entry.path));
}

static int pack_tree(struct pack *p, int dir, const char *name, struct err *e)
{
    struct stat st;
    int r;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return at_error(e, "looking at it");
    r = pack_name(p, dir, name, e);
    while (r >= 0 && p->walk.depth > 0) {
        const char *inner;

        r = walk_next(&p->walk, &inner, e);
        if (r > 0)
            r = pack_inner(p, inner, e);
        else if (r == 0)
            leave_dir(p);
    }
    return r;
}

static int pack_path(struct pack *p, int root, const struct tree_path *path, struct err *e)
{
    const char *name = path->n > 0 ? tree_path_name(path) : ".";
    char parent[TREE_PATH_MAX], shown[TREE_SHOWN_MAX];
    AUTO_CLOSE int dir = -1;
    int r = add_name(p, p->o.as && p->o.as[0] ? p->o.as : name, e);

    if (r < 0)
        return r;
    tree_path_parent(path, parent);
    dir = at_open(root, parent, O_PATH | O_DIRECTORY, 0);
    r = dir < 0 ? at_error(e, "opening its directory") : pack_tree(p, dir, name, e);
    tree_path_show(str_from(p->entry.path), shown);
    return err_wrap(e, r, "packing '%s'", shown);
}

/* Two blocks of zeros, and what is still in the buffer. */
static int finish(struct pack *p, struct err *e)
{
    int r = put_zeros(p, 2 * TAR_BLOCK, e);

    if (r >= 0)
        r = flush(p, e);
    if (r >= 0 && p->shrunk > 0)
        return err_set(e, ERR_CONFLICT, "'%s' shrank while it was read (%llu such files)",
                       p->shrunk_name, (unsigned long long)p->shrunk);
    return r;
}

int tree_pack(int out_fd, int root_dir, const char *path, const struct tree_pack_options *o,
              struct tree_report *ret, struct err *e)
{
    AUTO(pack_done) struct pack p; /* not zeroed: most of it is buffers */
    struct tree_path clean;
    int r;

    p.out = out_fd;
    p.o = *o;
    p.dev = 0;
    p.report = (struct tree_report){ 0 };
    p.shrunk = 0;
    p.entry.path[0] = p.entry.link[0] = '\0';
    p.path_n = p.n = 0;
    walk_init(&p.walk);
    r = tree_path(str_from(path[0] ? path : "."), &clean, e);
    if (r >= 0)
        r = pack_path(&p, root_dir, &clean, e);
    if (r >= 0)
        r = finish(&p, e);
    if (r < 0)
        return r;
    *ret = p.report;
    return 0;
}
