/* Trees out of the file of a snapshot, of which nothing is believed. */
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
#include "base/room.h"
#include "layers/archive.h"
#include "layers/attributes.h"
#include "proc/idmap.h"
#include "tree/at.h"
#include "tree/tree.h"

struct archive_in {
    struct keeper *keeper;
    int fd;
    struct crypto_sha256 hash;
    size_t at, n;
    char room[TREE_CHUNK];
    uint64_t bytes, entries; /* content and names that were made */
    uint64_t bytes_max, entries_max;
    uint64_t total; /* read */

    int links; /* of the tree that is made */
    bool make;
    unsigned depth;
    int dirs[TREE_DEPTH_MAX];
    char name[TREE_NAME_MAX + 1];
};

struct archive_in *archive_in_new(struct keeper *k, int fd)
{
    struct archive_in *in = calloc(1, sizeof *in);

    if (!in)
        abort();
    in->keeper = k;
    in->fd = fd;
    in->bytes_max = k->job.bytes_max ? k->job.bytes_max : TREE_BYTES_DEFAULT;
    in->entries_max = k->job.entries_max ? k->job.entries_max : TREE_ENTRIES_DEFAULT;
    return in;
}

void archive_in_free(struct archive_in *in)
{
    if (!in)
        return;
    crypto_sha256_done(&in->hash);
    free(in);
}

/* --- bytes --- */

/* 0: it is over. */
static ssize_t fill(struct archive_in *in, struct err *e)
{
    ssize_t n;
    const struct keeper *k = in->keeper;
    int r = room_check(k->storage.dir, k->job.free_min, in->total, sizeof in->room, e);

    if (r < 0)
        return r;
    do
        n = read(in->fd, in->room, sizeof in->room);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_sys(e, "reading the file");
    in->at = 0;
    in->n = (size_t)n;
    in->total += (uint64_t)n;
    keeper_progress(in->keeper, in->bytes, in->entries);
    return n;
}

static int get_raw(struct archive_in *in, void *p, size_t n, struct err *e)
{
    char *to = p;

    while (n > 0) {
        size_t some;

        if (in->at == in->n) {
            ssize_t got = fill(in, e);

            if (got <= 0)
                return got < 0 ? (int)got : err_set(e, ERR_INVALID, "the file ends too early");
        }
        some = n < in->n - in->at ? n : in->n - in->at;
        memcpy(to, in->room + in->at, some);
        in->at += some;
        to += some;
        n -= some;
    }
    return 0;
}

int archive_get(struct archive_in *in, void *p, size_t n, struct err *e)
{
    int r = get_raw(in, p, n, e);

    if (r >= 0)
        crypto_sha256_add(&in->hash, (struct str){ p, n });
    return r;
}

int archive_get_number(struct archive_in *in, size_t bytes, uint64_t *ret, struct err *e)
{
    unsigned char text[8];
    int r = archive_get(in, text, bytes, e);

    *ret = 0;
    for (size_t i = bytes; r >= 0 && i-- > 0;)
        *ret = *ret << 8 | text[i];
    return r;
}

int archive_get_text(struct archive_in *in, char *out, size_t cap, struct err *e)
{
    uint64_t n;
    int r = archive_get_number(in, 2, &n, e);

    if (r < 0)
        return r;
    if (n >= cap)
        return err_set(e, ERR_INVALID, "a name or text of %llu bytes", (unsigned long long)n);
    r = archive_get(in, out, n, e);
    out[r < 0 ? 0 : n] = '\0';
    if (r >= 0 && strlen(out) != n)
        return err_set(e, ERR_INVALID, "a name or text with a NUL in it");
    return r;
}

int archive_get_end(struct archive_in *in, struct err *e)
{
    unsigned char is[CRYPTO_SHA256_SIZE], said[CRYPTO_SHA256_SIZE];
    ssize_t more;
    int r;

    crypto_sha256_end(&in->hash, is);
    r = get_raw(in, said, sizeof said, e);
    if (r < 0)
        return r;
    if (memcmp(is, said, sizeof is) != 0)
        return err_set(e, ERR_INVALID, "the file is damaged: its hash is another");
    more = in->at < in->n ? 1 : fill(in, e);
    return more < 0 ? (int)more : more ? err_set(e, ERR_INVALID, "something is behind its end") : 0;
}

struct keeper *archive_keeper(const struct archive_in *in)
{
    return in->keeper;
}

/* --- attributes --- */

static int get_time(struct archive_in *in, struct timespec *ret, struct err *e)
{
    uint64_t s, ns;
    int r = archive_get_number(in, 8, &s, e);

    if (r >= 0)
        r = archive_get_number(in, 4, &ns, e);
    if (r >= 0 && ns >= (uint64_t)NS_PER_S)
        return err_set(e, ERR_INVALID, "a time that is none");
    if (r >= 0)
        *ret = (struct timespec){ (time_t)s, (long)ns };
    return r;
}

static int check_owner(const struct archive_in *in, const struct stat *st, struct err *e)
{
    if (st->st_uid >= IDMAP_IDS || st->st_gid >= IDMAP_IDS)
        return err_set(e, ERR_INVALID, "it belongs to %u:%u, which no sandbox has", st->st_uid,
                       st->st_gid);
    if (in->keeper->one_identity && (st->st_uid || st->st_gid))
        return err_set(e, ERR_DENIED,
                       "it belongs to %u:%u, but only one identity can be used here: that takes "
                       "subordinate ids (/etc/subuid)",
                       st->st_uid, st->st_gid);
    return 0;
}

static int get_attributes(struct archive_in *in, struct stat *ret, struct err *e)
{
    uint64_t mode, uid, gid;
    int r = archive_get_number(in, 4, &mode, e);

    if (r >= 0)
        r = archive_get_number(in, 4, &uid, e);
    if (r >= 0)
        r = archive_get_number(in, 4, &gid, e);
    if (r < 0)
        return r;
    if (mode & ~UINT64_C(07777))
        return err_set(e, ERR_INVALID, "a mode that is none");
    *ret = (struct stat){ .st_mode = (mode_t)mode, .st_uid = (uid_t)uid, .st_gid = (gid_t)gid };
    r = get_time(in, &ret->st_mtim, e);
    if (r >= 0)
        r = get_time(in, &ret->st_atim, e);
    return r < 0 ? r : check_owner(in, ret, e);
}

static int get_one_extended(struct archive_in *in, int fd, struct err *e)
{
    static char name[XATTR_NAME_MAX + 1], value[XATTR_SIZE_MAX];
    uint64_t n;
    int r = archive_get_text(in, name, sizeof name, e);

    if (r >= 0)
        r = archive_get_number(in, 4, &n, e);
    if (r >= 0 && (n > sizeof value || !attributes_wanted(name)))
        r = err_set(e, ERR_INVALID, "an extended attribute that cannot be one");
    if (r >= 0)
        r = archive_get(in, value, n, e);
    if (r >= 0 && in->make && fsetxattr(fd, name, value, n, 0) < 0)
        r = err_sys(e, "keeping the attribute %.100s", name);
    return r;
}

static int get_extended(struct archive_in *in, int fd, struct err *e)
{
    uint64_t n;
    int r = archive_get_number(in, 2, &n, e);

    for (uint64_t i = 0; r >= 0 && i < n; i++)
        r = get_one_extended(in, fd, e);
    return r;
}

/* --- names --- */

static int top(const struct archive_in *in)
{
    return in->dirs[in->depth - 1];
}

static int get_name(struct archive_in *in, struct err *e)
{
    int r = archive_get_text(in, in->name, sizeof in->name, e);

    if (r < 0)
        return r;
    if (!in->name[0] || strchr(in->name, '/') || strcmp(in->name, ".") == 0 ||
        strcmp(in->name, "..") == 0)
        return err_set(e, ERR_INVALID, "a name that is none");
    if (in->entries++ >= in->entries_max)
        return err_set(e, ERR_TOO_BIG, "more than %llu files", (unsigned long long)in->entries_max);
    return 0;
}

static void number_name(uint64_t link, char out[static 24])
{
    snprintf(out, 24, "%llx", (unsigned long long)link);
}

static int not_made(struct err *e)
{
    return errno == EEXIST ? err_set(e, ERR_INVALID, "there are two of that name")
                           : err_sys(e, "making it");
}

/* It waits for its other names. */
static int remember(struct archive_in *in, uint64_t link, struct err *e)
{
    char known[24];

    number_name(link, known);
    if (!in->make || !link || linkat(top(in), in->name, in->links, known, 0) == 0)
        return 0;
    return errno == EEXIST ? err_set(e, ERR_INVALID, "two files with one number")
                           : err_sys(e, "remembering its other names");
}

static int get_link(struct archive_in *in, struct err *e)
{
    char known[24];
    uint64_t link;
    int r = archive_get_number(in, 8, &link, e);

    number_name(link, known);
    if (r < 0 || !in->make || linkat(in->links, known, top(in), in->name, 0) == 0)
        return r;
    return errno == ENOENT ? err_set(e, ERR_INVALID, "another name of nothing") : not_made(e);
}

/* --- files --- */

static int get_range(struct archive_in *in, int fd, uint64_t at, uint64_t n, struct err *e)
{
    static char piece[TREE_CHUNK];

    if (n > in->bytes_max - in->bytes)
        return err_set(e, ERR_TOO_BIG, "more than %llu bytes", (unsigned long long)in->bytes_max);
    in->bytes += n;
    while (n > 0) {
        size_t some = n < sizeof piece ? (size_t)n : sizeof piece;
        int r = archive_get(in, piece, some, e);

        if (r < 0)
            return r;
        if (in->make && pwrite(fd, piece, some, (off_t)at) != (ssize_t)some)
            return err_sys(e, "writing");
        at += some;
        n -= some;
    }
    return 0;
}

/* Ranges come in order and stay in the file: what is between them takes no place. */
static int get_content(struct archive_in *in, int fd, struct err *e)
{
    uint64_t size, at, n, end = 0;
    int r = archive_get_number(in, 8, &size, e);

    if (r >= 0 && size > in->bytes_max) /* holes count: nothing larger can be made here */
        r = err_set(e, ERR_TOO_BIG, "it is larger than %llu bytes",
                    (unsigned long long)in->bytes_max);
    if (r >= 0 && in->make && ftruncate(fd, (off_t)size) < 0)
        r = err_sys(e, "making it as long as it was");
    while (r >= 0) {
        r = archive_get_number(in, 8, &at, e);
        if (r >= 0)
            r = archive_get_number(in, 8, &n, e);
        if (r < 0 || n == 0)
            return r;
        if (at < end || at > size || n > size - at)
            return err_set(e, ERR_INVALID, "a piece of a file that is not in it");
        end = at + n;
        r = get_range(in, fd, at, n, e);
    }
    return r;
}

static const struct owners as_they_are = { 0 };

static int get_file(struct archive_in *in, const struct stat *st, struct err *e)
{
    AUTO_CLOSE int fd =
        in->make ? at_open(top(in), in->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600) : -1;
    int r;

    if (in->make && fd < 0)
        return not_made(e);
    r = get_extended(in, fd, e);
    if (r >= 0)
        r = get_content(in, fd, e);
    return r < 0 || !in->make ? r : attributes_set(&as_they_are, fd, st, e);
}

static int get_symlink(struct archive_in *in, struct err *e)
{
    char target[TREE_PATH_MAX];
    int r = archive_get_text(in, target, sizeof target, e);

    if (r >= 0 && !target[0])
        return err_set(e, ERR_INVALID, "a link to nothing");
    return r >= 0 && in->make && symlinkat(target, top(in), in->name) < 0 ? not_made(e) : r;
}

static int get_node(struct archive_in *in, mode_t type, struct err *e)
{
    return in->make && mknodat(top(in), in->name, type | 0600, makedev(0, 0)) < 0 ? not_made(e) : 0;
}

static int get_one(struct archive_in *in, int kind, struct err *e)
{
    struct stat st;
    uint64_t link;
    int r = get_attributes(in, &st, e);

    if (r >= 0)
        r = archive_get_number(in, 8, &link, e);
    if (r < 0)
        return r;
    if (kind == ARCHIVE_FILE)
        r = get_file(in, &st, e);
    else if (kind == ARCHIVE_SYMLINK)
        r = get_symlink(in, e);
    else
        r = get_node(in,
                     kind == ARCHIVE_FIFO     ? S_IFIFO
                     : kind == ARCHIVE_SOCKET ? S_IFSOCK
                                              : S_IFCHR,
                     e);
    st.st_mode |= kind == ARCHIVE_SYMLINK ? S_IFLNK : 0;
    if (r >= 0 && in->make && kind != ARCHIVE_FILE)
        r = attributes_set_at(&as_they_are, top(in), in->name, &st, e);
    return r < 0 ? r : remember(in, link, e);
}

/* --- the tree --- */

static int enter(struct archive_in *in, struct err *e)
{
    int fd = -1;

    if (in->depth == TREE_DEPTH_MAX)
        return err_set(e, ERR_TOO_BIG, "more than %d directories in each other", TREE_DEPTH_MAX);
    if (in->make && (mkdirat(top(in), in->name, 0700) < 0 ||
                     (fd = at_open(top(in), in->name, O_RDONLY | O_DIRECTORY, 0)) < 0))
        return not_made(e);
    in->dirs[in->depth++] = fd;
    return 0;
}

/* Its attributes are the last thing it gets: they would be other ones when it is filled, and an ACL
 * would be inherited. */
static int leave(struct archive_in *in, struct err *e)
{
    int fd = top(in);
    struct stat st;
    int r = get_attributes(in, &st, e);

    if (r >= 0)
        r = get_extended(in, fd, e);
    if (r >= 0 && in->make)
        r = attributes_set(&as_they_are, fd, &st, e);
    if (--in->depth > 0)
        drop_fd(&in->dirs[in->depth]);
    return r;
}

static int get_record(struct archive_in *in, struct err *e)
{
    uint64_t kind;
    int r = archive_get_number(in, 1, &kind, e);

    if (r < 0)
        return r;
    if (kind == ARCHIVE_LEAVE)
        return leave(in, e);
    if (!kind || !strchr("dflpswh", (int)kind))
        return err_set(e, ERR_INVALID, "a kind of file that there is not");
    r = get_name(in, e);
    if (r < 0)
        return r;
    r = kind == ARCHIVE_DIR    ? enter(in, e)
        : kind == ARCHIVE_LINK ? get_link(in, e)
                               : get_one(in, (int)kind, e);
    return err_wrap(e, r, "'%.100s'", in->name);
}

int archive_get_tree(struct archive_in *in, int tree, int links, struct err *e)
{
    int r = 0;

    in->make = tree >= 0;
    in->links = links;
    in->dirs[0] = tree;
    in->depth = 1;
    while (r >= 0 && in->depth > 0)
        r = get_record(in, e);
    while (in->depth > 1)
        drop_fd(&in->dirs[--in->depth]);
    return r;
}
