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
    int r; /* of the first write that failed; nothing is written after it */
    struct err *e;
    struct seen_inodes seen;
    struct walk walk;
};

struct archive_out *archive_out_new(struct layer_worker *k, int fd, struct err *e)
{
    struct archive_out *o = new0(sizeof *o);

    o->layer_worker = k;
    o->fd = fd;
    o->e = e;
    o->zstd = zstd_pack_new();
    return o;
}

void archive_out_free(struct archive_out *o)
{
    zstd_pack_free(o->zstd);
    crypto_sha256_done(&o->hash);
    free(o->seen.p);
    free(o);
}

/* --- bytes --- */

static int on_packed_bytes(void *ctx, struct str packed, struct err *e)
{
    struct archive_out *o = ctx;
    int r = room_check(o->fd, o->layer_worker->job.free_min, o->packed, packed.n, e);

    o->packed += packed.n;
    return r < 0 ? r : at_write(o->fd, packed.p, packed.n, e);
}

static void flush_packed(struct archive_out *o, bool last)
{
    struct str data = { o->room, o->n };

    o->n = 0;
    o->bytes += data.n;
    layer_worker_report_progress(o->layer_worker, o->bytes, o->entries);
    o->r = zstd_pack_add(o->zstd, data, last, on_packed_bytes, o, o->e);
}

static void write_raw(struct archive_out *o, const void *p, size_t n)
{
    const char *from = p;

    while (n > 0 && o->r >= 0) {
        size_t some = n < sizeof o->room - o->n ? n : sizeof o->room - o->n;

        memcpy(o->room + o->n, from, some);
        o->n += some;
        from += some;
        n -= some;
        if (o->n == sizeof o->room)
            flush_packed(o, false);
    }
}

int archive_write(struct archive_out *o, const void *p, size_t n)
{
    crypto_sha256_add(&o->hash, (struct str){ p, n });
    write_raw(o, p, n);
    return o->r;
}

int archive_write_number(struct archive_out *o, uint64_t v, size_t bytes)
{
    unsigned char text[8];

    for (size_t i = 0; i < bytes; i++)
        text[i] = (unsigned char)(v >> (8 * i));
    return archive_write(o, text, bytes);
}

static int write_archive_text(struct archive_out *o, const char *text)
{
    archive_write_number(o, strlen(text), 2);
    return archive_write(o, text, strlen(text));
}

int archive_finish(struct archive_out *o)
{
    unsigned char digest[CRYPTO_SHA256_SIZE];

    archive_write_number(o, ARCHIVE_END, 1);
    crypto_sha256_end(&o->hash, digest);
    write_raw(o, digest, sizeof digest);
    if (o->r >= 0)
        flush_packed(o, true);
    return o->r;
}

/* --- attributes --- */

static void write_archive_time(struct archive_out *o, struct timespec t)
{
    archive_write_number(o, (uint64_t)t.tv_sec, 8);
    archive_write_number(o, (uint64_t)t.tv_nsec, 4);
}

static void write_attributes(struct archive_out *o, const struct stat *st)
{
    archive_write_number(o, st->st_mode & 07777, 4);
    archive_write_number(o, st->st_uid, 4);
    archive_write_number(o, st->st_gid, 4);
    write_archive_time(o, st->st_mtim);
    write_archive_time(o, st->st_atim);
}

static int write_xattrs(struct archive_out *o, int fd)
{
    static struct attribute_names names;
    static char value[XATTR_SIZE_MAX];
    int r = o->r < 0 ? o->r : attributes_list(fd, &names, o->e);

    if (r >= 0)
        r = archive_write_number(o, names.n, 2);
    for (size_t i = 0; r >= 0 && i < names.n; i++) {
        ssize_t n = fgetxattr(fd, names.p[i], value, sizeof value);

        if (n < 0)
            return err_sys(o->e, "reading the attribute %.100s", names.p[i]);
        write_archive_text(o, names.p[i]);
        archive_write_number(o, (uint64_t)n, 4);
        r = archive_write(o, value, (size_t)n);
    }
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

/* Returns true if the number was noted before. */
static bool note_seen_inode(struct seen_inodes *s, uint64_t number)
{
    struct seen_inodes old = *s;
    size_t at;

    if (s->n * 2 >= s->cap) {
        s->cap = old.cap ? old.cap * 2 : 1024;
        s->p = new0_array(s->cap, sizeof *s->p);
        for (size_t i = 0; i < old.cap; i++)
            if (old.p[i])
                s->p[seen_slot(s, old.p[i])] = old.p[i];
        free(old.p);
    }
    at = seen_slot(s, number);
    if (s->p[at])
        return true;
    s->p[at] = number;
    s->n++;
    return false;
}

/* --- files --- */

static int write_file_range(struct archive_out *o, int fd, off_t at, off_t end)
{
    static char piece[TREE_CHUNK];

    archive_write_number(o, (uint64_t)at, 8);
    archive_write_number(o, (uint64_t)(end - at), 8);
    while (o->r >= 0 && at < end) {
        size_t want = end - at < (off_t)sizeof piece ? (size_t)(end - at) : sizeof piece;
        ssize_t n = pread(fd, piece, want, at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? err_sys(o->e, "reading")
                         : err_set(o->e, ERR_CONFLICT, "the file became shorter while it was read");
        archive_write(o, piece, (size_t)n);
        at += n;
    }
    return o->r;
}

static int write_file_content(struct archive_out *o, int fd, off_t size)
{
    int r = archive_write_number(o, (uint64_t)size, 8);

    for (off_t at = 0; r >= 0 && at < size;) {
        off_t data = lseek(fd, at, SEEK_DATA), hole;

        if (data < 0 && errno == ENXIO)
            break;
        hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
        if (hole < 0)
            return err_sys(o->e, "searching for holes");
        hole = hole < size ? hole : size;
        if (data < hole)
            r = write_file_range(o, fd, data, hole);
        at = hole;
    }
    if (r < 0)
        return r;
    archive_write_number(o, 0, 8);
    return archive_write_number(o, 0, 8);
}

static int write_file_body(struct archive_out *o, const char *name, const struct stat *st)
{
    AUTO_CLOSE int fd =
        at_open(walk_top(&o->walk)->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    int r = fd < 0 ? err_sys(o->e, "opening") : write_xattrs(o, fd);

    return r < 0 ? r : write_file_content(o, fd, st->st_size);
}

static int write_link_target(struct archive_out *o, const char *name)
{
    char target[TREE_PATH_MAX];
    ssize_t n = readlinkat(walk_top(&o->walk)->fd, name, target, sizeof target - 1);

    if (n < 0)
        return err_sys(o->e, "reading a link");
    target[n] = '\0';
    return write_archive_text(o, target);
}

static int archive_kind_of(const struct stat *st)
{
    switch (st->st_mode & S_IFMT) {
    case S_IFREG:
        return ARCHIVE_FILE;
    case S_IFLNK:
        return ARCHIVE_SYMLINK;
    case S_IFIFO:
        return ARCHIVE_FIFO;
    case S_IFSOCK:
        return ARCHIVE_SOCKET;
    default:
        return view_is_whiteout(st) ? ARCHIVE_WHITEOUT : -1;
    }
}

static int write_record_head(struct archive_out *o, int kind, const char *name)
{
    archive_write_number(o, (uint64_t)kind, 1);
    o->entries++;
    return write_archive_text(o, name);
}

static int write_tree_record(struct archive_out *o, const char *name, const struct stat *st)
{
    uint64_t link = st->st_nlink > 1 ? st->st_ino : 0;
    int kind = archive_kind_of(st);

    if (kind < 0)
        return err_set(o->e, ERR_DENIED, "it is a device, which cannot be exported");
    if (link && note_seen_inode(&o->seen, link)) {
        write_record_head(o, ARCHIVE_LINK, name);
        return archive_write_number(o, link, 8);
    }
    write_record_head(o, kind, name);
    write_attributes(o, st);
    archive_write_number(o, link, 8);
    if (o->r >= 0 && kind == ARCHIVE_FILE)
        return write_file_body(o, name, st);
    if (o->r >= 0 && kind == ARCHIVE_SYMLINK)
        return write_link_target(o, name);
    return o->r;
}

/* --- the tree --- */

static int enter_packed_dir(struct archive_out *o, const char *name)
{
    AUTO_CLOSE int fd = at_open(walk_top(&o->walk)->fd, name, O_RDONLY | O_DIRECTORY, 0);
    int r = fd < 0 ? err_sys(o->e, "opening") : write_record_head(o, ARCHIVE_DIR, name);

    return r < 0 ? r : walk_enter(&o->walk, take_fd(&fd), name, o->e);
}

static int leave_archived_dir(struct archive_out *o)
{
    int fd = walk_top(&o->walk)->fd, r = archive_write_number(o, ARCHIVE_LEAVE, 1);
    struct stat st;

    if (r >= 0 && fstat(fd, &st) < 0)
        r = err_sys(o->e, "reading the attributes of a directory");
    if (r >= 0) {
        write_attributes(o, &st);
        r = write_xattrs(o, fd);
    }
    walk_leave(&o->walk);
    return r;
}

static int write_tree_entry(struct archive_out *o, const char *name)
{
    struct stat st;
    int r;

    if (fstatat(walk_top(&o->walk)->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        r = err_sys(o->e, "reading its attributes");
    else
        r = S_ISDIR(st.st_mode) ? enter_packed_dir(o, name) : write_tree_record(o, name, &st);
    return err_wrap(o->e, r, "'%.100s'", name);
}

int archive_write_tree(struct archive_out *o, int tree)
{
    const char *name;
    int r = err_wrap(o->e, walk_begin(&o->walk, tree, o->e), "a layer");

    if (o->seen.p)
        memset(o->seen.p, 0, o->seen.cap * sizeof *o->seen.p);
    o->seen.n = 0;
    while (r >= 0 && o->walk.depth > 0) {
        r = walk_next(&o->walk, &name, o->e);
        if (r == 0)
            r = leave_archived_dir(o);
        else if (r > 0)
            r = write_tree_entry(o, name);
    }
    walk_done(&o->walk);
    return r;
}
