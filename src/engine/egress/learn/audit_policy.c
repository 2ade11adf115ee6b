/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/learn/audit_policy.h"

#include "base/own.h"
#include "domain/policy/egress_file.h"
#include "lib/json/writer.h"

static void write_unlisted_public(struct json_writer *w, const struct json *unlisted)
{
    static const struct json none = { .type = JSON_OBJECT };
    const struct json *old = unlisted ? unlisted : &none;

    json_field_begin_object(w, "unlisted");
    json_field_cstr(w, "access", "public");
    for (const struct json *m = json_first(old); m != json_end(old); m++) {
        if (str_eq(m->key, STR("access")))
            continue;
        json_key(w, m->key);
        json_put_tree(w, m);
    }
    json_end_object(w);
}

static int write_audit_policy(const struct json *document, struct buf *out, struct err *e)
{
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    for (const struct json *m = json_first(document); m != json_end(document); m++) {
        if (str_eq(m->key, STR("unlisted")))
            continue;
        json_key(&w, m->key);
        json_put_tree(&w, m);
    }
    write_unlisted_public(&w, json_get(document, STR("unlisted")));
    json_end_object(&w);
    return json_writer_finish(&w, e);
}

static int write_audit_answer(struct str policy, struct buf *out, struct err *e)
{
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    json_field_str(&w, "policy", policy);
    json_end_object(&w);
    return json_writer_finish(&w, e);
}

int learn_audit_policy(struct str base, struct buf *out, struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(EGRESS_MEMORY_MAX);
    AUTO(buf_done) struct buf text = BUF_INIT(EGRESS_JSON_BYTES_MAX);
    const struct json *document;
    struct egress_policy policy;
    int r =
        egress_policy_read_document(base.n ? base : STR("version: 1"), &a, &policy, &document, e);

    if (r >= 0)
        r = write_audit_policy(document, &text, e);
    return r < 0 ? r : write_audit_answer(buf_str(&text), out, e);
}
