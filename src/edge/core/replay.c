/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/replay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "edge/core/guard.h"
#include "base/fault_point.h"
#include "base/own.h"
#include "control/owner/tokens.h"
#include "lib/crypto/encode.h"
#include "lib/crypto/random.h"
#include "lib/crypto/secret.h"
#include "lib/http/body.h"
#include "lib/json/reader.h"
#include "lib/loop/fd.h"

#define TICKET_FIELD "Sandboxer-Approved"

enum {
    OUT_MAX = APPROVAL_ARGS_MAX + (64 << 10),
    IN_MAX = 2 * APPROVAL_RESULT_MAX, /* the rest is read and dropped */
    PIECE = 64 << 10,
    ANSWER_DEPTH = 64,
};

struct replay {
    struct api *api;
    struct trust_call *call;
    struct peer *peer;            /* referenced */
    char ticket[CRYPTO_TEXT_MAX]; /* empty: used */
    int fd;
    struct loop_fd io;
    struct buf out, in;
    struct link link;
};

static void replay_free(struct replay *r)
{
    link_leave(&r->link);
    loop_fd_stop(&r->io);
    drop_fd(&r->fd);
    buf_done(&r->out);
    buf_done(&r->in);
    crypto_wipe(r->ticket, sizeof r->ticket);
    peer_unref(r->peer);
    free(r);
}

/* --- approved calls --- */

void approved_fail(struct trust_call *c, const char *why)
{
    AUTO(buf_done) struct buf text = BUF_INIT(16 << 10);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_object(&w);
    json_field_text(&w, "error", why);
    json_end_object(&w);
    if (json_writer_finish(&w, NULL) < 0)
        trust_call_done(c, true, STR("{\"error\":\"its result cannot be encoded as JSON\"}"));
    else
        trust_call_done(c, true, buf_str(&text));
}

bool approved_caller(struct api *a, const struct trust_call *c, struct caller *ret)
{
    const struct token_record *t;

    *ret = *c->caller;
    ret->labels = (struct json_map){ NULL, 0 }; /* the peer's labels are added later */
    if (!str_starts(str_from(ret->actor.id), STR("tok_")))
        return true;
    t = tokens_by_id(a->tokens, str_from(ret->actor.id));
    if (!t)
        return false;
    ret->verbs &= t->verbs;
    ret->egress = t->egress;
    ret->labels = t->labels;
    ret->by_token = true;
    snprintf(ret->family, sizeof ret->family, "%s", t->family);
    ret->role = t->role;
    ret->expires_ns = t->expires_ns;
    return true;
}

/* --- ends of replays --- */

static void fail_replay(struct replay *r, const char *why)
{
    approved_fail(r->call, why);
    replay_free(r);
}

void replays_close(struct api *a)
{
    for (struct link *m; (m = list_first(&a->replays));)
        fail_replay(container_of(m, struct replay, link),
                    "the daemon stopped while the call ran: it may have had an effect");
}

/* --- the answer --- */

static int read_replay_body(const struct h1_head *h, struct str in, struct buf *out, struct err *e)
{
    struct body b;
    struct str data;
    int r;

    body_start(&b, h->framing, h->length);
    while ((r = body_next(&b, &in, &data, e)) == BODY_DATA)
        if (buf_add(out, data) < 0)
            return err_set(e, ERR_TOO_BIG,
                           "its answer is longer than %d bytes, so it was not stored",
                           APPROVAL_RESULT_MAX);
    return r < 0 ? r : body_finish(&b, e);
}

/* Wraps a non-JSON body as {content, encoding}. */
static int wrap_body_as_json(struct str body, struct buf *out, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(2 * IN_MAX);
    struct json_writer w;

    crypto_base64(body, &text);
    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    if (body.n) {
        json_field_str(&w, "content", buf_str(&text));
        json_field_cstr(&w, "encoding", "base64");
    }
    json_end_object(&w);
    return json_writer_finish(&w, e);
}

static bool parses_as_json(struct str text)
{
    const struct json_limits limits = { .bytes = IN_MAX, .depth = ANSWER_DEPTH };
    AUTO(arena_done) struct arena a = ARENA_INIT((size_t)8 * IN_MAX);
    const struct json *v;

    return json_read(text, limits, &a, &v, NULL) >= 0;
}

/* Parses the final head; skips interim responses. */
static int read_replay_head(struct str *in, struct h1_response *ret, struct err *e)
{
    int n;

    do {
        struct h1_scan scan = { 0 };

        n = h1_parse_response(&scan, *in, &H1_LIMITS, H1_POST, ret, e);
        if (n == 0)
            return err_set(e, ERR_UPSTREAM, "the request ended without an answer");
        if (n < 0)
            return n;
        *in = (struct str){ in->p + n, in->n - (size_t)n };
    } while (ret->status < 200);
    return 0;
}

static void finish_replay(struct replay *r)
{
    AUTO(buf_done) struct buf body = BUF_INIT(IN_MAX), text = BUF_INIT(APPROVAL_RESULT_MAX);
    struct str in = buf_str(&r->in);
    struct h1_response head;
    struct err e;
    int err = read_replay_head(&in, &head, &e);

    if (err >= 0)
        err = read_replay_body(&head.head, in, &body, &e);
    if (err >= 0 && body.n && parses_as_json(buf_str(&body)))
        err = buf_add(&text, buf_str(&body)) < 0
                  ? err_set(&e, ERR_TOO_BIG,
                            "its answer is longer than %d bytes, so it was not stored",
                            APPROVAL_RESULT_MAX)
                  : 0;
    else if (err >= 0)
        err = wrap_body_as_json(buf_str(&body), &text, &e);
    if (err < 0) {
        fail_replay(r, e.msg);
        return;
    }
    trust_call_done(r->call, head.status >= 400, buf_str(&text));
    replay_free(r);
}

/* --- the connection --- */

static void send_replay_bytes(struct replay *r)
{
    ssize_t n = send(r->fd, r->out.p, r->out.n, MSG_NOSIGNAL);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    /* A peer that closed it early may still answer. */
    buf_drop(&r->out, n < 0 ? r->out.n : (size_t)n);
    if (!r->out.n)
        (void)loop_fd_want(&r->io, LOOP_READ, NULL);
}

static void on_replay_io(struct loop_fd *s, unsigned events)
{
    static char room[PIECE];
    struct replay *r = container_of(s, struct replay, io);
    ssize_t n;

    if ((events & LOOP_WRITE) && r->out.n)
        send_replay_bytes(r);
    if (!(events & (LOOP_READ | LOOP_HUP | LOOP_ERROR)))
        return;
    n = read(r->fd, room, sizeof room);
    if (n > 0) /* an overflow shows as a truncated body */
        (void)buf_add(&r->in, (struct str){ room, (size_t)n });
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        finish_replay(r);
}

/* --- the request --- */

/* The request line and the stored headers. */
struct held_request {
    struct str line, fields;
    const struct route *route;
};

static int read_held_request(const struct dialect_set *set, struct str text, struct arena *a,
                             struct held_request *ret, struct err *e)
{
    struct dialect_match found;
    struct h1_request head = { .head.n = 0 };
    struct str method, target;
    int r;

    ret->fields = str_cut(text, '\n', &ret->line);
    target = str_cut(ret->line, ' ', &method);
    head.method = h1_method_of(method);
    r = dialect_match(set,
                      &(struct dialect_request){ .head = &head, .path = url_split(target).path }, a,
                      &found, e);
    if (r < 0)
        return r;
    ret->route = found.route;
    return ret->route && ret->route != found.dialect->unknown
               ? 0
               : err_set(e, ERR_INVALID,
                         "this version of the daemon has no route for its path '%.80s'",
                         target.n ? target.p : "");
}

/* Writes the original body: the content of a streamed one, the text, or the body's own members of a
 * JSON object. */
static int write_replay_body(const struct held_request *k, const struct json *args, struct buf *out,
                             struct err *e)
{
    const struct json *content = json_get(args, STR("content"));
    struct json_writer w;

    if (k->route->flags & ROUTE_STREAM)
        return content && content->type == JSON_STR
                   ? crypto_unbase64(content->s, out, e)
                   : err_set(e, ERR_INVALID, "the body of the request was not stored");
    if (k->route->flags & ROUTE_TEXT) {
        const struct json *text = json_get(args, STR(GUARD_TEXT));

        return !text || text->type != JSON_STR ? 0
               : buf_add(out, text->s) < 0
                   ? err_set(e, ERR_TOO_BIG,
                             "the request is longer than %d bytes, so it cannot be replayed",
                             APPROVAL_ARGS_MAX)
                   : 0;
    }
    if (!(k->route->flags & ROUTE_JSON))
        return 0;
    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    for (const struct json *m = json_first(args); m != json_end(args); m++)
        if (!guard_adds(k->route, m->key)) {
            json_key(&w, m->key);
            json_put_tree(&w, m);
        }
    json_end_object(&w);
    return json_writer_finish(&w, e);
}

static int write_replay_request(struct replay *r, struct err *e)
{
    AUTO(buf_done) struct buf body = BUF_INIT(APPROVAL_ARGS_MAX);
    AUTO(arena_done) struct arena a = ARENA_INIT(4 * APPROVAL_REQUEST_MAX);
    struct held_request k;
    int err = read_held_request(&r->api->dialects, r->call->request, &a, &k, e);

    if (err >= 0)
        err = write_replay_body(&k, r->call->args, &body, e);
    if (err >= 0)
        err = crypto_random_text("", CRYPTO_HEX, r->ticket, e);
    if (err < 0)
        return err;
    buf_addf(&r->out, STR_FMT " HTTP/1.1\r\n" STR_FMT "%s", STR_ARG(k.line), STR_ARG(k.fields),
             k.fields.n ? "\r\n" : "");
    buf_addf(&r->out,
             "Host: localhost\r\nConnection: close\r\nAccept: application/json\r\n" TICKET_FIELD
             ": %s\r\nContent-Length: %zu\r\n\r\n",
             r->ticket, body.n);
    return buf_add(&r->out, buf_str(&body)) < 0
               ? err_set(e, ERR_TOO_BIG,
                         "the request is longer than %d bytes, so it cannot be replayed",
                         APPROVAL_ARGS_MAX)
               : 0;
}

static int begin_replay(struct replay *r, struct err *e)
{
    int pair[2], err = write_replay_request(r, e);

    if (err < 0)
        return err;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return err_sys(e, "socketpair");
    r->fd = pair[0];
    err = http_server_adopt(r->api->server, pair[1], e);
    if (err < 0)
        return err;
    return loop_fd_start(r->api->loop, &r->io, r->fd, LOOP_READ | LOOP_WRITE, on_replay_io, e);
}

void replay_run(struct api *a, struct trust_call *c, struct peer *p)
{
    struct replay *r = new0(sizeof *r);
    struct err e;

    *r = (struct replay){ .api = a, .call = c, .peer = peer_ref(p), .fd = -1 };
    buf_init(&r->out, OUT_MAX);
    buf_init(&r->in, IN_MAX);
    list_append(&a->replays, &r->link);
    if (begin_replay(r, &e) < 0)
        fail_replay(r, e.msg);
    else
        fault_point("replay.begun");
}

enum replay_answer replay_identify(struct call *c)
{
    const struct http_peer *at = http_peer(c->x);
    struct str ticket = call_header(c, TICKET_FIELD);
    struct replay *r = NULL;
    struct caller who;

    if (!ticket.p || !at->is_unix || at->cred.pid != getpid())
        return REPLAY_NONE;
    LIST_EACH (struct replay, x, &c->api->replays, link)
        if (!r && x->ticket[0] && crypto_equal(str_from(x->ticket), ticket))
            r = x;
    if (r)
        r->ticket[0] = 0;
    if (!r || r->peer->record.ended_ns || !approved_caller(c->api, r->call, &who)) {
        call_fail_with(c, 401, "unauthenticated",
                       "the requester is no longer known: its token or session has ended");
        return REPLAY_REFUSED;
    }
    c->approved = true;
    snprintf(c->approved_for, sizeof c->approved_for, "%s", r->peer->record.id);
    c->caller = who;
    if (!json_map_copy(&c->caller.labels, &c->own))
        abort(); /* labels are limited in number and length */
    caller_narrow(&c->caller, r->peer, &c->own);
    return REPLAY_KNOWN;
}

/* --- holding --- */

bool replay_hold_body(struct call *c, struct json ret[static 2])
{
    AUTO(buf_done) struct buf text = BUF_INIT(2 * REPLAY_BODY_MAX);
    const char *content;

    if (c->body.n > REPLAY_BODY_MAX)
        return false;
    crypto_base64(c->body, &text);
    content = arena_dup(&c->arena, buf_str(&text));
    if (!content)
        return false;
    ret[0] = (struct json){ .type = JSON_STR, .key = STR("content"), .s = { content, text.n } };
    ret[1] = (struct json){ .type = JSON_STR, .key = STR("encoding"), .s = STR("base64") };
    return true;
}
