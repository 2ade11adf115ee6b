/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/port_proxy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "edge/core/sandbox_token.h"
#include "edge/core/internal.h"
#include "edge/core/preview_fields.h"
#include "edge/core/pump.h"
#include "base/own.h"
#include "control/sandbox/dial.h"
#include "lib/http/body.h"

enum {
    UP_MAX = 1 << 20,
    UP_ENOUGH = 64 << 10, /* above this the client's body is paused */
    DOWN_MAX = H1_HEAD_MAX + PUMP_CHUNK,
    INTERIM_MAX = 16,
    MARK_DIGITS = 16,
};

struct proxy {
    struct pump pump; /* used after an upgrade; before, it only holds the socket */
    struct call *call;
    struct dial_op dial;
    port_refused_fn *refused;
    struct preview preview;
    struct str origin; /* Origin of the request, if any */
    struct str target; /* path and query to request */
    uint16_t port;
    enum h1_method method;
    bool upgrades; /* the client requests an upgrade */
    bool chunked;  /* the body of the request is chunked */
    bool sent;     /* the whole request is in `up` */
    bool begun;    /* the answer has begun */
    bool full;     /* the client is full until on_proxy_drain() */
    bool in_use;   /* sandbox_attach() was called */
    unsigned interim;
    struct buf up, down;
    struct h1_scan scan;
    struct body body;
};

/* --- fields --- */

/* A hop-by-hop header, or one that the proxy writes itself. */
static bool is_hop_field(const struct h1_head *h, struct str name)
{
    static const struct str names[] = {
        STR("Connection"),     STR("Keep-Alive"),     STR("TE"),
        STR("Trailer"),        STR("Upgrade"),        STR("Transfer-Encoding"),
        STR("Content-Length"), STR("HTTP2-Settings"), STR("Date")
    };

    for (size_t i = 0; i < h->n; i++)
        if (h1_same(h->fields[i].name, STR("Connection")) && h1_list_has(h->fields[i].value, name))
            return true;
    return field_in(name, names, COUNT_OF(names)) || field_begins_with(name, STR("Proxy-"));
}

/* A header for the daemon that must not reach the sandbox. */
static bool is_daemon_field(struct str name)
{
    static const struct str names[] = { STR("X-API-Key"), STR("X-Access-Token"), STR("Expect") };

    return field_in(name, names, COUNT_OF(names)) || field_begins_with(name, STR("E2b-")) ||
           field_begins_with(name, STR("X-Daytona-")) || field_begins_with(name, STR("Sandboxer-"));
}

/* A token of the daemon, in any scheme, must not reach the sandbox. */
static bool is_daemon_token(const struct h1_field *f)
{
    static const struct str ours[] = { STR("sbt_"), STR("e2b_"), STR("sbp_") };
    struct str scheme, given = f->value;

    if (!h1_same(f->name, STR("Authorization")))
        return false;
    if (memchr(given.p, ' ', given.n))
        given = str_trim(str_cut(given, ' ', &scheme));
    for (size_t i = 0; i < COUNT_OF(ours); i++)
        if (field_begins_with(given, ours[i]))
            return true;
    return false;
}

static void add_proxy_field(struct buf *b, struct str name, struct str value)
{
    buf_add(b, name);
    buf_add(b, STR(": "));
    buf_add(b, value);
    buf_add(b, STR("\r\n"));
}

static void write_proxy_request(struct proxy *p)
{
    const struct h1_request *q = http_request(p->call->x);
    const struct h1_head *h = &q->head;
    struct buf value AUTO(buf_done) = BUF_INIT(H1_HEAD_MAX);

    buf_add(&p->up, q->method_text);
    buf_add(&p->up, STR(" "));
    buf_add(&p->up, p->target);
    buf_add(&p->up, STR(" HTTP/1.1\r\n"));
    for (size_t i = 0; i < h->n; i++)
        if (!is_hop_field(h, h->fields[i].name) && !is_daemon_field(h->fields[i].name) &&
            !is_daemon_token(&h->fields[i]) &&
            preview_request_field(&p->preview, &h->fields[i], &value))
            add_proxy_field(&p->up, h->fields[i].name, buf_str(&value));
    p->chunked = h->framing == H1_CHUNKED;
    if (p->chunked)
        add_proxy_field(&p->up, STR("Transfer-Encoding"), STR("chunked"));
    if (h->framing == H1_LENGTH)
        buf_addf(&p->up, "Content-Length: %llu\r\n", (unsigned long long)h->length);
    add_proxy_field(&p->up, STR("Connection"), p->upgrades ? STR("Upgrade") : STR("close"));
    if (p->upgrades)
        add_proxy_field(&p->up, STR("Upgrade"), h->proto);
    buf_add(&p->up, STR("\r\n"));
}

/* --- forwarding the request --- */

static void update_proxy_interest(struct proxy *p)
{
    loop_fd_want(&p->pump.inner, (p->full ? 0u : LOOP_READ) | (p->up.n ? LOOP_WRITE : 0u), NULL);
}

/* A server may answer before it has read the whole request: a failed write is not an error. */
static void send_proxied_request_bytes(struct proxy *p)
{
    ssize_t n = send(p->pump.inner.fd, p->up.p, p->up.n, MSG_NOSIGNAL);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    buf_drop(&p->up, n < 0 ? p->up.n : (size_t)n);
    if (!p->sent && p->up.n < UP_ENOUGH && p->call->x)
        http_body_resume(p->call->x);
}

static void on_proxy_body(struct http_exchange *x, struct str piece)
{
    struct proxy *p = ((struct call *)http_state(x))->state;
    char line[BODY_CHUNK_LINE_MAX];

    p->sent = !piece.n;
    if (p->chunked)
        buf_add(&p->up, piece.n ? body_chunk_line(line, piece.n) : BODY_LAST_CHUNK);
    buf_add(&p->up, piece);
    if (p->chunked && piece.n)
        buf_add(&p->up, BODY_CHUNK_AFTER);
    if (p->up.n > UP_ENOUGH)
        http_body_pause(x);
    update_proxy_interest(p);
}

/* --- forwarding the answer --- */

static void fail_proxy(struct proxy *p, const char *why)
{
    struct err e;

    loop_fd_stop(&p->pump.inner);
    if (p->begun) {
        http_cut(call_take_exchange(p->call));
        return;
    }
    (void)err_set(&e, ERR_UPSTREAM, "port %u inside: %s", p->port, why);
    p->refused(p->call, p->port, &e);
}

static void finish_proxy(struct proxy *p)
{
    loop_fd_stop(&p->pump.inner);
    http_end(call_take_exchange(p->call));
}

static void on_proxy_drain(struct http_exchange *x)
{
    struct proxy *p = ((struct call *)http_state(x))->state;

    p->full = false;
    update_proxy_interest(p);
}

enum { ANSWER_FIELDS_MAX = H1_FIELDS_MAX + PREVIEW_FIELDS_ADDED };

static size_t copy_answer_fields(struct proxy *p, const struct h1_head *h, struct h1_field *ret)
{
    struct h1_field kept[H1_FIELDS_MAX];
    size_t n = 0;

    for (size_t i = 0; i < h->n; i++)
        if (!is_hop_field(h, h->fields[i].name))
            kept[n++] = h->fields[i];
    return preview_answer_fields(&p->preview, kept, n, p->origin, &p->call->arena, ret);
}

/* Switches to the upgraded protocol; bytes after the head belong to it. */
static void switch_protocols(struct proxy *p, const struct h1_response *r, struct str rest)
{
    struct h1_field fields[ANSWER_FIELDS_MAX + 1];
    size_t n = copy_answer_fields(p, &r->head, fields);
    struct err e;

    if (!p->upgrades || !r->head.upgrade) {
        fail_proxy(p, "the server changed the protocol without a request");
        return;
    }
    fields[n++] = (struct h1_field){ STR("Upgrade"), r->head.proto };
    loop_fd_stop(&p->pump.inner);
    p->begun = true;
    if (pump_start(&p->pump, p->pump.inner.fd, fields, n, rest, &e) < 0)
        http_fail(call_take_exchange(p->call), 502, str_from(e.msg));
}

/* An answer to HEAD has the length of the body that is not sent. */
static int64_t answer_length(const struct proxy *p, const struct h1_head *h)
{
    uint64_t length;

    if (p->method == H1_HEAD)
        return str_to_u64(h1_value(h, STR("Content-Length")), &length) && length <= INT64_MAX
                   ? (int64_t)length
                   : HTTP_UNKNOWN;
    return h->framing == H1_LENGTH ? (int64_t)h->length : h->framing == H1_EMPTY ? 0 : HTTP_UNKNOWN;
}

static void begin_proxy_answer(struct proxy *p, const struct h1_response *r)
{
    struct h1_field fields[ANSWER_FIELDS_MAX];
    size_t n = copy_answer_fields(p, &r->head, fields);
    int64_t length = answer_length(p, &r->head);
    struct err e;

    body_start(&p->body, r->head.framing, r->head.length);
    if (http_begin(p->call->x, r->status, fields, n, length, &e) < 0) {
        fail_proxy(p, e.msg);
        return;
    }
    p->begun = true;
    http_on_drain(p->call->x, on_proxy_drain);
}

/* 1: consumed input; 0: more is needed, or the answer ended. */
static int take_proxied_answer_head(struct proxy *p, struct str *in)
{
    static const struct h1_limits limits = { H1_HEAD_MAX, H1_TARGET_MAX, H1_FIELDS_MAX };
    struct h1_response r;
    struct err e;
    int n = h1_parse_response(&p->scan, *in, &limits, p->method, &r, &e);

    if (n < 0)
        fail_proxy(p, e.msg);
    if (n <= 0)
        return 0;
    p->scan = (struct h1_scan){ 0 };
    *in = (struct str){ in->p + n, in->n - (size_t)n };
    if (r.status == 101) {
        switch_protocols(p, &r, *in);
        in->n = 0;
        return 0;
    }
    if (r.status >= 200)
        begin_proxy_answer(p, &r);
    else if (++p->interim > INTERIM_MAX)
        fail_proxy(p, "the server sends more interim responses than are allowed before an answer");
    return p->call->x != NULL;
}

static int take_proxied_answer_body(struct proxy *p, struct str *in)
{
    struct str piece;
    struct err e;
    int event = body_next(&p->body, in, &piece, &e), r;

    if (event < 0) {
        fail_proxy(p, e.msg);
        return 0;
    }
    if (event != BODY_DATA)
        return event == BODY_MORE ? 0 : 1;
    r = http_write(p->call->x, piece, NULL);
    if (r < 0)
        fail_proxy(p, "the answer could not be sent");
    p->full |= r > 0;
    return r >= 0;
}

static void parse_proxy_answer(struct proxy *p)
{
    struct str in = buf_str(&p->down);

    while (p->call->x && in.n && !(p->begun && p->body.ended))
        if (!(p->begun ? take_proxied_answer_body(p, &in) : take_proxied_answer_head(p, &in)))
            break;
    buf_drop(&p->down, p->down.n - in.n);
    if (p->call->x && p->begun && p->body.ended)
        finish_proxy(p);
}

static void receive_proxied_answer(struct proxy *p)
{
    static char piece[PUMP_CHUNK];
    size_t room = p->down.max - p->down.n;
    ssize_t n = recv(p->pump.inner.fd, piece, room < sizeof piece ? room : sizeof piece, 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        buf_add(&p->down, (struct str){ piece, (size_t)n });
        parse_proxy_answer(p);
    } else if (!p->begun) {
        fail_proxy(p, "the server closed the connection without an answer");
    } else if (body_finish(&p->body, NULL) < 0) {
        fail_proxy(p, "the answer is truncated");
    } else {
        finish_proxy(p);
    }
}

static void on_proxy_socket(struct loop_fd *f, unsigned events)
{
    struct proxy *p = container_of(container_of(f, struct pump, inner), struct proxy, pump);

    if ((events & LOOP_WRITE) && p->up.n)
        send_proxied_request_bytes(p);
    if (p->call->x && (events & (LOOP_READ | LOOP_HUP | LOOP_ERROR)))
        receive_proxied_answer(p);
    if (p->call->x && !(p->begun && p->upgrades))
        update_proxy_interest(p);
}

/* --- the connection --- */

static void on_port_dialled(struct dial_op *op, int r, const struct err *e, int fd)
{
    struct proxy *p = container_of(op, struct proxy, dial);
    struct err why;

    if (r < 0) {
        p->refused(p->call, p->port, e);
        return;
    }
    p->pump.inner.fd = fd;
    sandbox_attach(p->call->sandbox);
    p->in_use = true;
    write_proxy_request(p);
    if (loop_fd_start(p->call->loop, &p->pump.inner, fd, LOOP_READ | LOOP_WRITE, on_proxy_socket,
                      &why) < 0) {
        p->pump.inner.fd = fd;
        p->refused(p->call, p->port, &why);
        return;
    }
    http_body_any_rate(p->call->x); /* no minimum rate: client and server decide */
    if (!p->upgrades)
        http_stream(p->call->x, on_proxy_body);
    else
        p->sent = true;
}

static void on_proxy_client_gone(struct call *c)
{
    struct proxy *p = c->state;

    dial_op_cancel(&p->dial);
    pump_stop(&p->pump);
}

static void release_proxy(void *state)
{
    struct proxy *p = state;

    dial_op_cancel(&p->dial);
    pump_done(&p->pump);
    if (p->in_use)
        sandbox_detach(p->call->sandbox);
}

/* The prefix of this sandbox's cookies in browsers; other sandboxes cannot guess it. */
static struct str make_cookie_mark(struct call *c)
{
    char what[ID_MAX + 16], token[SANDBOX_TOKEN_CODE_TEXT];
    size_t room = sizeof PREVIEW_COOKIE + MARK_DIGITS + 1;
    char *mark = call_alloc(c, 1, room);

    snprintf(what, sizeof what, "cookie:%s", call_sandbox_id(c));
    sandbox_token_sign(c->api, what, token);
    snprintf(mark, room, PREVIEW_COOKIE "%.*s-", MARK_DIGITS, token);
    return str_from(mark);
}

static void start_proxy(struct call *c, uint16_t port, const struct preview *preview,
                        struct str target, port_refused_fn *refused)
{
    const struct h1_request *q = http_request(c->x);
    struct proxy *p = call_state(c, sizeof *p, release_proxy);

    *p = (struct proxy){ .call = c,
                         .dial = { .port = port, .done = on_port_dialled },
                         .refused = refused,
                         .preview = *preview,
                         .origin = call_header(c, "Origin"),
                         .target = target,
                         .port = port,
                         .method = q->method,
                         .upgrades = q->head.upgrade && q->head.framing == H1_EMPTY };
    pump_init(&p->pump, c);
    call_own_buf(c, &p->up, UP_MAX);
    call_own_buf(c, &p->down, DOWN_MAX);
    c->on_gone = on_proxy_client_gone;
    sandbox_dial(c->sandbox, &p->dial);
}

void port_proxy_to(struct call *c, uint16_t port, struct str prefix, struct str target,
                   port_refused_fn *refused)
{
    const struct preview preview = { PREVIEW_BY_PATH, make_cookie_mark(c), .path = prefix };

    start_proxy(c, port, &preview, target, refused);
}

void port_proxy(struct call *c, uint16_t port, port_refused_fn *refused)
{
    struct preview preview = { .kind = PREVIEW_BY_HEADER };

    if (c->port.id.p) {
        preview = (struct preview){ .kind = PREVIEW_BY_NAME, .host = call_header(c, "Host") };
        if (!c->api->config->domain.public_suffix)
            preview.mark = make_cookie_mark(c);
    }
    start_proxy(c, port, &preview, http_request(c->x)->path, refused);
}
