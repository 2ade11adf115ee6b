/* SPDX-License-Identifier: Apache-2.0 */
/* LAYERS_UNPACK: makes a layer of an image from an untrusted archive. If the digest of the packed
 * bytes is known, it is checked before anything is unpacked. Another process decompresses the
 * archive; the tar stream is hashed while it is unpacked, and the layer is kept only if the hash
 * matches its name. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/own.h"
#include "base/disk_space.h"
#include "lib/crypto/encode.h"
#include "lib/crypto/hash.h"
#include "engine/layers/budget.h"
#include "engine/layers/worker.h"
#include "engine/layers/digest.h"
#include "lib/proc/idmap.h"
#include "lib/tar/unpack.h"

/* Factor for headers and padding, which the unpacker's limit does not count. */
enum { OVERHEAD = 4 };

struct layer_stream {
    struct layer_worker *layer_worker;
    struct tar_range packed; /* if no process decompresses it */
    struct crypto_sha256 hash;
    uint64_t bytes, bytes_max;
    struct err err; /* why it ended early */
};

/* A tar_read_fn. */
static ssize_t read_layer_stream(void *ctx, void *p, size_t n)
{
    struct layer_stream *s = ctx;
    const struct layer_worker *k = s->layer_worker;
    int plain = k->decompress.plain;
    ssize_t got = room_check(k->storage.dir, k->job.free_min, s->bytes, n, &s->err) < 0 ? -1
                  : plain < 0 ? tar_range_read(&s->packed, p, n)
                              : read(plain, p, n);

    if (got > 0) {
        s->bytes += (uint64_t)got;
        crypto_sha256_add(&s->hash, (struct str){ p, (size_t)got });
        layer_worker_report_progress(s->layer_worker, s->bytes, 0);
    }
    if (got > 0 && s->bytes > s->bytes_max) {
        (void)err_set(&s->err, ERR_TOO_BIG, "the layer has more than %llu bytes",
                      (unsigned long long)s->layer_worker->job.bytes_max);
        got = -1;
    }
    if (got < 0 && s->err.code)
        errno = ENOSPC;
    return got;
}

/* "sha256-…", the name of the layer. */
static void finish_layer_digest(struct crypto_sha256 *h, char name[static LAYER_NAME_MAX])
{
    char hex[CRYPTO_SHA256_HEX];

    crypto_sha256_end_hex(h, hex);
    snprintf(name, LAYER_NAME_MAX, "sha256-%s", hex);
}

static int take_image_budget(void *user, uint64_t bytes, uint64_t entries, struct err *e)
{
    return budget_take(user, bytes, entries, e);
}

/* A worker with a single identity cannot store other owners: that is an error, unless the job asks
 * to squash them. */
static int unpack_layer_tree(struct layer_worker *k, struct layer_stream *s, struct budget *budget,
                             int fs, struct err *e)
{
    const struct tree_unpack_options o = {
        .devices = TREE_SKIP,
        .fifos = TREE_SKIP,
        .owners = k->job.flags & LAYERS_SQUASH ? TREE_OWNERS_SQUASH
                  : k->one_identity            ? TREE_OWNERS_REQUIRE
                                               : TREE_OWNERS_KEEP,
        .keep_setid = true,
        .whiteouts = true,
        .attributes = true,
        .ids = IDMAP_IDS,
        .limits = { .bytes = k->job.bytes_max, .entries = k->job.entries_max },
        .take = take_image_budget,
        .user = budget
    };
    char name[LAYER_NAME_MAX];
    struct tree_report report;
    int r = tree_unpack_from(read_layer_stream, s, fs, &o, &report, e);

    if (r < 0 && s->err.code) {
        *e = s->err;
        return -(int)s->err.code;
    }
    if (r < 0)
        return r;
    finish_layer_digest(&s->hash, name);
    if (strcmp(name, k->job.name) != 0)
        return err_set(e, ERR_INVALID,
                       "the digest of the layer is %.23s…, but the image says %.23s…", name,
                       k->job.name);
    return 0;
}

static struct tar_range packed_range(const struct layer_worker *k)
{
    return (struct tar_range){ k->fds[0], k->job.at, k->job.at + k->job.size };
}

/* Checks the digest of the packed bytes before they are unpacked. */
static int check_packed(struct layer_worker *k, struct err *e)
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
        layer_worker_report_progress(k, 0, 0);
    }
    if (n < 0)
        return err_sys(e, "reading the packed layer");
    finish_layer_digest(&h, is);
    return strcmp(is, k->job.packed) == 0
               ? 0
               : err_set(e, ERR_UPSTREAM, "the downloaded data does not match the digest %.19s…",
                         k->job.packed);
}

/* A damaged stream also looks like a broken archive: the error of the decompressor takes
 * precedence. */
static int unpack_stream(struct layer_worker *k, int fs, struct err *e)
{
    struct layer_stream s = {
        .layer_worker = k,
        .packed = packed_range(k),
        .bytes_max = k->job.bytes_max ? k->job.bytes_max : TREE_BYTES_DEFAULT,
    };
    struct budget *budget;
    struct err cause;
    int r = budget_open(k->fds[1], &budget, e);

    if (r < 0)
        return r;
    if (__builtin_mul_overflow(s.bytes_max, OVERHEAD, &s.bytes_max))
        s.bytes_max = UINT64_MAX;
    r = unpack_layer_tree(k, &s, budget, fs, e);
    crypto_sha256_done(&s.hash);
    if ((r >= 0 || r == -(int)ERR_INVALID) && decompress_finish(&k->decompress, &cause) < 0) {
        *e = cause;
        r = -(int)cause.code;
    }
    return r;
}

static int digest_layer(struct layer_worker *k, int fs, struct layer_info *ret, struct err *e)
{
    struct tree_digest m;
    int r = digest_tree(fs, layer_worker_on_progress, k, &m, e);

    if (r < 0)
        return r;
    *ret = (struct layer_info){ .bytes = m.bytes, .entries = m.entries };
    k->done.bytes = m.bytes;
    k->done.entries = m.entries;
    str_copy(str_from(m.digest), k->done.text, sizeof k->done.text);
    return 0;
}

/* Digests a layer that exists: it is complete, but its worker died or another one was faster before
 * the digest was stored. The digest is computed anew, since directories that the archive does not
 * name have their own times. */
static int digest_known(struct layer_worker *k, struct err *e)
{
    AUTO_CLOSE int fs = storage_open_layer(&k->storage, k->job.name, e);
    struct layer_info info;

    return fs < 0 ? fs : digest_layer(k, fs, &info, e);
}

static int unpack_new(struct layer_worker *k, struct err *e)
{
    AUTO(staging_done) struct staging g = STAGING_NONE;
    struct layer_info info;
    int r = check_packed(k, e);

    if (r >= 0)
        r = staging_begin(&g, &k->storage, k->job.name, e);
    k->unfinished = &g;
    if (r >= 0)
        r = unpack_stream(k, g.fs, e);
    if (r >= 0)
        r = digest_layer(k, g.fs, &info, e);
    layer_worker_check_cancelled(k); /* a complete layer is treated as needed */
    k->unfinished = NULL;
    if (r >= 0)
        r = staging_publish(&g, k->job.name, &info, e);
    return r >= 0 && g.entry[0] ? digest_known(k, e) : r;
}

int layer_worker_unpack(struct layer_worker *k, struct err *e)
{
    int r = digest_known(k, e);

    return r == -(int)ERR_NOT_FOUND ? unpack_new(k, e) : r;
}

int layer_worker_unpack_prepare(struct layer_worker *k, struct err *e)
{
    struct stat st;

    if (fstat(k->fds[0], &st) < 0)
        return err_sys(e, "reading the size of the archive");
    if (!k->job.size && k->job.at)
        return err_set(e, ERR_INVALID, "the layer's part of the archive is empty");
    if (!k->job.size)
        k->job.size = (uint64_t)st.st_size;
    return decompress_start_part(&k->decompress, k->fds[0], k->job.at, k->job.size, e);
}

int layer_worker_archive_prepare(struct layer_worker *k, struct err *e)
{
    return decompress_start(&k->decompress, k->fds[0], e);
}

int layer_worker_digest(struct layer_worker *k, struct err *e)
{
    return digest_known(k, e);
}
