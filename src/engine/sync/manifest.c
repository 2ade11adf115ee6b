/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sync/manifest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "lib/tar/sink.h"
#include "lib/tar/path.h"
#include "lib/tar/tree.h"

#define MAGIC "sandboxer mirror manifest 1\n"

enum { SLOTS_FIRST = 1024 };

struct manifest_head {
    char magic[sizeof MAGIC - 1];
    uint32_t zero;
    struct sip_key key;
};

/* Precedes the path of each entry. The end is one without a path, with KIND_NONE and the count as
 * its hash. */
struct manifest_record {
    uint8_t kind;
    uint8_t zero;
    uint16_t mode;
    uint16_t path_n;
    uint16_t zero2;
    uint64_t hash;
    struct sync_identity identity;
};

_Static_assert(sizeof(struct manifest_head) == 48, "no padding that nobody set");
_Static_assert(sizeof(struct manifest_record) == 48, "no padding that nobody set");

bool sync_value_eq(const struct sync_value *a, const struct sync_value *b)
{
    return a->kind == b->kind && a->mode == b->mode && a->hash == b->hash;
}

bool sync_identity_eq(const struct sync_identity *a, const struct sync_identity *b)
{
    return a->inode != 0 && memcmp(a, b, sizeof *a) == 0;
}

static int64_t timespec_to_ns(struct timespec t)
{
    int64_t ns;

    /* An overflow is harmless: times are only compared. */
    if (__builtin_mul_overflow((int64_t)t.tv_sec, NS_PER_S, &ns) ||
        __builtin_add_overflow(ns, (int64_t)t.tv_nsec, &ns))
        return t.tv_sec;
    return ns;
}

struct sync_identity sync_identity_of(const struct stat *st, int64_t now_ns)
{
    int64_t ctime_ns = timespec_to_ns(st->st_ctim);

    if (ctime_ns > now_ns - IDENTITY_SETTLE_S * NS_PER_S)
        return (struct sync_identity){ 0 };
    return (struct sync_identity){ .inode = st->st_ino,
                                   .size = (uint64_t)st->st_size,
                                   .mtime_ns = timespec_to_ns(st->st_mtim),
                                   .ctime_ns = ctime_ns };
}

int sync_manifest_init(struct sync_manifest *m, const struct sync_limits *limits, struct err *e)
{
    struct sync_limits *l = &m->limits;

    *m = (struct sync_manifest){ .limits = *limits, .slot_count_ = SLOTS_FIRST };
    if (l->entries == 0)
        l->entries = SYNC_ENTRIES_DEFAULT;
    if (l->entries > SYNC_ENTRIES_MAX)
        l->entries = SYNC_ENTRIES_MAX;
    if (l->bytes == 0)
        l->bytes = SYNC_BYTES_DEFAULT;
    if (l->depth == 0 || l->depth > TREE_DEPTH_MAX)
        l->depth = TREE_DEPTH_MAX;
    if (l->path == 0 || l->path > TREE_PATH_MAX - 1)
        l->path = TREE_PATH_MAX - 1;
    arena_init(&m->memory_, SYNC_NAMES_MAX + m->limits.entries * sizeof(struct sync_entry));
    m->slots_ = calloc(m->slot_count_, sizeof *m->slots_);
    if (!m->slots_)
        return err_set(e, ERR_TOO_BIG, "no memory for a manifest");
    if (getrandom(&m->key, sizeof m->key, 0) != (ssize_t)sizeof m->key)
        return err_sys(e, "generating a key");
    return 0;
}

void sync_manifest_done(struct sync_manifest *m)
{
    free(m->slots_);
    m->slots_ = NULL;
    arena_done(&m->memory_);
}

/* The key prevents a sandbox from choosing names that collide in one slot. */
static struct sync_entry **manifest_slot(const struct sync_manifest *m, struct str path)
{
    return &m->slots_[sip_str(&m->key, path) & (m->slot_count_ - 1)];
}

static int grow_slots(struct sync_manifest *m, uint64_t slot_count, struct err *e)
{
    struct sync_entry **old = m->slots_;
    uint64_t old_count = m->slot_count_;

    m->slots_ = calloc(slot_count, sizeof *m->slots_);
    if (!m->slots_) {
        m->slots_ = old;
        return err_set(e, ERR_TOO_BIG, "no memory for %llu names", (unsigned long long)slot_count);
    }
    m->slot_count_ = slot_count;
    for (uint64_t i = 0; i < old_count; i++)
        for (struct sync_entry *x = old[i], *next; x; x = next) {
            struct sync_entry **slot = manifest_slot(m, x->path);

            next = x->next_;
            x->next_ = *slot;
            *slot = x;
        }
    free(old);
    return 0;
}

struct sync_entry *sync_manifest_find(const struct sync_manifest *m, struct str path)
{
    struct sync_entry *x = *manifest_slot(m, path);

    while (x && !str_eq(x->path, path))
        x = x->next_;
    return x;
}

const char *sync_manifest_keep(struct sync_manifest *m, struct str s, struct err *e)
{
    const char *kept = arena_dup(&m->memory_, s);

    if (!kept)
        (void)err_set(e, ERR_TOO_BIG, "all paths together have more than %llu bytes",
                      (unsigned long long)SYNC_NAMES_MAX);
    return kept;
}

int sync_manifest_add(struct sync_manifest *m, struct str path, struct sync_entry **ret,
                      struct err *e)
{
    struct sync_entry **slot, *x;
    int r = 0;

    *ret = sync_manifest_find(m, path);
    if (*ret)
        return 0;
    if (m->count == m->limits.entries)
        return err_set(e, ERR_TOO_BIG, "there are more than %llu files and directories",
                       (unsigned long long)m->limits.entries);
    if (m->count == m->slot_count_)
        r = grow_slots(m, 2 * m->slot_count_, e);
    if (r < 0)
        return r;
    x = arena_alloc(&m->memory_, sizeof *x);
    path.p = x ? sync_manifest_keep(m, path, e) : NULL;
    if (!path.p)
        return err_set(e, ERR_TOO_BIG, "all paths together have more than %llu bytes",
                       (unsigned long long)SYNC_NAMES_MAX);
    slot = manifest_slot(m, path);
    *x = (struct sync_entry){ .path = path, .next_ = *slot };
    *slot = x;
    m->count++;
    *ret = x;
    return 0;
}

static int compare_paths(struct str a, struct str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n > 0 ? memcmp(a.p, b.p, n) : 0;

    return order != 0 ? order : (a.n > b.n) - (a.n < b.n);
}

static int compare_entry_paths(const void *a, const void *b)
{
    return compare_paths((*(struct sync_entry *const *)a)->path,
                         (*(struct sync_entry *const *)b)->path);
}

int sync_manifest_sorted(const struct sync_manifest *m, struct sync_entry ***ret, struct err *e)
{
    struct sync_entry **list = calloc(m->count + 1, sizeof(struct sync_entry *));
    size_t n = 0;

    if (!list)
        return err_set(e, ERR_TOO_BIG, "no memory for a list of %llu names",
                       (unsigned long long)m->count);
    for (uint64_t i = 0; i < m->slot_count_; i++)
        for (struct sync_entry *x = m->slots_[i]; x; x = x->next_)
            list[n++] = x;
    qsort(list, n, sizeof(struct sync_entry *), compare_entry_paths);
    *ret = list;
    return 0;
}

/* A buffered reader of the file. */
struct manifest_source {
    int fd;
    size_t at, n;
    char bytes[TREE_CHUNK];
};

/* Reads exactly n bytes: 1; or 0 if the file ends before the first of them. */
static int manifest_source_read(struct manifest_source *s, void *to, size_t n, struct err *e)
{
    size_t have = 0;

    while (have < n) {
        size_t step = s->n - s->at;
        ssize_t got;

        if (step == 0) {
            got = read(s->fd, s->bytes, sizeof s->bytes);
            if (got < 0 && errno == EINTR)
                continue;
            if (got < 0)
                return err_sys(e, "reading the file");
            if (got == 0 && have == 0)
                return 0;
            if (got == 0)
                return err_set(e, ERR_INVALID, "it is truncated");
            s->at = 0;
            s->n = step = (size_t)got;
        }
        if (step > n - have)
            step = n - have;
        memcpy((char *)to + have, s->bytes + s->at, step);
        s->at += step;
        have += step;
    }
    return 1;
}

static int read_exactly(struct manifest_source *s, void *to, size_t n, struct err *e)
{
    int r = manifest_source_read(s, to, n, e);

    return r == 0 ? err_set(e, ERR_INVALID, "it is truncated") : r;
}

static int check_record(const struct manifest_record *f, struct err *e)
{
    if (f->kind >= KIND_COUNT_ || f->zero != 0 || f->zero2 != 0 || (f->mode & ~0777) != 0)
        return err_set(e, ERR_INVALID, "a record has invalid values");
    if ((f->kind == KIND_NONE) != (f->path_n == 0))
        return err_set(e, ERR_INVALID, "a record has a path and no kind, or a kind and no path");
    if ((f->kind == KIND_DIR && f->hash != 0) || (f->kind == KIND_LINK && f->mode != 0))
        return err_set(e, ERR_INVALID, "a record has values that are invalid for its kind");
    return 0;
}

static int check_manifest_path(const struct sync_manifest *m, struct str raw, struct err *e)
{
    struct tree_path clean;
    int r = tree_path(raw, &clean, e);

    if (r < 0)
        return r;
    if (!str_eq(raw, (struct str){ clean.text, clean.n }))
        return err_set(e, ERR_INVALID, "a path is not normalised");
    if (clean.depth > m->limits.depth || clean.n > m->limits.path)
        return err_set(e, ERR_TOO_BIG,
                       "a path has %zu components and %zu bytes, at most %u and %u are allowed",
                       (size_t)clean.depth, clean.n, m->limits.depth, m->limits.path);
    return 0;
}

static int load_record(struct sync_manifest *m, struct manifest_source *s,
                       const struct manifest_record *f, struct str *last, struct err *e)
{
    char bytes[UINT16_MAX];
    struct str path = { bytes, f->path_n };
    struct sync_entry *x;
    int r = read_exactly(s, bytes, f->path_n, e);

    if (r >= 0)
        r = check_manifest_path(m, path, e);
    if (r >= 0 && compare_paths(path, *last) <= 0)
        r = err_set(e, ERR_INVALID, "its paths are not sorted");
    if (r >= 0)
        r = sync_manifest_add(m, path, &x, e);
    if (r < 0)
        return r;
    x->recorded = true;
    x->value = (struct sync_value){ .kind = f->kind, .mode = f->mode, .hash = f->hash };
    x->identity = f->identity;
    *last = x->path;
    return 0;
}

static int load_records(struct sync_manifest *m, struct manifest_source *s, struct err *e)
{
    struct str last = { 0 };
    struct manifest_record f;
    char more;

    for (;;) {
        int r = read_exactly(s, &f, sizeof f, e);

        if (r >= 0)
            r = check_record(&f, e);
        if (r >= 0 && f.kind == KIND_NONE)
            break;
        if (r >= 0)
            r = load_record(m, s, &f, &last, e);
        if (r < 0)
            return r;
    }
    if (f.hash != m->count)
        return err_set(e, ERR_INVALID, "its number of records does not match");
    return manifest_source_read(s, &more, 1, e) == 0
               ? 0
               : err_set(e, ERR_INVALID, "it has data after its end record");
}

int sync_manifest_load(struct sync_manifest *m, int fd, struct err *e)
{
    struct manifest_source s = { .fd = fd };
    struct manifest_head head;
    int r = read_exactly(&s, &head, sizeof head, e);

    if (r >= 0 && (memcmp(head.magic, MAGIC, sizeof head.magic) != 0 || head.zero != 0))
        r = err_set(e, ERR_INVALID, "it is not a sync manifest");
    if (r >= 0) {
        m->key = head.key;
        r = load_records(m, &s, e);
    }
    return err_wrap(e, r, "reading the manifest");
}

static int save_all(struct sync_manifest *m, struct tar_sink *out, struct sync_entry **list,
                    struct err *e)
{
    struct manifest_head head = { .key = m->key };
    struct manifest_record end = { .kind = KIND_NONE };
    int r;

    memcpy(head.magic, MAGIC, sizeof head.magic);
    r = tar_sink_write(out, (struct str){ (const char *)&head, sizeof head }, e);
    for (; r >= 0 && *list; list++) {
        const struct sync_entry *x = *list;
        struct manifest_record f = { .kind = (uint8_t)x->value.kind,
                                     .mode = (uint16_t)x->value.mode,
                                     .path_n = (uint16_t)x->path.n,
                                     .hash = x->value.hash,
                                     .identity = x->identity };

        if (!x->recorded)
            continue;
        r = tar_sink_write(out, (struct str){ (const char *)&f, sizeof f }, e);
        if (r >= 0)
            r = tar_sink_write(out, x->path, e);
        end.hash++;
    }
    if (r >= 0)
        r = tar_sink_write(out, (struct str){ (const char *)&end, sizeof end }, e);
    return r < 0 ? r : tar_sink_flush(out, e);
}

int sync_manifest_save(struct sync_manifest *m, int fd, struct err *e)
{
    AUTO_FREE struct sync_entry **list = NULL;
    struct tar_sink out;
    int r = sync_manifest_sorted(m, &list, e);

    tar_sink_init(&out, fd);
    if (r >= 0)
        r = save_all(m, &out, list, e);
    return err_wrap(e, r, "writing the manifest");
}
