/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/value.h"

static const char *const type_names[JSON_TYPE_COUNT_] = {
    [JSON_NULL] = "null",           [JSON_BOOL] = "true or false", [JSON_INT] = "a whole number",
    [JSON_UINT] = "a whole number", [JSON_DOUBLE] = "a number",    [JSON_STR] = "a string",
    [JSON_ARRAY] = "a list",        [JSON_OBJECT] = "an object",
};

const char *json_type_name(enum json_type type)
{
    return (unsigned)type < JSON_TYPE_COUNT_ ? type_names[type] : "unknown";
}

const struct json *json_get(const struct json *v, struct str key)
{
    if (v->type != JSON_OBJECT)
        return NULL;
    for (const struct json *member = json_first(v); member != json_end(v); member++)
        if (str_eq(member->key, key))
            return member;
    return NULL;
}

bool json_equal(const struct json *a, const struct json *b)
{
    if (a->type != b->type)
        return false;
    switch (a->type) {
    case JSON_BOOL:
        return a->b == b->b;
    case JSON_INT:
    case JSON_UINT:
    case JSON_DOUBLE:
        return a->u == b->u; /* the same 64 bits, for each type */
    case JSON_STR:
        return str_eq(a->s, b->s);
    case JSON_ARRAY:
    case JSON_OBJECT:
        for (size_t i = 0; a->list.n == b->list.n && i < a->list.n; i++)
            if (!str_eq(a->list.p[i].key, b->list.p[i].key) ||
                !json_equal(&a->list.p[i], &b->list.p[i]))
                return false;
        return a->list.n == b->list.n;
    default:
        return true;
    }
}
