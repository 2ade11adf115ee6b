#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "http/sse.h"
#include "mcp/web_inside.h"

#define SILENCE (5 * NS_PER_S) /* after it a POST's answer becomes a stream */
#define BEAT    (15 * NS_PER_S)

static void on_beat(struct loop_timer *l);

static void start_beat(struct web_stream *t, int64_t ns)
{
    loop_timer_stop(&t->beat);
    loop_timer_start(t->session->loop, &t->beat, clock_mono() + ns, on_beat, NULL);
}

/* --- life --- */

/* Nobody listens on it any more. */
static void leave(struct web_stream *t)
{
    loop_timer_stop(&t->beat);
    if (!link_joined(&t->link))
        return;
    link_leave(&t->link);
    mcp_session_release(t->session);
}

static void free_later(struct loop_later *l)
{
    struct web_stream *t = container_of(l, struct web_stream, later);

    mcp_session_unref(t->session);
    mcp_pipe_done(&t->pipe);
    free(t);
}

void web_stream_free(struct web_stream *t)
{
    leave(t);
    link_leave(&t->in_session);
    mcp_out_gone(&t->out, !t->kept);
    loop_later(t->session->loop, &t->later, free_later, NULL);
}

/* Nothing will be sent any more, and nobody is there. */
static void free_if_over(struct web_stream *t)
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
    leave(t);
    t->begun = t->closing = false;
}

static void lost(struct web_stream *t)
{
    forget_exchange(t);
    if (!t->kept) {
        t->open = 0;
        mcp_out_gone(&t->out, true);
    } else {
        mcp_out_drained(&t->out); /* it does not wait for anybody */
    }
    free_if_over(t);
}

static void on_gone(struct http_exchange *x)
{
    lost(http_state(x));
}

static void end_stream(struct web_stream *t)
{
    t->closing = true;
    if (!mcp_pipe_end(&t->pipe))
        return;
    leave(t);
    free_if_over(t);
}

static void on_drain(struct http_exchange *x)
{
    struct web_stream *t = http_state(x);
    int r = mcp_pipe_drain(&t->pipe);

    if (r < 0)
        lost(t);
    else if (r == 0 && t->closing)
        end_stream(t);
    else if (r == 0)
        mcp_out_drained(&t->out);
}

static void take_exchange(struct web_stream *t, struct http_exchange *x)
{
    mcp_pipe_init(&t->pipe, x);
    http_set_state(x, t);
    http_on_gone(x, on_gone);
    http_on_drain(x, on_drain);
    list_append(&t->web->streams, &t->link);
    mcp_session_hold(t->session);
}

/* --- events --- */

static int put_event(struct web_stream *t, uint64_t seq, struct str message)
{
    char id[REPLAY_ID_MAX];
    int r = 0;

    if (t->kept) {
        replay_id(id, t->number, seq);
        r = mcp_pipe_add(&t->pipe, STR("id: "));
        if (r >= 0)
            r = mcp_pipe_add(&t->pipe, str_from(id));
        if (r >= 0)
            r = mcp_pipe_add(&t->pipe, STR("\n"));
    }
    if (r >= 0)
        r = mcp_pipe_add(&t->pipe, STR("data: "));
    if (r >= 0)
        r = mcp_pipe_add(&t->pipe, message);
    return r < 0 ? r : mcp_pipe_add(&t->pipe, STR("\n\n"));
}

static bool begin(struct web_stream *t, bool again)
{
    const struct h1_field fields[] = { { STR("Mcp-Session-Id"), str_from(t->session->id) } };
    struct err e;

    if (t->begun)
        return true;
    if (sse_begin(t->pipe.x, fields, t->kept ? 1 : 0, &e) < 0) {
        http_fail(take_ptr(t->pipe.x), 500, str_from(e.msg));
        lost(t);
        return false;
    }
    t->begun = true;
    start_beat(t, BEAT);
    if (!t->kept || again || !mcp_has_priming(t->session->version)) {
        sse_heartbeat(t->pipe.x, NULL); /* the head is on its way: the client knows it is heard */
    } else if (put_event(t, t->seq, STR("")) < 0) {
        lost(t);
        return false;
    }
    return true;
}

bool web_stream_begin(struct web_stream *t)
{
    return begin(t, false);
}

static void on_beat(struct loop_timer *l)
{
    struct web_stream *t = container_of(l, struct web_stream, beat);

    if (!t->pipe.x)
        return;
    if (!t->begun && !web_stream_begin(t))
        return;
    if (!t->pipe.waits && !t->pipe.pending.n)
        sse_heartbeat(t->pipe.x, NULL);
    start_beat(t, BEAT);
}

static void keep(struct web_stream *t, const struct json *id, struct str message)
{
    AUTO(buf_done) struct buf text = BUF_INIT(WEB_ERROR_MAX);
    struct json_writer w;

    if (id) {
        json_writer_init(&w, &text, JSON_COMPACT);
        json_put_tree(&w, id);
        json_writer_finish(&w, NULL);
    }
    replay_add(&t->kept->replay, t->number, t->seq, buf_str(&text), message);
}

/* With the id of the request that it answers, or NULL. */
static int send_event(struct web_stream *t, const struct json *id, struct str message)
{
    bool heard = t->pipe.x != NULL, good = !heard || web_stream_begin(t);
    int r;

    t->seq++; /* behind what the stream began with: that can be resumed from */
    if (t->kept)
        keep(t, id, message);
    if (!heard || !good)
        return good ? 0 : -1;
    r = put_event(t, t->seq, message);
    if (r < 0)
        lost(t);
    return r;
}

static int send_message(struct mcp_out *o, struct str message)
{
    return send_event(container_of(o, struct web_stream, out), NULL, message);
}

/* --- the answer --- */

static void respond(struct web_stream *t, struct str message, int status)
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
    leave(t);
}

static void answer(struct mcp_out *o, const struct json *id, struct str message, int status)
{
    struct web_stream *t = container_of(o, struct web_stream, out);

    t->open -= t->open > 0;
    if (t->pipe.x && !t->begun && !t->batch)
        respond(t, message, status);
    else if (message.n && send_event(t, id, message) < 0)
        return;
    if (t->open)
        return;
    if (t->pipe.x)
        end_stream(t);
    else
        free_if_over(t);
    if (t->kept && !t->session->version) /* initialize was refused */
        mcp_session_end(t->session);
}

static const struct mcp_out_ops ops = { .send = send_message, .answer = answer };

struct web_stream *web_stream_new(struct mcp_web *web, struct mcp_session *s,
                                  struct web_session *kept, struct http_exchange *x)
{
    struct web_stream *t = calloc(1, sizeof *t);

    if (!t)
        abort();
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
        start_beat(t, SILENCE);
    }
    return t;
}

/* An answer that is not kept any more is an error in its place: nobody waits for it in vain. */
static int put_again(struct web_stream *t, const struct replay_entry *v)
{
    AUTO(buf_done) struct buf text = BUF_INIT(WEB_ERROR_MAX);

    if (v->kind != REPLAY_GONE)
        return put_event(t, v->seq, v->text);
    rpc_write_error(&text, v->id, RPC_INTERNAL,
                    "what was asked for was done, but its answer is not kept any more");
    return put_event(t, v->seq, buf_str(&text));
}

void web_stream_resume(struct web_stream *t, struct http_exchange *x, uint64_t seq)
{
    const struct replay_entry *v;
    int r = 0;

    take_exchange(t, x);
    if (!begin(t, true))
        return;
    while (r >= 0 && (v = replay_after(&t->kept->replay, t->number, seq))) {
        seq = v->seq;
        r = put_again(t, v);
    }
    if (r < 0)
        lost(t);
    else if (!t->open && t != t->kept->back)
        end_stream(t); /* that was all of it */
}

void web_stream_listen(struct web_stream *t, struct http_exchange *x)
{
    take_exchange(t, x);
    begin(t, false);
}

void web_stream_hang_up(struct web_stream *t)
{
    http_cut(take_ptr(t->pipe.x));
    lost(t);
}

void web_stream_detach(struct web_stream *t)
{
    http_cut(take_ptr(t->pipe.x));
    forget_exchange(t);
}
