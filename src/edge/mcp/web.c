#include "mcp/web.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "crypto/encode.h"
#include "mcp/web_inside.h"

/* A POST until its body is there. */
struct post {
    struct mcp_web *web;
    struct mcp_who who;
    char peer[MCP_PEER_MAX];
    struct buf body;
};

static void post_free(struct post *p)
{
    if (p->who.user)
        p->who.free_user(p->who.user);
    buf_done(&p->body);
    free(p);
}

static struct mcp_who take_who(struct post *p)
{
    struct mcp_who who = p->who;

    p->who.user = NULL;
    return who;
}

static struct str header(const struct http_exchange *x, const char *name)
{
    return h1_value(&http_request(x)->head, str_from(name));
}

/* --- refusals --- */

#define NO_SESSION "there is no such session; begin with initialize"
#define LESS                                                                                       \
    "this session was begun with more trust than you have now, which is good for requests alone; " \
    "begin another"
#define TOO_LARGE "the message is too large"

static void put_on_record(const struct mcp_web *w, void *user, int code, const char *reason)
{
    struct mcp_refusal x = { .code = code, .reason = reason };

    mcp_refused(w->server, user, &x);
}

static struct mcp_trust trust_in(const struct web_session *k, const void *user)
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
    struct json_writer w;

    if (f->n == 1 && f->messages[0].id) {
        json_writer_init(&w, &id, JSON_COMPACT);
        json_put_tree(&w, f->messages[0].id);
        json_writer_finish(&w, NULL);
    }
    web_refuse(x, status, code, buf_str(&id), message);
}

/* --- what a POST is --- */

/* The media type without its parameters. */
static bool is_json(struct str type)
{
    struct str media;

    str_cut(type, ';', &media);
    return h1_same(str_trim(media), STR("application/json"));
}

/* Accept names it, whatever stands behind its semicolon. */
static bool accepts(const struct http_exchange *x, struct str type)
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

/* Runs the messages: the stream hears of them. */
static void run(struct web_stream *t, struct rpc_frame *f)
{
    struct mcp_session *s = mcp_session_ref(t->session);

    t->open = f->requests;
    t->batch = f->batch;
    for (size_t i = 0; i < f->n && !s->ended; i++)
        mcp_take(s, &t->out, f, i);
    mcp_session_unref(s);
}

/* --- the stateless revision --- */

/* What a header says of the body must be so: those on the way believe it. */
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

/* What Mcp-Name has to be; p == NULL: nothing. */
static struct str name_of(const struct rpc_message *m)
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

static const char *header_wrong(const struct http_exchange *x, const struct rpc_message *m)
{
    struct str version = mcp_meta_version(m), name = name_of(m);

    if (version.p && !header_is(x, "MCP-Protocol-Version", version))
        return "MCP-Protocol-Version must be there and equal the message's _meta";
    if (!header_is(x, "Mcp-Method", m->method))
        return "Mcp-Method must be there and equal the message's method";
    if (name.p && !header_is(x, "Mcp-Name", name))
        return "Mcp-Name must be there and equal what the message names";
    return NULL;
}

static void take_new(struct post *p, struct http_exchange *x, struct rpc_frame *f)
{
    const struct rpc_message *m = &f->messages[0];
    struct mcp_session *s;
    struct web_stream *t;
    const char *wrong;
    struct err e;

    if (f->batch || m->kind == RPC_RESPONSE) {
        refuse_message(x, 400, RPC_INVALID_REQUEST, f, "one request or notification at a time");
        return;
    }
    if (m->kind == RPC_NOTIFICATION) {
        respond_text(x, 202, STR("")); /* of what, nobody could know without a session */
        return;
    }
    wrong = header_wrong(x, m);
    if (wrong) {
        refuse_message(x, 400, MCP_BAD_HEADER, f, wrong);
        return;
    }
    if (!mcp_meta_version(m).p) {
        refuse_message(x, 400, RPC_INVALID_PARAMS, f,
                       "_meta: must have " MCP_META "protocolVersion");
        return;
    }
    if (mcp_session_new(p->web->server, p->peer, p->who.user, p->who.free_user, &s, &e) < 0) {
        p->who.user = NULL;
        refuse_message(x, 503, RPC_INTERNAL, f, e.msg);
        return;
    }
    take_who(p);
    s->stateless = true;
    t = web_stream_new(p->web, s, NULL, x);
    run(t, f);
}

/* --- the revisions with sessions --- */

static bool is_initialize(const struct rpc_frame *f)
{
    return !f->batch && f->messages[0].kind == RPC_REQUEST &&
           str_eq(f->messages[0].method, STR("initialize"));
}

static void take_initialize(struct post *p, struct http_exchange *x, struct rpc_frame *f)
{
    struct web_session *k;
    struct mcp_session *s;
    struct mcp_who who = take_who(p);
    struct err e;

    who.peer = p->peer;
    if (web_session_new(p->web, who, &k, &e) < 0) {
        refuse_message(x, 503, RPC_INTERNAL, f, e.msg);
        return;
    }
    s = mcp_session_ref(k->session);
    run(web_stream_new(p->web, s, k, x), f);
    mcp_session_unref(s);
}

static void take_old(struct post *p, struct http_exchange *x, struct rpc_frame *f)
{
    struct str version = header(x, "MCP-Protocol-Version");
    struct web_session *k = web_session_of(p->web, x, p->peer);
    struct mcp_trust trust = k ? trust_in(k, p->who.user) : (struct mcp_trust){ 0 };
    bool less = trust.less && f->requests < f->n; /* the others are judged by nobody */

    if (is_initialize(f) && !k) {
        take_initialize(p, x, f);
        return;
    }
    if (!k)
        put_on_record(p->web, p->who.user, WEB_NO_SESSION, NO_SESSION);
    else if (less)
        put_on_record(p->web, p->who.user, WEB_BAD_SESSION, LESS);
    if (!header(x, "Mcp-Session-Id").p)
        refuse_message(x, 400, WEB_BAD_SESSION, f, "Mcp-Session-Id: begin with initialize");
    else if (!k)
        refuse_message(x, 404, WEB_NO_SESSION, f, NO_SESSION);
    else if (less)
        refuse_message(x, 403, WEB_BAD_SESSION, f, LESS);
    else if (is_initialize(f))
        refuse_message(x, 400, RPC_INVALID_REQUEST, f, "this session is initialized");
    else if (version.p && !mcp_version_of(version))
        refuse_message(x, 400, WEB_BAD_SESSION, f, "MCP-Protocol-Version: not spoken here");
    else if (f->batch && !mcp_has_batches(k->session->version))
        refuse_message(x, 400, RPC_INVALID_REQUEST, f, "this revision has no batches");
    else {
        web_session_touch(k);
        if (f->requests) {
            struct web_stream *t = web_stream_new(p->web, k->session, k, x);

            t->out.trust = trust;
            run(t, f);
        } else {
            respond_text(x, 202, STR(""));
            for (size_t i = 0; i < f->n && !k->session->ended; i++)
                mcp_take(k->session, k->session->back, f, i);
        }
    }
}

/* --- POST --- */

static bool is_new(const struct http_exchange *x, const struct rpc_frame *f)
{
    enum mcp_version said = mcp_version_of(header(x, "MCP-Protocol-Version"));

    return mcp_is_new(said) || (f->n && mcp_meta_version(&f->messages[0]).p);
}

static void take_body(struct post *p, struct http_exchange *x)
{
    AUTO(buf_done) struct buf id = BUF_INIT(WEB_ERROR_MAX);
    struct rpc_frame *f;
    enum rpc_code code;
    struct err e;

    if (rpc_read(buf_str(&p->body), p->web->max, &f, &code, &id, &e) < 0) {
        put_on_record(p->web, p->who.user, code, e.msg);
        web_refuse(x, 400, code, buf_str(&id), e.msg);
        post_free(p);
        return;
    }
    if (is_new(x, f))
        take_new(p, x, f);
    else
        take_old(p, x, f);
    rpc_frame_unref(f);
    post_free(p);
}

static void refuse_large(struct mcp_web *w, struct http_exchange *x, void *user)
{
    put_on_record(w, user, RPC_INVALID_REQUEST, TOO_LARGE);
    web_refuse(x, 413, RPC_INVALID_REQUEST, STR(""), TOO_LARGE);
}

/* Whatever its head said of its length, nobody else says no to it: that must be on record. */
static void piece_came(struct http_exchange *x, struct str piece)
{
    struct post *p = http_state(x);
    struct err e;

    if (!piece.n) {
        take_body(p, x);
    } else if (http_keep(x, piece.n, &e) < 0) {
        web_refuse(x, 503, WEB_BAD_SESSION, STR(""), e.msg);
        post_free(p);
    } else if (buf_add(&p->body, piece) < 0) {
        refuse_large(p->web, x, p->who.user);
        post_free(p);
    }
}

static void post_gone(struct http_exchange *x)
{
    post_free(http_state(x));
}

static void serve_post(struct mcp_web *w, struct http_exchange *x, struct mcp_who who)
{
    struct post *p;

    if (!is_json(header(x, "Content-Type")) || !accepts(x, STR("application/json")) ||
        !accepts(x, STR("text/event-stream"))) {
        bool type = is_json(header(x, "Content-Type"));

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
    p = calloc(1, sizeof *p);
    if (!p)
        abort();
    p->web = w;
    p->who = who;
    snprintf(p->peer, sizeof p->peer, "%s", who.peer);
    http_set_state(x, p);
    http_on_gone(x, post_gone);
    buf_init(&p->body, w->max);
    http_stream(x, piece_came);
}

/* --- GET and DELETE --- */

static struct web_stream *stream_of(struct web_session *k, uint64_t number)
{
    for (struct link *l = list_first(&k->streams); l; l = list_after(&k->streams, l)) {
        struct web_stream *t = container_of(l, struct web_stream, in_session);

        if (t->number == number)
            return t;
    }
    return NULL;
}

/* Goes on where the client lost a stream. False: it is none of ours. */
static bool resume(struct web_session *k, struct http_exchange *x)
{
    struct str last = header(x, "Last-Event-ID");
    struct web_stream *t;
    uint64_t number, seq;

    if (!replay_id_read(last, &number, &seq) || number >= k->numbers)
        return false;
    t = stream_of(k, number);
    if (!t && !replay_answered(&k->replay, number)) {
        web_refuse(x, 410, WEB_BAD_SESSION, STR(""), "nothing is kept of this stream any more");
        return true;
    }
    if (!t) {
        t = web_stream_new(k->web, k->session, k, NULL);
        k->numbers--;
        t->number = number;
    }
    if (t->pipe.x) /* it has come back before we knew that it was gone */
        web_stream_detach(t);
    web_stream_resume(t, x, seq);
    return true;
}

static void listen_to(struct web_session *k, struct http_exchange *x)
{
    struct web_stream *t = k->back;

    if (!accepts(x, STR("text/event-stream"))) {
        web_refuse(x, 406, WEB_BAD_SESSION, STR(""), "Accept: must name text/event-stream");
        return;
    }
    web_session_touch(k);
    if (header(x, "Last-Event-ID").p && resume(k, x))
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

    if (mcp_is_new(mcp_version_of(header(x, "MCP-Protocol-Version"))) ||
        (method != H1_GET && method != H1_DELETE))
        web_refuse(x, 405, WEB_BAD_SESSION, STR(""), "messages are sent with POST");
    else if (!header(x, "Mcp-Session-Id").p)
        web_refuse(x, 400, WEB_BAD_SESSION, STR(""), "Mcp-Session-Id: begin with initialize");
    else if (!k) {
        put_on_record(w, who->user, WEB_NO_SESSION, NO_SESSION);
        web_refuse(x, 404, WEB_NO_SESSION, STR(""), NO_SESSION);
    } else if (trust_in(k, who->user).less) {
        put_on_record(w, who->user, WEB_BAD_SESSION, LESS);
        web_refuse(x, 403, WEB_BAD_SESSION, STR(""), LESS);
    } else if (method == H1_GET)
        listen_to(k, x);
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
    for (struct link *l; (l = list_first(&w->streams));) {
        struct web_stream *t = container_of(l, struct web_stream, link);

        web_stream_hang_up(t);
    }
}
