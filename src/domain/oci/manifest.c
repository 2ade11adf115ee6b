/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/oci/manifest.h"

#include <sys/utsname.h>

#include "domain/oci/document.h"

static const char *const index_types[] = {
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
};
static const char *const manifest_types[] = {
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
};
static const char *const layer_types[] = {
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd",
};
static const char *const config_types[] = {
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
};

static bool is_listed_type(const char *type, const char *const *types, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(type, types[i]) == 0)
            return true;
    return false;
}
#define AMONG(type, types) is_listed_type((type), (types), COUNT_OF(types))

static int document_kind_of(const struct json *v, enum oci_document *ret, struct err *e)
{
    const char *type = oci_text(v, "mediaType");
    bool lists = json_get(v, STR("manifests")), layers = json_get(v, STR("layers"));

    if (json_get(v, STR("fsLayers")))
        return err_set(e, ERR_UNSUPPORTED,
                       "the image has a manifest of docker's schema 1, which is not supported; "
                       "push it again with a current tool");
    if (type && !AMONG(type, index_types) && !AMONG(type, manifest_types))
        return err_set(e, ERR_UNSUPPORTED,
                       "unsupported document type '%.80s': not an image manifest or index", type);
    if (lists == layers || (type && lists != AMONG(type, index_types)))
        return err_set(e, ERR_INVALID,
                       "the document is neither an image's manifest nor an index of manifests");
    *ret = lists ? OCI_INDEX : OCI_MANIFEST;
    return 0;
}

int oci_document_kind(struct str text, struct arena *a, enum oci_document *ret, struct err *e)
{
    const struct json *v;
    int r = oci_document(text, "manifest", a, &v, e);

    return r < 0 ? r : document_kind_of(v, ret, e);
}

int oci_index_read(struct str text, struct arena *a, struct oci_index *ret, struct err *e)
{
    const struct json *v, *list;
    struct oci_descriptor *all;
    const char **names;
    size_t n = 0;
    int r = oci_document(text, "index", a, &v, e);

    if (r < 0)
        return r;
    list = json_get(v, STR("manifests"));
    if (!list || list->type != JSON_ARRAY || list->list.n == 0)
        return err_set(e, ERR_INVALID, "the image's index names no manifests");
    if (list->list.n > OCI_MANIFESTS_MAX)
        return err_set(e, ERR_TOO_BIG, "the image has more than %d manifests", OCI_MANIFESTS_MAX);
    all = arena_array(a, list->list.n, sizeof *all);
    names = arena_array(a, list->list.n, sizeof *names);
    if (!all || !names)
        return err_set(e, ERR_TOO_BIG,
                       "the image's index needs more memory than the allowed %zu bytes", a->max);
    for (const struct json *m = json_first(list); m != json_end(list) && r >= 0; m++, n++) {
        const struct json *notes = json_get(m, STR("annotations"));

        r = oci_descriptor(m, "a manifest in the image's index", &all[n], e);
        /* Archives store an image's name there. */
        names[n] = notes ? oci_text(notes, "org.opencontainers.image.ref.name") : NULL;
    }
    if (r >= 0)
        *ret = (struct oci_index){ all, names, n };
    return r;
}

static int read_config(const struct json *v, struct oci_descriptor *ret, struct err *e)
{
    int r = oci_descriptor(json_get(v, STR("config")), "the image's configuration", ret, e);

    if (r >= 0 && ret->media_type && !AMONG(ret->media_type, config_types))
        return err_set(e, ERR_UNSUPPORTED, "not an image: its configuration has the type '%.80s'",
                       ret->media_type);
    if (r >= 0 && ret->size > OCI_DOCUMENT_MAX)
        return err_set(e, ERR_TOO_BIG, "the image's configuration has more than %d bytes",
                       OCI_DOCUMENT_MAX);
    return r;
}

int oci_manifest_read(struct str text, struct arena *a, struct oci_manifest *ret, struct err *e)
{
    struct oci_descriptor config, *layers;
    const struct json *v, *list;
    size_t n = 0;
    int r = oci_document(text, "manifest", a, &v, e);

    if (r >= 0)
        r = read_config(v, &config, e);
    if (r < 0)
        return r;
    list = json_get(v, STR("layers"));
    if (!list || list->type != JSON_ARRAY)
        return err_set(e, ERR_INVALID, "the image's manifest has no list of layers");
    if (list->list.n > OCI_LAYERS_MAX)
        return err_set(e, ERR_TOO_BIG, "the image has more than %d layers", OCI_LAYERS_MAX);
    layers = arena_array(a, list->list.n + 1, sizeof *layers);
    if (!layers)
        return err_set(e, ERR_TOO_BIG,
                       "the image's manifest needs more memory than the allowed %zu bytes", a->max);
    for (const struct json *m = json_first(list); m != json_end(list) && r >= 0; m++, n++) {
        r = oci_descriptor(m, "a layer of the image", &layers[n], e);
        if (r >= 0 && layers[n].media_type && !AMONG(layers[n].media_type, layer_types))
            r = err_set(e, ERR_UNSUPPORTED, "layers of type '%.80s' cannot be unpacked",
                        layers[n].media_type);
    }
    if (r >= 0)
        *ret = (struct oci_manifest){ config, layers, n };
    return r;
}

/* --- platforms --- */

static bool is_platform_word(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!((s.p[i] >= 'a' && s.p[i] <= 'z') || (s.p[i] >= '0' && s.p[i] <= '9')))
            return false;
    return s.n > 0 && s.n < 32;
}

int oci_platform_parse(struct str text, struct arena *a, struct oci_platform *ret, struct err *e)
{
    struct str os, architecture, variant = str_cut(text, '/', &os);

    variant = str_cut(variant, '/', &architecture);
    if (!is_platform_word(os) || !is_platform_word(architecture) ||
        (variant.p && !is_platform_word(variant)))
        return err_set(e, ERR_INVALID,
                       "a platform must be OS/ARCHITECTURE[/VARIANT], such as linux/arm64");
    *ret = (struct oci_platform){ arena_dup(a, os), arena_dup(a, architecture),
                                  variant.p ? arena_dup(a, variant) : NULL };
    return 0;
}

struct oci_platform oci_platform_here(void)
{
    static const struct {
        const char *machine, *architecture, *variant;
    } machines[] = {
        { "x86_64", "amd64", NULL },    { "aarch64", "arm64", NULL },
        { "armv7l", "arm", "v7" },      { "armv6l", "arm", "v6" },
        { "i686", "386", NULL },        { "ppc64le", "ppc64le", NULL },
        { "riscv64", "riscv64", NULL }, { "s390x", "s390x", NULL },
    };
    struct utsname u;

    for (size_t i = 0; uname(&u) == 0 && i < COUNT_OF(machines); i++)
        if (strcmp(u.machine, machines[i].machine) == 0)
            return (struct oci_platform){ "linux", machines[i].architecture, machines[i].variant };
    return (struct oci_platform){ "linux", "unknown", NULL };
}

static bool same_platform_text(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

/* arm64 is v8 even without a variant. */
static bool platform_fits(const struct oci_platform *have, const struct oci_platform *want)
{
    if (!same_platform_text(have->os, want->os) ||
        !same_platform_text(have->architecture, want->architecture))
        return false;
    if (!want->variant || same_platform_text(have->variant, want->variant))
        return true;
    return same_platform_text(want->architecture, "arm64") &&
           same_platform_text(want->variant, "v8") && !have->variant;
}

const struct oci_descriptor *oci_index_choose(const struct oci_index *x,
                                              const struct oci_platform *p)
{
    for (size_t i = 0; i < x->n; i++)
        if (platform_fits(&x->manifests[i].platform, p))
            return &x->manifests[i];
    return x->n == 1 && !x->manifests[0].platform.os ? &x->manifests[0] : NULL;
}
