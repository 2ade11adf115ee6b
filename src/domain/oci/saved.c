/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/oci/saved.h"

#include "lib/json/reader.h"
#include "domain/oci/document.h"

enum { DEPTH = 8, TAGS_MAX = 64 };

static int check_saved_names(const struct json_strs *names, struct err *e)
{
    for (size_t i = 0; i < names->n; i++)
        if (!oci_printable(str_from(names->p[i])))
            return err_set(e, ERR_INVALID, "a name contains a control character");
    return 0;
}

static int read_saved_image(const struct json *v, struct arena *a, struct oci_saved *ret,
                            struct err *e)
{
    int r;

    ret->config = oci_text(v, "Config");
    if (!ret->config || !ret->config[0])
        return err_set(e, ERR_INVALID, "an image has no Config");
    r = oci_texts(v, "Layers", OCI_LAYERS_MAX, a, &ret->layers, e);
    if (r >= 0 && ret->layers.n == 0)
        r = err_set(e, ERR_INVALID, "an image has no Layers");
    if (r >= 0)
        r = oci_texts(v, "RepoTags", TAGS_MAX, a, &ret->tags, e);
    if (r >= 0)
        r = check_saved_names(&ret->layers, e);
    return r < 0 ? r : check_saved_names(&ret->tags, e);
}

int oci_saved_read(struct str text, struct arena *a, const struct oci_saved **ret, size_t *ret_n,
                   struct err *e)
{
    const struct json_limits limits = { .bytes = OCI_DOCUMENT_MAX, .depth = DEPTH };
    struct oci_saved *all;
    const struct json *v;
    size_t n = 0;
    int r = json_read(text, limits, a, &v, e);

    if (r >= 0 && (v->type != JSON_ARRAY || v->list.n == 0 || v->list.n > OCI_SAVED_MAX))
        r = err_set(e, ERR_INVALID, "must be a list of 1 to %d images", OCI_SAVED_MAX);
    if (r < 0)
        return err_wrap(e, r, "manifest.json");
    all = arena_array(a, v->list.n, sizeof *all);
    if (!all)
        return err_set(e, ERR_TOO_BIG, "manifest.json needs more memory than the allowed %zu bytes",
                       a->max);
    for (const struct json *m = json_first(v); m != json_end(v) && r >= 0; m++)
        r = read_saved_image(m, a, &all[n++], e);
    if (r < 0)
        return err_wrap(e, r, "manifest.json");
    *ret = all;
    *ret_n = n;
    return 0;
}
