/* SPDX-License-Identifier: Apache-2.0 */
/* Reads layer trees from the file of an exported snapshot, which is not trusted. */
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/disk_space.h"
#include "engine/layers/archive.h"
#include "engine/layers/attributes.h"
#include "lib/proc/idmap.h"
#include "lib/tar/at.h"
#include "lib/tar/tree.h"

struct archive_in {
    struct layer_worker *layer_worker;
    int fd;
    struct crypto_sha256 hash;
    size_t at, n;
    char room[TREE_CHUNK];
    uint64_t bytes, entries; /* content and names created so far */
    uint64_t bytes_max, entries_max;
    uint64_t total; /* bytes read */

    int links; /* for the tree being created */
    bool make;
    unsigned depth;
    int dirs[TREE_DEPTH_MAX];
    char name[TREE_NAME_MAX + 1];
};

struct archive_in *archive_in_new(struct layer_worker *k, int fd)
{
    struct archive_in *in = new0(sizeof *in);

    in->layer_worker = k;
    in->fd = fd;
    in->bytes_max = k->job.bytes_max ? k->job.bytes_max : TREE_BYTES_DEFAULT;
    in->entries_max = k->job.entries_max ? k->job.entries_max : TREE_ENTRIES_DEFAULT;
    return in;
}

uint64_t archive_in_bytes(const struct archive_in *in)
{
    return in->bytes;
}

void archive_in_free(struct archive_in *in)
{
    crypto_sha256_done(&in->hash);
    free(in);
}

/* --- bytes --- */

/* Reads the next block; 0 at the end of the file. */
static ssize_t fill_buffer(struct archive_in *in, struct err *e)
{
    ssize_t n;
    const struct layer_worker *k = in->layer_worker;
    int r = room_check(k->storage.dir, k->job.free_min, in->total, sizeof in->room, e);

    if (r < 0)
        return r;
    do
        n = read(in->fd, in->room, sizeof in->room);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_sys(e, "reading the snapshot file");
    in->at = 0;
    in->n = (size_t)n;
    in->total += (uint64_t)n;
    layer_worker_report_progress(in->layer_worker, in->bytes, in->entries);
    return n;
}

static int read_raw(struct archive_in *in, void *p, size_t n, struct err *e)
{
    char *to = p;

    while (n > 0) {
        size_t some;

        if (in->at == in->n) {
            ssize_t got = fill_buffer(in, e);

            if (got <= 0)
                return got < 0 ? (int)got
                               : err_set(e, ERR_INVALID, "the snapshot file is truncated");
        }
        some = n < in->n - in->at ? n : in->n - in->at;
        memcpy(to, in->room + in->at, some);
        in->at += some;
        to += some;
        n -= some;
    }
    return 0;
}

int archive_read(struct archive_in *in, void *p, size_t n, struct err *e)
{
    int r = read_raw(in, p, n, e);

    if (r >= 0)
        crypto_sha256_add(&in->hash, (struct str){ p, n });
    return r;
}

int archive_read_number(struct archive_in *in, size_t bytes, uint64_t *ret, struct err *e)
{
    unsigned char text[8];
    int r = archive_read(in, text, bytes, e);

    *ret = 0;
    for (size_t i = bytes; r >= 0 && i-- > 0;)
        *ret = *ret << 8 | text[i];
    return r;
}

/* Terminates the text by NUL; -ERR_INVALID if it contains a NUL or does not fit. */
static int read_snapshot_text(struct archive_in *in, char *out, size_t cap, struct err *e)
{
    uint64_t n;
    int r = archive_read_number(in, 2, &n, e);

    if (r < 0)
        return r;
    if (n >= cap)
        return err_set(e, ERR_INVALID,
                       "the snapshot file has a name or text of %llu bytes, the maximum is %zu",
                       (unsigned long long)n, cap - 1);
    r = archive_read(in, out, n, e);
    out[r < 0 ? 0 : n] = '\0';
    if (r >= 0 && strlen(out) != n)
        return err_set(e, ERR_INVALID, "the snapshot file has a name or text that contains NUL");
    return r;
}

int archive_read_end(struct archive_in *in, struct err *e)
{
    unsigned char is[CRYPTO_SHA256_SIZE], stored[CRYPTO_SHA256_SIZE];
    ssize_t more;
    int r;

    crypto_sha256_end(&in->hash, is);
    r = read_raw(in, stored, sizeof stored, e);
    if (r < 0)
        return r;
    if (memcmp(is, stored, sizeof is) != 0)
        return err_set(e, ERR_INVALID, "the snapshot file is damaged: its SHA-256 does not match");
    more = in->at < in->n ? 1 : fill_buffer(in, e);
    return more < 0 ? (int)more
           : more   ? err_set(e, ERR_INVALID, "the snapshot file has data after its end")
                    : 0;
}

/* --- attributes --- */

static int read_attributes_record(struct archive_in *in, struct stat *ret, struct err *e)
{
    enum { MODE, UID, GID, MTIME, MTIME_NS, ATIME, ATIME_NS, COUNT };
    static const size_t sizes[COUNT] = { 4, 4, 4, 8, 4, 8, 4 };
    uint64_t v[COUNT];
    int r = 0;

    for (size_t i = 0; r >= 0 && i < COUNT; i++)
        r = archive_read_number(in, sizes[i], &v[i], e);
    if (r < 0)
        return r;
    if (v[MODE] & ~UINT64_C(07777))
        return err_set(e, ERR_INVALID, "invalid file mode");
    if (v[MTIME_NS] >= (uint64_t)NS_PER_S || v[ATIME_NS] >= (uint64_t)NS_PER_S)
        return err_set(e, ERR_INVALID, "invalid time (nanoseconds out of range)");
    *ret = (struct stat){ .st_mode = (mode_t)v[MODE],
                          .st_uid = (uid_t)v[UID],
                          .st_gid = (gid_t)v[GID],
                          .st_mtim = { (time_t)v[MTIME], (long)v[MTIME_NS] },
                          .st_atim = { (time_t)v[ATIME], (long)v[ATIME_NS] } };
    if (ret->st_uid >= IDMAP_IDS || ret->st_gid >= IDMAP_IDS)
        return err_set(e, ERR_INVALID, "owner %u:%u is outside the id range of a sandbox",
                       ret->st_uid, ret->st_gid);
    if (in->layer_worker->one_identity && (ret->st_uid || ret->st_gid))
        return err_set(e, ERR_DENIED,
                       "cannot store owner %u:%u: this user has no subordinate ids (add them to "
                       "/etc/subuid and /etc/subgid)",
                       ret->st_uid, ret->st_gid);
    return 0;
}

static int read_xattrs(struct archive_in *in, int fd, struct err *e)
{
    static char name[XATTR_NAME_MAX + 1], value[XATTR_SIZE_MAX];
    uint64_t count, n;
    int r = archive_read_number(in, 2, &count, e);

    for (uint64_t i = 0; r >= 0 && i < count; i++) {
        r = read_snapshot_text(in, name, sizeof name, e);
        if (r >= 0)
            r = archive_read_number(in, 4, &n, e);
        if (r >= 0 && (n > sizeof value || !attributes_wanted(name)))
            r = err_set(e, ERR_INVALID, "invalid extended attribute");
        if (r >= 0)
            r = archive_read(in, value, n, e);
        if (r >= 0 && in->make && fsetxattr(fd, name, value, n, 0) < 0)
            r = err_sys(e, "setting the attribute %.100s", name);
    }
    return r;
}

/* --- names --- */

static int current_dir(const struct archive_in *in)
{
    return in->dirs[in->depth - 1];
}

static void format_link_name(uint64_t link, char out[static 24])
{
    snprintf(out, 24, "%llx", (unsigned long long)link);
}

static int creation_error(struct err *e)
{
    return errno == EEXIST ? err_set(e, ERR_INVALID, "duplicate file name")
                           : err_sys(e, "creating it");
}

/* Links the file in `links`, where its other names are created from. */
static int remember_link_group(struct archive_in *in, uint64_t link, struct err *e)
{
    char known[24];

    format_link_name(link, known);
    if (!in->make || !link || linkat(current_dir(in), in->name, in->links, known, 0) == 0)
        return 0;
    return errno == EEXIST ? err_set(e, ERR_INVALID, "duplicate link number")
                           : err_sys(e, "linking it for its other names");
}

static int read_link_record(struct archive_in *in, struct err *e)
{
    char known[24];
    uint64_t link;
    int r = archive_read_number(in, 8, &link, e);

    format_link_name(link, known);
    if (r < 0 || !in->make || linkat(in->links, known, current_dir(in), in->name, 0) == 0)
        return r;
    return errno == ENOENT ? err_set(e, ERR_INVALID, "hard link to an unknown file")
                           : creation_error(e);
}

/* --- files --- */

static int read_file_range(struct archive_in *in, int fd, uint64_t at, uint64_t n, struct err *e)
{
    static char piece[TREE_CHUNK];

    if (n > in->bytes_max - in->bytes)
        return err_set(e, ERR_TOO_BIG, "the snapshot has more than %llu bytes",
                       (unsigned long long)in->bytes_max);
    in->bytes += n;
    while (n > 0) {
        size_t some = n < sizeof piece ? (size_t)n : sizeof piece;
        int r = archive_read(in, piece, some, e);

        if (r < 0)
            return r;
        if (in->make && pwrite(fd, piece, some, (off_t)at) != (ssize_t)some)
            return err_sys(e, "writing it");
        at += some;
        n -= some;
    }
    return 0;
}

/* Ranges are ascending and inside the file; gaps between them become holes. */
static int read_file_content(struct archive_in *in, int fd, struct err *e)
{
    uint64_t size, at, n, end = 0;
    int r = archive_read_number(in, 8, &size, e);

    if (r >= 0 && size > in->bytes_max) /* holes count, because RLIMIT_FSIZE limits the size */
        r = err_set(e, ERR_TOO_BIG, "the file is larger than the limit of %llu bytes",
                    (unsigned long long)in->bytes_max);
    if (r >= 0 && in->make && ftruncate(fd, (off_t)size) < 0)
        r = err_sys(e, "setting its size");
    while (r >= 0) {
        r = archive_read_number(in, 8, &at, e);
        if (r >= 0)
            r = archive_read_number(in, 8, &n, e);
        if (r < 0 || n == 0)
            return r;
        if (at < end || at > size || n > size - at)
            return err_set(e, ERR_INVALID, "a data range is outside the file");
        end = at + n;
        r = read_file_range(in, fd, at, n, e);
    }
    return r;
}

static const struct owners unmapped_owners = { 0 };

static int read_file_record(struct archive_in *in, const struct stat *st, struct err *e)
{
    AUTO_CLOSE int fd = in->make ? at_open(current_dir(in), in->name,
                                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600)
                                 : -1;
    int r;

    if (in->make && fd < 0)
        return creation_error(e);
    r = read_xattrs(in, fd, e);
    if (r >= 0)
        r = read_file_content(in, fd, e);
    return r < 0 || !in->make ? r : attributes_set(&unmapped_owners, fd, st, e);
}

static int read_symlink_record(struct archive_in *in, struct err *e)
{
    char target[TREE_PATH_MAX];
    int r = read_snapshot_text(in, target, sizeof target, e);

    if (r >= 0 && !target[0])
        return err_set(e, ERR_INVALID, "symbolic link without a target");
    return r >= 0 && in->make && symlinkat(target, current_dir(in), in->name) < 0
               ? creation_error(e)
               : r;
}

static int read_node_record(struct archive_in *in, int kind, struct err *e)
{
    mode_t type = kind == ARCHIVE_FIFO ? S_IFIFO : kind == ARCHIVE_SOCKET ? S_IFSOCK : S_IFCHR;
    struct stat st;
    uint64_t link;
    int r = read_attributes_record(in, &st, e);

    if (r >= 0)
        r = archive_read_number(in, 8, &link, e);
    if (r < 0)
        return r;
    if (kind == ARCHIVE_FILE)
        r = read_file_record(in, &st, e);
    else if (kind == ARCHIVE_SYMLINK)
        r = read_symlink_record(in, e);
    else if (in->make && mknodat(current_dir(in), in->name, type | 0600, makedev(0, 0)) < 0)
        r = creation_error(e);
    st.st_mode |= kind == ARCHIVE_SYMLINK ? S_IFLNK : 0;
    if (r >= 0 && in->make && kind != ARCHIVE_FILE)
        r = attributes_set_at(&unmapped_owners, current_dir(in), in->name, &st, e);
    return r < 0 ? r : remember_link_group(in, link, e);
}

/* --- the tree --- */

static int enter_archive_dir(struct archive_in *in, struct err *e)
{
    int fd = -1;

    if (in->depth == TREE_DEPTH_MAX)
        return err_set(e, ERR_TOO_BIG, "directories are nested deeper than %d levels",
                       TREE_DEPTH_MAX);
    if (in->make && (mkdirat(current_dir(in), in->name, 0700) < 0 ||
                     (fd = at_open(current_dir(in), in->name, O_RDONLY | O_DIRECTORY, 0)) < 0))
        return creation_error(e);
    in->dirs[in->depth++] = fd;
    return 0;
}

/* Sets the attributes of a directory last: filling it changes its times, and an ACL would be
 * inherited. */
static int leave_archive_dir(struct archive_in *in, struct err *e)
{
    int fd = current_dir(in);
    struct stat st;
    int r = read_attributes_record(in, &st, e);

    if (r >= 0)
        r = read_xattrs(in, fd, e);
    if (r >= 0 && in->make)
        r = attributes_set(&unmapped_owners, fd, &st, e);
    if (--in->depth > 0)
        drop_fd(&in->dirs[in->depth]);
    return r;
}

static int read_tree_record(struct archive_in *in, struct err *e)
{
    uint64_t kind;
    int r = archive_read_number(in, 1, &kind, e);

    if (r < 0)
        return r;
    if (kind == ARCHIVE_LEAVE)
        return leave_archive_dir(in, e);
    if (!kind || !strchr("dflpswh", (int)kind))
        return err_set(e, ERR_INVALID, "unknown record type");
    r = read_snapshot_text(in, in->name, sizeof in->name, e);
    if (r < 0)
        return r;
    if (!in->name[0] || strchr(in->name, '/') || strcmp(in->name, ".") == 0 ||
        strcmp(in->name, "..") == 0)
        return err_set(e, ERR_INVALID, "invalid file name");
    if (in->entries++ >= in->entries_max)
        return err_set(e, ERR_TOO_BIG, "the snapshot has more than %llu files",
                       (unsigned long long)in->entries_max);
    r = kind == ARCHIVE_DIR    ? enter_archive_dir(in, e)
        : kind == ARCHIVE_LINK ? read_link_record(in, e)
                               : read_node_record(in, (int)kind, e);
    return err_wrap(e, r, "'%.100s'", in->name);
}

int archive_read_tree(struct archive_in *in, int tree, int links, struct err *e)
{
    int r = 0;

    in->make = tree >= 0;
    in->links = links;
    in->dirs[0] = tree;
    in->depth = 1;
    while (r >= 0 && in->depth > 0)
        r = read_tree_record(in, e);
    while (in->depth > 1)
        drop_fd(&in->dirs[--in->depth]);
    return r;
}
