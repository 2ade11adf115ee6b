/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/tar/reader.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/tar/path.h"

/* Members of an entry from extended headers, which override the plain header. */
enum {
    KNOWN_PATH = 1 << 0,
    KNOWN_LINK = 1 << 1,
    KNOWN_SIZE = 1 << 2,
    KNOWN_UID = 1 << 3,
    KNOWN_GID = 1 << 4,
    KNOWN_MTIME = 1 << 5,
};

static ssize_t read_archive_fd(void *ctx, void *p, size_t n)
{
    return read(*(const int *)ctx, p, n);
}

void tar_reader_init(struct tar_reader *t, tar_read_fn *read_fn, void *ctx)
{
    t->entry.path[0] = t->entry.link[0] = '\0';
    t->number = t->at = 0;
    t->read_ = read_fn;
    t->skip_ = NULL;
    t->ctx_ = ctx;
    t->fd_ = -1;
    t->is_tar_ = false;
    t->known_ = 0;
    t->taken_ = t->left_ = 0;
    t->padding_ = t->at_ = t->n_ = 0;
    t->pax_ = (struct str){ NULL, 0 };
}

void tar_reader_init_fd(struct tar_reader *t, int fd)
{
    tar_reader_init(t, read_archive_fd, &t->fd_);
    t->fd_ = fd;
}

ssize_t tar_range_read(void *range, void *p, size_t n)
{
    struct tar_range *r = range;
    uint64_t left = r->at < r->end ? r->end - r->at : 0;
    ssize_t got = left ? pread(r->fd, p, n < left ? n : (size_t)left, (off_t)r->at) : 0;

    if (got > 0)
        r->at += (uint64_t)got;
    return got;
}

static void skip_range(void *range, uint64_t n)
{
    struct tar_range *r = range;
    uint64_t left = r->at < r->end ? r->end - r->at : 0;

    r->at += n < left ? n : left;
}

void tar_reader_init_range(struct tar_reader *t, struct tar_range *range)
{
    tar_reader_init(t, tar_range_read, range);
    t->skip_ = skip_range;
}

static int fail_truncated(struct err *e)
{
    return err_set(e, ERR_INVALID, "the archive is truncated");
}

/* Reads until at least `want` unread bytes are at in_ + at_: 1, or 0 if the input ends first. */
static int fill_input(struct tar_reader *t, size_t want, struct err *e)
{
    while (t->n_ - t->at_ < want) {
        ssize_t got;

        memmove(t->in_, t->in_ + t->at_, t->n_ - t->at_);
        t->n_ -= t->at_;
        t->at_ = 0;
        got = t->read_(t->ctx_, t->in_ + t->n_, sizeof t->in_ - t->n_);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_sys(e, "reading the archive");
        if (got == 0)
            return 0;
        t->n_ += (size_t)got;
        t->taken_ += (size_t)got;
    }
    return 1;
}

/* Skips up to n bytes of the buffer; returns the number of bytes left to skip. */
static uint64_t skip_buffered(struct tar_reader *t, uint64_t n)
{
    size_t step = t->n_ - t->at_;

    if (step > n)
        step = (size_t)n;
    t->at_ += step;
    return n - step;
}

static int skip_input(struct tar_reader *t, uint64_t n, struct err *e)
{
    n = skip_buffered(t, n);
    if (n > 0 && t->skip_) {
        t->skip_(t->ctx_, n);
        t->taken_ += n;
        return 0;
    }
    while (n > 0) {
        int r = fill_input(t, 1, e);

        if (r <= 0)
            return r < 0 ? r : fail_truncated(e);
        n = skip_buffered(t, n);
    }
    return 0;
}

static int skip_content(struct tar_reader *t, struct err *e)
{
    int r = skip_input(t, t->left_, e);

    if (r >= 0)
        r = skip_input(t, t->padding_, e);
    t->left_ = t->padding_ = 0;
    return r;
}

int tar_data(struct tar_reader *t, struct str *ret, struct err *e)
{
    size_t n;
    int r;

    if (t->left_ == 0)
        return 0;
    r = fill_input(t, 1, e);
    if (r <= 0)
        return r < 0 ? r : fail_truncated(e);
    n = t->n_ - t->at_;
    if (n > t->left_)
        n = (size_t)t->left_;
    *ret = (struct str){ t->in_ + t->at_, n };
    t->at_ += n;
    t->left_ -= n;
    return 1;
}

/* Rejects any byte but zero behind the first block of zeros. */
static int read_trailer(struct tar_reader *t, struct err *e)
{
    size_t seen = 0;
    int r;

    while ((r = fill_input(t, 1, e)) > 0) {
        seen += t->n_ - t->at_;
        if (!tar_is_zero(t->in_ + t->at_, t->n_ - t->at_) || seen > TAR_TRAILER_MAX)
            return err_set(e, ERR_INVALID,
                           "something follows the end of the archive; only one can be read");
        t->at_ = t->n_;
    }
    return r;
}

/* 1 and a header whose slices are valid until the next read, or 0 at the end of the archive. */
static int read_header(struct tar_reader *t, struct tar_header *ret, struct err *e)
{
    const char *block;
    int r = fill_input(t, TAR_BLOCK, e);

    if (r < 0)
        return r;
    if (r == 0 && !t->is_tar_)
        return err_set(e, ERR_INVALID, "not a tar archive: the input is %s",
                       t->n_ == t->at_ ? "empty" : "too short");
    if (r == 0)
        return fail_truncated(e);
    block = t->in_ + t->at_;
    t->at_ += TAR_BLOCK;
    if (tar_is_zero(block, TAR_BLOCK))
        return read_trailer(t, e);
    r = tar_header_parse(block, ret, e);
    if (r < 0)
        return t->is_tar_ ? r : err_wrap(e, r, "not a tar archive");
    t->is_tar_ = true;
    return 1;
}

static int set_entry_text(char *to, struct str value, struct err *e)
{
    if (memchr(value.p, '\0', value.n))
        return err_set(e, ERR_INVALID, "a name in an extended header contains a NUL byte");
    if (!str_copy(value, to, TREE_PATH_MAX))
        return err_set(e, ERR_TOO_BIG, "a name in an extended header is longer than %d bytes",
                       TREE_PATH_MAX - 1);
    return 0;
}

static int bad_value(struct err *e, const char *what)
{
    return err_set(e, ERR_INVALID, "its %s is not a number that can be used", what);
}

/* Rejects (uid_t)-1, which means "unchanged" to chown(). */
static int set_id(uint32_t *to, int64_t v, const char *what, struct err *e)
{
    if (v < 0 || v >= UINT32_MAX)
        return bad_value(e, what);
    *to = (uint32_t)v;
    return 0;
}

static int set_entry_size(struct tar_reader *t, int64_t v, struct err *e)
{
    if (v < 0)
        return bad_value(e, "size");
    t->entry.size = (uint64_t)v;
    return 0;
}

static const struct pax_key {
    const char *key;
    unsigned bit;
} pax_keys[] = {
    { "path", KNOWN_PATH }, { "linkpath", KNOWN_LINK }, { "size", KNOWN_SIZE },
    { "uid", KNOWN_UID },   { "gid", KNOWN_GID },       { "mtime", KNOWN_MTIME },
};

static int set_pax_value(struct tar_reader *t, const struct pax_key *k, struct str v, struct err *e)
{
    int64_t n;

    t->known_ |= k->bit;
    if (k->bit == KNOWN_PATH || k->bit == KNOWN_LINK)
        return set_entry_text(k->bit == KNOWN_PATH ? t->entry.path : t->entry.link, v, e);
    if (k->bit == KNOWN_MTIME)
        return tar_pax_time(v, &t->entry.mtime) ? 0 : bad_value(e, k->key);
    if (!str_to_i64(v, &n))
        return bad_value(e, k->key);
    return k->bit == KNOWN_SIZE  ? set_entry_size(t, n, e)
           : k->bit == KNOWN_UID ? set_id(&t->entry.uid, n, k->key, e)
                                 : set_id(&t->entry.gid, n, k->key, e);
}

static int reject_sparse(struct err *e)
{
    return err_set(e, ERR_UNSUPPORTED,
                   "it is a GNU sparse file; create the archive without --sparse");
}

static int set_pax(struct tar_reader *t, bool global, struct str key, struct str value,
                   struct err *e)
{
    if (str_starts(key, STR("GNU.sparse.")))
        return reject_sparse(e);
    for (size_t i = 0; i < COUNT_OF(pax_keys); i++) {
        if (!str_eq(key, str_from(pax_keys[i].key)))
            continue;
        if (global)
            return err_set(e, ERR_UNSUPPORTED, "a global pax header sets '%s' of all entries",
                           pax_keys[i].key);
        if (value.n > 0)
            return set_pax_value(t, &pax_keys[i], value, e);
        t->known_ &= ~pax_keys[i].bit; /* an empty value cancels an earlier record */
    }
    return 0;
}

/* Reads an extended header: an entry whose content describes the next one. */
static int read_meta(struct tar_reader *t, const struct tar_header *h, struct err *e)
{
    struct str piece, key, value, all = { t->meta_, 0 };
    char type = h->type;
    int r;

    if (h->size < 0)
        return bad_value(e, "size");
    if (h->size > TAR_META_MAX)
        return err_set(e, ERR_TOO_BIG, "an extended header is larger than %d bytes", TAR_META_MAX);
    t->left_ = (uint64_t)h->size;
    t->padding_ = tar_padding(t->left_);
    t->pax_ = (struct str){ NULL, 0 }; /* the last header has all attributes of the entry */
    while ((r = tar_data(t, &piece, e)) > 0) {
        memcpy(t->meta_ + all.n, piece.p, piece.n);
        all.n += piece.n;
    }
    if (r < 0)
        return r;
    if (type == 'L' || type == 'K') { /* a long name, or a long link target */
        while (all.n > 0 && all.p[all.n - 1] == '\0')
            all.n--;
        return set_pax_value(t, &pax_keys[type == 'L' ? 0 : 1], all, e);
    }
    if (type == 'x')
        t->pax_ = all;
    while ((r = tar_pax_next(&all, &key, &value, e)) > 0 &&
           (r = set_pax(t, type == 'g', key, value, e)) >= 0)
        ;
    return r;
}

struct str tar_attributes(const struct tar_reader *t)
{
    return t->pax_;
}

int tar_attribute(struct str *rest, struct str *ret_name, struct str *ret_value)
{
    const struct str prefix = STR("SCHILY.xattr.");

    while (tar_pax_next(rest, ret_name, ret_value, NULL) > 0)
        if (str_starts(*ret_name, prefix)) {
            *ret_name = (struct str){ ret_name->p + prefix.n, ret_name->n - prefix.n };
            return 1;
        }
    return 0;
}

static int set_type(struct tar_entry *entry, char type, struct err *e)
{
    size_t n = strlen(entry->path);

    if (type == 'S')
        return reject_sparse(e);
    if (type == '7') /* contiguous file */
        type = '0';
    if (type < '0' || type > '6')
        return err_set(e, ERR_UNSUPPORTED, "type 0x%02x of entries is not supported",
                       (unsigned)(unsigned char)type);
    entry->type = (enum tar_type)(type - '0');
    if (entry->type == TAR_FILE && n > 0 && entry->path[n - 1] == '/') /* a v7 directory */
        entry->type = TAR_DIR;
    if (entry->type != TAR_FILE && entry->size > 0)
        return err_set(e, ERR_INVALID, "it is a %s, but carries content",
                       tar_type_name(entry->type));
    return 0;
}

static void set_entry_names(struct tar_reader *t, const struct tar_header *h)
{
    size_t n = 0;

    if (!(t->known_ & KNOWN_PATH)) { /* 155 + 1 + 100 bytes at most */
        memcpy(t->entry.path, h->prefix.p ? h->prefix.p : "", h->prefix.n);
        n = h->prefix.n;
        if (n > 0)
            t->entry.path[n++] = '/';
        memcpy(t->entry.path + n, h->name.p, h->name.n);
        t->entry.path[n + h->name.n] = '\0';
    }
    if (!(t->known_ & KNOWN_LINK)) {
        memcpy(t->entry.link, h->link.p, h->link.n);
        t->entry.link[h->link.n] = '\0';
    }
}

static int set_numbers(struct tar_reader *t, const struct tar_header *h, struct err *e)
{
    struct tar_entry *entry = &t->entry;
    int r = 0;

    entry->mode = (mode_t)(h->mode & 07777);
    if (!(t->known_ & KNOWN_MTIME))
        entry->mtime = (struct timespec){ .tv_sec = h->mtime };
    if (!(t->known_ & KNOWN_SIZE))
        r = set_entry_size(t, h->size, e);
    if (r >= 0 && !(t->known_ & KNOWN_UID))
        r = set_id(&entry->uid, h->uid, "uid", e);
    if (r >= 0 && !(t->known_ & KNOWN_GID))
        r = set_id(&entry->gid, h->gid, "gid", e);
    if (r >= 0)
        r = set_id(&entry->major, h->major, "device number", e);
    if (r >= 0)
        r = set_id(&entry->minor, h->minor, "device number", e);
    return r;
}

static int set_entry(struct tar_reader *t, const struct tar_header *h, struct err *e)
{
    int r;

    set_entry_names(t, h);
    r = set_numbers(t, h, e);
    if (r >= 0)
        r = set_type(&t->entry, h->type, e);
    if (r < 0)
        return r;
    t->at = t->taken_ - (t->n_ - t->at_);
    t->left_ = t->entry.size;
    t->padding_ = tar_padding(t->left_);
    return 1;
}

static int read_next_entry(struct tar_reader *t, struct err *e)
{
    struct tar_header h;
    int r;

    for (int metas = 0; metas <= TAR_META_COUNT; metas++) {
        r = read_header(t, &h, e);
        if (r == 0 && metas > 0)
            return err_set(e, ERR_INVALID, "an extended header is followed by no entry");
        if (r <= 0)
            return r;
        if (!strchr("xgLK", h.type))
            return set_entry(t, &h, e);
        r = read_meta(t, &h, e);
        if (r >= 0)
            r = skip_content(t, e);
        if (r < 0)
            return r;
    }
    return err_set(e, ERR_TOO_BIG, "more than %d extended headers in front of it", TAR_META_COUNT);
}

int tar_wrap(const struct tar_reader *t, int r, struct err *e)
{
    char shown[TREE_SHOWN_MAX];

    if (r >= 0)
        return r;
    if (t->entry.path[0] == '\0')
        return err_wrap(e, r, "entry %llu", (unsigned long long)t->number);
    tree_path_show(str_from(t->entry.path), shown);
    return err_wrap(e, r, "entry %llu '%s'", (unsigned long long)t->number, shown);
}

int tar_next(struct tar_reader *t, struct err *e)
{
    int r = skip_content(t, e);

    if (r < 0)
        return tar_wrap(t, r, e);
    t->number++;
    t->known_ = 0;
    t->pax_ = (struct str){ NULL, 0 };
    t->entry.path[0] = t->entry.link[0] = '\0';
    r = read_next_entry(t, e);
    return t->is_tar_ ? tar_wrap(t, r, e) : r;
}
