/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/websocket.h"

#include "base/clock.h"
#include "base/own.h"
#include "lib/http/accept.h"

enum { MAX_MESSAGE = 1 << 20, REST_MAX = 1 << 20 /* more than is read at once */ };
enum { CLOSE_NOT_ALLOWED = 1008 };
#define PING_EVERY (30 * NS_PER_S)
#define CLOSE_WAIT (5 * NS_PER_S)

static void on_websocket_bytes(struct http_exchange *x, struct str in);
static void on_websocket_timer(struct loop_timer *t);

bool ws_wanted(const struct h1_request *q)
{
    return q->head.upgrade && h1_list_has(q->head.proto, STR("websocket"));
}

static int check_request(const struct h1_request *q, struct err *e)
{
    if (q->method != H1_GET || !q->head.upgrade || !h1_same(q->head.proto, STR("websocket")) ||
        q->head.framing != H1_EMPTY)
        return err_set(e, ERR_INVALID, "the request does not ask for a WebSocket");
    if (!str_eq(h1_value(&q->head, STR("sec-websocket-version")), STR("13")))
        return err_set(e, ERR_INVALID, "Sec-WebSocket-Version must be 13");
    if (h1_count(&q->head, STR("sec-websocket-key")) != 1 ||
        !accept_key_valid(h1_value(&q->head, STR("sec-websocket-key"))))
        return err_set(e, ERR_INVALID, "Sec-WebSocket-Key must be 16 bytes in base64");
    return 0;
}

static void release_websocket(struct ws *w)
{
    loop_timer_stop(&w->timer_);
    loop_later_stop(&w->later_);
    frame_reader_done(&w->reader_);
    buf_done(&w->rest_);
    w->x = NULL;
}

static void on_websocket_gone(struct http_exchange *x)
{
    struct ws *w = http_state(x);

    release_websocket(w);
    w->config.on_closed(w, w->code_);
}

static void on_websocket_drain(struct http_exchange *x)
{
    struct ws *w = http_state(x);

    if (w->config.on_drain && !w->closing_)
        w->config.on_drain(w);
}

/* After this w may be freed. */
static void finish_websocket(struct ws *w)
{
    struct http_exchange *x = w->x;

    release_websocket(w);
    http_end(x);
    w->config.on_closed(w, w->code_);
}

/* The caller has lost its permission: further input of the peer is not read. */
static void on_permission_ended(struct http_exchange *x)
{
    struct ws *w = http_state(x);

    ws_close(w, CLOSE_NOT_ALLOWED, STR("the token was revoked or has expired"));
    finish_websocket(w);
}

static void start_timer(struct ws *w, struct loop *l, int64_t ns)
{
    loop_timer_stop(&w->timer_);
    if (ns > 0)
        loop_timer_start(l, &w->timer_, clock_mono() + ns, on_websocket_timer, NULL);
}

int ws_accept(struct ws *w, struct http_exchange *x, const struct ws_config *c, struct err *e)
{
    const struct h1_request *q = http_request(x);
    char accept[ACCEPT_LENGTH + 1];
    struct h1_field fields[3];
    int r = check_request(q, e);

    if (r < 0)
        return r;
    accept_for_key(h1_value(&q->head, STR("sec-websocket-key")), accept);
    fields[0] = (struct h1_field){ STR("Upgrade"), STR("websocket") };
    fields[1] = (struct h1_field){ STR("Sec-WebSocket-Accept"), str_from(accept) };
    fields[2] = (struct h1_field){ STR("Sec-WebSocket-Protocol"), c->protocol };
    r = http_upgrade(x, fields, c->protocol.p ? 3 : 2, on_websocket_bytes, e);
    if (r < 0)
        return r;
    w->x = x;
    w->config = *c;
    w->closing_ = w->paused_ = false;
    w->heard_ = true;
    buf_init(&w->rest_, REST_MAX);
    w->code_ = 0;
    if (w->config.ping_ns == 0)
        w->config.ping_ns = PING_EVERY;
    frame_reader_init(&w->reader_, true, c->max_message ? c->max_message : MAX_MESSAGE);
    http_set_state(x, w);
    http_on_gone(x, on_websocket_gone);
    http_on_drain(x, on_websocket_drain);
    http_on_ended(x, on_permission_ended);
    start_timer(w, http_loop(x), w->config.ping_ns);
    return 0;
}

static int send_websocket_frame(struct ws *w, enum frame_op op, struct str data, struct err *e)
{
    unsigned char head[FRAME_HEAD_MAX];
    size_t n = frame_head(head, op, true, data.n, NULL);
    const struct str parts[] = { { (const char *)head, n }, data };

    return http_write_parts(w->x, parts, COUNT_OF(parts), e);
}

int ws_send(struct ws *w, enum frame_op op, struct str data, struct err *e)
{
    if (!w->x || w->closing_)
        return err_set(e, ERR_CONFLICT, "the WebSocket is closed");
    return send_websocket_frame(w, op, data, e);
}

void ws_pause(struct ws *w)
{
    if (!w->x || w->closing_)
        return;
    w->paused_ = true;
    http_body_pause(w->x);
}

static void on_websocket_resumed(struct loop_later *l)
{
    struct ws *w = container_of(l, struct ws, later_);
    struct buf rest = w->rest_;

    buf_init(&w->rest_, REST_MAX);
    on_websocket_bytes(w->x, buf_str(&rest));
    buf_done(&rest);
}

void ws_resume(struct ws *w)
{
    if (!w->x || !w->paused_)
        return;
    w->paused_ = false;
    http_body_resume(w->x);
    if (w->rest_.n > 0)
        loop_later(http_loop(w->x), &w->later_, on_websocket_resumed, NULL);
}

void ws_close(struct ws *w, int code, struct str reason)
{
    char payload[FRAME_CONTROL_MAX];

    if (!w->x || w->closing_)
        return;
    w->closing_ = true;
    send_websocket_frame(w, FRAME_CLOSE,
                         (struct str){ payload, frame_close(payload, code, reason) }, NULL);
    ws_resume(w); /* to see the peer's answer */
    start_timer(w, http_loop(w->x), CLOSE_WAIT);
}

/* A peer that answers neither a ping nor a close is gone. */
static void on_websocket_timer(struct loop_timer *t)
{
    struct ws *w = container_of(t, struct ws, timer_);

    if (w->closing_ ||
        (!w->heard_ && !w->paused_)) { /* paused, we are the ones who do not listen */
        struct http_exchange *x = w->x;

        on_websocket_gone(x);
        http_cut(x);
        return;
    }
    w->heard_ = false;
    send_websocket_frame(w, FRAME_PING, STR(""), NULL);
    start_timer(w, http_loop(w->x), w->config.ping_ns);
}

/* False when the WebSocket is over. */
static bool on_frame(struct ws *w, const struct frame_message *m)
{
    switch (m->op) {
    case FRAME_CLOSE:
        w->code_ = m->code;
        ws_close(w, m->code, (struct str){ 0 });
        finish_websocket(w);
        return false;
    case FRAME_PING:
        if (!w->closing_)
            send_websocket_frame(
                w, FRAME_PONG, m->data,
                NULL); /* a pong that does not fit is requested again by the peer */
        return true;
    case FRAME_PONG:
        return true;
    default:
        w->config.on_message(w, m->op, m->data);
        return true;
    }
}

/* In order of arrival: input left over from before a pause goes first. */
static void on_websocket_bytes(struct http_exchange *x, struct str in)
{
    struct ws *w = http_state(x);
    struct frame_message m;
    int r = 0;

    w->heard_ = true;
    while (!w->paused_ && w->rest_.n == 0) {
        r = frame_read(&w->reader_, &in, &m, NULL);
        if (r <= 0)
            break;
        if (!on_frame(w, &m))
            return;
    }
    if (r >= 0 && in.n > 0)
        r = buf_add(&w->rest_, in);
    if (r < 0) {
        ws_close(w, w->reader_.code, (struct str){ 0 });
        finish_websocket(w);
    }
}
