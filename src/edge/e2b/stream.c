/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/e2b/internal.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "lib/json/reader.h"

enum { FRAME_MAX = 512 << 10, PING_S = 90, PING_MAX_S = 3600, TIMEOUT_MAX_MS = 604800000 };

bool stream_request(struct call *c, const struct json_field *fields, size_t n, void *out)
{
    const struct json_limits limits = { .bytes = CALL_ARENA_MAX, .depth = 16 };
    const struct json *v;
    struct str text;
    struct err e;

    if (envelope_read(c->body, &text, &e) >= 0 && json_read(text, limits, &c->arena, &v, &e) >= 0 &&
        e2b_bind(c, v, fields, n, out, &e) >= 0)
        return true;
    call_fail(c, &e);
    return false;
}

bool stream_begin(struct call *c, http_exchange_fn *on_drain)
{
    static const struct h1_field fields[] = {
        { { "Content-Type", 12 }, { "application/connect+json", 24 } },
        { { "Cache-Control", 13 }, { "no-store", 8 } },
    };
    struct err e;

    if (http_begin(c->x, 200, fields, COUNT_OF(fields), HTTP_UNKNOWN, &e) < 0) {
        http_fail(call_take_exchange(c), 500, str_from(e.msg));
        return false;
    }
    http_on_drain(c->x, on_drain);
    return true;
}

static int send_stream_frame(struct call *c, enum envelope_flags flags, struct str payload)
{
    char head[ENVELOPE_HEAD];
    const struct str parts[] = { { head, sizeof head }, payload };
    int r;

    envelope_head(flags, (uint32_t)payload.n, head);
    r = http_write_parts(c->x, parts, 2, NULL);
    if (r <
        0) /* close the connection: a client must not mistake a partial stream for a complete one */
        http_cut(call_take_exchange(c));
    return r;
}

int stream_send(struct call *c, call_write_fn *write, const void *what)
{
    struct buf text AUTO(buf_done) = BUF_INIT(FRAME_MAX);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    write(&w, what);
    if (json_writer_finish(&w, NULL) < 0) {
        http_cut(call_take_exchange(c));
        return -(int)ERR_BUG;
    }
    return send_stream_frame(c, ENVELOPE_MESSAGE, buf_str(&text));
}

void stream_end(struct call *c)
{
    if (send_stream_frame(c, ENVELOPE_END, STR("{}")) >= 0)
        http_end(call_take_exchange(c));
}

void stream_end_with(struct call *c, const char *code, const char *message)
{
    struct buf text AUTO(buf_done) = BUF_INIT(16 << 10);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_object(&w);
    json_key(&w, STR("error"));
    rpc_write_problem(&w, &(struct rpc_problem){ code, message });
    json_end_object(&w);
    json_writer_finish(&w, NULL);
    if (send_stream_frame(c, ENVELOPE_END, buf_str(&text)) >= 0)
        http_end(call_take_exchange(c));
}

static void on_ping_timer(struct loop_timer *timer)
{
    struct stream_ping *p = container_of(timer, struct stream_ping, timer);

    if (stream_send(p->call, p->write, NULL) < 0)
        p->on_lost(p);
    else
        stream_ping_later(p);
}

void stream_ping_later(struct stream_ping *p)
{
    uint64_t n;

    if (!str_to_u64(call_header(p->call, "Keepalive-Ping-Interval"), &n) || !n || n > PING_MAX_S)
        n = PING_S;
    loop_timer_stop(&p->timer);
    loop_timer_start(p->call->api->loop, &p->timer, clock_mono() + (int64_t)n * NS_PER_S,
                     on_ping_timer, NULL);
}

void stream_ping_stop(struct stream_ping *p)
{
    loop_timer_stop(&p->timer);
}

bool stream_timeout(struct call *c, int64_t *ret)
{
    struct str text = call_header(c, "Connect-Timeout-Ms");
    uint64_t n = 0;

    if (text.p && (!str_to_u64(text, &n) || n > TIMEOUT_MAX_MS)) {
        call_fail_with(c, 400, "invalid",
                       "Connect-Timeout-Ms: must be a number of milliseconds, at most one week");
        return false;
    }
    *ret = (int64_t)n * NS_PER_MS;
    return true;
}

void rpc_answer_empty(struct call *c)
{
    call_answer_bytes(c, 200, "application/json", STR("{}\n"));
}

void rpc_fail(struct call *c, int status, const char *fmt, ...)
{
    struct err e;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(e.msg, sizeof e.msg, fmt, ap);
    va_end(ap);
    call_fail_with(c, status, "", "%s", e.msg);
}
