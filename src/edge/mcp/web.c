/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/mcp/web.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "lib/crypto/encode.h"
#include "edge/mcp/web_internal.h"

/* A POST whose body is being received. */
struct web_post {
    struct mcp_web *web;
    struct mcp_who who;
    char peer[MCP_PEER_MAX];
    struct buf body;
};

static void post_free(struct web_post *p)
{
    if (p->who.user)
        p->who.free_user(p->who.user);
    buf_done(&p->body);
    free(p);
}

static struct str request_header(const struct http_exchange *x, const char *name)
{
    return h1_value(&http_request(x)->head, str_from(name));
}

/* --- refusals --- */

#define NO_SESSION "there is no such session; begin with initialize"
#define LESS                                                                                       \
    "this session began with more trust than this message has, which may only send requests; "     \
    "begin another session"
#define TOO_LARGE "the message is too large"

static void record_web_refusal(const struct mcp_web *w, void *user, int code, const char *reason)
{
    mcp_refused(w->server, user, &(struct mcp_refusal){ .code = code, .reason = reason });
}

static struct mcp_trust message_trust(const struct web_session *k, const void *user)
{
    const struct mcp_offer *o = k->web->server->offer;

    return o->trust ? o->trust(k->session, user) : (struct mcp_trust){ 0 };
}

static void respond_text(struct http_exchange *x, int status, struct str text)
{
    const struct h1_field fields[] = { { STR("Content-Type"), STR("application/json") },
                                       { STR("Cache-Control"), STR("no-store") },
                                       { STR("Allow"), STR("GET, POST, DELETE") } };
    struct err e;

    if (http_respond(x, status, fields, status == 405 ? 3 : text.n ? 2 : 0, text, &e) < 0)
        http_fail(x, 500, str_from(e.msg));
}

void web_refuse(struct http_exchange *x, int status, int code, struct str id, const char *message)
{
    AUTO(buf_done) struct buf text = BUF_INIT(WEB_ERROR_MAX);

    rpc_write_error(&text, id, code, message);
    respond_text(x, status, buf_str(&text));
}

static void refuse_message(struct http_exchange *x, int status, int code, const struct rpc_frame *f,
                           const char *message)
{
    AUTO(buf_done) struct buf id = BUF_INIT(WEB_ERROR_MAX);

    if (f->n == 1)
        rpc_write_id(&id, f->messages[0].id);
    web_refuse(x, status, code, buf_str(&id), message);
}

/* --- messages of a POST --- */

/* Compares the media type without its parameters. */
static bool is_json_media_type(struct str type)
{
    struct str media;

    str_cut(type, ';', &media);
    return h1_same(str_trim(media), STR("application/json"));
}

/* Whether Accept names the type; ignores parameters, also q=0. */
static bool accepts_media_type(const struct http_exchange *x, struct str type)
{
    const struct h1_head *h = &http_request(x)->head;

    for (size_t i = 0; i < h->n; i++) {
        struct str rest = h->fields[i].value, one, media;

        if (!h1_same(h->fields[i].name, STR("Accept")))
            continue;
        while (rest.p) {
            rest = str_cut(rest, ',', &one);
            str_cut(one, ';', &media);
            if (h1_same(str_trim(media), type) || str_eq(str_trim(media), STR("*/*")))
                return true;
        }
    }
    return false;
}

/* Handles the frame's messages; the stream is their out. */
static void handle_frame(struct web_stream *t, struct rpc_frame *f)
{
    struct mcp_session *s = mcp_session_ref(t->session);

    t->open = f->requests;
    t->batch = f->batch;
    for (size_t i = 0; i < f->n && !s->ended; i++)
        mcp_take(s, &t->out, f, i);
    mcp_session_unref(s);
}

/* --- the stateless revision --- */

/* Whether the header occurs once and equals `want`: proxies trust headers that mirror the body. */
static bool header_is(const struct http_exchange *x, const char *name, struct str want)
{
    const struct h1_head *h = &http_request(x)->head;
    struct str got = h1_value(h, str_from(name));
    AUTO(buf_done) struct buf plain = BUF_INIT(MCP_URI_MAX);

    if (h1_count(h, str_from(name)) != 1)
        return false;
    if (str_starts(got, STR("=?base64?")) && str_ends(got, STR("?=")) && got.n >= 11) {
        if (crypto_unbase64((struct str){ got.p + 9, got.n - 11 }, &plain, NULL) < 0)
            return false;
        got = buf_str(&plain);
    }
    return str_eq(got, want);
}

/* The required value of Mcp-Name; p == NULL: any. */
static struct str required_name(const struct rpc_message *m)
{
    static const struct {
        const char *method, *member;
    } names[] = {
        { "tools/call", "name" },  { "prompts/get", "name" },    { "resources/read", "uri" },
        { "tasks/get", "taskId" }, { "tasks/update", "taskId" }, { "tasks/cancel", "taskId" },
    };

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (str_eq(m->method, str_from(names[i].method)))
            return mcp_text(m->params, names[i].member);
    return (struct str){ NULL, 0 };
}

static const char *find_wrong_header(const struct http_exchange *x, const struct rpc_message *m)
{
    struct str version = mcp_meta_version(m), name = required_name(m);

    if (version.p && !header_is(x, "MCP-Protocol-Version", version))
        return "MCP-Protocol-Version must be present and equal the version in _meta";
    if (!header_is(x, "Mcp-Method", m->method))
        return "Mcp-Method must be present and equal the message's method";
    if (name.p && !header_is(x, "Mcp-Name", name))
        return "Mcp-Name must be present and equal the name or URI in the message";
    return NULL;
}

static void handle_stateless_post(struct web_post *p, struct http_exchange *x, struct rpc_frame *f)
{
    const struct rpc_message *m = &f->messages[0];
    const char *wrong = NULL;
    struct mcp_session *s;
    struct err e;

    if (f->batch || m->kind == RPC_RESPONSE) {
        refuse_message(x, 400, RPC_INVALID_REQUEST, f, "one request or notification at a time");
        return;
    }
    if (m->kind == RPC_NOTIFICATION) {
        respond_text(x, 202, STR("")); /* without a session it has no effect */
        return;
    }
    wrong = find_wrong_header(x, m);
    if (wrong) {
        refuse_message(x, 400, MCP_BAD_HEADER, f, wrong);
    } else if (!mcp_meta_version(m).p) {
        refuse_message(x, 400, RPC_INVALID_PARAMS, f,
                       "_meta: must have " MCP_META "protocolVersion");
    } else if (mcp_session_new(p->web->server, p->peer, take_ptr(p->who.user), p->who.free_user, &s,
                               &e) < 0) {
        refuse_message(x, 503, RPC_INTERNAL, f, e.msg);
    } else {
        s->stateless = true;
        handle_frame(web_stream_new(p->web, s, NULL, x), f);
    }
}

/* --- the revisions with sessions --- */

static bool is_initialize(const struct rpc_frame *f)
{
    return !f->batch && f->messages[0].kind == RPC_REQUEST &&
           str_eq(f->messages[0].method, STR("initialize"));
}

static void handle_initialize_post(struct web_post *p, struct http_exchange *x, struct rpc_frame *f)
{
    struct mcp_who who = p->who;
    struct web_session *k;
    struct mcp_session *s;
    struct err e;

    who.peer = p->peer;
    p->who.user = NULL; /* the session has it */
    if (web_session_new(p->web, who, &k, &e) < 0) {
        refuse_message(x, 503, RPC_INTERNAL, f, e.msg);
        return;
    }
    s = mcp_session_ref(k->session);
    handle_frame(web_stream_new(p->web, s, k, x), f);
    mcp_session_unref(s);
}

static void handle_session_post(struct web_post *p, struct http_exchange *x, struct rpc_frame *f)
{
    struct str version = request_header(x, "MCP-Protocol-Version");
    struct web_session *k = web_session_of(p->web, x, p->peer);
    struct mcp_trust trust = k ? message_trust(k, p->who.user) : (struct mcp_trust){ 0 };
    bool less = trust.less && f->requests < f->n; /* only requests are authorized one by one */

    if (is_initialize(f) && !k) {
        handle_initialize_post(p, x, f);
        return;
    }
    if (!k)
        record_web_refusal(p->web, p->who.user, WEB_NO_SESSION, NO_SESSION);
    else if (less)
        record_web_refusal(p->web, p->who.user, WEB_BAD_SESSION, LESS);
    if (!request_header(x, "Mcp-Session-Id").p)
        refuse_message(x, 400, WEB_BAD_SESSION, f, "Mcp-Session-Id: begin with initialize");
    else if (!k)
        refuse_message(x, 404, WEB_NO_SESSION, f, NO_SESSION);
    else if (less)
        refuse_message(x, 403, WEB_BAD_SESSION, f, LESS);
    else if (is_initialize(f))
        refuse_message(x, 400, RPC_INVALID_REQUEST, f, "this session is already initialized");
    else if (version.p && !mcp_version_of(version))
        refuse_message(x, 400, WEB_BAD_SESSION, f, "MCP-Protocol-Version: not supported");
    else if (f->batch && !mcp_has_batches(k->session->version))
        refuse_message(x, 400, RPC_INVALID_REQUEST, f, "this revision has no batches");
    else {
        web_session_touch(k);
        if (f->requests) {
            struct web_stream *t = web_stream_new(p->web, k->session, k, x);

            t->out.trust = trust;
            handle_frame(t, f);
        } else {
            respond_text(x, 202, STR(""));
            for (size_t i = 0; i < f->n && !k->session->ended; i++)
                mcp_take(k->session, k->session->back, f, i);
        }
    }
}

/* --- POST --- */

static void handle_post_body(struct web_post *p, struct http_exchange *x)
{
    AUTO(buf_done) struct buf id = BUF_INIT(WEB_ERROR_MAX);
    struct rpc_frame *f;
    enum rpc_code code;
    struct err e;

    if (rpc_read(buf_str(&p->body), p->web->max, &f, &code, &id, &e) < 0) {
        record_web_refusal(p->web, p->who.user, code, e.msg);
        web_refuse(x, 400, code, buf_str(&id), e.msg);
        post_free(p);
        return;
    }
    if (mcp_is_new(mcp_version_of(request_header(x, "MCP-Protocol-Version"))) ||
        (f->n && mcp_meta_version(&f->messages[0]).p))
        handle_stateless_post(p, x, f);
    else
        handle_session_post(p, x, f);
    rpc_frame_unref(f);
    post_free(p);
}

static void refuse_large(struct mcp_web *w, struct http_exchange *x, void *user)
{
    record_web_refusal(w, user, RPC_INVALID_REQUEST, TOO_LARGE);
    web_refuse(x, 413, RPC_INVALID_REQUEST, STR(""), TOO_LARGE);
}

/* Receives the body. It checks the size itself, because the refusal must be in the audit log. */
static void on_post_piece(struct http_exchange *x, struct str piece)
{
    struct web_post *p = http_state(x);
    struct err e;

    if (!piece.n) {
        handle_post_body(p, x);
    } else if (http_keep(x, piece.n, &e) < 0) {
        web_refuse(x, 503, WEB_BAD_SESSION, STR(""), e.msg);
        post_free(p);
    } else if (buf_add(&p->body, piece) < 0) {
        refuse_large(p->web, x, p->who.user);
        post_free(p);
    }
}

static void on_post_gone(struct http_exchange *x)
{
    post_free(http_state(x));
}

static void serve_post(struct mcp_web *w, struct http_exchange *x, struct mcp_who who)
{
    struct web_post *p;

    if (!is_json_media_type(request_header(x, "Content-Type")) ||
        !accepts_media_type(x, STR("application/json")) ||
        !accepts_media_type(x, STR("text/event-stream"))) {
        bool type = is_json_media_type(request_header(x, "Content-Type"));

        web_refuse(x, type ? 406 : 415, WEB_BAD_SESSION, STR(""),
                   type ? "Accept: must name application/json and text/event-stream"
                        : "Content-Type: must be application/json");
        who.free_user(who.user);
        return;
    }
    if (http_request(x)->head.length > w->max) {
        refuse_large(w, x, who.user);
        who.free_user(who.user);
        return;
    }
    p = new0(sizeof *p);
    p->web = w;
    p->who = who;
    snprintf(p->peer, sizeof p->peer, "%s", who.peer);
    http_set_state(x, p);
    http_on_gone(x, on_post_gone);
    buf_init(&p->body, w->max);
    http_stream(x, on_post_piece);
}

/* --- GET and DELETE --- */

/* Resumes a stream behind Last-Event-ID. False, without an answer, if the id is invalid. */
static bool resume_stream(struct web_session *k, struct http_exchange *x)
{
    struct str last = request_header(x, "Last-Event-ID");
    struct web_stream *t = NULL;
    uint64_t number, seq;

    if (!replay_id_read(last, &number, &seq) || number >= k->numbers)
        return false;
    LIST_EACH (struct web_stream, known, &k->streams, in_session)
        t = !t && known->number == number ? known : t;
    if (!t && !replay_answered(&k->replay, number)) {
        web_refuse(x, 410, WEB_BAD_SESSION, STR(""), "this stream can no longer be resumed");
        return true;
    }
    if (!t) {
        t = web_stream_new(k->web, k->session, k, NULL);
        k->numbers--;
        t->number = number;
    }
    if (t->pipe.x) /* the client reconnects before the old connection's end was seen */
        web_stream_detach(t);
    web_stream_resume(t, x, seq);
    return true;
}

static void open_session_stream(struct web_session *k, struct http_exchange *x)
{
    struct web_stream *t = k->back;

    if (!accepts_media_type(x, STR("text/event-stream"))) {
        web_refuse(x, 406, WEB_BAD_SESSION, STR(""), "Accept: must name text/event-stream");
        return;
    }
    web_session_touch(k);
    if (request_header(x, "Last-Event-ID").p && resume_stream(k, x))
        return;
    if (t->pipe.x)
        web_refuse(x, 409, WEB_BAD_SESSION, STR(""), "this session has a stream already");
    else
        web_stream_listen(t, x);
}

static void serve_session(struct mcp_web *w, struct http_exchange *x, const struct mcp_who *who)
{
    struct web_session *k = web_session_of(w, x, who->peer);
    enum h1_method method = http_request(x)->method;

    if (mcp_is_new(mcp_version_of(request_header(x, "MCP-Protocol-Version"))) ||
        (method != H1_GET && method != H1_DELETE))
        web_refuse(x, 405, WEB_BAD_SESSION, STR(""), "messages are sent with POST");
    else if (!request_header(x, "Mcp-Session-Id").p)
        web_refuse(x, 400, WEB_BAD_SESSION, STR(""), "Mcp-Session-Id: begin with initialize");
    else if (!k) {
        record_web_refusal(w, who->user, WEB_NO_SESSION, NO_SESSION);
        web_refuse(x, 404, WEB_NO_SESSION, STR(""), NO_SESSION);
    } else if (message_trust(k, who->user).less) {
        record_web_refusal(w, who->user, WEB_BAD_SESSION, LESS);
        web_refuse(x, 403, WEB_BAD_SESSION, STR(""), LESS);
    } else if (method == H1_GET)
        open_session_stream(k, x);
    else {
        k->session->deleted = true;
        web_session_end(k);
        respond_text(x, 204, STR(""));
    }
}

void mcp_web_serve(struct mcp_web *w, struct http_exchange *x, struct mcp_who who)
{
    if (http_request(x)->method == H1_POST) {
        serve_post(w, x, who);
        return;
    }
    serve_session(w, x, &who);
    who.free_user(who.user);
}

void mcp_web_close(struct mcp_web *w)
{
    for (struct link *l; (l = list_first(&w->streams));)
        web_stream_hang_up(container_of(l, struct web_stream, link));
}
