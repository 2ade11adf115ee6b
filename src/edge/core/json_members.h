/* SPDX-License-Identifier: Apache-2.0 */
/* Writes members of JSON objects. */
#ifndef EDGE_CORE_JSON_MEMBERS_H
#define EDGE_CORE_JSON_MEMBERS_H

#include "lib/json/writer.h"

static inline void write_str_member(struct json_writer *w, const char *key, const char *value)
{
    json_key(w, str_from(key));
    json_put_lossy(w, str_from(value));
}

static inline void write_int_member(struct json_writer *w, const char *key, int64_t value)
{
    json_key(w, str_from(key));
    json_put_int(w, value);
}

static inline void write_bool_member(struct json_writer *w, const char *key, bool value)
{
    json_key(w, str_from(key));
    json_put_bool(w, value);
}

/* Writes an array with one name, or an empty array if the name is empty. */
static inline void write_name_list(struct json_writer *w, const char *key, const char *name)
{
    struct str text = str_from(name);

    json_key(w, str_from(key));
    json_begin_array(w);
    if (text.n)
        json_put_lossy(w, text);
    json_end_array(w);
}

#endif
