/* From an archive: an OCI layout, what `docker save` writes, or a root file system. A thread reads
 * it, twice where it holds an image: once to know what it is, once to take its files apart. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/room.h"
#include "control/images_inside.h"
#include "crypto/encode.h"
#include "oci/saved.h"
#include "tree/at.h"
#include "tree/path.h"
#include "tree/reader.h"

enum { FILES_MAX = 1024, NAME_MAX_HERE = 256, INDEXES_MAX = 2 };

enum archive_kind { ARCHIVE_ROOT, ARCHIVE_LAYOUT, ARCHIVE_SAVED };

/* A file of the archive: a document in memory, or a file of our own. */
struct file {
    char name[NAME_MAX_HERE];
    char digest[OCI_DIGEST_MAX];
    uint64_t size;
    int fd;
};

struct sift {
    struct making *making;
    int fd;      /* the archive */
    int scratch; /* directory for files */
    struct str name;
    enum archive_kind kind;
    struct file files[FILES_MAX];
    size_t n;
    struct arena arena;             /* of the archive */
    struct arena page;              /* of the image that it is at */
    const char *called;             /* what the archive calls that, or NULL */
    const struct oci_saved *images; /* ARCHIVE_SAVED */
    size_t n_images;                /* … or of a layout, where it is more than one */
    size_t image, tag;              /* the one of them, under which of its names */
    struct tar_reader reader;
    struct err err;
};

void sift_free(struct sift *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++)
        drop_fd(&s->files[i].fd);
    drop_fd(&s->fd);
    arena_done(&s->arena);
    arena_done(&s->page);
    free(s);
}

/* --- reading the archive --- */

static int rewind_archive(struct sift *s, struct err *e)
{
    if (lseek(s->fd, 0, SEEK_SET) < 0)
        return err_sys(e, "going back to the start of the archive");
    tar_reader_init_fd(&s->reader, s->fd);
    return 0;
}

/* The next regular file, by its plain name: 1, or 0 at the end. */
static int next_file(struct sift *s, struct tree_path *ret, struct err *e)
{
    int r;

    while ((r = tar_next(&s->reader, e)) > 0) {
        if (atomic_load(&s->making->stop))
            return err_set(e, ERR_CONFLICT, "cancelled");
        if (s->reader.entry.type == TAR_FILE &&
            tree_path(str_from(s->reader.entry.path), ret, NULL) >= 0)
            return 1;
    }
    return r;
}

static int look(struct sift *s, struct err *e)
{
    bool layout = false, index = false, saved = false;
    struct tree_path path;
    int r = rewind_archive(s, e);

    while (r >= 0 && (r = next_file(s, &path, e)) > 0) {
        layout |= strcmp(path.text, "oci-layout") == 0;
        index |= strcmp(path.text, "index.json") == 0;
        saved |= strcmp(path.text, "manifest.json") == 0;
    }
    if (r < 0)
        return r;
    s->kind = layout && index ? ARCHIVE_LAYOUT : saved ? ARCHIVE_SAVED : ARCHIVE_ROOT;
    return 0;
}

/* --- taking it apart --- */

static int copy_entry(struct sift *s, struct file *f, struct err *e)
{
    AUTO(crypto_sha256_done) struct crypto_sha256 h = { 0 };
    AUTO(buf_done) struct buf hex = BUF_INIT(2 * CRYPTO_SHA256_SIZE);
    unsigned char digest[CRYPTO_SHA256_SIZE];
    uint64_t free_min = s->making->images->control->config->images.free_min, n = 0;
    struct str piece;
    int r;

    f->fd = openat(s->scratch, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (f->fd < 0)
        return err_sys(e, "making a file for a part of the archive");
    r = room_check(f->fd, free_min, 0, s->reader.entry.size, e);
    while (r >= 0 && (r = tar_data(&s->reader, &piece, e)) > 0) {
        crypto_sha256_add(&h, piece);
        r = room_check(f->fd, free_min, n, piece.n, e);
        if (r >= 0)
            r = at_write(f->fd, piece.p, piece.n, e);
        n += piece.n;
    }
    if (r < 0)
        return r;
    crypto_sha256_end(&h, digest);
    crypto_hex((struct str){ (const char *)digest, sizeof digest }, &hex);
    snprintf(f->digest, sizeof f->digest, "sha256:%s", hex.p);
    f->size = s->reader.entry.size;
    return 0;
}

static int take_apart(struct sift *s, struct err *e)
{
    struct tree_path path;
    int r = rewind_archive(s, e);

    while (r >= 0 && (r = next_file(s, &path, e)) > 0) {
        struct file *f = &s->files[s->n];

        if (s->n == FILES_MAX)
            return err_set(e, ERR_TOO_BIG, "the archive holds more than %d files", FILES_MAX);
        if (!str_copy(str_from(path.text), f->name, sizeof f->name))
            continue;
        s->n++;
        f->fd = -1;
        r = copy_entry(s, f, e);
    }
    return r;
}

static struct file *find_file(struct sift *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->files[i].name, name) == 0)
            return &s->files[i];
    return NULL;
}

static int need_file(struct sift *s, const char *name, struct file **ret, struct err *e)
{
    *ret = find_file(s, name);
    return *ret ? 0
                : err_set(e, ERR_INVALID, "the archive has no file '%.100s', which it names", name);
}

/* By its digest, which is also checked. */
static int need_blob(struct sift *s, const char *digest, struct file **ret, struct err *e)
{
    char name[OCI_DIGEST_MAX + sizeof "blobs/sha256/"];
    int r;

    snprintf(name, sizeof name, "blobs/sha256/%s", oci_digest_hex(digest).p);
    r = need_file(s, name, ret, e);
    if (r >= 0 && strcmp((*ret)->digest, digest) != 0)
        return err_set(e, ERR_INVALID, "the archive's %.30s… is not what its name says", name);
    return r;
}

static int read_text(const struct file *f, struct arena *a, struct str *ret, struct err *e)
{
    char *text = f->size <= OCI_DOCUMENT_MAX ? arena_alloc(a, f->size + 1) : NULL;

    if (!text && f->size <= OCI_DOCUMENT_MAX)
        return err_set(e, ERR_TOO_BIG, "the archive's documents are too large to be read together");
    if (!text)
        return err_set(e, ERR_TOO_BIG, "the archive's '%.60s' has more than %d bytes", f->name,
                       OCI_DOCUMENT_MAX);
    if (pread(f->fd, text, f->size, 0) != (ssize_t)f->size)
        return err_sys(e, "reading a part of the archive");
    *ret = (struct str){ text, f->size };
    return 0;
}

static int read_named(struct sift *s, const char *name, struct arena *a, struct str *ret,
                      struct err *e)
{
    struct file *f;
    int r = need_file(s, name, &f, e);

    return r < 0 ? r : read_text(f, a, ret, e);
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

/* A file may be several layers: each gets a descriptor of its own. */
static int set_part(struct making *m, size_t i, const struct file *f, struct err *e)
{
    char path[32];

    snprintf(path, sizeof path, "/proc/self/fd/%d", f->fd);
    m->parts[i].fd = open(path, O_RDONLY | O_CLOEXEC);
    m->parts[i].size = f->size;
    return m->parts[i].fd < 0 ? err_sys(e, "opening a part of the archive again") : 0;
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
        struct file *f;

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
            r = read_text(f, &s->page, ret, e);
        snprintf(m->digest, sizeof m->digest, "%s", d->digest);
    }
    return r < 0 ? r : err_set(e, ERR_INVALID, "the archive's index leads to too many others");
}

static int read_layout(struct sift *s, struct err *e)
{
    struct making *m = s->making;
    struct oci_manifest manifest = { .n = 0 };
    struct str text;
    struct file *f;
    int r = find_manifest(s, &text, e);

    if (r >= 0)
        r = oci_manifest_read(text, &s->page, &manifest, e);
    if (r >= 0)
        r = need_blob(s, manifest.config.digest, &f, e);
    if (r >= 0)
        r = read_text(f, &s->page, &text, e);
    if (r >= 0)
        r = set_config(m, text, e);
    if (r >= 0)
        r = check_count(m, manifest.n, e);
    for (size_t i = 0; r >= 0 && i < manifest.n; i++) {
        r = need_blob(s, manifest.layers[i].digest, &f, e);
        if (r >= 0)
            r = set_part(m, i, f, e);
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
    struct file *f;
    struct str text;
    int r = s->images ? 0 : list_saved(s, e);

    if (r < 0)
        return r;
    image = &s->images[s->image];
    r = need_file(s, image->config, &f, e);
    if (r >= 0)
        r = read_text(f, &s->page, &text, e);
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
            r = set_part(m, i, f, e);
    }
    return r;
}

/* The archive is the layer. */
static int read_root(struct sift *s, struct err *e)
{
    struct making *m = s->making;
    AUTO(crypto_sha256_done) struct crypto_sha256 h = { 0 };
    AUTO(buf_done)
    struct buf hex = BUF_INIT(2 * CRYPTO_SHA256_SIZE), config = BUF_INIT(OCI_DOCUMENT_MAX);
    unsigned char digest[CRYPTO_SHA256_SIZE];
    char room[TREE_CHUNK], diff_id[OCI_DIGEST_MAX];
    off_t at = 0;
    ssize_t n;
    int r;

    while ((n = pread(s->fd, room, sizeof room, at)) > 0 && !atomic_load(&m->stop)) {
        crypto_sha256_add(&h, (struct str){ room, (size_t)n });
        at += n;
    }
    if (n < 0)
        return err_sys(e, "reading the archive");
    crypto_sha256_end(&h, digest);
    crypto_hex((struct str){ (const char *)digest, sizeof digest }, &hex);
    snprintf(diff_id, sizeof diff_id, "sha256:%s", hex.p);
    snprintf(m->digest, sizeof m->digest, "%s", diff_id);
    r = oci_config_write(diff_id, &config, e);
    if (r >= 0)
        r = set_config(m, buf_str(&config), e);
    if (r >= 0)
        m->parts[0].fd = take_fd(&s->fd);
    return r;
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

static void run(struct work_job *j)
{
    struct making *m = container_of(j, struct making, sifting);
    struct sift *s = m->sift;
    int r = s->n ? 0 : look(s, &s->err); /* else it goes on with another image */

    arena_done(&s->page);
    s->called = NULL;
    if (r >= 0 && !s->n && s->kind != ARCHIVE_ROOT)
        r = take_apart(s, &s->err);
    if (r >= 0)
        r = s->kind == ARCHIVE_ROOT     ? read_root(s, &s->err)
            : s->kind == ARCHIVE_LAYOUT ? read_layout(s, &s->err)
                                        : read_saved(s, &s->err);
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

void sift_start(struct making *m, struct image_import *p)
{
    struct sift *s = calloc(1, sizeof *s);
    struct err e;
    int r = 0;

    if (!s)
        abort();
    m->sift = s;
    s->fd = take_fd(&p->fd);
    s->scratch = m->images->dir;
    arena_init(&s->arena, IMAGE_ARENA_MAX);
    arena_init(&s->page, IMAGE_ARENA_MAX);
    s->name = (struct str){ arena_dup(&s->arena, p->name), p->name.n };
    m->platform = oci_platform_here();
    if (p->platform.n)
        r = oci_platform_parse(p->platform, &s->arena, &m->platform, &e); /* of all its images */
    if (r < 0)
        making_fail(m, &e);
    else
        sift_go_on(m);
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

void images_import(struct control *c, const struct caller *who, struct image_import *p,
                   struct image_op *op)
{
    struct making *m = making_new(c, who, op);

    m->squash = p->squash;
    making_tell(m, "archive", 0, 0);
    sift_start(m, p);
}
