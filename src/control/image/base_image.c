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
        return err_set(
            e, ERR_TOO_BIG,
            "the configuration of the image needs more memory than the allowed %zu bytes", a->max);
    return json_read((struct str){ kept, text.n }, limits, a, ret, e);
}

int base_image_copy(const struct base_image *from, struct arena *a, struct base_image *ret,
                    struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(BASE_CONFIG_MAX);
    struct base_image b = { .layers = from->layers,
                            .ref = from->ref ? arena_dup(a, str_from(from->ref)) : NULL,
                            .digest = from->digest ? arena_dup(a, str_from(from->digest)) : NULL };
    int r = json_strs_copy(&b.layers, a)
                ? 0
                : err_set(e, ERR_TOO_BIG,
                          "the image has %zu layers, which need more memory than the allowed %zu "
                          "bytes",
                          from->layers.n, a->max);

    r = r < 0 ? r : base_image_write_config(from, &text, e);
    r = r < 0 ? r : base_image_read_config(buf_str(&text), a, &b.config, e);
    if (r >= 0)
        *ret = b;
    return r;
}

/* The image names its lowest layer first. */
int base_image_of(const struct image *im, struct arena *a, struct base_image *ret, struct err *e)
{
    const char *upper_first[OCI_LAYERS_MAX];
    const struct base_image b = { .layers = { upper_first, im->layers.n },
                                  .ref = im->ref,
                                  .digest = im->digest,
                                  .config = im->config.run };

    for (size_t i = 0; i < im->layers.n; i++)
        upper_first[i] = im->layers.p[im->layers.n - 1 - i];
    return base_image_copy(&b, a, ret, e);
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
