/* Trees into the file of a snapshot. */
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/own.h"
#include "base/room.h"
#include "layers/archive.h"
#include "layers/attributes.h"
#include "layers/view.h"
#include "tree/at.h"
#include "tree/tree.h"
#include "tree/walk.h"
#include "zstd/pack.h"

/* Numbers of files that were written under another name. */
struct seen {
    uint64_t *p;
    size_t n, cap;
};

struct archive_out {
    struct keeper *keeper;
    int fd;
    struct zstd_pack *zstd;
    struct crypto_sha256 hash;
    size_t n;
    char room[TREE_CHUNK];
    uint64_t bytes, entries, packed;
    struct seen seen;
    struct walk walk;
};

struct archive_out *archive_out_new(struct keeper *k, int fd)
{
    struct archive_out *o = calloc(1, sizeof *o);

    if (!o)
        abort();
    o->keeper = k;
    o->fd = fd;
    o->zstd = zstd_pack_new();
    return o;
}

void archive_out_free(struct archive_out *o)
{
    if (!o)
        return;
    zstd_pack_free(o->zstd);
    crypto_sha256_done(&o->hash);
    free(o->seen.p);
    free(o);
}

/* --- bytes --- */

static int write_packed(void *ctx, struct str packed, struct err *e)
{
    struct archive_out *o = ctx;
    int r = room_check(o->fd, o->keeper->job.free_min, o->packed, packed.n, e);

    o->packed += packed.n;
    return r < 0 ? r : at_write(o->fd, packed.p, packed.n, e);
}

static int flush(struct archive_out *o, bool last, struct err *e)
{
    struct str data = { o->room, o->n };

    o->n = 0;
    o->bytes += data.n;
    keeper_progress(o->keeper, o->bytes, o->entries);
    return zstd_pack_add(o->zstd, data, last, write_packed, o, e);
}

static int put_raw(struct archive_out *o, const void *p, size_t n, struct err *e)
{
    const char *from = p;

    while (n > 0) {
        size_t some = n < sizeof o->room - o->n ? n : sizeof o->room - o->n;
        int r = 0;

        memcpy(o->room + o->n, from, some);
        o->n += some;
        from += some;
        n -= some;
        if (o->n == sizeof o->room)
            r = flush(o, false, e);
        if (r < 0)
            return r;
    }
    return 0;
}

int archive_put(struct archive_out *o, const void *p, size_t n, struct err *e)
{
    crypto_sha256_add(&o->hash, (struct str){ p, n });
    return put_raw(o, p, n, e);
}

int archive_put_number(struct archive_out *o, uint64_t v, size_t bytes, struct err *e)
{
    unsigned char text[8];

    for (size_t i = 0; i < bytes; i++)
        text[i] = (unsigned char)(v >> (8 * i));
    return archive_put(o, text, bytes, e);
}

int archive_put_text(struct archive_out *o, const char *text, struct err *e)
{
    size_t n = strlen(text);
    int r = archive_put_number(o, n, 2, e);

    return r < 0 ? r : archive_put(o, text, n, e);
}

int archive_finish(struct archive_out *o, struct err *e)
{
    unsigned char digest[CRYPTO_SHA256_SIZE];
    int r = archive_put_number(o, ARCHIVE_END, 1, e);

    crypto_sha256_end(&o->hash, digest);
    if (r >= 0)
        r = put_raw(o, digest, sizeof digest, e);
    return r < 0 ? r : flush(o, true, e);
}

/* --- attributes --- */

static int put_time(struct archive_out *o, struct timespec t, struct err *e)
{
    int r = archive_put_number(o, (uint64_t)t.tv_sec, 8, e);

    return r < 0 ? r : archive_put_number(o, (uint64_t)t.tv_nsec, 4, e);
}

static int put_attributes(struct archive_out *o, const struct stat *st, struct err *e)
{
    int r = archive_put_number(o, st->st_mode & 07777, 4, e);

    if (r >= 0)
        r = archive_put_number(o, st->st_uid, 4, e);
    if (r >= 0)
        r = archive_put_number(o, st->st_gid, 4, e);
    if (r >= 0)
        r = put_time(o, st->st_mtim, e);
    return r < 0 ? r : put_time(o, st->st_atim, e);
}

static int put_one_extended(struct archive_out *o, int fd, const char *name, struct err *e)
{
    static char value[XATTR_SIZE_MAX];
    ssize_t n = fgetxattr(fd, name, value, sizeof value);
    int r;

    if (n < 0)
        return err_sys(e, "reading the attribute %.100s", name);
    r = archive_put_text(o, name, e);
    if (r >= 0)
        r = archive_put_number(o, (uint64_t)n, 4, e);
    return r < 0 ? r : archive_put(o, value, (size_t)n, e);
}

static int put_extended(struct archive_out *o, int fd, struct err *e)
{
    static struct attribute_names names;
    int r = attributes_list(fd, &names, e);

    if (r >= 0)
        r = archive_put_number(o, names.n, 2, e);
    for (size_t i = 0; r >= 0 && i < names.n; i++)
        r = put_one_extended(o, fd, names.p[i], e);
    return r;
}

/* --- names that share a file --- */

static size_t slot(const struct seen *s, uint64_t number)
{
    size_t at = (size_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (s->cap - 1);

    while (s->p[at] && s->p[at] != number)
        at = (at + 1) & (s->cap - 1);
    return at;
}

static void grow(struct seen *s)
{
    struct seen old = *s;

    s->cap = old.cap ? old.cap * 2 : 1024;
    s->p = calloc(s->cap, sizeof *s->p);
    if (!s->p)
        abort();
    for (size_t i = 0; i < old.cap; i++)
        if (old.p[i])
            s->p[slot(s, old.p[i])] = old.p[i];
    free(old.p);
}

/* True the second time. */
static bool note(struct seen *s, uint64_t number)
{
    size_t at;

    if (s->n * 2 >= s->cap)
        grow(s);
    at = slot(s, number);
    if (s->p[at])
        return true;
    s->p[at] = number;
    s->n++;
    return false;
}

/* --- files --- */

static int put_range(struct archive_out *o, int fd, off_t at, off_t end, struct err *e)
{
    static char piece[TREE_CHUNK];
    int r = archive_put_number(o, (uint64_t)at, 8, e);

    if (r >= 0)
        r = archive_put_number(o, (uint64_t)(end - at), 8, e);
    while (r >= 0 && at < end) {
        size_t want = end - at < (off_t)sizeof piece ? (size_t)(end - at) : sizeof piece;
        ssize_t n = pread(fd, piece, want, at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? err_sys(e, "reading") : err_set(e, ERR_CONFLICT, "it became shorter");
        r = archive_put(o, piece, (size_t)n, e);
        at += n;
    }
    return r;
}

static int put_content(struct archive_out *o, int fd, off_t size, struct err *e)
{
    int r = archive_put_number(o, (uint64_t)size, 8, e);

    for (off_t at = 0; r >= 0 && at < size;) {
        off_t data = lseek(fd, at, SEEK_DATA), hole;

        if (data < 0 && errno == ENXIO)
            break;
        hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
        if (hole < 0)
            return err_sys(e, "looking for holes");
        hole = hole < size ? hole : size;
        if (data < hole)
            r = put_range(o, fd, data, hole, e);
        at = hole;
    }
    if (r >= 0)
        r = archive_put_number(o, 0, 8, e);
    return r < 0 ? r : archive_put_number(o, 0, 8, e);
}

static int put_file(struct archive_out *o, const char *name, const struct stat *st, struct err *e)
{
    AUTO_CLOSE int fd =
        at_open(walk_top(&o->walk)->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    int r = fd < 0 ? err_sys(e, "opening") : put_extended(o, fd, e);

    return r < 0 ? r : put_content(o, fd, st->st_size, e);
}

static int put_target(struct archive_out *o, const char *name, struct err *e)
{
    char target[TREE_PATH_MAX];
    ssize_t n = readlinkat(walk_top(&o->walk)->fd, name, target, sizeof target - 1);

    if (n < 0)
        return err_sys(e, "reading a link");
    target[n] = '\0';
    return archive_put_text(o, target, e);
}

static int kind_of(const struct stat *st)
{
    static const struct {
        mode_t type;
        int kind;
    } kinds[] = { { S_IFREG, ARCHIVE_FILE },
                  { S_IFLNK, ARCHIVE_SYMLINK },
                  { S_IFIFO, ARCHIVE_FIFO },
                  { S_IFSOCK, ARCHIVE_SOCKET } };

    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if ((st->st_mode & S_IFMT) == kinds[i].type)
            return kinds[i].kind;
    return view_is_whiteout(st) ? ARCHIVE_WHITEOUT : -1;
}

static int put_head(struct archive_out *o, int kind, const char *name, struct err *e)
{
    int r = archive_put_number(o, (uint64_t)kind, 1, e);

    o->entries++;
    return r < 0 ? r : archive_put_text(o, name, e);
}

static int put_one(struct archive_out *o, const char *name, const struct stat *st, struct err *e)
{
    uint64_t link = st->st_nlink > 1 ? st->st_ino : 0;
    int kind = kind_of(st), r;

    if (kind < 0)
        return err_set(e, ERR_DENIED, "it is a device");
    if (link && note(&o->seen, link)) {
        r = put_head(o, ARCHIVE_LINK, name, e);
        return r < 0 ? r : archive_put_number(o, link, 8, e);
    }
    r = put_head(o, kind, name, e);
    if (r >= 0)
        r = put_attributes(o, st, e);
    if (r >= 0)
        r = archive_put_number(o, link, 8, e);
    if (r >= 0 && kind == ARCHIVE_FILE)
        r = put_file(o, name, st, e);
    if (r >= 0 && kind == ARCHIVE_SYMLINK)
        r = put_target(o, name, e);
    return r;
}

/* --- the tree --- */

static int enter(struct archive_out *o, const char *name, struct err *e)
{
    char copy[TREE_NAME_MAX + 1];
    int fd = at_open(walk_top(&o->walk)->fd, name, O_RDONLY | O_DIRECTORY, 0), r;

    if (fd < 0)
        return err_sys(e, "opening");
    str_copy(str_from(name), copy, sizeof copy);
    r = put_head(o, ARCHIVE_DIR, copy, e);
    if (r >= 0)
        return walk_enter(&o->walk, fd, copy, e);
    close(fd);
    return r;
}

static int leave(struct archive_out *o, struct err *e)
{
    int fd = walk_top(&o->walk)->fd, r = archive_put_number(o, ARCHIVE_LEAVE, 1, e);
    struct stat st;

    if (r >= 0 && fstat(fd, &st) < 0)
        r = err_sys(e, "looking at a directory");
    if (r >= 0)
        r = put_attributes(o, &st, e);
    if (r >= 0)
        r = put_extended(o, fd, e);
    walk_leave(&o->walk);
    return r;
}

static int put_name(struct archive_out *o, const char *name, struct err *e)
{
    struct stat st;
    int r;

    if (fstatat(walk_top(&o->walk)->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        r = err_sys(e, "looking at it");
    else
        r = S_ISDIR(st.st_mode) ? enter(o, name, e) : put_one(o, name, &st, e);
    return err_wrap(e, r, "'%.100s'", name);
}

int archive_put_tree(struct archive_out *o, int tree, struct err *e)
{
    int fd = at_open(tree, ".", O_RDONLY | O_DIRECTORY, 0), r;
    const char *name;

    if (fd < 0)
        return err_sys(e, "opening a layer");
    if (o->seen.p)
        memset(o->seen.p, 0, o->seen.cap * sizeof *o->seen.p);
    o->seen.n = 0;
    walk_init(&o->walk);
    r = walk_enter(&o->walk, fd, "", e);
    while (r >= 0 && o->walk.depth > 0) {
        r = walk_next(&o->walk, &name, e);
        if (r == 0)
            r = leave(o, e);
        else if (r > 0)
            r = put_name(o, name, e);
    }
    walk_done(&o->walk);
    return r;
}
