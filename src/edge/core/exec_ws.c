/* A program over a WebSocket: the first message is the request, then bytes in both directions.
 *
 * From ws_accept() on the exchange is the WebSocket's; the call's `x` only says that the client is
 * there, and the call is released when the WebSocket is closed. */
#include <stdlib.h>

#include "api/exec.h"
#include "http/websocket.h"
#include "json/reader.h"

enum { CLOSE_DONE = 1000, CLOSE_UNSUPPORTED = 1003, CLOSE_POLICY = 1008, CLOSE_FAILED = 1011 };
enum { EVENT_MAX = 64 << 10 };

struct ws_session {
    struct ws ws;
    struct call *call;
    struct exec *exec; /* NULL: the request has not come */
    bool over;         /* everything was said: what still comes is not listened to */
};

typedef void event_write_fn(struct json_writer *w, const void *what);

static void send_text(struct ws_session *s, event_write_fn *write, const void *what)
{
    struct buf text AUTO(buf_done) = BUF_INIT(EVENT_MAX);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    write(&w, what);
    if (json_writer_finish(&w, NULL) < 0 || ws_send(&s->ws, FRAME_TEXT, buf_str(&text), NULL) < 0)
        ws_close(&s->ws, CLOSE_FAILED, STR("an event could not be told"));
}

struct refusal {
    const struct err *e;
    const char *id, *step;
};

static void write_error(struct json_writer *w, const void *what)
{
    const struct refusal *f = what;
    enum err_code code = f->e->code;

    json_begin_object(w);
    json_key(w, STR("event"));
    json_put_str(w, STR("error"));
    problem_fields(w, f->e, problem_status(code), problem_code(code), f->id, f->step);
    json_end_object(w);
}

static void refuse(struct ws_session *s, const struct err *e, const char *step)
{
    const char *id = sandbox_view(s->call->sandbox).record->id;

    send_text(s, write_error, &(struct refusal){ e, id, step });
    s->over = true;
    ws_close(&s->ws, CLOSE_POLICY, STR("refused"));
}

/* --- the face --- */

static void write_started(struct json_writer *w, const void *what)
{
    exec_write_started(w, what);
}

static void on_input_room(struct exec *x)
{
    if (x->session)
        ws_resume(&x->session->ws);
}

static bool face_started(struct exec *x)
{
    send_text(x->session, write_started, x);
    x->on_input_room = on_input_room;
    ws_resume(&x->session->ws);
    return true;
}

static bool face_output(struct exec *x, int channel, struct str data)
{
    static char message[1 + EXEC_CHUNK];
    int r;

    message[0] = (char)channel;
    memcpy(message + 1, data.p, data.n);
    r = ws_send(&x->session->ws, FRAME_BINARY, (struct str){ message, data.n + 1 }, NULL);
    if (r < 0) /* never with a hole in it */
        ws_close(&x->session->ws, CLOSE_FAILED, STR("output could not be told"));
    return r == 0;
}

static void write_ended(struct json_writer *w, const void *what)
{
    exec_write_ended(w, what, NULL);
}

static void face_ended(struct exec *x, const struct ext_end *end)
{
    send_text(x->session, write_ended, end);
    x->session->over = true;
    ws_close(&x->session->ws, CLOSE_DONE, STR(""));
}

static void face_failed(struct exec *x, const struct err *e)
{
    refuse(x->session, e, x->op.process.step);
}

const struct exec_face exec_ws = {
    .started = face_started,
    .output = face_output,
    .ended = face_ended,
    .failed = face_failed,
};

/* --- messages --- */

static int read_request(struct call *c, struct str text, struct process_request *q, struct err *e)
{
    const struct json_limits limits = { .bytes = CALL_ARENA_MAX, .depth = 16 };
    const struct json *v;
    int r = json_read(text, limits, &c->arena, &v, e);

    if (r >= 0)
        r = process_request_read(v, q, &c->arena, e);
    if (r >= 0 && q->background)
        r = err_set(e, ERR_INVALID, "background: is started with POST, and then attached to");
    return r;
}

static void first_message(struct ws_session *s, enum frame_op op, struct str data)
{
    struct process_request q;
    struct err e;

    if (op != FRAME_TEXT) {
        (void)err_set(&e, ERR_INVALID, "the first message is the request, as text");
        refuse(s, &e, NULL);
    } else if (read_request(s->call, data, &q, &e) < 0) {
        refuse(s, &e, NULL);
    } else {
        ws_pause(&s->ws); /* until it runs there is no stdin for what follows */
        exec_start(s->call, &q, &exec_ws, s);
        s->exec = s->call->state;
    }
}

static void on_message(struct ws *w, enum frame_op op, struct str data)
{
    struct ws_session *s = container_of(w, struct ws_session, ws);

    if (s->over)
        return;
    if (!s->exec)
        first_message(s, op, data);
    else if (op == FRAME_TEXT)
        exec_control(s->exec, data);
    else if (!data.n || data.p[0] != 0)
        ws_close(w, CLOSE_UNSUPPORTED, STR("only channel 0 goes in"));
    else if (!exec_input(s->exec, (struct str){ data.p + 1, data.n - 1 }))
        ws_pause(w);
}

static void on_drain(struct ws *w)
{
    struct ws_session *s = container_of(w, struct ws_session, ws);

    if (s->exec)
        exec_resume(s->exec);
}

static void on_closed(struct ws *w, int code)
{
    struct ws_session *s = container_of(w, struct ws_session, ws);
    struct call *c = s->call;

    (void)code;
    c->x = NULL;
    meters_ended(c, CALL_STREAMED);
    if (s->exec) {
        s->exec->session = NULL;
        exec_gone(s->exec);
    }
    free(s);
    call_unref(c); /* the exchange's */
}

void exec_ws_accept(struct call *c)
{
    const struct ws_config config = { .on_message = on_message,
                                      .on_closed = on_closed,
                                      .on_drain = on_drain };
    struct ws_session *s;
    struct err e;

    if (!ws_wanted(http_request(c->x))) {
        call_fail_with(c, 400, "invalid", "this is for WebSockets: send Upgrade: websocket");
        return;
    }
    s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->call = c;
    if (ws_accept(&s->ws, c->x, &config, &e) < 0) {
        free(s);
        call_fail(c, &e);
    }
}
