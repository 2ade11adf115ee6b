/* SPDX-License-Identifier: Apache-2.0 */
/* A program over a WebSocket: the first message is the request, then bytes in both directions.
 *
 * After ws_accept() the WebSocket owns the exchange. The call's `x` only shows that the client is
 * connected; the call is released when the WebSocket is closed. */
#include "edge/core/exec.h"
#include "base/own.h"
#include "lib/http/websocket.h"
#include "lib/json/reader.h"

enum { CLOSE_DONE = 1000, CLOSE_UNSUPPORTED = 1003, CLOSE_POLICY = 1008, CLOSE_FAILED = 1011 };
enum { EVENT_MAX = 64 << 10 };

struct ws_session {
    struct ws ws;
    struct call *call;
    struct exec *exec; /* NULL: no request yet */
    bool over;         /* closing: later messages are ignored */
};

static void send_ws_event(struct ws_session *s, call_write_fn *write, const void *what)
{
    struct buf text AUTO(buf_done) = BUF_INIT(EVENT_MAX);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    write(&w, what);
    if (json_writer_finish(&w, NULL) < 0 || ws_send(&s->ws, FRAME_TEXT, buf_str(&text), NULL) < 0)
        ws_close(&s->ws, CLOSE_FAILED, STR("an event could not be sent"));
}

static void write_ws_refusal(struct json_writer *w, const void *what)
{
    json_begin_object(w);
    json_field_cstr(w, "event", "error");
    problem_write_members(w, what);
    json_end_object(w);
}

static void refuse_ws_exec(struct ws_session *s, const struct err *e, const char *step)
{
    send_ws_event(
        s, write_ws_refusal,
        &(struct call_problem){ .err = e, .sandbox_id = call_sandbox_id(s->call), .step = step });
    s->over = true;
    ws_close(&s->ws, CLOSE_POLICY, STR("refused"));
}

/* --- the encoder --- */

static void on_ws_input_room(struct exec *x)
{
    if (x->session)
        ws_resume(&x->session->ws);
}

static bool on_ws_started(struct exec *x)
{
    send_ws_event(x->session, exec_write_started, x);
    x->on_input_room = on_ws_input_room;
    ws_resume(&x->session->ws);
    return true;
}

static bool on_ws_output(struct exec *x, int channel, struct str data)
{
    static char message[1 + EXEC_CHUNK];
    int r;

    message[0] = (char)channel;
    memcpy(message + 1, data.p, data.n);
    r = ws_send(&x->session->ws, FRAME_BINARY, (struct str){ message, data.n + 1 }, NULL);
    if (r < 0) /* output must not have gaps */
        ws_close(&x->session->ws, CLOSE_FAILED, STR("output could not be sent"));
    return r == 0;
}

static void on_ws_ended(struct exec *x, const struct backend_end *end)
{
    send_ws_event(x->session, exec_write_ended, &(struct exec_ended){ end, NULL });
    x->session->over = true;
    ws_close(&x->session->ws, CLOSE_DONE, STR(""));
}

static void on_ws_failed(struct exec *x, const struct err *e)
{
    refuse_ws_exec(x->session, e, x->op.process.step);
}

const struct exec_encoder exec_ws = {
    .started = on_ws_started,
    .output = on_ws_output,
    .ended = on_ws_ended,
    .failed = on_ws_failed,
};

/* --- messages --- */

static void take_first_ws_message(struct ws_session *s, enum frame_op op, struct str data)
{
    const struct json_limits limits = { .bytes = CALL_ARENA_MAX, .depth = 16 };
    struct arena *a = &s->call->arena;
    struct process_request q;
    const struct json *v;
    struct err e;
    int r = op == FRAME_TEXT
                ? json_read(data, limits, a, &v, &e)
                : err_set(&e, ERR_INVALID, "the first message must be the request, as text");

    if (r >= 0)
        r = process_request_read(v, &q, a, &e);
    if (r >= 0 && q.background)
        r = err_set(&e, ERR_INVALID, "background: start the process with POST, then attach to it");
    if (r < 0) {
        refuse_ws_exec(s, &e, NULL);
        return;
    }
    ws_pause(&s->ws); /* no stdin for further messages until the program runs */
    exec_start(s->call, &q, &exec_ws, s);
    s->exec = s->call->state;
}

static void on_exec_ws_message(struct ws *w, enum frame_op op, struct str data)
{
    struct ws_session *s = container_of(w, struct ws_session, ws);

    if (s->over)
        return;
    if (!s->exec)
        take_first_ws_message(s, op, data);
    else if (op == FRAME_TEXT)
        exec_control(s->exec, data);
    else if (!data.n || data.p[0] != 0)
        ws_close(w, CLOSE_UNSUPPORTED, STR("clients may only send on channel 0"));
    else if (!exec_input(s->exec, (struct str){ data.p + 1, data.n - 1 }))
        ws_pause(w);
}

static void on_exec_ws_drain(struct ws *w)
{
    struct ws_session *s = container_of(w, struct ws_session, ws);

    if (s->exec)
        exec_resume(s->exec);
}

static void on_exec_ws_closed(struct ws *w, int code)
{
    struct ws_session *s = container_of(w, struct ws_session, ws);

    call_take_exchange(s->call);
    if (s->exec) {
        s->exec->session = NULL;
        exec_abandon(s->exec);
    }
}

void exec_ws_accept(struct call *c)
{
    const struct ws_config config = { .on_message = on_exec_ws_message,
                                      .on_closed = on_exec_ws_closed,
                                      .on_drain = on_exec_ws_drain };
    struct ws_session *s;
    struct err e;

    if (!ws_wanted(http_request(c->x))) {
        call_fail_with(c, 400, "invalid",
                       "this endpoint needs a WebSocket: send Upgrade: websocket");
        return;
    }
    s = call_state(c, sizeof *s, NULL);
    s->call = c;
    if (ws_accept(&s->ws, c->x, &config, &e) < 0)
        call_fail(c, &e);
}
