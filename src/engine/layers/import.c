/* SPDX-License-Identifier: Apache-2.0 */
/* LAYERS_MANIFEST and LAYERS_IMPORT: read the manifest and the layers of an exported snapshot. A
 * layer is digested after it was written to disk, and gets its name only if the digest matches the
 * file's. */
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "engine/layers/archive.h"
#include "lib/tar/at.h"
#include "lib/tar/remove.h"

static struct archive_in *open_snapshot_file(struct layer_worker *k)
{
    return archive_in_new(k, k->decompress.plain >= 0 ? k->decompress.plain : k->fds[0]);
}

static int read_manifest_text(struct archive_in *in, char text[static ARCHIVE_MANIFEST_MAX],
                              size_t *ret, struct err *e)
{
    char magic[sizeof ARCHIVE_MAGIC - 1];
    uint64_t n;

    if (archive_read(in, magic, sizeof magic, NULL) < 0)
        return err_set(
            e, ERR_INVALID,
            "not a snapshot file, or it is truncated (too short); export or download it again");
    if (memcmp(magic, ARCHIVE_MAGIC, sizeof magic) != 0)
        return err_set(e, ERR_INVALID, "not a snapshot file, or one of another version");
    if (archive_read_number(in, 4, &n, e) < 0)
        return -(int)ERR_INVALID;
    if (n == 0 || n >= ARCHIVE_MANIFEST_MAX)
        return err_set(e, ERR_INVALID, "invalid manifest size of %llu bytes",
                       (unsigned long long)n);
    *ret = n;
    return archive_read(in, text, n, e);
}

int layer_worker_manifest(struct layer_worker *k, struct err *e)
{
    static char text[ARCHIVE_MANIFEST_MAX];
    struct archive_in *in = open_snapshot_file(k);
    size_t n;
    int r = read_manifest_text(in, text, &n, e);

    archive_in_free(in);
    return r < 0 ? r : at_write(k->fds[1], text, n, e);
}

/* The digits after "sha256:" or "sha256-". */
static struct str digest_digits(const char *digest)
{
    return str_from(digest + sizeof "sha256:" - 1);
}

static int check_tree_digest(struct layer_worker *k, int tree, const char *stored,
                             struct layer_info *ret, struct err *e)
{
    struct tree_digest m;
    int r = digest_tree(tree, layer_worker_on_progress, k, &m, e);

    if (r < 0)
        return r;
    if (!str_eq(digest_digits(m.digest), digest_digits(stored)))
        return err_set(e, ERR_INVALID,
                       "the digest of its files is %.19s…, but the snapshot file says %.19s…",
                       m.digest, stored);
    *ret = (struct layer_info){ .bytes = m.bytes, .entries = m.entries };
    return 0;
}

static int import_layer(struct layer_worker *k, struct archive_in *in, const char *name,
                        const char *digest, struct err *e)
{
    char text[LAYERS_TEXT_MAX];
    AUTO(staging_done) struct staging g = STAGING_NONE;
    AUTO_CLOSE int links = -1;
    struct layer_info info;
    uint64_t before = archive_in_bytes(in);
    int r = staging_begin(&g, &k->storage, name, e);

    k->unfinished = &g;
    if (r >= 0)
        r = links = staging_make_dir(&g, "links", e);
    if (r >= 0)
        r = archive_read_tree(in, g.fs, links, e);
    if (r >= 0)
        r = tree_remove(g.dir, "links", e);
    if (r >= 0)
        r = check_tree_digest(k, g.fs, digest, &info, e);
    k->unfinished = NULL;
    if (r >= 0)
        r = staging_publish(&g, name, &info, e);
    if (r < 0)
        return r;
    snprintf(text, sizeof text, "%s %llu %llu", name,
             (unsigned long long)(archive_in_bytes(in) - before), (unsigned long long)info.entries);
    layer_worker_report_line(k, text);
    return r;
}

/* Reads one layer. Layers of images are named by their content, so they are never created from an
 * untrusted file. */
static int read_archived_layer(struct layer_worker *k, struct archive_in *in, const char *name,
                               const char *digest, struct err *e)
{
    AUTO_CLOSE int known = storage_open_layer(&k->storage, name, NULL);
    char stored[ARCHIVE_DIGEST_SIZE];
    uint64_t kind;
    int r = archive_read_number(in, 1, &kind, e);

    if (r >= 0 && kind != ARCHIVE_LAYER)
        return err_set(e, ERR_INVALID, "the file has fewer layers than its manifest");
    if (r >= 0)
        r = archive_read(in, stored, sizeof stored, e);
    if (r >= 0 && memcmp(stored, digest, sizeof stored) != 0)
        return err_set(e, ERR_INVALID, "the digest differs from the manifest");
    if (r < 0 || known >= 0)
        return r < 0 ? r : archive_read_tree(in, -1, -1, e);
    if (strncmp(name, "lay_", 4) != 0)
        return err_set(e, ERR_CONFLICT,
                       "a layer of the image was removed during the import; try again");
    return import_layer(k, in, name, digest, e);
}

int layer_worker_import(struct layer_worker *k, struct err *e)
{
    static char manifest[ARCHIVE_MANIFEST_MAX];
    struct archive_in *in = open_snapshot_file(k);
    struct err cause;
    uint64_t kind;
    size_t n;
    int r = read_manifest_text(in, manifest, &n, e);

    for (size_t i = 0; r >= 0 && i < k->job.n_below; i++)
        r = err_wrap(e, read_archived_layer(k, in, k->job.below[i], k->job.against[i], e),
                     "layer %zu of %llu", i + 1, (unsigned long long)k->job.n_below);
    if (r >= 0)
        r = archive_read_number(in, 1, &kind, e);
    if (r >= 0 && kind != ARCHIVE_END)
        r = err_set(e, ERR_INVALID, "the file has more layers than its manifest");
    if (r >= 0)
        r = archive_read_end(in, e);
    archive_in_free(in);
    /* A damaged stream also looks like an invalid file: the error of the decompressor takes
     * precedence. */
    if ((r >= 0 || r == -(int)ERR_INVALID) && decompress_finish(&k->decompress, &cause) < 0) {
        *e = cause;
        r = -(int)cause.code;
    }
    return r;
}
