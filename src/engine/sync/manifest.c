#include "mirror/manifest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "mirror/sink.h"
#include "tree/path.h"
#include "tree/tree.h"

#define MAGIC "sandboxer mirror manifest 1\n"

enum { SLOTS_FIRST = 1024 };

struct file_head {
    char magic[sizeof MAGIC - 1];
    uint32_t zero;
    struct sip_key key;
};

/* In front of the path of each entry. The end is one without a path, with KIND_NONE and the count
 * as its hash. */
struct file_record {
    uint8_t kind;
    uint8_t zero;
    uint16_t mode;
    uint16_t path_n;
    uint16_t zero2;
    uint64_t hash;
    struct mirror_identity identity;
};

_Static_assert(sizeof(struct file_head) == 48, "no padding that nobody set");
_Static_assert(sizeof(struct file_record) == 48, "no padding that nobody set");

bool mirror_value_eq(const struct mirror_value *a, const struct mirror_value *b)
{
    return a->kind == b->kind && a->mode == b->mode && a->hash == b->hash;
}

bool mirror_identity_eq(const struct mirror_identity *a, const struct mirror_identity *b)
{
    return a->inode != 0 && memcmp(a, b, sizeof *a) == 0;
}

static int64_t nanoseconds(struct timespec t)
{
    int64_t ns;

    /* A time that does not fit is as good as any other: it is only compared. */
    if (__builtin_mul_overflow((int64_t)t.tv_sec, NS_PER_S, &ns) ||
        __builtin_add_overflow(ns, (int64_t)t.tv_nsec, &ns))
        return t.tv_sec;
    return ns;
}

struct mirror_identity mirror_identity_of(const struct stat *st, int64_t now_ns)
{
    int64_t ctime_ns = nanoseconds(st->st_ctim);

    if (ctime_ns > now_ns - IDENTITY_SETTLE_S * NS_PER_S)
        return (struct mirror_identity){ 0 };
    return (struct mirror_identity){ .inode = st->st_ino,
                                     .size = (uint64_t)st->st_size,
                                     .mtime_ns = nanoseconds(st->st_mtim),
                                     .ctime_ns = ctime_ns };
}

static struct mirror_limits settle_limits(const struct mirror_limits *l)
{
    struct mirror_limits s = *l;

    if (s.entries == 0)
        s.entries = MIRROR_ENTRIES_DEFAULT;
    if (s.entries > MIRROR_ENTRIES_MAX)
        s.entries = MIRROR_ENTRIES_MAX;
    if (s.bytes == 0)
        s.bytes = MIRROR_BYTES_DEFAULT;
    if (s.depth == 0 || s.depth > TREE_DEPTH_MAX)
        s.depth = TREE_DEPTH_MAX;
    if (s.path == 0 || s.path > TREE_PATH_MAX - 1)
        s.path = TREE_PATH_MAX - 1;
    return s;
}

int mirror_manifest_init(struct mirror_manifest *m, const struct mirror_limits *limits,
                         struct err *e)
{
    *m = (struct mirror_manifest){ .limits = settle_limits(limits), .slot_count_ = SLOTS_FIRST };
    arena_init(&m->memory_, MIRROR_NAMES_MAX + m->limits.entries * sizeof(struct mirror_entry));
    m->slots_ = calloc(m->slot_count_, sizeof *m->slots_);
    if (!m->slots_)
        return err_set(e, ERR_TOO_BIG, "no memory for a manifest");
    if (getrandom(&m->key, sizeof m->key, 0) != (ssize_t)sizeof m->key)
        return err_sys(e, "making a key");
    return 0;
}

void mirror_manifest_done(struct mirror_manifest *m)
{
    free(m->slots_);
    m->slots_ = NULL;
    arena_done(&m->memory_);
}

/* The key keeps a sandbox from choosing names that all meet in one slot. */
static struct mirror_entry **slot_of(const struct mirror_manifest *m, struct str path)
{
    return &m->slots_[sip_str(&m->key, path) & (m->slot_count_ - 1)];
}

static int rehash(struct mirror_manifest *m, uint64_t slot_count, struct err *e)
{
    struct mirror_entry **old = m->slots_;
    uint64_t old_count = m->slot_count_;

    m->slots_ = calloc(slot_count, sizeof *m->slots_);
    if (!m->slots_) {
        m->slots_ = old;
        return err_set(e, ERR_TOO_BIG, "no memory for %llu names", (unsigned long long)slot_count);
    }
    m->slot_count_ = slot_count;
    for (uint64_t i = 0; i < old_count; i++)
        for (struct mirror_entry *x = old[i], *next; x; x = next) {
            struct mirror_entry **slot = slot_of(m, x->path);

            next = x->next_;
            x->next_ = *slot;
            *slot = x;
        }
    free(old);
    return 0;
}

struct mirror_entry *mirror_manifest_find(const struct mirror_manifest *m, struct str path)
{
    struct mirror_entry *x = *slot_of(m, path);

    while (x && !str_eq(x->path, path))
        x = x->next_;
    return x;
}

const char *mirror_manifest_keep(struct mirror_manifest *m, struct str s, struct err *e)
{
    const char *kept = arena_dup(&m->memory_, s);

    if (!kept)
        (void)err_set(e, ERR_TOO_BIG, "all paths together have more than %llu bytes",
                      (unsigned long long)MIRROR_NAMES_MAX);
    return kept;
}

static int add_new(struct mirror_manifest *m, struct str path, struct mirror_entry **ret,
                   struct err *e)
{
    struct mirror_entry **slot, *x;
    int r = 0;

    if (m->count == m->limits.entries)
        return err_set(e, ERR_TOO_BIG, "there are more than %llu files and directories",
                       (unsigned long long)m->limits.entries);
    if (m->count == m->slot_count_)
        r = rehash(m, 2 * m->slot_count_, e);
    if (r < 0)
        return r;
    x = arena_alloc(&m->memory_, sizeof *x);
    path.p = mirror_manifest_keep(m, path, e);
    if (!x || !path.p)
        return err_set(e, ERR_TOO_BIG, "all paths together have more than %llu bytes",
                       (unsigned long long)MIRROR_NAMES_MAX);
    slot = slot_of(m, path);
    *x = (struct mirror_entry){ .path = path, .next_ = *slot };
    *slot = x;
    m->count++;
    *ret = x;
    return 0;
}

int mirror_manifest_add(struct mirror_manifest *m, struct str path, struct mirror_entry **ret,
                        struct err *e)
{
    *ret = mirror_manifest_find(m, path);
    return *ret ? 0 : add_new(m, path, ret, e);
}

static int compare(struct str a, struct str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n > 0 ? memcmp(a.p, b.p, n) : 0;

    return order != 0 ? order : (a.n > b.n) - (a.n < b.n);
}

static int compare_entries(const void *a, const void *b)
{
    return compare((*(struct mirror_entry *const *)a)->path,
                   (*(struct mirror_entry *const *)b)->path);
}

int mirror_manifest_sorted(const struct mirror_manifest *m, struct mirror_entry ***ret,
                           struct err *e)
{
    struct mirror_entry **list = calloc(m->count + 1, sizeof(struct mirror_entry *));
    size_t n = 0;

    if (!list)
        return err_set(e, ERR_TOO_BIG, "no memory for a list of %llu names",
                       (unsigned long long)m->count);
    for (uint64_t i = 0; i < m->slot_count_; i++)
        for (struct mirror_entry *x = m->slots_[i]; x; x = x->next_)
            list[n++] = x;
    qsort(list, n, sizeof(struct mirror_entry *), compare_entries);
    *ret = list;
    return 0;
}

/* A reader of the file that knows where it is. */
struct source {
    int fd;
    size_t at, n;
    char bytes[TREE_CHUNK];
};

/* Exactly n bytes: 1; or 0 if the file ends before the first of them. */
static int source_get(struct source *s, void *to, size_t n, struct err *e)
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
                return err_sys(e, "reading it");
            if (got == 0 && have == 0)
                return 0;
            if (got == 0)
                return err_set(e, ERR_INVALID, "it is cut off");
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

static int need(struct source *s, void *to, size_t n, struct err *e)
{
    int r = source_get(s, to, n, e);

    return r == 0 ? err_set(e, ERR_INVALID, "it is cut off") : r;
}

static int check_record(const struct file_record *f, struct err *e)
{
    if (f->kind >= KIND_COUNT_ || f->zero != 0 || f->zero2 != 0 || (f->mode & ~0777) != 0)
        return err_set(e, ERR_INVALID, "a record has values that nobody writes");
    if ((f->kind == KIND_NONE) != (f->path_n == 0))
        return err_set(e, ERR_INVALID, "a record has a path and no kind, or a kind and no path");
    if ((f->kind == KIND_DIR && f->hash != 0) || (f->kind == KIND_LINK && f->mode != 0))
        return err_set(e, ERR_INVALID, "a record has values that its kind does not have");
    return 0;
}

static int check_path(const struct mirror_manifest *m, struct str raw, struct err *e)
{
    struct tree_path clean;
    int r = tree_path(raw, &clean, e);

    if (r < 0)
        return r;
    if (!str_eq(raw, (struct str){ clean.text, clean.n }))
        return err_set(e, ERR_INVALID, "a path is not in its shortest form");
    if (clean.depth > m->limits.depth || clean.n > m->limits.path)
        return err_set(e, ERR_TOO_BIG, "a path is longer or deeper than the limits allow");
    return 0;
}

static int load_record(struct mirror_manifest *m, struct source *s, const struct file_record *f,
                       struct str *last, struct err *e)
{
    char bytes[UINT16_MAX];
    struct str path = { bytes, f->path_n };
    struct mirror_entry *x;
    int r = need(s, bytes, f->path_n, e);

    if (r >= 0)
        r = check_path(m, path, e);
    if (r >= 0 && compare(path, *last) <= 0)
        r = err_set(e, ERR_INVALID, "its paths are not in order");
    if (r >= 0)
        r = mirror_manifest_add(m, path, &x, e);
    if (r < 0)
        return r;
    x->recorded = true;
    x->value = (struct mirror_value){ .kind = f->kind, .mode = f->mode, .hash = f->hash };
    x->identity = f->identity;
    *last = x->path;
    return 0;
}

static int load_records(struct mirror_manifest *m, struct source *s, struct err *e)
{
    struct str last = { 0 };
    struct file_record f;
    char more;

    for (;;) {
        int r = need(s, &f, sizeof f, e);

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
        return err_set(e, ERR_INVALID, "it has not as many records as it says");
    return source_get(s, &more, 1, e) == 0 ? 0
                                           : err_set(e, ERR_INVALID, "it goes on after its end");
}

int mirror_manifest_load(struct mirror_manifest *m, int fd, struct err *e)
{
    struct source s = { .fd = fd };
    struct file_head head;
    int r = need(&s, &head, sizeof head, e);

    if (r >= 0 && (memcmp(head.magic, MAGIC, sizeof head.magic) != 0 || head.zero != 0))
        r = err_set(e, ERR_INVALID, "it is not one that this program wrote");
    if (r >= 0) {
        m->key = head.key;
        r = load_records(m, &s, e);
    }
    return err_wrap(e, r, "reading the manifest");
}

static int save_entry(struct mirror_sink *out, const struct mirror_entry *x, struct err *e)
{
    struct file_record f = { .kind = (uint8_t)x->value.kind,
                             .mode = (uint16_t)x->value.mode,
                             .path_n = (uint16_t)x->path.n,
                             .hash = x->value.hash,
                             .identity = x->identity };
    int r = mirror_sink_put(out, (struct str){ (const char *)&f, sizeof f }, e);

    return r < 0 ? r : mirror_sink_put(out, x->path, e);
}

static int save_all(struct mirror_manifest *m, struct mirror_sink *out, struct mirror_entry **list,
                    struct err *e)
{
    struct file_head head = { .key = m->key };
    struct file_record end = { .kind = KIND_NONE };
    int r;

    memcpy(head.magic, MAGIC, sizeof head.magic);
    r = mirror_sink_put(out, (struct str){ (const char *)&head, sizeof head }, e);
    for (; r >= 0 && *list; list++)
        if ((*list)->recorded) {
            r = save_entry(out, *list, e);
            end.hash++;
        }
    if (r >= 0)
        r = mirror_sink_put(out, (struct str){ (const char *)&end, sizeof end }, e);
    return r < 0 ? r : mirror_sink_flush(out, e);
}

int mirror_manifest_save(struct mirror_manifest *m, int fd, struct err *e)
{
    AUTO_FREE struct mirror_entry **list = NULL;
    struct mirror_sink out;
    int r = mirror_manifest_sorted(m, &list, e);

    mirror_sink_init(&out, fd);
    if (r >= 0)
        r = save_all(m, &out, list, e);
    return err_wrap(e, r, "writing the manifest");
}
