/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/oci/document.h"

#include "lib/json/reader.h"

enum { DEPTH_MAX = 32 };

int oci_document(struct str text, const char *what, struct arena *a, const struct json **ret,
                 struct err *e)
{
    const struct json_limits limits = { .bytes = OCI_DOCUMENT_MAX, .depth = DEPTH_MAX };
    int r = json_read(text, limits, a, ret, e);

    if (r < 0)
        return err_wrap(e, r, "the image's %s", what);
    if ((*ret)->type != JSON_OBJECT)
        return err_set(e, ERR_INVALID, "the image's %s is %s, not an object", what,
                       json_type_name((*ret)->type));
    return 0;
}

bool oci_printable(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f)
            return false;
    return true;
}

const char *oci_text(const struct json *v, const char *key)
{
    const struct json *m = json_get(v, str_from(key));

    return m && m->type == JSON_STR && oci_printable(m->s) ? m->s.p : NULL;
}

int oci_texts(const struct json *v, const char *key, size_t max, struct arena *a,
              struct json_strs *ret, struct err *e)
{
    const struct json *list = json_get(v, str_from(key));
    const char **p;
    size_t n = 0;

    *ret = (struct json_strs){ NULL, 0 };
    if (!list || list->type == JSON_NULL)
        return 0;
    if (list->type != JSON_ARRAY || list->list.n > max)
        return err_set(e, ERR_INVALID, "%s must be a list of at most %zu texts", key, max);
    p = arena_array(a, list->list.n + 1, sizeof *p);
    if (!p)
        return err_set(e, ERR_TOO_BIG, "%s needs more memory than the allowed %zu bytes", key,
                       a->max);
    for (const struct json *m = json_first(list); m != json_end(list); m++) {
        if (m->type != JSON_STR || (m->s.n && memchr(m->s.p, 0, m->s.n)))
            return err_set(e, ERR_INVALID, "%s must be a list of texts", key);
        p[n++] = m->s.p;
    }
    *ret = (struct json_strs){ p, n };
    return 0;
}

int oci_descriptor(const struct json *v, const char *what, struct oci_descriptor *ret,
                   struct err *e)
{
    const char *digest = v ? oci_text(v, "digest") : NULL;
    const struct json *size = v ? json_get(v, STR("size")) : NULL;
    const struct json *p = v ? json_get(v, STR("platform")) : NULL;

    *ret = (struct oci_descriptor){ .media_type = v ? oci_text(v, "mediaType") : NULL };
    if (!digest || !oci_digest_valid(str_from(digest)))
        return err_set(e, ERR_INVALID, "%s: digest must be sha256: and 64 hexadecimal digits",
                       what);
    if (!size || size->type != JSON_INT || size->i < 0)
        return err_set(e, ERR_INVALID, "%s: size must be a number of bytes", what);
    str_copy(str_from(digest), ret->digest, sizeof ret->digest);
    ret->size = (uint64_t)size->i;
    if (p)
        ret->platform = (struct oci_platform){ oci_text(p, "os"), oci_text(p, "architecture"),
                                               oci_text(p, "variant") };
    return 0;
}
