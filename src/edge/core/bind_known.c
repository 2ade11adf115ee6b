/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/bind_known.h"

static const struct json_field *find_known_field(const struct json_field *fields, size_t n,
                                                 struct str name)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(str_from(fields[i].name), name))
            return &fields[i];
    return NULL;
}

static const struct json *copy_known_members(const struct json *v, const struct json_field *fields,
                                             size_t n, struct arena *a);

static const struct json *copy_known_items(const struct json *v, const struct json_field *f,
                                           struct arena *a)
{
    struct json *copy = arena_alloc(a, sizeof *copy), *list;
    size_t n = 0;

    if (!copy || v->type != JSON_ARRAY)
        return copy ? v : NULL;
    list = arena_array(a, v->list.n + 1, sizeof *list);
    for (const struct json *m = json_first(v); list && m != json_end(v); m++) {
        const struct json *known = copy_known_members(m, f->fields, f->field_count, a);

        if (!known)
            return NULL;
        list[n++] = *known;
    }
    *copy = *v;
    copy->list.p = list;
    return list ? copy : NULL;
}

/* A copy that has only the members of the table. NULL: the arena is full. */
static const struct json *copy_known_members(const struct json *v, const struct json_field *fields,
                                             size_t n, struct arena *a)
{
    struct json *copy = arena_alloc(a, sizeof *copy), *list;
    size_t kept = 0;

    if (!copy || v->type != JSON_OBJECT)
        return copy ? v : NULL;
    list = arena_array(a, v->list.n + 1, sizeof *list);
    for (const struct json *m = json_first(v); list && m != json_end(v); m++) {
        const struct json_field *f = find_known_field(fields, n, m->key);
        const struct json *known = m;

        if (!f)
            continue;
        if (f->kind == JSON_KIND_OBJECT)
            known = copy_known_members(m, f->fields, f->field_count, a);
        else if (f->kind == JSON_KIND_OBJECTS)
            known = copy_known_items(m, f, a);
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
    const struct json *known = copy_known_members(v, fields, n, a);

    if (!known)
        return err_set(e, ERR_TOO_BIG, "the request has too many members");
    return json_bind(known, fields, n, out, a, e);
}

bool bind_given(const struct json *v)
{
    return v && v->type != JSON_NULL && !(v->type >= JSON_ARRAY && !v->list.n);
}
