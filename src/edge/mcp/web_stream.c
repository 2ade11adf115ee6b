/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "lib/http/sse.h"
#include "edge/mcp/web_internal.h"

#define SILENCE (5 * NS_PER_S) /* a POST unanswered for so long becomes a stream */
#define BEAT    (15 * NS_PER_S)

static void on_stream_beat(struct loop_timer *l);

static void start_stream_beat(struct web_stream *t, int64_t ns)
{
    loop_timer_stop(&t->beat);
    loop_timer_start(t->session->loop, &t->beat, clock_mono() + ns, on_stream_beat, NULL);
}

/* --- life --- */

/* The stream is not connected from now on. */
static void disconnect_stream(struct web_stream *t)
{
    loop_timer_stop(&t->beat);
    if (!link_joined(&t->link))
        return;
    link_leave(&t->link);
    mcp_session_release(t->session);
}

static void on_web_stream_free(struct loop_later *l)
{
    struct web_stream *t = container_of(l, struct web_stream, later);

    mcp_session_unref(t->session);
    mcp_pipe_done(&t->pipe);
    free(t);
}

void web_stream_free(struct web_stream *t)
{
    disconnect_stream(t);
    link_leave(&t->in_session);
    mcp_out_gone(&t->out, !t->kept);
    loop_later(t->session->loop, &t->later, on_web_stream_free, NULL);
}

/* Frees a stream that has neither open requests nor a connection, except the session's own. */
static void free_idle_stream(struct web_stream *t)
{
    bool back = t->kept && t->kept->back == t;

    if (t->open || t->pipe.x || back)
        return;
    if (!t->kept)
        mcp_session_end(t->session);
    web_stream_free(t);
}

static void forget_exchange(struct web_stream *t)
{
    mcp_pipe_done(&t->pipe);
    disconnect_stream(t);
    t->begun = t->closing = false;
}

static void lose_stream(struct web_stream *t)
{
    forget_exchange(t);
    if (!t->kept) {
        t->open = 0;
        mcp_out_gone(&t->out, true);
    } else {
        mcp_out_drained(&t->out); /* a stream without a connection is never slow */
    }
    free_idle_stream(t);
}

static void on_web_stream_gone(struct http_exchange *x)
{
    lose_stream(http_state(x));
}

static void end_web_stream(struct web_stream *t)
{
    t->closing = true;
    if (!mcp_pipe_end(&t->pipe))
        return;
    disconnect_stream(t);
    free_idle_stream(t);
}

static void on_web_stream_drained(struct http_exchange *x)
{
    struct web_stream *t = http_state(x);
    int r = mcp_pipe_drain(&t->pipe);

    if (r < 0)
        lose_stream(t);
    else if (r == 0 && t->closing)
        end_web_stream(t);
    else if (r == 0)
        mcp_out_drained(&t->out);
}

static void take_exchange(struct web_stream *t, struct http_exchange *x)
{
    mcp_pipe_init(&t->pipe, x);
    http_set_state(x, t);
    http_on_gone(x, on_web_stream_gone);
    http_on_drain(x, on_web_stream_drained);
    list_append(&t->web->streams, &t->link);
    mcp_session_hold(t->session);
}

/* --- events --- */

static int write_stream_event(struct web_stream *t, uint64_t seq, struct str message)
{
    char id[REPLAY_ID_MAX];
    const struct str parts[] = { STR("id: "),   { id, 0 }, STR("\n"),
                                 STR("data: "), message,   STR("\n\n") };
    int r = 0;

    replay_id(id, t->number, seq);
    for (size_t i = t->kept ? 0 : 3; r >= 0 && i < COUNT_OF(parts); i++)
        r = mcp_pipe_add(&t->pipe, i == 1 ? str_from(id) : parts[i]);
    return r;
}

static bool begin_event_stream(struct web_stream *t, bool again)
{
    const struct h1_field fields[] = { { STR("Mcp-Session-Id"), str_from(t->session->id) } };
    struct err e;

    if (t->begun)
        return true;
    if (sse_begin(t->pipe.x, fields, t->kept ? 1 : 0, &e) < 0) {
        http_fail(take_ptr(t->pipe.x), 500, str_from(e.msg));
        lose_stream(t);
        return false;
    }
    t->begun = true;
    start_stream_beat(t, BEAT);
    if (!t->kept || again || !mcp_has_priming(t->session->version)) {
        sse_heartbeat(t->pipe.x, NULL); /* sends the head: the client sees the stream open */
    } else if (write_stream_event(t, t->seq, STR("")) < 0) {
        lose_stream(t);
        return false;
    }
    return true;
}

static void on_stream_beat(struct loop_timer *l)
{
    struct web_stream *t = container_of(l, struct web_stream, beat);

    if (!t->pipe.x || !begin_event_stream(t, false))
        return;
    if (!t->pipe.waits && !t->pipe.pending.n)
        sse_heartbeat(t->pipe.x, NULL);
    start_stream_beat(t, BEAT);
}

/* `id` is of the request that the message answers, or NULL. */
static int send_stream_event(struct web_stream *t, const struct json *id, struct str message)
{
    AUTO(buf_done) struct buf text = BUF_INIT(WEB_ERROR_MAX);
    bool heard = t->pipe.x != NULL, good = !heard || begin_event_stream(t, false);
    int r;

    t->seq++; /* above the number of the priming event */
    rpc_write_id(&text, id);
    if (t->kept)
        replay_add(&t->kept->replay, t->number, t->seq, buf_str(&text), message);
    if (!heard || !good)
        return good ? 0 : -1;
    r = write_stream_event(t, t->seq, message);
    if (r < 0)
        lose_stream(t);
    return r;
}

static int send_stream_message(struct mcp_out *o, struct str message)
{
    return send_stream_event(container_of(o, struct web_stream, out), NULL, message);
}

/* --- the answer --- */

static void respond_json(struct web_stream *t, struct str message, int status)
{
    const struct h1_field fields[] = {
        { STR("Content-Type"), STR("application/json") },
        { STR("Cache-Control"), STR("no-store") },
        { STR("Mcp-Session-Id"), str_from(t->session->id) },
    };
    struct http_exchange *x = take_ptr(t->pipe.x);
    struct err e;

    if (http_respond(x, message.n ? status : 202, fields, t->kept && t->session->version ? 3 : 2,
                     message, &e) < 0)
        http_fail(x, 500, str_from(e.msg));
    disconnect_stream(t);
}

static void send_stream_answer(struct mcp_out *o, const struct json *id, struct str message,
                               int status)
{
    struct web_stream *t = container_of(o, struct web_stream, out);

    t->open -= t->open > 0;
    if (t->pipe.x && !t->begun && !t->batch)
        respond_json(t, message, status);
    else if (message.n && send_stream_event(t, id, message) < 0)
        return;
    if (t->open)
        return;
    if (t->pipe.x)
        end_web_stream(t);
    else
        free_idle_stream(t);
    if (t->kept && !t->session->version) /* initialize was refused */
        mcp_session_end(t->session);
}

static const struct mcp_out_ops ops = { .send = send_stream_message, .answer = send_stream_answer };

struct web_stream *web_stream_new(struct mcp_web *web, struct mcp_session *s,
                                  struct web_session *kept, struct http_exchange *x)
{
    struct web_stream *t = new0(sizeof *t);

    t->web = web;
    t->out.ops = &ops;
    t->session = mcp_session_ref(s);
    t->kept = kept;
    if (kept) {
        t->number = kept->numbers++;
        list_append(&kept->streams, &t->in_session);
    }
    mcp_pipe_init(&t->pipe, NULL);
    if (x) {
        take_exchange(t, x);
        start_stream_beat(t, SILENCE);
    }
    return t;
}

/* Replays a message. An evicted answer is replaced by an error, so that the client does not wait
 * for it. */
static int replay_stream_entry(struct web_stream *t, const struct replay_entry *v)
{
    AUTO(buf_done) struct buf text = BUF_INIT(WEB_ERROR_MAX);

    if (v->kind != REPLAY_GONE)
        return write_stream_event(t, v->seq, v->text);
    rpc_write_error(&text, v->id, RPC_INTERNAL,
                    "the request was completed, but its answer is no longer kept");
    return write_stream_event(t, v->seq, buf_str(&text));
}

void web_stream_resume(struct web_stream *t, struct http_exchange *x, uint64_t seq)
{
    const struct replay_entry *v;
    int r = 0;

    take_exchange(t, x);
    if (!begin_event_stream(t, true))
        return;
    while (r >= 0 && (v = replay_after(&t->kept->replay, t->number, seq))) {
        seq = v->seq;
        r = replay_stream_entry(t, v);
    }
    if (r < 0)
        lose_stream(t);
    else if (!t->open && t != t->kept->back)
        end_web_stream(t); /* all messages of the stream are sent */
}

void web_stream_listen(struct web_stream *t, struct http_exchange *x)
{
    take_exchange(t, x);
    begin_event_stream(t, false);
}

void web_stream_hang_up(struct web_stream *t)
{
    http_cut(take_ptr(t->pipe.x));
    lose_stream(t);
}

void web_stream_detach(struct web_stream *t)
{
    http_cut(take_ptr(t->pipe.x));
    forget_exchange(t);
}
