/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/rest/approval_stream.h"

#include "base/clock.h"
#include "base/own.h"
#include "lib/http/sse.h"

enum { HEARTBEAT_S = 15, APPROVAL_BYTES_MAX = 64 << 10 };

struct approval_stream {
    struct call *call;
    approval_sees_fn *sees;
    struct approval_waiter waiter;
    struct loop_timer heartbeat;
    bool full;
};

static void stop_approval_stream(void *state)
{
    struct approval_stream *s = state;

    loop_timer_stop(&s->heartbeat);
    approval_waiter_stop(&s->waiter);
}

static void on_approval_stream_gone(struct call *c)
{
    stop_approval_stream(c->state);
}

static void on_approval_stream_drain(struct http_exchange *x)
{
    struct call *c = http_state(x);
    struct approval_stream *s = c->state;

    s->full = false;
}

/* A client that does not keep up is cut off: nothing is queued for it, and it reads the list when it
 * has connected again. */
static void send_approval_change(struct approval_stream *s, const char *type, int r,
                                 struct str text)
{
    const struct sse_event out = { .event = str_from(type), .data = text };

    if (r >= 0)
        r = s->full ? -ERR_BUSY : sse_send(s->call->x, &out, NULL);
    s->full = r > 0;
    if (r >= 0)
        return;
    stop_approval_stream(s);
    http_cut(call_take_exchange(s->call));
}

static void on_any_approval_changed(struct approval_waiter *w, const struct approval_record *r)
{
    struct approval_stream *s = container_of(w, struct approval_stream, waiter);
    struct buf text AUTO(buf_done) = BUF_INIT(APPROVAL_BYTES_MAX);
    struct json_writer json;

    if (!s->sees(s->call, r))
        return;
    json_writer_init(&json, &text, JSON_COMPACT);
    approval_write(&json, r, false);
    send_approval_change(s, "approval", json_writer_finish(&json, NULL), buf_str(&text));
}

static void on_approval_stream_token_ended(struct http_exchange *x)
{
    struct buf text AUTO(buf_done) = BUF_INIT(4096);
    struct call *c = http_state(x);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    problem_write_token_ended(&w, NULL);
    send_approval_change(c->state, "error", json_writer_finish(&w, NULL), buf_str(&text));
    stop_approval_stream(c->state);
    if (c->x)
        http_end(call_take_exchange(c));
}

static void on_approval_heartbeat(struct loop_timer *t)
{
    struct approval_stream *s = container_of(t, struct approval_stream, heartbeat);

    if (!s->full)
        sse_heartbeat(s->call->x, NULL);
    loop_timer_start(s->call->loop, t, clock_mono() + HEARTBEAT_S * NS_PER_S, on_approval_heartbeat,
                     NULL);
}

void approval_stream_begin(struct call *c, approval_sees_fn *sees)
{
    struct approval_stream *s = call_state(c, sizeof *s, stop_approval_stream);
    struct err e;

    *s = (struct approval_stream){ .call = c,
                                   .sees = sees,
                                   .waiter = { .changed = on_any_approval_changed } };
    c->on_gone = on_approval_stream_gone;
    if (sse_begin(c->x, NULL, 0, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    if (call_end_head(c))
        return;
    http_on_drain(c->x, on_approval_stream_drain);
    http_on_ended(c->x, on_approval_stream_token_ended);
    approvals_wait(c->api->trust, &s->waiter);
    sse_heartbeat(c->x, NULL); /* sends the head: the client then reads the list, without a gap */
    loop_timer_start(c->loop, &s->heartbeat, clock_mono() + HEARTBEAT_S * NS_PER_S,
                     on_approval_heartbeat, NULL);
}
