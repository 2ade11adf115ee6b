/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/sandboxes/{id}/processes/{n}/attach: streams a background process's output as NDJSON or
 * WebSocket messages.
 *
 * The process continues when the client disconnects. */
#include <signal.h>

#include "edge/core/background.h"
#include "edge/core/exec.h"
#include "base/own.h"
#include "edge/core/processes.h"
#include "lib/http/websocket.h"

enum { CHUNK = 64 << 10, EVENT_MAX = 1 << 20, INPUT_MAX = 1 << 20 };
enum { CLOSE_DONE = 1000, CLOSE_UNSUPPORTED = 1003, CLOSE_BEHIND = 1008, CLOSE_FAILED = 1011 };

struct attach {
    struct background target;
    bool is_ws;
    struct ws ws;
};

static struct attach *attach_of(struct watcher *w)
{
    return container_of(w, struct attach, target.watcher);
}

/* --- output --- */

/* Checks the result of http_write() or ws_send(); on failure the client is cut off. */
static int check_attach_send(struct attach *a, int r)
{
    if (r >= 0)
        return r;
    watcher_stop(&a->target.watcher);
    if (a->is_ws)
        ws_close(&a->ws, CLOSE_FAILED, STR("output could not be sent"));
    else
        http_cut(call_take_exchange(a->target.call));
    return r;
}

static int send_attach_event(struct attach *a, call_write_fn *write, const void *what)
{
    struct buf line AUTO(buf_done) = BUF_INIT(EVENT_MAX);
    struct json_writer w;

    json_writer_init(&w, &line, JSON_COMPACT);
    write(&w, what);
    json_writer_finish(&w, NULL);
    if (a->is_ws)
        return check_attach_send(a, ws_send(&a->ws, FRAME_TEXT, buf_str(&line), NULL));
    buf_add_c(&line, '\n');
    return check_attach_send(a, http_write(a->target.call->x, buf_str(&line), NULL));
}

static bool on_attach_output(struct watcher *w, int channel, struct str data)
{
    static char message[1 + CHUNK];
    struct attach *a = attach_of(w);

    if (!a->is_ws)
        return send_attach_event(a, exec_write_output, &(struct exec_output){ channel, data }) == 0;
    message[0] = (char)channel;
    memcpy(message + 1, data.p, data.n);
    return check_attach_send(
               a, ws_send(&a->ws, FRAME_BINARY, (struct str){ message, data.n + 1 }, NULL)) == 0;
}

static void on_attach_ended(struct watcher *w, const struct backend_end *end)
{
    struct attach *a = attach_of(w);

    if (send_attach_event(a, exec_write_ended, &(struct exec_ended){ end, NULL }) < 0)
        return;
    if (a->is_ws)
        ws_close(&a->ws, CLOSE_DONE, STR(""));
    else
        http_end(call_take_exchange(a->target.call));
}

/* A stream without an "exited" line was cut. */
static void on_attach_behind(struct watcher *w)
{
    struct attach *a = attach_of(w);

    if (a->is_ws)
        ws_close(&a->ws, CLOSE_BEHIND, STR("too slow"));
    else
        http_cut(call_take_exchange(a->target.call));
}

static void on_attach_input_room(struct watcher *w);

static const struct watcher_events events = {
    .output = on_attach_output,
    .ended = on_attach_ended,
    .fell_behind = on_attach_behind,
    .room = on_attach_input_room,
};

static void write_attach_started(struct json_writer *w, const void *what)
{
    json_begin_object(w);
    json_field_cstr(w, "event", "started");
    json_key(w, STR("process"));
    process_write(w, what);
    json_end_object(w);
}

/* --- WebSocket input --- */

/* Writes pending input. False: stdin is full. If stdin is closed the rest is dropped: the end of
 * the process is reported. */
static bool write_attach_input(struct attach *a)
{
    int r = background_send_input(&a->target, NULL);

    if (r < 0)
        buf_clear(&a->target.input);
    return r != 0;
}

static void on_attach_input_room(struct watcher *w)
{
    struct attach *a = attach_of(w);

    if (a->is_ws && a->target.input.n && write_attach_input(a))
        ws_resume(&a->ws);
}

static void handle_control_message(struct attach *a, struct str text)
{
    struct exec_message m;

    if (exec_message_read(text, &m) < 0)
        return;
    if (m.op == EXEC_RESIZE)
        (void)process_resize(a->target.process, m.rows, m.cols, NULL);
    else if (m.op == EXEC_CLOSE_STDIN)
        (void)process_close_stdin(a->target.process, NULL);
    else
        (void)process_signal(a->target.process, m.signal,
                             m.signal == SIGKILL ? BACKEND_SCOPE_TREE : BACKEND_SCOPE_GROUP, NULL);
}

static void on_attach_message(struct ws *w, enum frame_op op, struct str data)
{
    struct attach *a = container_of(w, struct attach, ws);

    if (op == FRAME_TEXT) {
        handle_control_message(a, data);
    } else if (!data.n || data.p[0] != 0) {
        ws_close(w, CLOSE_UNSUPPORTED, STR("clients may only send on channel 0"));
    } else if (buf_add(&a->target.input, (struct str){ data.p + 1, data.n - 1 }) < 0) {
        ws_close(w, CLOSE_FAILED, STR("a message is too big"));
    } else if (!write_attach_input(a)) {
        ws_pause(w);
    }
}

static void on_attach_closed(struct ws *w, int code)
{
    struct attach *a = container_of(w, struct attach, ws);

    call_take_exchange(a->target.call);
    watcher_stop(&a->target.watcher);
}

static void on_attach_ws_drain(struct ws *w)
{
    watcher_resume(&container_of(w, struct attach, ws)->target.watcher);
}

/* --- start --- */

static bool begin_attach(struct attach *a)
{
    static const struct ws_config config = { .on_message = on_attach_message,
                                             .on_closed = on_attach_closed,
                                             .on_drain = on_attach_ws_drain };
    struct call *c = a->target.call;
    struct err e;

    if (!a->is_ws)
        return call_begin_lines(c, background_drained);
    if (ws_accept(&a->ws, c->x, &config, &e) >= 0)
        return true;
    call_fail(c, &e);
    return false;
}

static bool read_replay(struct call *c, bool *ret_live_only)
{
    struct str v;
    int r = call_query(c, "replay", &v);

    if (r > 0 && !str_eq(v, STR("yes")) && !str_eq(v, STR("no")))
        return call_fail_with(c, 400, "invalid", "replay: must be yes or no");
    *ret_live_only = r > 0 && v.n == 2;
    return r >= 0;
}

void process_attach(struct call *c)
{
    struct process *p = process_of_call(c);
    struct attach *a;
    bool live_only = false;

    if (!p)
        return;
    a = background_new(c, sizeof *a, INPUT_MAX, NULL);
    a->target.process = p;
    a->is_ws = ws_wanted(http_request(c->x));
    if (read_replay(c, &live_only) && begin_attach(a) &&
        send_attach_event(a, write_attach_started, p) >= 0)
        background_watch(&a->target, &events, live_only);
}
