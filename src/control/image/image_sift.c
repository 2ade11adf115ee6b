/* SPDX-License-Identifier: Apache-2.0 */
/* Imports from an archive: an OCI layout, the format of `docker save`, or a root file system. A
 * layer worker lists its files with their digests (engine/layers/parts.h); a thread reads the
 * documents among them. Layers stay in the archive, where other layer workers unpack them. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "control/image/images_internal.h"
#include "base/own.h"
#include "engine/layers/parts.h"
#include "domain/oci/saved.h"

enum { INDEXES_MAX = 2 };

struct sift {
    struct image_making *making;
    int fd;   /* the archive */
    int list; /* a file with the list of its contents */
    uint64_t size;
    struct str name;
    struct layer_job job;
    struct archive_parts parts;
    struct arena arena;             /* lives as long as the archive */
    struct arena page;              /* of the current image */
    const char *called;             /* its name in the archive, or NULL */
    const struct oci_saved *images; /* PARTS_SAVED */
    size_t n_images;                /* … or of a layout with several images */
    size_t image, tag;              /* the current image, and the current one of its names */
    struct err err;
};

void sift_stop(struct sift *s)
{
    if (s)
        layer_worker_cancel(&s->job);
}

void sift_free(struct sift *s)
{
    if (!s)
        return;
    sift_stop(s);
    drop_fd(&s->fd);
    drop_fd(&s->list);
    arena_done(&s->arena);
    arena_done(&s->page);
    free(s);
}

/* --- its files --- */

static int need_file(const struct sift *s, const char *name, const struct part_record **ret,
                     struct err *e)
{
    for (size_t i = 0; i < s->parts.n; i++)
        if (strcmp(s->parts.p[i].name, name) == 0) {
            *ret = &s->parts.p[i];
            return 0;
        }
    return err_set(e, ERR_INVALID, "the archive lacks the file '%.100s', which its documents name",
                   name);
}

/* By its digest, which is checked as well. */
static int need_blob(const struct sift *s, const char *digest, const struct part_record **ret,
                     struct err *e)
{
    char name[OCI_DIGEST_MAX + sizeof "blobs/sha256/"];
    int r;

    snprintf(name, sizeof name, "blobs/sha256/%s", oci_digest_hex(digest).p);
    r = need_file(s, name, ret, e);
    if (r >= 0 && strcmp((*ret)->digest, digest) != 0)
        return err_set(e, ERR_INVALID, "the digest of the archive's %.30s… differs from its name",
                       name);
    return r;
}

static int read_archive_text(const struct sift *s, const struct part_record *f, struct arena *a,
                             struct str *ret, struct err *e)
{
    char *text = f->size <= OCI_DOCUMENT_MAX ? arena_alloc(a, f->size + 1) : NULL;

    if (!text && f->size <= OCI_DOCUMENT_MAX)
        return err_set(e, ERR_TOO_BIG,
                       "the archive's documents need more memory than the allowed %zu bytes",
                       a->max);
    if (!text)
        return err_set(e, ERR_TOO_BIG, "the archive's '%.60s' has more than %d bytes", f->name,
                       OCI_DOCUMENT_MAX);
    if (pread(s->fd, text, f->size, (off_t)f->at) != (ssize_t)f->size)
        return err_sys(e, "reading a part of the archive");
    *ret = (struct str){ text, f->size };
    return 0;
}

static int read_named_file(const struct sift *s, const char *name, struct arena *a, struct str *ret,
                           struct err *e)
{
    const struct part_record *f;
    int r = need_file(s, name, &f, e);

    return r < 0 ? r : read_archive_text(s, f, a, ret, e);
}

/* --- documents --- */

static int set_sift_config(struct image_making *m, struct str text, struct err *e)
{
    int r = image_making_set_config(m, text, e);

    return r < 0 ? r : image_making_plan(m, e);
}

static int check_layer_count(const struct image_making *m, size_t layers, struct err *e)
{
    return layers == m->n ? 0
                          : err_set(e, ERR_INVALID,
                                    "the manifest has %zu layers, but the configuration has %zu",
                                    layers, m->n);
}

static int set_archive_part(const struct sift *s, size_t i, const struct part_record *f,
                            struct err *e)
{
    struct image_part *p = &s->making->parts[i];

    p->fd = fcntl(s->fd, F_DUPFD_CLOEXEC, 0);
    p->at = f->at;
    p->size = f->size;
    return p->fd < 0 ? err_sys(e, "sharing the archive") : 0;
}

/* --- several images in one archive --- */

bool sift_has_several(const struct sift *s)
{
    return s->n_images > 1;
}

bool sift_next_image(struct sift *s)
{
    if (s->name.n)
        return false;
    if (s->images && s->tag + 1 < s->images[s->image].tags.n) {
        s->tag++;
        return true;
    }
    s->image++;
    s->tag = 0;
    return s->image < s->n_images;
}

static bool has_reference_name(const char *tag, const struct oci_reference *wanted)
{
    char one[OCI_REFERENCE_MAX], other[OCI_REFERENCE_MAX];
    struct oci_reference ref;

    if (oci_reference_parse(str_from(tag), &ref, NULL) < 0)
        return false;
    oci_reference_text(&ref, one);
    oci_reference_text(wanted, other);
    return strcmp(one, other) == 0;
}

static int set_no_such_name_error(const struct sift *s, const char *first, struct err *e)
{
    return err_set(e, ERR_NOT_FOUND,
                   "the archive holds %zu images, and none is named " STR_FMT
                   ": the first is %.100s; import all of them, without a name",
                   s->n_images, STR_ARG(s->name), first ? first : "unnamed");
}

/* Entries of the index that are images for the platform and have distinct names. */
static size_t list_named(const struct sift *s, const struct oci_index *x, size_t *out)
{
    size_t n = 0;

    for (size_t i = 0; i < x->n; i++) {
        const struct oci_index one = { &x->manifests[i], &x->names[i], 1 };

        if (!x->names[i] || !oci_index_choose(&one, &s->making->platform))
            continue;
        if (n == 0 || strcmp(x->names[out[n - 1]], x->names[i]) != 0)
            out[n++] = i;
    }
    return n;
}

static int choose_named(struct sift *s, const struct oci_index *x, const size_t *all,
                        const struct oci_descriptor **ret, struct err *e)
{
    struct oci_reference wanted;
    size_t i = s->image;
    int r = s->name.n ? oci_reference_parse(s->name, &wanted, e) : 0;

    if (r < 0)
        return err_wrap(e, r, "name");
    if (s->name.n)
        for (i = 0; i < s->n_images && !has_reference_name(x->names[all[i]], &wanted);)
            i++;
    if (i >= s->n_images)
        return set_no_such_name_error(s, x->names[all[0]], e);
    s->called = x->names[all[i]];
    *ret = &x->manifests[all[i]];
    return 0;
}

static int find_archive_manifest(struct sift *s, struct str *ret, struct err *e)
{
    size_t named[OCI_MANIFESTS_MAX] = { 0 };
    struct image_making *m = s->making;
    int r = read_named_file(s, "index.json", &s->page, ret, e);

    for (int i = 0; r >= 0 && i <= INDEXES_MAX; i++) {
        const struct oci_descriptor *d;
        enum oci_document kind;
        struct oci_index x;
        const struct part_record *f;

        r = oci_document_kind(*ret, &s->page, &kind, e);
        if (r < 0 || kind == OCI_MANIFEST)
            return r;
        r = oci_index_read(*ret, &s->page, &x, e);
        if (r < 0)
            return r;
        d = oci_index_choose(&x, &m->platform);
        /* index.json: one image for several platforms, or several images. */
        s->n_images = i ? s->n_images : list_named(s, &x, named);
        if (!i && s->n_images > 1 && (r = choose_named(s, &x, named, &d, e)) < 0)
            return r;
        if (!d && x.n == 1)
            d = &x.manifests[0];
        if (!d)
            return err_set(e, ERR_NOT_FOUND, "the archive has %zu images, none for %s/%s", x.n,
                           m->platform.os, m->platform.architecture);
        if (!s->called)
            s->called = x.names[d - x.manifests];
        r = need_blob(s, d->digest, &f, e);
        r = r < 0 ? r : read_archive_text(s, f, &s->page, ret, e);
        snprintf(m->digest, sizeof m->digest, "%s", d->digest);
    }
    return r < 0 ? r
                 : err_set(e, ERR_INVALID, "the archive's indexes are nested more than %d deep",
                           INDEXES_MAX);
}

static int read_layout(struct sift *s, struct err *e)
{
    struct image_making *m = s->making;
    struct oci_manifest manifest = { .n = 0 };
    const struct part_record *f;
    struct str text;
    int r = find_archive_manifest(s, &text, e);

    r = r < 0 ? r : oci_manifest_read(text, &s->page, &manifest, e);
    r = r < 0 ? r : need_blob(s, manifest.config.digest, &f, e);
    r = r < 0 ? r : read_archive_text(s, f, &s->page, &text, e);
    r = r < 0 ? r : set_sift_config(m, text, e);
    r = r < 0 ? r : check_layer_count(m, manifest.n, e);
    for (size_t i = 0; r >= 0 && i < manifest.n; i++) {
        r = need_blob(s, manifest.layers[i].digest, &f, e);
        r = r < 0 ? r : set_archive_part(s, i, f, e);
    }
    return r;
}

/* The name selects one of several images, or renames the only one. */
static int choose_saved(struct sift *s, struct err *e)
{
    struct oci_reference wanted;
    int r;

    if (s->n_images == 1 || !s->name.n)
        return 0;
    r = oci_reference_parse(s->name, &wanted, e);
    if (r < 0)
        return err_wrap(e, r, "name");
    for (s->image = 0; s->image < s->n_images; s->image++)
        for (size_t i = 0; i < s->images[s->image].tags.n; i++)
            if (has_reference_name(s->images[s->image].tags.p[i], &wanted))
                return 0;
    return set_no_such_name_error(s, s->images[0].tags.n ? s->images[0].tags.p[0] : NULL, e);
}

static int read_saved(struct sift *s, struct err *e)
{
    struct image_making *m = s->making;
    const struct oci_saved *image;
    const struct part_record *f;
    struct str text;
    int r = s->images ? 0 : read_named_file(s, "manifest.json", &s->arena, &text, e);

    if (r >= 0 && !s->images) {
        r = oci_saved_read(text, &s->arena, &s->images, &s->n_images, e);
        r = r < 0 ? r : choose_saved(s, e);
    }
    if (r < 0)
        return r;
    image = &s->images[s->image];
    r = need_file(s, image->config, &f, e);
    r = r < 0 ? r : read_archive_text(s, f, &s->page, &text, e);
    if (r < 0)
        return r;
    s->called = image->tags.n ? image->tags.p[s->tag] : NULL;
    snprintf(m->digest, sizeof m->digest, "%s", f->digest); /* it has no manifest */
    r = set_sift_config(m, text, e);
    r = r < 0 ? r : check_layer_count(m, image->layers.n, e);
    for (size_t i = 0; r >= 0 && i < m->n; i++) {
        r = need_file(s, image->layers.p[i], &f, e);
        r = r < 0 ? r : set_archive_part(s, i, f, e);
    }
    return r;
}

/* The archive itself is the layer. */
static int read_root(struct sift *s, struct err *e)
{
    AUTO(buf_done) struct buf config = BUF_INIT(OCI_DOCUMENT_MAX);
    const struct part_record *all = &s->parts.p[0];
    int r = oci_config_write(all->digest, &config, e);

    snprintf(s->making->digest, sizeof s->making->digest, "%s", all->digest);
    r = r < 0 ? r : set_sift_config(s->making, buf_str(&config), e);
    return r < 0 ? r : set_archive_part(s, 0, all, e);
}

static int set_image_name(struct sift *s, struct err *e)
{
    struct image_making *m = s->making;
    struct str name = s->name.n ? s->name : str_from(s->called);
    int r;

    if (!name.n)
        return err_set(e, ERR_INVALID, "the archive has no name for its image: give one");
    r = oci_reference_parse(name, &m->requested, e);
    if (r < 0)
        return err_wrap(e, r, "name");
    if (m->requested.digest[0])
        return err_set(e, ERR_INVALID, "name: the name of an imported image cannot have a digest");
    oci_reference_text(&m->requested, m->ref);
    return 0;
}

/* --- on a thread --- */

static int (*const readers[PARTS_KIND_END_])(struct sift *s, struct err *e) = {
    [PARTS_ROOT] = read_root, [PARTS_LAYOUT] = read_layout, [PARTS_SAVED] = read_saved
};

static void run_sift(struct thread_job *j)
{
    struct image_making *m = container_of(j, struct image_making, sifting);
    struct sift *s = m->sift;
    int r;

    arena_done(&s->page);
    s->called = NULL;
    r = readers[s->parts.kind](s, &s->err);
    r = r < 0 ? r : set_image_name(s, &s->err);
    if (r >= 0)
        s->err.code = ERR_OK;
}

static void on_sift_done(struct thread_job *j, enum work_end end)
{
    struct image_making *m = container_of(j, struct image_making, sifting);
    struct sift *s = m->sift;

    m->sifts = false;
    m->busy--;
    m->images->control->changes--;
    if (end == THREAD_CANCELLED)
        (void)err_set(&s->err, ERR_CONFLICT, "cancelled");
    if (s->err.code)
        image_making_fail(m, &s->err);
    image_making_settle(m);
    if (!m->failed)
        image_making_continue(m);
}

void sift_read_image(struct image_making *m)
{
    struct err e;

    m->sift->making = m;
    if (thread_submit(m->images->control->work, &m->sifting, NULL, run_sift, on_sift_done, &e) <
        0) {
        image_making_fail(m, &e);
        return;
    }
    m->sifts = true;
    m->busy++;
    m->images->control->changes++;
}

/* --- the layer worker --- */

static void on_sift_progress(struct layer_job *j, uint64_t bytes, uint64_t entries)
{
    const struct sift *s = container_of(j, struct sift, job);

    image_making_report(s->making, "archive", bytes, s->size);
}

static void on_archive_listed(struct layer_job *j, int r, const struct err *e,
                              const struct layers_said *said)
{
    struct sift *s = container_of(j, struct sift, job);
    struct err bad;
    ssize_t n;

    if (r >= 0) {
        n = pread(s->list, &s->parts, sizeof s->parts, 0);
        drop_fd(&s->list);
        r = n < 0 ? err_sys(&bad, "reading the list of the archive's files")
                  : parts_check(&s->parts, (size_t)n, s->size, &bad);
        e = &bad;
    }
    if (r < 0)
        image_making_fail(s->making, e);
    else
        sift_read_image(s->making);
}

static const struct layer_worker_events sifting = { .progress = on_sift_progress,
                                                    .done = on_archive_listed };

static int start_sift_job(struct sift *s, struct err *e)
{
    struct control *c = s->making->images->control;
    struct layer_charge charge;
    struct layers_job job;
    struct stat st;

    s->list = control_scratch(c, e);
    if (s->list < 0)
        return s->list;
    if (fstat(s->fd, &st) < 0)
        return err_sys(e, "checking the size of the archive");
    s->size = (uint64_t)st.st_size;
    layers_job_fill(&job, LAYERS_SIFT, NULL);
    charge = layer_charge_caller(c, &s->making->caller);
    return layer_worker_queue(c, &charge, &s->job, &sifting, &job, (const int[]){ s->fd, s->list },
                              2, e);
}

/* --- */

void images_import(struct control *c, const struct caller *who, struct image_import *p,
                   struct image_op *op)
{
    struct image_making *m = image_making_new(c, who, op);
    struct sift *s = new0(sizeof *s);
    struct err e;
    int r = 0;

    m->squash = p->squash;
    image_making_report(m, "archive", 0, 0);
    m->sift = s;
    s->making = m;
    s->fd = take_fd(&p->fd);
    s->list = -1;
    arena_init(&s->arena, IMAGE_ARENA_MAX);
    arena_init(&s->page, IMAGE_ARENA_MAX);
    s->name = (struct str){ arena_dup(&s->arena, p->name), p->name.n };
    m->platform = oci_platform_here();
    if (p->platform.n)
        r = oci_platform_parse(p->platform, &s->arena, &m->platform, &e); /* for all its images */
    r = r < 0 ? r : start_sift_job(s, &e);
    if (r < 0)
        image_making_fail(m, &e);
}
