/* SPDX-License-Identifier: Apache-2.0 */
#include "control/image/images.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/own.h"
#include "control/image/base_image.h"
#include "control/image/images_internal.h"
#include "control/layer/layers.h"
#include "lib/crypto/encode.h"
#include "lib/crypto/hash.h"

#if defined(__GNUC__) && !defined(__clang__) /* it does not track the ownership of list entries */
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

/* --- rows --- */

void layer_cancel_removal(struct images *x, const char *name)
{
    struct layer *l = layer_known(x->control, name);

    if (l)
        l->leaving = false;
}

void layer_forget(struct images *x, const char *name)
{
    struct layer *l = layer_known(x->control, name);

    if (l && l->leaving)
        layer_delete_row(x->control, l);
}

/* Releases the references to its captured layers (control/layer/layers.h). */
static void image_free(struct images *x, struct image *im)
{
    if (link_joined(&im->link_))
        layers_unref(x->control, &im->layers);
    link_leave(&im->link_);
    arena_done(&im->arena_);
    free(im);
}

static struct image *find_image_ref(struct images *x, const char *ref)
{
    LIST_EACH (struct image, im, &x->images, link_)
        if (strcmp(im->ref, ref) == 0)
            return im;
    return NULL;
}

void image_forget(struct images *x, const char *ref)
{
    struct image *im = find_image_ref(x, ref);

    if (im)
        image_free(x, im);
}

/* overlayfs accepts a directory once. If an image has a layer twice, the upper one hides the lower
 * one completely. */
static size_t drop_lower_duplicate(const char **names, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++)
        if (strcmp(names[i], names[n - 1]) == 0) {
            memmove(names + i, names + i + 1, (n - 1 - i) * sizeof *names);
            return n - 1;
        }
    return n;
}

static int parse_image_layers(struct image *im, struct str text, struct err *e)
{
    const char **names = arena_array(&im->arena_, OCI_LAYERS_MAX, sizeof *names);
    struct str name;
    size_t n = 0;

    while (names && text.n && n < OCI_LAYERS_MAX) {
        text = str_cut(text, ' ', &name);
        names[n] = arena_dup(&im->arena_, name);
        if (!names[n] || !layer_name_valid(names[n]))
            return err_set(e, ERR_INVALID, "invalid layer name");
        n = drop_lower_duplicate(names, n + 1);
    }
    im->layers = (struct json_strs){ names, n };
    return names && n ? 0 : err_set(e, ERR_INVALID, "no layers");
}

void image_digest(struct str text, char ret[static OCI_DIGEST_MAX])
{
    unsigned char digest[CRYPTO_SHA256_SIZE];
    char hex[CRYPTO_SHA256_HEX];

    crypto_sha256(text, digest);
    crypto_hex_sha256(digest, hex);
    snprintf(ret, OCI_DIGEST_MAX, "sha256:%s", hex);
}

int image_add(struct images *x, const struct image_record *r, struct err *e)
{
    struct image *im = new0(sizeof *im), *old = find_image_ref(x, r->ref);
    int done;

    arena_init(&im->arena_, IMAGE_ARENA_MAX);
    str_copy(str_from(r->ref), im->ref, sizeof im->ref);
    str_copy(str_from(r->digest), im->digest, sizeof im->digest);
    str_copy(str_from(r->id), im->id, sizeof im->id);
    im->created_ns = r->created_ns;
    im->text = (struct str){ arena_dup(&im->arena_, r->config), r->config.n };
    done = oci_config_read(im->text, &im->arena_, &im->config, e);
    done = done < 0 ? done : parse_image_layers(im, r->layers, e);
    if (done < 0) {
        image_free(x, im);
        return err_wrap(e, done, "image %s", r->ref);
    }
    for (size_t i = 0; i < im->layers.n; i++) {
        const struct layer *l = layer_on_record(x->control, im->layers.p[i]);

        im->bytes += l ? l->record.bytes : 0;
    }
    layers_ref(x->control, &im->layers);
    list_append(&x->images, &im->link_);
    if (old)
        image_free(x, old);
    return 0;
}

const struct image *images_next(struct control *c, const struct image *after)
{
    struct list *all = &c->images->images;
    struct link *m = after ? list_after(all, &after->link_) : list_first(all);

    return m ? container_of(m, struct image, link_) : NULL;
}

/* --- names --- */

int images_find(struct control *c, struct str name, const struct image **ret, struct err *e)
{
    const char *registry = c->config->images.registry;
    char text[OCI_REFERENCE_MAX];
    struct oci_reference ref;
    int r = oci_reference_parse(name, &ref, e);

    if (r < 0)
        return err_wrap(e, r, "image");
    oci_reference_text(&ref, text);
    *ret = find_image_ref(c->images, text);
    if (!*ret && !ref.host[0] && registry) {
        snprintf(ref.host, sizeof ref.host, "%s", registry);
        oci_reference_text(&ref, text);
        *ret = find_image_ref(c->images, text);
    }
    return *ret ? 0
                : err_set(e, ERR_NOT_FOUND,
                          "image: there is no %s here; `sandboxer image list` shows all images, "
                          "`image pull` and `image import` add one",
                          text);
}

/* --- references --- */

struct image_use {
    const struct image *image;
    size_t n;
    char one[ID_MAX];
};

/* A sandbox or snapshot on an image has exactly its layers. Other images that share some of them do
 * not matter: each layer is kept while anything is built on it. */
static void count_use(void *user, const struct base_image *b, const char *id)
{
    struct image_use *u = user;
    const struct json_strs *layers = &u->image->layers;

    if (b->layers.n != layers->n)
        return;
    for (size_t i = 0; i < layers->n; i++)
        if (strcmp(b->layers.p[layers->n - 1 - i], layers->p[i]) != 0)
            return;
    u->n++;
    snprintf(u->one, sizeof u->one, "%s", id);
}

size_t image_users(struct control *c, const struct image *im, char ret_one[static ID_MAX])
{
    struct image_use u = { .image = im };

    control_each_base(c, count_use, &u);
    memcpy(ret_one, u.one, ID_MAX);
    return u.n;
}

bool layer_is_used(struct images *x, const char *name)
{
    LIST_EACH (const struct image, im, &x->images, link_)
        for (size_t i = 0; i < im->layers.n; i++)
            if (strcmp(im->layers.p[i], name) == 0)
                return true;
    LIST_EACH (const struct image_making, m, &x->makings, link)
        for (size_t i = 0; i < image_making_parts(m); i++)
            if (strcmp(m->parts[i].layer, name) == 0)
                return true;
    return layer_used(x->control, name);
}

/* --- opening and closing --- */

static const char *load_layer_row(struct images *x, const struct store_query *q, size_t i)
{
    layer_set_row(x->control, &q->layers[i]);
    return q->layers[i].name;
}

static const char *load_image_row(struct images *x, const struct store_query *q, size_t i)
{
    struct err e;

    if (image_add(x, &q->images[i], &e) < 0) {
        /* A later version may be able to read it: its layers are not swept. */
        LOG(ERROR, "image.unreadable", LOG_S("image", q->images[i].ref), LOG_S("error", e.msg));
        x->control->unreadable = true;
    }
    return q->images[i].ref;
}

/* Rows are loaded in pages with room for the largest row, so their number is not limited. */
static const struct stored_rows {
    enum store_query_kind kind;
    int page;
    size_t room;
    const char *(*take)(struct images *x, const struct store_query *q, size_t i); /* its name */
} shelves[] = {
    { STORE_LAYERS, 1024, CONTROL_ARENA_MAX, load_layer_row },
    { STORE_IMAGES, 8, IMAGE_ARENA_MAX, load_image_row },
};

static int load_rows(struct images *x, const struct stored_rows *s, struct err *e)
{
    char last[OCI_REFERENCE_MAX] = "";
    size_t n;
    int r;

    do {
        struct store_query q = { .kind = s->kind, .text = str_from(last), .limit = s->page };

        arena_init(&q.arena, s->room);
        r = store_ask_now(x->control->store, &q, e);
        n = r < 0 ? 0 : q.n;
        for (size_t i = 0; i < n; i++)
            snprintf(last, sizeof last, "%s", s->take(x, &q, i));
        arena_done(&q.arena);
    } while (n == (size_t)s->page);
    return r;
}

static void on_start_sweep_done(struct image_op *op, int r, const struct err *e)
{
    if (r < 0)
        LOG(WARN, "image.sweep_failed", LOG_S("error", e->msg));
    else if (op->removed)
        LOG(INFO, "image.swept", LOG_I("layers", (int64_t)op->removed));
}

int images_open(struct control *c, struct err *e)
{
    struct images *x = new0(sizeof *x);
    int r = 0;

    c->images = x;
    x->control = c;
    x->dir = -1;
    fetcher_share_init(&x->requests, &c->fetcher, IMAGES_REQUESTS);
    if (mkdirat(c->context.state, "images", 0700) < 0 && errno != EEXIST)
        return err_sys(e, "creating images/");
    x->dir = openat(c->context.state, "images", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (x->dir < 0)
        return err_sys(e, "opening images/");
    for (size_t i = 0; r >= 0 && i < COUNT_OF(shelves); i++)
        r = load_rows(x, &shelves[i], e);
    return r;
}

void images_sweep(struct control *c)
{
    if (!c->supervisor.layer_worker)
        return;
    c->images->start = (struct image_op){ .done = on_start_sweep_done };
    images_prune_old(c, &c->images->start);
}

void images_stop(struct control *c)
{
    if (!c->images)
        return;
    LIST_EACH_SAFE (struct image_job, j, &c->images->jobs, link)
        image_job_drop(j);
    LIST_EACH_SAFE (struct image_making, m, &c->images->makings, link)
        image_making_cancel(m);
}

void images_close(struct control *c)
{
    struct images *x = c->images;
    struct link *m;

    if (!x)
        return;
    images_stop(c);
    fetcher_share_done(&x->requests);
    if (list_first(&x->makings)) /* a thread still uses this memory */
        return;
    while ((m = list_first(&x->images)))
        image_free(x, container_of(m, struct image, link_));
    drop_fd(&x->dir);
    free(take_ptr(c->images));
}

bool images_are_idle(struct control *c)
{
    struct images *x = c->images;

    return !list_first(&x->makings) && !list_first(&x->jobs) && !x->commits;
}
