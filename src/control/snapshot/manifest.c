/* SPDX-License-Identifier: Apache-2.0 */
#include "control/snapshot/manifest.h"

#include "lib/json/reader.h"
#include "domain/oci/config.h"
#include "domain/oci/reference.h"

#define AT(member) JSON_AT(struct snapshot_manifest, member)
#define IN(member) JSON_AT(struct manifest_layer, member)

static const struct json_field layer_fields[] = {
    { "measure", JSON_KIND_STR, IN(digest), .required = true, .max = RECORD_DIGEST_MAX - 1 },
    { "image", JSON_KIND_STR, IN(image), .max = LAYER_NAME_MAX - 1 },
    { "left_out", JSON_KIND_BOOL, IN(left_out) },
};

static const struct json_field fields[] = {
    { "format", JSON_KIND_UINT, AT(format), .required = true },
    { "name", JSON_KIND_STR, AT(name), .max = 63 },
    { "sandbox_id", JSON_KIND_STR, AT(sandbox), .required = true, .max = ID_MAX - 1 },
    { "profile", JSON_KIND_STR, AT(profile), .required = true, .max = RECORD_NAME_MAX - 1 },
    { "profile_version", JSON_KIND_INT, AT(profile_version) },
    { "created_ns", JSON_KIND_INT, AT(created_ns) },
    { "bytes", JSON_KIND_INT, AT(bytes) },
    { "entries", JSON_KIND_INT, AT(entries) },
    { "pause_ns", JSON_KIND_INT, AT(pause_ns) },
    { "labels", JSON_KIND_MAP, AT(labels), .max = 64 },
    { "image", JSON_KIND_STR, AT(image), .max = RECORD_IMAGE_MAX - 1 },
    { "digest", JSON_KIND_STR, AT(digest), .max = RECORD_DIGEST_MAX - 1 },
    { "config", JSON_KIND_ANY, AT(config) },
    { "layers", JSON_KIND_OBJECTS, AT(layers), .required = true, .min = 1, .max = LAYERS_STACK_MAX,
      JSON_FIELDS(layer_fields), .item_size = sizeof(struct manifest_layer) },
};

int snapshot_manifest_write(const struct snapshot *s, const struct manifest_layer *layers, size_t n,
                            struct buf *out, struct err *e)
{
    const struct snapshot_record *r = &s->record;
    const struct snapshot_manifest m = { .format = MANIFEST_FORMAT,
                                         .name = r->name,
                                         .sandbox = r->sandbox,
                                         .profile = r->profile,
                                         .image = r->image.p,
                                         .digest = r->digest.p,
                                         .profile_version = r->profile_version,
                                         .created_ns = r->created_ns,
                                         .bytes = r->bytes,
                                         .entries = r->entries,
                                         .pause_ns = r->pause_ns,
                                         .labels = r->labels,
                                         .config = s->base.config,
                                         .layers = { (void *)(uintptr_t)layers, n } };
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    json_unbind(&m, fields, COUNT_OF(fields), &w);
    return json_writer_finish(&w, e);
}

static int check_manifest_layers(const struct snapshot_manifest *m, struct err *e)
{
    const struct manifest_layer *l = m->layers.p;
    bool below = false;

    for (size_t i = 0; i < m->layers.n; i++) {
        bool image = manifest_is_image(m, i);

        if (!oci_digest_valid(str_from(l[i].digest)))
            return err_set(e, ERR_INVALID, "layers: invalid digest");
        if (image && (!layer_name_valid(l[i].image) || l[i].image[0] != 's'))
            return err_set(e, ERR_INVALID, "layers: invalid name of an image's layer");
        if (image ? i == 0 : below)
            return err_set(e, ERR_INVALID,
                           "layers: captured layers must come before those of the image");
        if (l[i].left_out && !image)
            return err_set(e, ERR_INVALID, "layers: a captured layer cannot be left out");
        below = below || image;
    }
    return 0;
}

/* A reference if the snapshot is on a stored image, else a directory or empty. */
static int check_manifest_image(const struct snapshot_manifest *m, struct arena *a, struct err *e)
{
    struct oci_reference ref;
    struct oci_config run;
    const char *image = m->image ? m->image : "";

    if (!manifest_is_image(m, m->layers.n - 1))
        return !image[0] || image[0] == '/'
                   ? 0
                   : err_set(e, ERR_INVALID, "image: is set, but there are no layers of an image");
    if (m->config && m->config->type != JSON_OBJECT)
        return err_set(e, ERR_INVALID, "config: must be an object");
    if (oci_config_run(m->config, a, &run, e) < 0)
        return -(int)ERR_INVALID;
    return oci_reference_parse(str_from(image), &ref, e);
}

int snapshot_manifest_read(struct str text, struct arena *a, struct snapshot_manifest *ret,
                           struct err *e)
{
    const struct json_limits limits = { .bytes = MANIFEST_MAX, .depth = 24 };
    struct snapshot_manifest m = { 0 };
    const struct json *v;
    int r = json_read(text, limits, a, &v, e);

    r = r < 0 ? r : json_bind(v, fields, COUNT_OF(fields), &m, a, e);
    if (r >= 0 && m.format != MANIFEST_FORMAT)
        r = m.format && m.format < MANIFEST_FORMAT
                ? err_set(e, ERR_UNSUPPORTED,
                          "format %u: the file was written by an older version; export the "
                          "snapshot again with this one",
                          m.format)
                : err_set(e, ERR_UNSUPPORTED, "format %u is unknown", m.format);
    if (r >= 0 && !id_valid("sbx_", str_from(m.sandbox)))
        r = err_set(e, ERR_INVALID, "sandbox_id: is not the id of a sandbox");
    r = r < 0 ? r : check_manifest_layers(&m, e);
    r = r < 0 ? r : check_manifest_image(&m, a, e);
    if (r >= 0)
        *ret = m;
    return err_wrap(e, r < 0 ? r : 0, "the manifest");
}
