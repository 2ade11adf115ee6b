/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/bind_known.h"

/* A copy that has only the members of the table; of an array, such copies of its items. NULL: the
 * arena is full. */
static const struct json *copy_known(const struct json *v, const struct json_field *fields,
                                     size_t n, struct arena *a)
{
    struct json *copy = arena_alloc(a, sizeof *copy), *list;
    size_t kept = 0;

    if (!copy || v->type < JSON_ARRAY)
        return copy ? v : NULL;
    list = arena_array(a, v->list.n + 1, sizeof *list);
    for (const struct json *m = json_first(v); list && m != json_end(v); m++) {
        const struct json *known = m;
        size_t i = 0;

        while (v->type == JSON_OBJECT && i < n && !str_eq(str_from(fields[i].name), m->key))
            i++;
        if (v->type == JSON_ARRAY)
            known = copy_known(m, fields, n, a);
        else if (i == n)
            continue;
        else if (fields[i].kind == JSON_KIND_OBJECT || fields[i].kind == JSON_KIND_OBJECTS)
            known = copy_known(m, fields[i].fields, fields[i].field_count, a);
        if (!known)
            return NULL;
        list[kept++] = *known;
    }
    *copy = *v;
    copy->list.p = list;
    copy->list.n = kept;
    return list ? copy : NULL;
}

int bind_known(const struct json *v, const struct json_field *fields, size_t n, void *out,
               struct arena *a, struct err *e)
{
    const struct json *known = copy_known(v, fields, n, a);

    if (!known)
        return err_set(e, ERR_TOO_BIG,
                       "the request needs more memory than the allowed %zu bytes; send fewer "
                       "members",
                       a->max);
    return json_bind(known, fields, n, out, a, e);
}

bool bind_given(const struct json *v)
{
    return v && v->type != JSON_NULL && !(v->type >= JSON_ARRAY && !v->list.n);
}
