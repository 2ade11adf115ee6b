/* SPDX-License-Identifier: Apache-2.0 */
/* Writes members of JSON objects. */
#ifndef EDGE_CORE_JSON_MEMBERS_H
#define EDGE_CORE_JSON_MEMBERS_H

#include "lib/json/writer.h"

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
