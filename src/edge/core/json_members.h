/* Members of objects. */
#ifndef API_E2B_WRITE_H
#define API_E2B_WRITE_H

#include "json/writer.h"

static inline void put(struct json_writer *w, const char *key, const char *value)
{
    json_key(w, str_from(key));
    json_put_lossy(w, str_from(value));
}

static inline void put_number(struct json_writer *w, const char *key, int64_t value)
{
    json_key(w, str_from(key));
    json_put_int(w, value);
}

static inline void put_flag(struct json_writer *w, const char *key, bool value)
{
    json_key(w, str_from(key));
    json_put_bool(w, value);
}

/* A list of one name, or of none where it is empty. */
static inline void put_names(struct json_writer *w, const char *key, const char *name)
{
    struct str text = str_from(name);

    json_key(w, str_from(key));
    json_begin_array(w);
    if (text.n)
        json_put_lossy(w, text);
    json_end_array(w);
}

#endif
