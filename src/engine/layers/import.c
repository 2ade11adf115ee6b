/* LAYERS_MANIFEST and LAYERS_IMPORT: what such a file says, and its layers. A layer is measured as
 * it lies on disk, and has its name only if that is what the file says of it. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "layers/archive.h"
#include "tree/at.h"
#include "tree/remove.h"

static struct archive_in *open_file(struct keeper *k)
{
    return archive_in_new(k, k->decompress.plain >= 0 ? k->decompress.plain : k->fds[0]);
}

static int get_manifest(struct archive_in *in, char text[static ARCHIVE_MANIFEST_MAX], size_t *ret,
                        struct err *e)
{
    char magic[sizeof ARCHIVE_MAGIC - 1];
    uint64_t n;

    if (archive_get(in, magic, sizeof magic, NULL) < 0)
        return err_set(
            e, ERR_INVALID,
            "this is no file of a snapshot, or it was cut off: it is too short; export or "
            "download it again");
    if (memcmp(magic, ARCHIVE_MAGIC, sizeof magic) != 0)
        return err_set(e, ERR_INVALID, "this is no file of a snapshot, or one of another version");
    if (archive_get_number(in, 4, &n, e) < 0)
        return -(int)ERR_INVALID;
    if (n == 0 || n >= ARCHIVE_MANIFEST_MAX)
        return err_set(e, ERR_INVALID, "a manifest of %llu bytes", (unsigned long long)n);
    *ret = n;
    return archive_get(in, text, n, e);
}

int keeper_manifest(struct keeper *k, struct err *e)
{
    static char text[ARCHIVE_MANIFEST_MAX];
    struct archive_in *in = open_file(k);
    size_t n;
    int r = get_manifest(in, text, &n, e);

    archive_in_free(in);
    return r < 0 ? r : at_write(k->fds[1], text, n, e);
}

static void on_measured(void *ctx, uint64_t bytes, uint64_t entries)
{
    keeper_progress(ctx, bytes, entries);
}

/* Behind "sha256:" or "sha256-". */
static struct str digits(const char *measure)
{
    return str_from(measure + sizeof "sha256:" - 1);
}

static int check_measure(struct keeper *k, int tree, const char *said, struct layer_info *ret,
                         struct err *e)
{
    struct measure m;
    int r = measure_tree(tree, on_measured, k, &m, e);

    if (r < 0)
        return r;
    if (!str_eq(digits(m.digest), digits(said)))
        return err_set(e, ERR_INVALID, "its files are %.19s…, not %.19s… as the file says",
                       m.digest, said);
    *ret = (struct layer_info){ .bytes = m.bytes, .entries = m.entries };
    return 0;
}

static void tell_made(struct keeper *k, const char *name, const struct layer_info *info)
{
    char text[LAYERS_TEXT_MAX];

    snprintf(text, sizeof text, "%s %llu %llu", name, (unsigned long long)info->bytes,
             (unsigned long long)info->entries);
    keeper_line(k, text);
}

static int make_layer(struct archive_in *in, const char *name, const char *digest, struct err *e)
{
    struct keeper *k = archive_keeper(in);
    AUTO(growth_done) struct growth g = GROWTH_NONE;
    AUTO_CLOSE int links = -1;
    struct layer_info info;
    int r = growth_begin(&g, &k->storage, name, e);

    k->growing = &g;
    if (r >= 0 && (mkdirat(g.dir, "links", 0700) < 0 ||
                   (links = at_open(g.dir, "links", O_RDONLY | O_DIRECTORY, 0)) < 0))
        r = err_sys(e, "making a place for links");
    if (r >= 0)
        r = archive_get_tree(in, g.fs, links, e);
    if (r >= 0)
        r = tree_remove(g.dir, "links", e);
    if (r >= 0)
        r = check_measure(k, g.fs, digest, &info, e);
    k->growing = NULL;
    if (r >= 0)
        r = growth_publish(&g, name, &info, e);
    if (r >= 0)
        tell_made(k, name, &info);
    return r;
}

/* What an image's layer holds is what its name says: a file that anybody made is not believed. */
static int get_layer(struct archive_in *in, const char *name, const char *measure, struct err *e)
{
    struct keeper *k = archive_keeper(in);
    AUTO_CLOSE int known = storage_open_layer(&k->storage, name, NULL);
    char said[ARCHIVE_MEASURE];
    uint64_t kind;
    int r = archive_get_number(in, 1, &kind, e);

    if (r >= 0 && kind != ARCHIVE_LAYER)
        return err_set(e, ERR_INVALID, "it has fewer layers than its manifest names");
    if (r >= 0)
        r = archive_get(in, said, sizeof said, e);
    if (r >= 0 && memcmp(said, measure, sizeof said) != 0)
        return err_set(e, ERR_INVALID, "it is another one than its manifest says");
    if (r < 0 || known >= 0)
        return r < 0 ? r : archive_get_tree(in, -1, -1, e);
    if (strncmp(name, "lay_", 4) != 0)
        return err_set(e, ERR_CONFLICT, "a layer of the image was removed meanwhile");
    return make_layer(in, name, measure, e);
}

static int get_end(struct archive_in *in, struct err *e)
{
    uint64_t kind;
    int r = archive_get_number(in, 1, &kind, e);

    if (r >= 0 && kind != ARCHIVE_END)
        return err_set(e, ERR_INVALID, "it has more layers than its manifest names");
    return r < 0 ? r : archive_get_end(in, e);
}

int keeper_import(struct keeper *k, struct err *e)
{
    static char manifest[ARCHIVE_MANIFEST_MAX];
    struct archive_in *in = open_file(k);
    struct err cause;
    size_t n;
    int r = get_manifest(in, manifest, &n, e);

    for (size_t i = 0; r >= 0 && i < k->job.n_below; i++)
        r = err_wrap(e, get_layer(in, k->job.below[i], k->job.against[i], e), "layer %zu of %llu",
                     i + 1, (unsigned long long)k->job.n_below);
    if (r >= 0)
        r = get_end(in, e);
    archive_in_free(in);
    /* What is damaged looks like a broken file: the cause comes first. */
    if ((r >= 0 || r == -(int)ERR_INVALID) && decompress_finish(&k->decompress, &cause) < 0) {
        *e = cause;
        r = -(int)cause.code;
    }
    return r;
}
