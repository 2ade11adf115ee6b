/* From an archive: an OCI layout, what `docker save` writes, or a root file system. A keeper says
 * what files are in it, and what they hash to (layers/parts.h); a thread reads the documents among
 * them. Layers stay where they are, for other keepers to unpack. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "control/images_inside.h"
#include "layers/parts.h"
#include "oci/saved.h"

enum { INDEXES_MAX = 2 };

struct sift {
    struct making *making;
    int fd;   /* the archive */
    int list; /* a file for what is in it */
    uint64_t size;
    struct str name;
    struct keeper_job job;
    struct parts parts;
    struct arena arena;             /* of the archive */
    struct arena page;              /* of the image that it is at */
    const char *called;             /* what the archive calls that, or NULL */
    const struct oci_saved *images; /* PARTS_SAVED */
    size_t n_images;                /* … or of a layout, where it is more than one */
    size_t image, tag;              /* the one of them, under which of its names */
    struct err err;
};

void sift_stop(struct sift *s)
{
    if (s)
        keeper_cancel(&s->job);
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

static const struct part_record *find_file(const struct sift *s, const char *name)
{
    for (size_t i = 0; i < s->parts.n; i++)
        if (strcmp(s->parts.p[i].name, name) == 0)
            return &s->parts.p[i];
    return NULL;
}

static int need_file(const struct sift *s, const char *name, const struct part_record **ret,
                     struct err *e)
{
    *ret = find_file(s, name);
    return *ret ? 0
                : err_set(e, ERR_INVALID, "the archive has no file '%.100s', which it names", name);
}

/* By its digest, which is also checked. */
static int need_blob(const struct sift *s, const char *digest, const struct part_record **ret,
                     struct err *e)
{
    char name[OCI_DIGEST_MAX + sizeof "blobs/sha256/"];
    int r;

    snprintf(name, sizeof name, "blobs/sha256/%s", oci_digest_hex(digest).p);
    r = need_file(s, name, ret, e);
    if (r >= 0 && strcmp((*ret)->digest, digest) != 0)
        return err_set(e, ERR_INVALID, "the archive's %.30s… is not what its name says", name);
    return r;
}

static int read_text(const struct sift *s, const struct part_record *f, struct arena *a,
                     struct str *ret, struct err *e)
{
    char *text = f->size <= OCI_DOCUMENT_MAX ? arena_alloc(a, f->size + 1) : NULL;

    if (!text && f->size <= OCI_DOCUMENT_MAX)
        return err_set(e, ERR_TOO_BIG, "the archive's documents are too large to be read together");
    if (!text)
        return err_set(e, ERR_TOO_BIG, "the archive's '%.60s' has more than %d bytes", f->name,
                       OCI_DOCUMENT_MAX);
    if (pread(s->fd, text, f->size, (off_t)f->at) != (ssize_t)f->size)
        return err_sys(e, "reading a part of the archive");
    *ret = (struct str){ text, f->size };
    return 0;
}

static int read_named(const struct sift *s, const char *name, struct arena *a, struct str *ret,
                      struct err *e)
{
    const struct part_record *f;
    int r = need_file(s, name, &f, e);

    return r < 0 ? r : read_text(s, f, a, ret, e);
}

/* --- what is in it --- */

static int set_config(struct making *m, struct str text, struct err *e)
{
    int r = making_set_config(m, text, e);

    return r < 0 ? r : making_plan(m, e);
}

static int check_count(const struct making *m, size_t layers, struct err *e)
{
    return layers == m->n
               ? 0
               : err_set(e, ERR_INVALID, "the image has %zu layers, but its configuration %zu",
                         layers, m->n);
}

static int set_part(const struct sift *s, size_t i, const struct part_record *f, struct err *e)
{
    struct part *p = &s->making->parts[i];

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

bool sift_goes_on(struct sift *s)
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

static bool is_called(const char *tag, const struct oci_reference *wanted)
{
    char one[OCI_REFERENCE_MAX], other[OCI_REFERENCE_MAX];
    struct oci_reference ref;

    if (oci_reference_parse(str_from(tag), &ref, NULL) < 0)
        return false;
    oci_reference_text(&ref, one);
    oci_reference_text(wanted, other);
    return strcmp(one, other) == 0;
}

static int not_called_so(const struct sift *s, const char *first, struct err *e)
{
    return err_set(e, ERR_NOT_FOUND,
                   "the archive holds %zu images, and none is called " STR_FMT
                   ": the first is %.100s; import all of them, without a name",
                   s->n_images, STR_ARG(s->name), first ? first : "not called anything");
}

/* Entries of the index that are images for the platform, each with a name of its own. */
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
        for (i = 0; i < s->n_images && !is_called(x->names[all[i]], &wanted);)
            i++;
    if (i >= s->n_images)
        return not_called_so(s, x->names[all[0]], e);
    s->called = x->names[all[i]];
    *ret = &x->manifests[all[i]];
    return 0;
}

/* What index.json leads to: one image for several platforms, or several images. */
static int choose_top(struct sift *s, const struct oci_index *x, const struct oci_descriptor **ret,
                      struct err *e)
{
    size_t named[OCI_MANIFESTS_MAX] = { 0 };

    s->n_images = list_named(s, x, named);
    if (s->n_images > 1)
        return choose_named(s, x, named, ret, e);
    *ret = oci_index_choose(x, &s->making->platform);
    return 0;
}

static int find_manifest(struct sift *s, struct str *ret, struct err *e)
{
    struct making *m = s->making;
    int r = read_named(s, "index.json", &s->page, ret, e);

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
        d = i ? oci_index_choose(&x, &m->platform) : NULL;
        r = i ? 0 : choose_top(s, &x, &d, e);
        if (r < 0)
            return r;
        if (!d && x.n == 1)
            d = &x.manifests[0];
        if (!d)
            return err_set(e, ERR_NOT_FOUND, "the archive has %zu images, none for %s/%s", x.n,
                           m->platform.os, m->platform.architecture);
        if (!s->called)
            s->called = x.names[d - x.manifests];
        r = need_blob(s, d->digest, &f, e);
        if (r >= 0)
            r = read_text(s, f, &s->page, ret, e);
        snprintf(m->digest, sizeof m->digest, "%s", d->digest);
    }
    return r < 0 ? r : err_set(e, ERR_INVALID, "the archive's index leads to too many others");
}

static int read_layout(struct sift *s, struct err *e)
{
    struct making *m = s->making;
    struct oci_manifest manifest = { .n = 0 };
    const struct part_record *f;
    struct str text;
    int r = find_manifest(s, &text, e);

    if (r >= 0)
        r = oci_manifest_read(text, &s->page, &manifest, e);
    if (r >= 0)
        r = need_blob(s, manifest.config.digest, &f, e);
    if (r >= 0)
        r = read_text(s, f, &s->page, &text, e);
    if (r >= 0)
        r = set_config(m, text, e);
    if (r >= 0)
        r = check_count(m, manifest.n, e);
    for (size_t i = 0; r >= 0 && i < manifest.n; i++) {
        r = need_blob(s, manifest.layers[i].digest, &f, e);
        if (r >= 0)
            r = set_part(s, i, f, e);
    }
    return r;
}

/* Of several, a name says which; of one, what it is called from now on. */
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
            if (is_called(s->images[s->image].tags.p[i], &wanted))
                return 0;
    return not_called_so(s, s->images[0].tags.n ? s->images[0].tags.p[0] : NULL, e);
}

static int list_saved(struct sift *s, struct err *e)
{
    struct str text;
    int r = read_named(s, "manifest.json", &s->arena, &text, e);

    if (r >= 0)
        r = oci_saved_read(text, &s->arena, &s->images, &s->n_images, e);
    return r < 0 ? r : choose_saved(s, e);
}

static int read_saved(struct sift *s, struct err *e)
{
    struct making *m = s->making;
    const struct oci_saved *image;
    const struct part_record *f;
    struct str text;
    int r = s->images ? 0 : list_saved(s, e);

    if (r < 0)
        return r;
    image = &s->images[s->image];
    r = need_file(s, image->config, &f, e);
    if (r >= 0)
        r = read_text(s, f, &s->page, &text, e);
    if (r < 0)
        return r;
    s->called = image->tags.n ? image->tags.p[s->tag] : NULL;
    snprintf(m->digest, sizeof m->digest, "%s", f->digest); /* it has no manifest of its own */
    r = set_config(m, text, e);
    if (r >= 0)
        r = check_count(m, image->layers.n, e);
    for (size_t i = 0; r >= 0 && i < m->n; i++) {
        r = need_file(s, image->layers.p[i], &f, e);
        if (r >= 0)
            r = set_part(s, i, f, e);
    }
    return r;
}

/* The archive is the layer. */
static int read_root(struct sift *s, struct err *e)
{
    AUTO(buf_done) struct buf config = BUF_INIT(OCI_DOCUMENT_MAX);
    const struct part_record *all = &s->parts.p[0];
    int r = oci_config_write(all->digest, &config, e);

    snprintf(s->making->digest, sizeof s->making->digest, "%s", all->digest);
    if (r >= 0)
        r = set_config(s->making, buf_str(&config), e);
    return r < 0 ? r : set_part(s, 0, all, e);
}

static int name_image(struct sift *s, struct err *e)
{
    struct making *m = s->making;
    struct str name = s->name.n ? s->name : str_from(s->called);
    int r;

    if (!name.n)
        return err_set(e, ERR_INVALID,
                       "the archive does not say what its image is called: name it");
    r = oci_reference_parse(name, &m->asked, e);
    if (r < 0)
        return err_wrap(e, r, "name");
    if (m->asked.digest[0])
        return err_set(e, ERR_INVALID, "name: an image that is imported has no digest in its name");
    oci_reference_text(&m->asked, m->ref);
    return 0;
}

/* --- on a thread --- */

static int (*const readers[PARTS_KIND_END_])(struct sift *s, struct err *e) = {
    [PARTS_ROOT] = read_root, [PARTS_LAYOUT] = read_layout, [PARTS_SAVED] = read_saved
};

static void run(struct work_job *j)
{
    struct making *m = container_of(j, struct making, sifting);
    struct sift *s = m->sift;
    int r;

    arena_done(&s->page);
    s->called = NULL;
    r = readers[s->parts.kind](s, &s->err);
    if (r >= 0)
        r = name_image(s, &s->err);
    if (r >= 0)
        s->err.code = ERR_OK;
}

static void sifted(struct work_job *j, enum work_end end)
{
    struct making *m = container_of(j, struct making, sifting);
    struct sift *s = m->sift;

    m->sifts = false;
    m->busy--;
    m->images->control->changes--;
    if (end == WORK_CANCELLED)
        (void)err_set(&s->err, ERR_CONFLICT, "cancelled");
    if (s->err.code)
        making_fail(m, &s->err);
    making_settle(m);
    if (!m->failed)
        making_go(m);
}

void sift_go_on(struct making *m)
{
    struct err e;

    m->sift->making = m;
    if (work_submit(m->images->control->work, &m->sifting, NULL, run, sifted, &e) < 0) {
        making_fail(m, &e);
        return;
    }
    m->sifts = true;
    m->busy++;
    m->images->control->changes++;
}

/* --- the keeper --- */

static void on_progress(struct keeper_job *j, uint64_t bytes, uint64_t entries)
{
    const struct sift *s = container_of(j, struct sift, job);

    (void)entries;
    making_tell(s->making, "archive", bytes, s->size);
}

static int take_parts(struct sift *s, struct err *e)
{
    ssize_t n = pread(s->list, &s->parts, sizeof s->parts, 0);

    drop_fd(&s->list);
    return n < 0 ? err_sys(e, "reading what is in the archive")
                 : parts_check(&s->parts, (size_t)n, s->size, e);
}

static void on_done(struct keeper_job *j, int r, const struct err *e,
                    const struct layers_said *said)
{
    struct sift *s = container_of(j, struct sift, job);
    struct err bad;

    (void)said;
    if (r >= 0) {
        r = take_parts(s, &bad);
        e = &bad;
    }
    if (r < 0)
        making_fail(s->making, e);
    else
        sift_go_on(s->making);
}

static const struct keeper_events sifting = { .progress = on_progress, .done = on_done };

static int look(struct sift *s, struct err *e)
{
    struct control *c = s->making->images->control;
    struct layers_job job;
    struct stat st;

    s->list = control_scratch(c, e);
    if (s->list < 0)
        return s->list;
    if (fstat(s->fd, &st) < 0)
        return err_sys(e, "looking at the archive");
    s->size = (uint64_t)st.st_size;
    layers_job_fill(&job, LAYERS_SIFT, NULL);
    return keeper_start(c, &s->job, &sifting, &job, (const int[]){ s->fd, s->list }, 2, e);
}

/* --- */

void sift_start(struct making *m, struct image_import *p)
{
    struct sift *s = calloc(1, sizeof *s);
    struct err e;
    int r = 0;

    if (!s)
        abort();
    m->sift = s;
    s->making = m;
    s->fd = take_fd(&p->fd);
    s->list = -1;
    arena_init(&s->arena, IMAGE_ARENA_MAX);
    arena_init(&s->page, IMAGE_ARENA_MAX);
    s->name = (struct str){ arena_dup(&s->arena, p->name), p->name.n };
    m->platform = oci_platform_here();
    if (p->platform.n)
        r = oci_platform_parse(p->platform, &s->arena, &m->platform, &e); /* of all its images */
    if (r >= 0)
        r = look(s, &e);
    if (r < 0)
        making_fail(m, &e);
}

void images_import(struct control *c, const struct caller *who, struct image_import *p,
                   struct image_op *op)
{
    struct making *m = making_new(c, who, op);

    m->squash = p->squash;
    making_tell(m, "archive", 0, 0);
    sift_start(m, p);
}
