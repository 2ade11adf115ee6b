/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/lib/json/oracle.h"

#include <jansson.h>

void dump_str(FILE *out, struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        fprintf(out, DUMP_STR_BYTE, (unsigned)(unsigned char)s.p[i]);
    fputs(DUMP_STR_END, out);
}

static void dump(FILE *out, json_t *v);

static void dump_members(FILE *out, json_t *object)
{
    void *at = json_object_iter(object);

    fprintf(out, DUMP_OPEN, '{', json_object_size(object));
    for (; at; at = json_object_iter_next(object, at)) {
        dump_str(out, (struct str){ json_object_iter_key(at), json_object_iter_key_len(at) });
        dump(out, json_object_iter_value(at));
    }
}

static void dump_items(FILE *out, json_t *array)
{
    fprintf(out, DUMP_OPEN, '[', json_array_size(array));
    for (size_t i = 0; i < json_array_size(array); i++)
        dump(out, json_array_get(array, i));
}

static void dump(FILE *out, json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        dump_members(out, v);
        break;
    case JSON_ARRAY:
        dump_items(out, v);
        break;
    case JSON_STRING:
        dump_str(out, (struct str){ json_string_value(v), json_string_length(v) });
        break;
    case JSON_INTEGER:
        fprintf(out, DUMP_INT, (long long)json_integer_value(v));
        break;
    case JSON_REAL:
        fprintf(out, DUMP_DOUBLE, json_real_value(v));
        break;
    case JSON_NULL:
        fputs(DUMP_NULL, out);
        break;
    default:
        fprintf(out, DUMP_BOOL, json_is_true(v));
        break;
    }
}

enum verdict oracle_read(struct str text, FILE *out)
{
    json_error_t e;
    json_t *v =
        json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);

    if (!v && json_error_code(&e) == json_error_numeric_overflow)
        return VERDICT_BIG_NUMBER;
    if (!v && json_error_code(&e) == json_error_null_byte_in_key)
        return VERDICT_NUL_KEY;
    if (!v)
        return VERDICT_BAD;
    dump(out, v);
    json_decref(v);
    return VERDICT_GOOD;
}
