/* LAYERS_UNPACK: a layer of an image, out of an archive that anybody may have made. Where its
 * packed bytes are on record, they are hashed before anything is unpacked. It is decompressed by
 * another process, hashed again as it comes, and kept only if that is what its name says. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/own.h"
#include "base/room.h"
#include "crypto/encode.h"
#include "crypto/hash.h"
#include "layers/budget.h"
#include "layers/keeper.h"
#include "layers/measure.h"
#include "proc/idmap.h"
#include "tree/unpack.h"

/* Headers and padding beside the content that is counted by the unpacker. */
enum { OVERHEAD = 4 };

struct stream {
    struct keeper *keeper;
    struct tar_range packed; /* if there is no process that decompresses it */
    struct crypto_sha256 hash;
    uint64_t bytes, bytes_max;
    struct err err; /* why it ended early */
};

static void stream_done(struct stream *s)
{
    crypto_sha256_done(&s->hash);
}

static ssize_t read_plain(struct stream *s, void *p, size_t n)
{
    int plain = s->keeper->decompress.plain;

    return plain < 0 ? tar_range_read(&s->packed, p, n) : read(plain, p, n);
}

/* A tar_read_fn. */
static ssize_t read_stream(void *ctx, void *p, size_t n)
{
    struct stream *s = ctx;
    const struct keeper *k = s->keeper;
    ssize_t got = room_check(k->storage.dir, k->job.free_min, s->bytes, n, &s->err) < 0
                      ? -1
                      : read_plain(s, p, n);

    if (got > 0) {
        s->bytes += (uint64_t)got;
        crypto_sha256_add(&s->hash, (struct str){ p, (size_t)got });
        keeper_progress(s->keeper, s->bytes, 0);
    }
    if (got > 0 && s->bytes > s->bytes_max) {
        (void)err_set(&s->err, ERR_TOO_BIG, "the layer has more than %llu bytes",
                      (unsigned long long)s->keeper->job.bytes_max);
        got = -1;
    }
    if (got < 0 && s->err.code)
        errno = ENOSPC;
    return got;
}

/* "sha256-…", as layers are called. */
static void end_hash(struct crypto_sha256 *h, char name[static LAYER_NAME_MAX])
{
    unsigned char digest[CRYPTO_SHA256_SIZE];
    char hex[CRYPTO_SHA256_HEX];

    crypto_sha256_end(h, digest);
    crypto_hex_sha256(digest, hex);
    snprintf(name, LAYER_NAME_MAX, "sha256-%s", hex);
}

/* Who has one identity cannot store others; that is said, or squashed if it is asked for. */
static enum tree_owners owners_for(const struct keeper *k)
{
    if (k->job.flags & LAYERS_SQUASH)
        return TREE_OWNERS_SQUASH;
    return k->one_identity ? TREE_OWNERS_REQUIRE : TREE_OWNERS_KEEP;
}

static int take(void *user, uint64_t bytes, uint64_t entries, struct err *e)
{
    return budget_take(user, bytes, entries, e);
}

static int unpack(struct keeper *k, struct stream *s, struct budget *budget, int fs, struct err *e)
{
    const struct tree_unpack_options o = { .devices = TREE_SKIP,
                                           .fifos = TREE_SKIP,
                                           .owners = owners_for(k),
                                           .keep_setid = true,
                                           .whiteouts = true,
                                           .attributes = true,
                                           .ids = IDMAP_IDS,
                                           .limits = { .bytes = k->job.bytes_max,
                                                       .entries = k->job.entries_max },
                                           .take = take,
                                           .user = budget };
    char name[LAYER_NAME_MAX];
    struct tree_report report;
    int r = tree_unpack_from(read_stream, s, fs, &o, &report, e);

    if (r < 0 && s->err.code) {
        *e = s->err;
        return -(int)s->err.code;
    }
    if (r < 0)
        return r;
    end_hash(&s->hash, name);
    if (strcmp(name, k->job.name) != 0)
        return err_set(e, ERR_INVALID,
                       "the layer's content is %.23s…, not %.23s… as the image says", name,
                       k->job.name);
    return 0;
}

static struct tar_range packed_range(const struct keeper *k)
{
    return (struct tar_range){ k->fds[0], k->job.at, k->job.at + k->job.size };
}

/* Before anything is made of them. */
static int check_packed(struct keeper *k, struct err *e)
{
    AUTO(crypto_sha256_done) struct crypto_sha256 h = { 0 };
    struct tar_range range = packed_range(k);
    char piece[TREE_CHUNK], is[LAYER_NAME_MAX];
    ssize_t n;

    if (!k->job.packed[0])
        return 0;
    while ((n = tar_range_read(&range, piece, sizeof piece)) > 0 || (n < 0 && errno == EINTR)) {
        if (n > 0)
            crypto_sha256_add(&h, (struct str){ piece, (size_t)n });
        keeper_progress(k, 0, 0);
    }
    if (n < 0)
        return err_sys(e, "reading the packed layer");
    end_hash(&h, is);
    return strcmp(is, k->job.packed) == 0
               ? 0
               : err_set(e, ERR_UPSTREAM, "what was sent for %.19s… is something else",
                         k->job.packed);
}

/* What is damaged looks like a broken archive: the cause comes first. */
static int unpack_stream(struct keeper *k, int fs, struct err *e)
{
    AUTO(stream_done)
    struct stream s = {
        .keeper = k,
        .packed = packed_range(k),
        .bytes_max = k->job.bytes_max ? k->job.bytes_max : TREE_BYTES_DEFAULT,
    };
    struct budget *budget;
    struct err cause;
    int damaged, r = budget_open(k->fds[1], &budget, e);

    if (r < 0)
        return r;
    if (__builtin_mul_overflow(s.bytes_max, OVERHEAD, &s.bytes_max))
        s.bytes_max = UINT64_MAX;
    r = unpack(k, &s, budget, fs, e);
    damaged = r >= 0 || r == -(int)ERR_INVALID ? decompress_finish(&k->decompress, &cause) : 0;
    if (damaged < 0) {
        *e = cause;
        return damaged;
    }
    return r;
}

static void on_measured(void *ctx, uint64_t bytes, uint64_t entries)
{
    keeper_progress(ctx, bytes, entries);
}

static int measure(struct keeper *k, int fs, struct layer_info *ret, struct err *e)
{
    struct measure m;
    int r = measure_tree(fs, on_measured, k, &m, e);

    if (r < 0)
        return r;
    *ret = (struct layer_info){ .bytes = m.bytes, .entries = m.entries };
    k->done.bytes = m.bytes;
    k->done.entries = m.entries;
    str_copy(str_from(m.digest), k->done.text, sizeof k->done.text);
    return 0;
}

/* One that is there is whole: somebody died, or was faster, before it was on record. Its measure is
 * its own, since directories that the archive does not name are as old as they are. */
static int measure_known(struct keeper *k, struct err *e)
{
    AUTO_CLOSE int fs = storage_open_layer(&k->storage, k->job.name, e);
    struct layer_info info;

    return fs < 0 ? fs : measure(k, fs, &info, e);
}

static int unpack_new(struct keeper *k, struct err *e)
{
    AUTO(growth_done) struct growth g = GROWTH_NONE;
    struct layer_info info;
    int r = check_packed(k, e);

    if (r >= 0)
        r = growth_begin(&g, &k->storage, k->job.name, e);
    k->growing = &g;
    if (r >= 0)
        r = unpack_stream(k, g.fs, e);
    if (r >= 0)
        r = measure(k, g.fs, &info, e);
    keeper_wanted(k); /* a layer that is whole is taken for one that somebody needs */
    k->growing = NULL;
    if (r >= 0)
        r = growth_publish(&g, k->job.name, &info, e);
    return r >= 0 && g.entry[0] ? measure_known(k, e) : r;
}

int keeper_unpack(struct keeper *k, struct err *e)
{
    int r = measure_known(k, e);

    return r == -(int)ERR_NOT_FOUND ? unpack_new(k, e) : r;
}

int keeper_unpack_prepare(struct keeper *k, struct err *e)
{
    struct stat st;

    if (fstat(k->fds[0], &st) < 0)
        return err_sys(e, "looking at the archive");
    if (!k->job.size && k->job.at)
        return err_set(e, ERR_INVALID, "the archive's part that is to be the layer is empty");
    if (!k->job.size)
        k->job.size = (uint64_t)st.st_size;
    return decompress_start_part(&k->decompress, k->fds[0], k->job.at, k->job.size, e);
}

int keeper_archive_prepare(struct keeper *k, struct err *e)
{
    return decompress_start(&k->decompress, k->fds[0], e);
}

int keeper_measure(struct keeper *k, struct err *e)
{
    return measure_known(k, e);
}
