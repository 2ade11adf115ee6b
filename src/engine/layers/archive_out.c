/* SPDX-License-Identifier: Apache-2.0 */
/* Writes layer trees to the file of an exported snapshot. */
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/own.h"
#include "base/disk_space.h"
#include "engine/layers/archive.h"
#include "engine/layers/attributes.h"
#include "engine/layers/view.h"
#include "lib/tar/at.h"
#include "lib/tar/tree.h"
#include "lib/tar/walk.h"
#include "lib/zstd/pack.h"

/* Inode numbers of files with several names that were written already. */
struct seen_inodes {
    uint64_t *p;
    size_t n, cap;
};

struct archive_out {
    struct layer_worker *layer_worker;
    int fd;
    struct zstd_pack *zstd;
    struct crypto_sha256 hash;
    size_t n;
    char room[TREE_CHUNK];
    uint64_t bytes, entries, packed;
    struct seen_inodes seen;
    struct walk walk;
};

struct archive_out *archive_out_new(struct layer_worker *k, int fd)
{
    struct archive_out *o = new0(sizeof *o);

    o->layer_worker = k;
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
    int r = room_check(o->fd, o->layer_worker->job.free_min, o->packed, packed.n, e);

    o->packed += packed.n;
    return r < 0 ? r : at_write(o->fd, packed.p, packed.n, e);
}

static int flush_packed(struct archive_out *o, bool last, struct err *e)
{
    struct str data = { o->room, o->n };

    o->n = 0;
    o->bytes += data.n;
    layer_worker_report_progress(o->layer_worker, o->bytes, o->entries);
    return zstd_pack_add(o->zstd, data, last, write_packed, o, e);
}

static int write_raw(struct archive_out *o, const void *p, size_t n, struct err *e)
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
            r = flush_packed(o, false, e);
        if (r < 0)
            return r;
    }
    return 0;
}

int archive_write(struct archive_out *o, const void *p, size_t n, struct err *e)
{
    crypto_sha256_add(&o->hash, (struct str){ p, n });
    return write_raw(o, p, n, e);
}

int archive_write_number(struct archive_out *o, uint64_t v, size_t bytes, struct err *e)
{
    unsigned char text[8];

    for (size_t i = 0; i < bytes; i++)
        text[i] = (unsigned char)(v >> (8 * i));
    return archive_write(o, text, bytes, e);
}

int archive_write_text(struct archive_out *o, const char *text, struct err *e)
{
    size_t n = strlen(text);
    int r = archive_write_number(o, n, 2, e);

    return r < 0 ? r : archive_write(o, text, n, e);
}

int archive_finish(struct archive_out *o, struct err *e)
{
    unsigned char digest[CRYPTO_SHA256_SIZE];
    int r = archive_write_number(o, ARCHIVE_END, 1, e);

    crypto_sha256_end(&o->hash, digest);
    if (r >= 0)
        r = write_raw(o, digest, sizeof digest, e);
    return r < 0 ? r : flush_packed(o, true, e);
}

/* --- attributes --- */

static int write_archive_time(struct archive_out *o, struct timespec t, struct err *e)
{
    int r = archive_write_number(o, (uint64_t)t.tv_sec, 8, e);

    return r < 0 ? r : archive_write_number(o, (uint64_t)t.tv_nsec, 4, e);
}

static int write_attributes(struct archive_out *o, const struct stat *st, struct err *e)
{
    int r = archive_write_number(o, st->st_mode & 07777, 4, e);

    if (r >= 0)
        r = archive_write_number(o, st->st_uid, 4, e);
    if (r >= 0)
        r = archive_write_number(o, st->st_gid, 4, e);
    if (r >= 0)
        r = write_archive_time(o, st->st_mtim, e);
    return r < 0 ? r : write_archive_time(o, st->st_atim, e);
}

static int write_one_xattr(struct archive_out *o, int fd, const char *name, struct err *e)
{
    static char value[XATTR_SIZE_MAX];
    ssize_t n = fgetxattr(fd, name, value, sizeof value);
    int r;

    if (n < 0)
        return err_sys(e, "reading the attribute %.100s", name);
    r = archive_write_text(o, name, e);
    if (r >= 0)
        r = archive_write_number(o, (uint64_t)n, 4, e);
    return r < 0 ? r : archive_write(o, value, (size_t)n, e);
}

static int write_xattrs(struct archive_out *o, int fd, struct err *e)
{
    static struct attribute_names names;
    int r = attributes_list(fd, &names, e);

    if (r >= 0)
        r = archive_write_number(o, names.n, 2, e);
    for (size_t i = 0; r >= 0 && i < names.n; i++)
        r = write_one_xattr(o, fd, names.p[i], e);
    return r;
}

/* --- names that share a file --- */

static size_t seen_slot(const struct seen_inodes *s, uint64_t number)
{
    size_t at = (size_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (s->cap - 1);

    while (s->p[at] && s->p[at] != number)
        at = (at + 1) & (s->cap - 1);
    return at;
}

static void grow_seen(struct seen_inodes *s)
{
    struct seen_inodes old = *s;

    s->cap = old.cap ? old.cap * 2 : 1024;
    s->p = new0_array(s->cap, sizeof *s->p);
    for (size_t i = 0; i < old.cap; i++)
        if (old.p[i])
            s->p[seen_slot(s, old.p[i])] = old.p[i];
    free(old.p);
}

/* Returns true if the number was noted before. */
static bool note_seen_inode(struct seen_inodes *s, uint64_t number)
{
    size_t at;

    if (s->n * 2 >= s->cap)
        grow_seen(s);
    at = seen_slot(s, number);
    if (s->p[at])
        return true;
    s->p[at] = number;
    s->n++;
    return false;
}

/* --- files --- */

static int write_file_range(struct archive_out *o, int fd, off_t at, off_t end, struct err *e)
{
    static char piece[TREE_CHUNK];
    int r = archive_write_number(o, (uint64_t)at, 8, e);

    if (r >= 0)
        r = archive_write_number(o, (uint64_t)(end - at), 8, e);
    while (r >= 0 && at < end) {
        size_t want = end - at < (off_t)sizeof piece ? (size_t)(end - at) : sizeof piece;
        ssize_t n = pread(fd, piece, want, at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? err_sys(e, "reading")
                         : err_set(e, ERR_CONFLICT, "the file became shorter while it was read");
        r = archive_write(o, piece, (size_t)n, e);
        at += n;
    }
    return r;
}

static int write_file_content(struct archive_out *o, int fd, off_t size, struct err *e)
{
    int r = archive_write_number(o, (uint64_t)size, 8, e);

    for (off_t at = 0; r >= 0 && at < size;) {
        off_t data = lseek(fd, at, SEEK_DATA), hole;

        if (data < 0 && errno == ENXIO)
            break;
        hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
        if (hole < 0)
            return err_sys(e, "searching for holes");
        hole = hole < size ? hole : size;
        if (data < hole)
            r = write_file_range(o, fd, data, hole, e);
        at = hole;
    }
    if (r >= 0)
        r = archive_write_number(o, 0, 8, e);
    return r < 0 ? r : archive_write_number(o, 0, 8, e);
}

static int write_file_body(struct archive_out *o, const char *name, const struct stat *st,
                           struct err *e)
{
    AUTO_CLOSE int fd =
        at_open(walk_top(&o->walk)->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    int r = fd < 0 ? err_sys(e, "opening") : write_xattrs(o, fd, e);

    return r < 0 ? r : write_file_content(o, fd, st->st_size, e);
}

static int write_link_target(struct archive_out *o, const char *name, struct err *e)
{
    char target[TREE_PATH_MAX];
    ssize_t n = readlinkat(walk_top(&o->walk)->fd, name, target, sizeof target - 1);

    if (n < 0)
        return err_sys(e, "reading a link");
    target[n] = '\0';
    return archive_write_text(o, target, e);
}

static int archive_kind_of(const struct stat *st)
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

static int write_record_head(struct archive_out *o, int kind, const char *name, struct err *e)
{
    int r = archive_write_number(o, (uint64_t)kind, 1, e);

    o->entries++;
    return r < 0 ? r : archive_write_text(o, name, e);
}

static int write_tree_record(struct archive_out *o, const char *name, const struct stat *st,
                             struct err *e)
{
    uint64_t link = st->st_nlink > 1 ? st->st_ino : 0;
    int kind = archive_kind_of(st), r;

    if (kind < 0)
        return err_set(e, ERR_DENIED, "it is a device, which cannot be exported");
    if (link && note_seen_inode(&o->seen, link)) {
        r = write_record_head(o, ARCHIVE_LINK, name, e);
        return r < 0 ? r : archive_write_number(o, link, 8, e);
    }
    r = write_record_head(o, kind, name, e);
    if (r >= 0)
        r = write_attributes(o, st, e);
    if (r >= 0)
        r = archive_write_number(o, link, 8, e);
    if (r >= 0 && kind == ARCHIVE_FILE)
        r = write_file_body(o, name, st, e);
    if (r >= 0 && kind == ARCHIVE_SYMLINK)
        r = write_link_target(o, name, e);
    return r;
}

/* --- the tree --- */

static int enter_packed_dir(struct archive_out *o, const char *name, struct err *e)
{
    int fd = at_open(walk_top(&o->walk)->fd, name, O_RDONLY | O_DIRECTORY, 0), r;

    if (fd < 0)
        return err_sys(e, "opening");
    r = write_record_head(o, ARCHIVE_DIR, name, e);
    if (r >= 0)
        return walk_enter(&o->walk, fd, name, e);
    close(fd);
    return r;
}

static int leave_archived_dir(struct archive_out *o, struct err *e)
{
    int fd = walk_top(&o->walk)->fd, r = archive_write_number(o, ARCHIVE_LEAVE, 1, e);
    struct stat st;

    if (r >= 0 && fstat(fd, &st) < 0)
        r = err_sys(e, "reading the attributes of a directory");
    if (r >= 0)
        r = write_attributes(o, &st, e);
    if (r >= 0)
        r = write_xattrs(o, fd, e);
    walk_leave(&o->walk);
    return r;
}

static int write_tree_entry(struct archive_out *o, const char *name, struct err *e)
{
    struct stat st;
    int r;

    if (fstatat(walk_top(&o->walk)->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        r = err_sys(e, "reading its attributes");
    else
        r = S_ISDIR(st.st_mode) ? enter_packed_dir(o, name, e) : write_tree_record(o, name, &st, e);
    return err_wrap(e, r, "'%.100s'", name);
}

int archive_write_tree(struct archive_out *o, int tree, struct err *e)
{
    const char *name;
    int r = err_wrap(e, walk_begin(&o->walk, tree, e), "a layer");

    if (o->seen.p)
        memset(o->seen.p, 0, o->seen.cap * sizeof *o->seen.p);
    o->seen.n = 0;
    while (r >= 0 && o->walk.depth > 0) {
        r = walk_next(&o->walk, &name, e);
        if (r == 0)
            r = leave_archived_dir(o, e);
        else if (r > 0)
            r = write_tree_entry(o, name, e);
    }
    walk_done(&o->walk);
    return r;
}
