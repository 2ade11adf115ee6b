/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/learn/plain.h"

#include "base/own.h"
#include "domain/policy/egress_file.h"
#include "lib/json/reader.h"
#include "lib/json/writer.h"

/* An absent member means the same as this value. */
static const struct default_member {
    struct str key;
    struct json value;
} defaults[] = {
    { STR("tls"), { .type = JSON_STR, .s = STR("auto") } },
    { STR("access"), { .type = JSON_STR, .s = STR("deny") } }, /* of `unlisted` */
    { STR("allow_encoded_slash"), { .type = JSON_BOOL } },
    { STR("spent"), { .type = JSON_BOOL } },
    { STR("allowed_ips"), { .type = JSON_ARRAY } },
    { STR("denied_ips"), { .type = JSON_ARRAY } },
    { STR("unlisted"), { .type = JSON_OBJECT } },
    { STR("network_middlewares"), { .type = JSON_OBJECT } },
};

static bool is_default_member(const struct json *m);

/* An object whose members are defaults is as good as an empty one. */
static bool has_default_value(const struct json *m, const struct json *value)
{
    if (m->type != JSON_OBJECT || value->type != JSON_OBJECT)
        return json_equal(m, value);
    for (const struct json *below = json_first(m); below != json_end(m); below++)
        if (!is_default_member(below))
            return false;
    return true;
}

static bool is_default_member(const struct json *m)
{
    for (size_t i = 0; i < COUNT_OF(defaults); i++)
        if (str_eq(m->key, defaults[i].key))
            return has_default_value(m, &defaults[i].value);
    return false;
}

static void write_plain_value(struct json_writer *w, const struct json *v)
{
    if (v->type < JSON_ARRAY) {
        json_put_tree(w, v);
        return;
    }
    if (v->type == JSON_OBJECT)
        json_begin_object(w);
    else
        json_begin_array(w);
    for (const struct json *m = json_first(v); m != json_end(v); m++) {
        if (v->type == JSON_OBJECT && is_default_member(m))
            continue;
        if (v->type == JSON_OBJECT)
            json_key(w, m->key);
        write_plain_value(w, m);
    }
    if (v->type == JSON_OBJECT)
        json_end_object(w);
    else
        json_end_array(w);
}

int learn_plain_policy(const struct json *document, struct arena *a, const struct json **ret,
                       struct err *e)
{
    static const struct json_limits limits = { .bytes = EGRESS_JSON_BYTES_MAX,
                                               .depth = EGRESS_FILE_DEPTH_MAX };
    AUTO(buf_done) struct buf text = BUF_INIT(EGRESS_JSON_BYTES_MAX);
    struct json_writer w;
    int r;

    json_writer_init(&w, &text, JSON_COMPACT);
    write_plain_value(&w, document);
    r = json_writer_finish(&w, e);
    return r < 0 ? r : json_read(buf_str(&text), limits, a, ret, e);
}
