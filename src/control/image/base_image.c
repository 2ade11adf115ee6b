/* SPDX-License-Identifier: Apache-2.0 */
#include "control/image/base_image.h"

#include "control/image/images.h"
#include "lib/json/reader.h"
#include "lib/json/writer.h"

int base_image_write_config(const struct base_image *b, struct buf *out, struct err *e)
{
    struct json_writer w;

    if (!b->config)
        return 0;
    json_writer_init(&w, out, JSON_COMPACT);
    json_put_tree(&w, b->config);
    return err_wrap(e, json_writer_finish(&w, e), "the run configuration of %s",
                    b->ref ? b->ref : "the image");
}

int base_image_read_config(struct str text, struct arena *a, const struct json **ret, struct err *e)
{
    const struct json_limits limits = { .bytes = BASE_CONFIG_MAX, .depth = 16 };
    const char *kept;

    *ret = NULL;
    if (!text.n)
        return 0;
    kept = arena_dup(a, text);
    if (!kept)
        return err_set(e, ERR_TOO_BIG, "the configuration of an image is too large");
    return json_read((struct str){ kept, text.n }, limits, a, ret, e);
}

static int copy_layer_names(const struct json_strs *from, bool reversed, struct arena *a,
                            struct json_strs *ret, struct err *e)
{
    const char **p = arena_array(a, from->n + 1, sizeof *p);

    for (size_t i = 0; p && i < from->n; i++) {
        p[i] = arena_dup(a, str_from(from->p[reversed ? from->n - 1 - i : i]));
        if (!p[i])
            return err_set(e, ERR_TOO_BIG, "the image has too many layers");
    }
    if (!p)
        return err_set(e, ERR_TOO_BIG, "the image has too many layers");
    *ret = (struct json_strs){ p, from->n };
    return 0;
}

static int copy_base_image(const struct base_image *from, bool reversed, struct arena *a,
                           struct base_image *ret, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(BASE_CONFIG_MAX);
    struct base_image b = { .ref = from->ref ? arena_dup(a, str_from(from->ref)) : NULL,
                            .digest = from->digest ? arena_dup(a, str_from(from->digest)) : NULL };
    int r = copy_layer_names(&from->layers, reversed, a, &b.layers, e);

    if (r >= 0)
        r = base_image_write_config(from, &text, e);
    if (r >= 0)
        r = base_image_read_config(buf_str(&text), a, &b.config, e);
    if (r >= 0)
        *ret = b;
    return r;
}

int base_image_copy(const struct base_image *from, struct arena *a, struct base_image *ret,
                    struct err *e)
{
    return copy_base_image(from, false, a, ret, e);
}

int base_image_of(const struct image *im, struct arena *a, struct base_image *ret, struct err *e)
{
    const struct base_image b = {
        .layers = im->layers, .ref = im->ref, .digest = im->digest, .config = im->config.run
    };

    return copy_base_image(&b, true, a, ret, e);
}

int base_image_for_box(const struct base_image *b, struct arena *a, struct backend_image *ret,
                       struct err *e)
{
    struct oci_config run;
    int r = oci_config_run(b->config, a, &run, e);

    if (r < 0)
        return r;
    *ret = (struct backend_image){ .layers = b->layers.p,
                                   .n = b->layers.n,
                                   .user = run.user,
                                   .workdir = run.workdir,
                                   .env = run.env };
    return 0;
}
