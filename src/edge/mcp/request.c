/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/mcp/request.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "edge/mcp/internal.h"

enum { ARENA_MAX = 16 << 20, VALUES_MAX = 64 << 10, NOTE_MAX = 1 << 20 };

/* --- life --- */

struct mcp_request *mcp_request_ref(struct mcp_request *r)
{
    r->refs++;
    return r;
}

struct mcp_owned_ {
    struct mcp_owned_ *older;
    void (*on_end)(void *state);
    max_align_t state[];
};

void *mcp_state(struct mcp_request *r, size_t size, void (*on_end)(void *state))
{
    struct mcp_owned_ *x = new0(sizeof *x + size);

    x->older = r->owned_;
    x->on_end = on_end;
    r->owned_ = x;
    r->state = x->state;
    return x->state;
}

static void on_request_free(struct loop_later *l)
{
    struct mcp_request *r = container_of(l, struct mcp_request, later);

    if (r->on_end)
        r->on_end(r);
    for (struct mcp_owned_ *x; (x = r->owned_);) {
        r->owned_ = x->older;
        if (x->on_end)
            x->on_end(x->state);
        free(x);
    }
    mcp_wishes_done(r);
    mcp_inputs_done(r);
    buf_done(&r->text);
    buf_done(&r->values);
    arena_done(&r->arena);
    rpc_frame_unref(r->frame);
    mcp_session_unref(r->session);
    free(r);
}

void mcp_request_unref(struct mcp_request *r)
{
    if (--r->refs == 0)
        loop_later(r->session->loop, &r->later, on_request_free, NULL);
}

/* Ends the request's part in its session and out, and drops the session's reference. */
static void detach_request(struct mcp_request *r)
{
    mcp_inputs_drop(r);
    loop_timer_stop(&r->long_after);
    link_leave(&r->in_out);
    link_leave(&r->in_session);
    r->out = NULL;
    mcp_session_release(r->session);
    mcp_request_unref(r);
}

void mcp_request_cancel(struct mcp_request *r)
{
    struct mcp_out *o = r->out;

    if (mcp_is_finished(r))
        return;
    r->cancelled = true;
    mcp_request_ref(r);
    detach_request(r);
    if (o)
        o->ops->answer(o, r->m->id, STR(""), 200);
    if (r->on_cancel)
        r->on_cancel(r);
    if (r->task)
        mcp_task_deliver(r);
    mcp_request_unref(r);
}

static struct mcp_request *new_mcp_request(struct mcp_session *s, struct mcp_out *o,
                                           struct rpc_frame *f, const struct rpc_message *m)
{
    struct mcp_request *r = new0(sizeof *r);

    r->refs = 1;
    r->session = mcp_session_ref(s);
    r->frame = rpc_frame_ref(f);
    r->m = m;
    r->out = o;
    r->trust = o->trust;
    r->can = s->can;
    r->level = s->level;
    r->meta = mcp_object(m->params, "_meta");
    buf_init(&r->text, MCP_MESSAGE_MAX);
    buf_init(&r->values, VALUES_MAX);
    arena_init(&r->arena, ARENA_MAX);
    list_append(&s->requests, &r->in_session);
    list_append(&o->requests, &r->in_out);
    mcp_session_hold(s);
    return r;
}

/* --- incoming messages --- */

struct str mcp_meta_version(const struct rpc_message *m)
{
    return mcp_text(mcp_object(m->params, "_meta"), MCP_META "protocolVersion");
}

/* The session's requests; with the same id only, if `id` is not NULL. */
static size_t count_requests(struct mcp_session *s, const struct json *id)
{
    size_t n = 0;

    LIST_EACH (const struct mcp_request, r, &s->requests, in_session)
        n += !id || rpc_same_id(r->m->id, id);
    return n;
}

/* True if the request must wait until its client is identified. Later requests wait behind it, to
 * keep their order. */
static bool must_wait_for_client(struct mcp_request *r)
{
    const struct json *info = mcp_object(r->m->params, "clientInfo");
    struct mcp_session *s = r->session;

    if (!s->offer->meet || s->met || s->approved)
        return false;
    if (s->meeting ? r->method->when == MCP_EARLY : !(r->method->when & MCP_KNOWN))
        return false;
    r->waits = true;
    if (!s->meeting) {
        s->meeting = true;
        s->offer->meet(s,
                       mcp_text(info ? info : mcp_object(r->meta, MCP_META "clientInfo"), "name"));
    }
    return true;
}

static void dispatch_request(struct mcp_request *r)
{
    struct mcp_session *s = r->session;

    r->method = mcp_method_find(r->m->method, r->version);
    if (count_requests(s, r->m->id) > 1)
        mcp_fail(r, RPC_INVALID_REQUEST, "id: another request with this id is under way");
    else if (count_requests(s, NULL) > MCP_REQUESTS_MAX)
        mcp_fail(r, RPC_INTERNAL, "%d requests of this session are under way; wait for some",
                 MCP_REQUESTS_MAX);
    else if (!r->method)
        mcp_fail(r, RPC_NO_METHOD, "there is no method '%.*s'", (int)r->m->method.n,
                 r->m->method.p);
    else if (s->meeting && must_wait_for_client(r))
        ; /* waits behind an earlier request */
    else if (!mcp_is_new(r->version) && s->version == MCP_NONE && !(r->method->when & MCP_EARLY))
        mcp_fail(r, RPC_INVALID_REQUEST, "initialize first");
    else if (!must_wait_for_client(r))
        r->method->handle(r);
}

struct mcp_request *mcp_request_waiting(struct mcp_session *s)
{
    LIST_EACH (struct mcp_request, r, &s->requests, in_session) {
        if (r->waits)
            return r;
    }
    return NULL;
}

void mcp_request_continue(struct mcp_request *r, int met, const struct err *e)
{
    mcp_request_ref(r);
    r->waits = false;
    if (!mcp_is_new(r->version))
        r->version = r->session->version; /* may have been negotiated meanwhile */
    if (met < 0)
        mcp_fail(r, RPC_INTERNAL, "no session could be created: %s", e->msg);
    else
        dispatch_request(r);
    if (!mcp_is_finished(r))
        mcp_inputs_request(r);
    mcp_request_unref(r);
}

static void receive_request(struct mcp_session *s, struct mcp_out *o, struct rpc_frame *f,
                            const struct rpc_message *m)
{
    struct mcp_request *r = new_mcp_request(s, o, f, m);
    const struct json *token = r->meta ? json_get(r->meta, STR("progressToken")) : NULL;

    r->version = s->version;
    if (token && (token->type == JSON_STR || token->type == JSON_INT))
        r->token = token;
    mcp_request_ref(r);
    if (mcp_read_meta(r) >= 0)
        dispatch_request(r);
    if (!mcp_is_finished(r))
        mcp_inputs_request(r);
    mcp_request_unref(r);
}

void mcp_take(struct mcp_session *s, struct mcp_out *o, struct rpc_frame *f, size_t i)
{
    const struct rpc_message *m = &f->messages[i];

    if (m->kind == RPC_REQUEST)
        receive_request(s, o, f, m);
    else if (m->kind == RPC_NOTIFICATION)
        mcp_notified(s, m);
    else
        mcp_answered(s, m);
}

/* --- answers --- */

static void start_text(struct mcp_request *r)
{
    buf_clear(&r->text);
    r->result_at = 0;
    json_writer_init(&r->w, &r->text, JSON_COMPACT);
}

struct json_writer *mcp_result(struct mcp_request *r)
{
    start_text(r);
    rpc_begin_result(&r->w, r->m->id);
    r->result_at = r->text.n;
    json_begin_object(&r->w);
    if (mcp_is_new(r->version))
        mcp_write_str(&r->w, "resultType", "complete");
    return &r->w;
}

struct json_writer *mcp_result_for(struct mcp_request *r, int64_t ttl_ms)
{
    struct json_writer *w = mcp_result(r);

    if (mcp_is_new(r->version)) {
        json_field_int(w, "ttlMs", ttl_ms);
        mcp_write_str(w, "cacheScope", ttl_ms ? "public" : "private");
    }
    return w;
}

void mcp_deliver(struct mcp_request *r, int status)
{
    struct mcp_out *o = r->out;

    if (mcp_is_finished(r))
        return;
    r->answered = true;
    mcp_request_ref(r);
    detach_request(r);
    if (r->task)
        mcp_task_deliver(r);
    else if (o)
        o->ops->answer(o, r->m->id, buf_str(&r->text), status);
    mcp_request_unref(r);
}

/* A member that is an object with the id of the request's audit record, if it has one. */
static void write_audit(struct mcp_request *r, const char *key, const char *name)
{
    if (!r->audit_id[0])
        return;
    json_field_begin_object(&r->w, key);
    mcp_write_str(&r->w, name, r->audit_id);
    json_end_object(&r->w);
}

void mcp_reply(struct mcp_request *r)
{
    struct err e;

    write_audit(r, "_meta", MCP_AUDIT_ID);
    json_end_object(&r->w);
    json_end_object(&r->w);
    if (json_writer_finish(&r->w, &e) < 0)
        mcp_fail(r, RPC_INTERNAL, "the answer cannot be written: %s", e.msg);
    else
        mcp_deliver(r, 200);
}

/* The HTTP status of an error; 200 except in the stateless revision, which defines others. */
static int error_http_status(const struct mcp_request *r, int code)
{
    if (!mcp_is_new(r->version))
        return 200;
    switch (code) {
    case RPC_NO_METHOD:
        return 404;
    case RPC_INVALID_REQUEST:
    case MCP_BAD_HEADER:
    case MCP_NO_CAPABILITY:
    case MCP_BAD_VERSION:
        return 400;
    default:
        return r->method ? 200 : 400;
    }
}

/* Writes an audit record, except for errors that clients provoke to probe the server's features. */
static void record_request_refusal(struct mcp_request *r, int code, const char *message)
{
    struct mcp_refusal x = { .tool = str_from(mcp_param_name(r)), .code = code, .reason = message };

    if (r->judged || r->session->ended || code == RPC_NO_METHOD || code == MCP_BAD_VERSION ||
        code == MCP_NO_CAPABILITY)
        return;
    r->judged = true;
    mcp_refused(r->session->server, r->session->user, &x);
    memcpy(r->audit_id, x.audit_id, sizeof r->audit_id);
}

void mcp_fail_with(struct mcp_request *r, int code, const char *message, mcp_write_fn *data,
                   const void *what)
{
    if (mcp_is_finished(r))
        return;
    record_request_refusal(r, code, message);
    start_text(r);
    rpc_begin_error(&r->w, r->m->id, code, str_from(message));
    if (data) {
        json_key(&r->w, STR("data"));
        data(&r->w, what);
    } else {
        write_audit(r, "data", "audit_id");
    }
    json_end_object(&r->w);
    json_end_object(&r->w);
    json_writer_finish(&r->w, NULL);
    mcp_deliver(r, error_http_status(r, code));
}

void mcp_fail(struct mcp_request *r, int code, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    mcp_fail_with(r, code, text, NULL, NULL);
}

/* --- of a tool --- */

static void write_text_content(struct json_writer *w, struct str text)
{
    json_field_begin_array(w, "content");
    json_begin_object(w);
    mcp_write_str(w, "type", "text");
    json_field_lossy(w, "text", text);
    json_end_object(w);
    json_end_array(w);
}

void mcp_tool_reply(struct mcp_request *r, mcp_write_fn *structured, const void *what)
{
    AUTO(buf_done) struct buf text = BUF_INIT(MCP_RESULT_MAX);
    struct json_writer *w, own;
    struct err e;

    if (mcp_is_finished(r))
        return;
    json_writer_init(&own, &text, JSON_COMPACT);
    structured(&own, what);
    if (json_writer_finish(&own, &e) < 0) {
        mcp_tool_fail(r, "The result cannot be sent: %s. Request less at once.", e.msg);
        return;
    }
    w = mcp_result(r);
    write_text_content(w, buf_str(&text));
    json_field_written(w, "structuredContent", buf_str(&text));
    mcp_reply(r);
}

void mcp_tool_fail(struct mcp_request *r, const char *fmt, ...)
{
    struct json_writer *w;
    char text[1024];
    va_list ap;

    if (mcp_is_finished(r))
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    record_request_refusal(r, 0, text);
    w = mcp_result(r);
    write_text_content(w, str_from(text));
    json_field_bool(w, "isError", true);
    mcp_reply(r);
}

/* --- before the answer --- */

int mcp_send(struct mcp_request *r, struct str text)
{
    return r->out ? r->out->ops->send(r->out, text) : 0;
}

int mcp_progress(struct mcp_request *r, uint64_t progress, uint64_t total, struct str message,
                 mcp_write_fn *meta, const void *what)
{
    AUTO(buf_done) struct buf text = BUF_INIT(NOTE_MAX);
    struct json_writer w;

    if (!r->token || mcp_is_finished(r) || !r->out)
        return 0;
    json_writer_init(&w, &text, JSON_COMPACT);
    rpc_begin_notification(&w, "notifications/progress");
    json_begin_object(&w);
    json_field_tree(&w, "progressToken", r->token);
    json_field_uint(&w, "progress", progress);
    if (total)
        json_field_uint(&w, "total", total);
    if (message.n)
        json_field_lossy(&w, "message", message);
    if (meta) {
        json_key(&w, STR("_meta"));
        meta(&w, what);
    }
    json_end_object(&w);
    json_end_object(&w);
    return json_writer_finish(&w, NULL) < 0 ? 0 : mcp_send(r, buf_str(&text));
}

/* A log notification as text; empty if it is too large. */
static struct str write_log_notice(struct buf *text, enum mcp_level level, const char *logger,
                                   mcp_write_fn *data, const void *what)
{
    struct json_writer w;

    json_writer_init(&w, text, JSON_COMPACT);
    rpc_begin_notification(&w, "notifications/message");
    json_begin_object(&w);
    mcp_write_str(&w, "level", mcp_level_names[level]);
    mcp_write_str(&w, "logger", logger);
    json_key(&w, STR("data"));
    data(&w, what);
    json_end_object(&w);
    json_end_object(&w);
    return json_writer_finish(&w, NULL) < 0 ? STR("") : buf_str(text);
}

static void write_data(struct json_writer *w, const void *data)
{
    json_put_lossy(w, *(const struct str *)data);
}

void mcp_log(struct mcp_request *r, enum mcp_level level, const char *logger, struct str data)
{
    AUTO(buf_done) struct buf text = BUF_INIT(NOTE_MAX);

    if (level >= r->level && !mcp_is_finished(r) &&
        write_log_notice(&text, level, logger, write_data, &data).n)
        mcp_send(r, buf_str(&text));
}

void mcp_session_log(struct mcp_session *s, enum mcp_level level, const char *logger,
                     mcp_write_fn *data, const void *what)
{
    AUTO(buf_done) struct buf text = BUF_INIT(4 * NOTE_MAX);

    if (s->back && level >= s->level && write_log_notice(&text, level, logger, data, what).n)
        s->back->ops->send(s->back, buf_str(&text));
}
