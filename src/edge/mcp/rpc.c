/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/mcp/rpc.h"

#include <stdlib.h>

#include "base/own.h"
#include "lib/json/reader.h"

/* Memory for a message's values beyond its text. A message may contain long strings but only few
 * values: parsing a value takes time, and blocks the loop. */
enum { VALUES_MAX = 2 << 20 /* bytes */ };

static bool is_rpc_id(const struct json *v)
{
    return v->type == JSON_INT || v->type == JSON_UINT ||
           (v->type == JSON_STR && v->s.n <= RPC_ID_MAX);
}

static int read_response(const struct json *v, struct rpc_message *m, struct err *e)
{
    m->kind = RPC_RESPONSE;
    m->result = json_get(v, STR("result"));
    m->error = json_get(v, STR("error"));
    if (!m->result == !m->error)
        return err_set(e, ERR_INVALID, "a message must have a method, a result or an error");
    if (m->error && m->error->type != JSON_OBJECT)
        return err_set(e, ERR_INVALID, "error: must be an object");
    if (!m->id && m->result)
        return err_set(e, ERR_INVALID, "id: required in a result");
    return 0;
}

static int read_call(const struct json *method, const struct json *params, struct rpc_message *m,
                     struct err *e)
{
    m->kind = m->id ? RPC_REQUEST : RPC_NOTIFICATION;
    if (method->type != JSON_STR || !method->s.n || method->s.n > RPC_METHOD_MAX)
        return err_set(e, ERR_INVALID, "method: must be a string of at most %d bytes",
                       RPC_METHOD_MAX);
    if (params && params->type != JSON_OBJECT)
        return err_set(e, ERR_INVALID, "params: must be an object");
    m->method = method->s;
    m->params = params;
    return 0;
}

/* Sets *ret_id as soon as the id is known, also on failure. */
static int read_rpc_message(const struct json *v, struct rpc_message *m, const struct json **ret_id,
                            struct err *e)
{
    const struct json *version = json_get(v, STR("jsonrpc")), *id = json_get(v, STR("id"));
    const struct json *method = json_get(v, STR("method"));

    if (v->type != JSON_OBJECT)
        return err_set(e, ERR_INVALID, "a message must be an object");
    if (id && id->type == JSON_NULL && !method)
        id = NULL; /* an error whose sender could not read our id */
    if (id && !is_rpc_id(id))
        return err_set(e, ERR_INVALID, "id: must be a string of at most %d bytes or a whole number",
                       RPC_ID_MAX);
    *ret_id = id;
    if (!version || version->type != JSON_STR || !str_eq(version->s, STR("2.0")))
        return err_set(e, ERR_INVALID, "jsonrpc: must be \"2.0\"");
    *m = (struct rpc_message){ .id = id };
    return method ? read_call(method, json_get(v, STR("params")), m, e) : read_response(v, m, e);
}

static int read_rpc_messages(const struct json *v, struct rpc_frame *f, const struct json **ret_id,
                             struct err *e)
{
    size_t n = v->type == JSON_ARRAY ? v->list.n : 1;
    int r = 0;

    f->batch = v->type == JSON_ARRAY;
    if (!n || n > RPC_BATCH_MAX)
        return err_set(e, ERR_INVALID, "a batch must have 1 to %d messages", RPC_BATCH_MAX);
    for (size_t i = 0; i < n && r >= 0; i++) {
        r = read_rpc_message(f->batch ? &v->list.p[i] : v, &f->messages[i], ret_id, e);
        if (r >= 0)
            f->requests += f->messages[i].kind == RPC_REQUEST;
    }
    f->n = n;
    return r;
}

void rpc_write_id(struct buf *out, const struct json *id)
{
    struct json_writer w;

    if (!id)
        return;
    json_writer_init(&w, out, JSON_COMPACT);
    json_put_tree(&w, id);
    json_writer_finish(&w, NULL);
}

int rpc_read(struct str text, size_t max, struct rpc_frame **ret, enum rpc_code *ret_code,
             struct buf *ret_id, struct err *e)
{
    const struct json_limits limits = { .bytes = max, .depth = RPC_DEPTH_MAX };
    struct rpc_frame *f = new0(sizeof *f);
    const struct json *v, *id = NULL;
    int r;

    f->refs = 1;
    arena_init(&f->arena, text.n + VALUES_MAX);
    r = json_read(text, limits, &f->arena, &v, e);
    *ret_code = r < 0 ? RPC_PARSE_ERROR : RPC_INVALID_REQUEST;
    if (r >= 0)
        r = read_rpc_messages(v, f, &id, e);
    if (r >= 0) {
        *ret = f;
        return 0;
    }
    rpc_write_id(ret_id, id);
    rpc_frame_unref(f);
    return r;
}

struct rpc_frame *rpc_frame_ref(struct rpc_frame *f)
{
    f->refs++;
    return f;
}

void rpc_frame_unref(struct rpc_frame *f)
{
    if (!f || --f->refs)
        return;
    arena_done(&f->arena);
    free(f);
}

bool rpc_same_id(const struct json *a, const struct json *b)
{
    if (!a || !b || a->type != b->type)
        return false;
    return a->type == JSON_STR ? str_eq(a->s, b->s) : a->u == b->u;
}

static void begin_rpc_message(struct json_writer *w)
{
    json_begin_object(w);
    json_field_cstr(w, "jsonrpc", "2.0");
}

void rpc_begin_result(struct json_writer *w, const struct json *id)
{
    begin_rpc_message(w);
    json_field_tree(w, "id", id);
    json_key(w, STR("result"));
}

void rpc_begin_notification(struct json_writer *w, const char *method)
{
    begin_rpc_message(w);
    json_field_cstr(w, "method", method);
    json_key(w, STR("params"));
}

void rpc_begin_request(struct json_writer *w, uint64_t id, const char *method)
{
    begin_rpc_message(w);
    json_field_uint(w, "id", id);
    json_field_cstr(w, "method", method);
    json_key(w, STR("params"));
}

void rpc_begin_error(struct json_writer *w, const struct json *id, int code, struct str message)
{
    begin_rpc_message(w);
    if (id)
        json_field_tree(w, "id", id);
    json_field_begin_object(w, "error");
    json_field_int(w, "code", code);
    json_field_lossy(w, "message", message);
}

int rpc_write_error(struct buf *out, struct str id, int code, const char *message)
{
    const struct json_limits limits = { .bytes = 8 * RPC_ID_MAX, .depth = 1 };
    AUTO(arena_done) struct arena a = ARENA_INIT(64 << 10);
    const struct json *v = NULL;
    struct json_writer w;

    if (id.n && json_read(id, limits, &a, &v, NULL) < 0)
        v = NULL;
    json_writer_init(&w, out, JSON_COMPACT);
    rpc_begin_error(&w, v, code, str_from(message));
    json_end_object(&w);
    json_end_object(&w);
    return json_writer_finish(&w, NULL);
}
