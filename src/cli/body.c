/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/body.h"

void body_text(struct json_writer *w, const char *name, const char *value)
{
    if (value)
        json_field_cstr(w, name, value);
}

void body_flag(struct json_writer *w, const char *name, bool value)
{
    if (value)
        json_field_bool(w, name, true);
}

/* The last one of a name counts. */
static bool is_overridden(const struct option_list *pairs, size_t at, struct str name)
{
    for (size_t i = at + 1; i < pairs->n; i++) {
        struct str other;

        str_cut(str_from(pairs->p[i]), '=', &other);
        if (str_eq(name, other))
            return true;
    }
    return false;
}

void body_pairs(struct json_writer *w, const char *name, const struct option_list *pairs)
{
    if (pairs->n == 0)
        return;
    json_field_begin_object(w, name);
    for (size_t i = 0; i < pairs->n; i++) {
        struct str key, value = str_cut(str_from(pairs->p[i]), '=', &key);

        if (is_overridden(pairs, i, key))
            continue;
        json_key(w, key);
        json_put_str(w, value);
    }
    json_end_object(w);
}

void body_list(struct json_writer *w, const char *name, const struct option_list *list)
{
    if (list->n == 0)
        return;
    json_field_begin_array(w, name);
    for (size_t i = 0; i < list->n; i++)
        json_put_str(w, str_from(list->p[i]));
    json_end_array(w);
}
