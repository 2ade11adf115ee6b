/* SPDX-License-Identifier: Apache-2.0 */
/* process.Process of E2B's envd: background processes that outlive their client's connection. */
#include <signal.h>
#include <stdio.h>

#include "edge/e2b/internal.h"
#include "edge/core/input.h"
#include "edge/core/background.h"
#include "edge/core/guard.h"
#include "edge/core/exec.h"
#include "base/clock.h"
#include "base/own.h"
#include "lib/crypto/encode.h"
#include "lib/loop/timer.h"

enum { ENDED_KEPT_S = 30, DATA_MAX = 256 << 10, ARGS_MAX = PROCESS_ARGS_MAX };

/* --- the stream of a process --- */

struct envd_process_stream {
    struct background target;
    struct stream_ping ping;
    struct loop_timer deadline;
    bool tty;
};

static void stop_process_stream(struct envd_process_stream *t)
{
    watcher_stop(&t->target.watcher);
    stream_ping_stop(&t->ping);
    loop_timer_stop(&t->deadline);
}

static void release_process_stream(void *state)
{
    struct envd_process_stream *t = state;

    stop_process_stream(t);
    background_done(&t->target);
}

static void on_process_client_gone(struct call *c)
{
    stop_process_stream(c->state); /* the process continues */
}

static struct envd_process_stream *process_stream_of(struct watcher *w)
{
    return container_of(w, struct envd_process_stream, target.watcher);
}

static void open_process_event(struct json_writer *w, const char *kind)
{
    json_begin_object(w);
    json_field_begin_object(w, "event");
    json_field_begin_object(w, kind);
}

static void close_process_event(struct json_writer *w)
{
    json_end_object(w);
    json_end_object(w);
    json_end_object(w);
}

static void write_process_start(struct json_writer *w, const void *what)
{
    struct process_view v;

    process_view(what, &v);
    open_process_event(w, "start");
    json_field_int(w, "pid", v.pid);
    close_process_event(w);
}

static void write_process_ping(struct json_writer *w, const void *what)
{
    open_process_event(w, "keepalive");
    close_process_event(w);
}

struct output_piece {
    const char *channel;
    struct str data;
};

static void write_output_piece(struct json_writer *w, const void *what)
{
    struct buf text AUTO(buf_done) = BUF_INIT(DATA_MAX);
    const struct output_piece *p = what;

    crypto_base64(p->data, &text);
    open_process_event(w, "data");
    json_field_str(w, p->channel, buf_str(&text));
    close_process_event(w);
}

/* Status texts as Go formats them, the language of E2B's envd: "exit status 3", "signal:
 * killed". */
static void write_process_end(struct json_writer *w, const void *what)
{
    const struct backend_end *end = what;
    bool exited = end->how == BACKEND_EXITED;
    char text[64], error[160], memory[EXEC_LIMIT_TEXT];

    if (exited)
        snprintf(text, sizeof text, "exit status %d", end->status);
    else
        snprintf(text, sizeof text, "signal: %s",
                 end->status == SIGKILL   ? "killed"
                 : end->status == SIGTERM ? "terminated"
                                          : sigdescr_np(end->status));
    open_process_event(w, "end");
    json_field_int(w, "exitCode", exited ? end->status : -1);
    json_field_bool(w, "exited", exited);
    json_field_text(w, "status", text);
    snprintf(error, sizeof error, "%s: %s", text, exec_oom_text(end, memory));
    if (!exited || end->status)
        json_field_text(w, "error", backend_end_is_oom(end) ? error : text);
    close_process_event(w);
}

static void on_process_ping_lost(struct stream_ping *p)
{
    stop_process_stream(container_of(p, struct envd_process_stream, ping));
}

static bool on_envd_process_output(struct watcher *w, int channel, struct str data)
{
    struct envd_process_stream *t = process_stream_of(w);
    const struct output_piece p = { t->tty ? "pty" : channel == 2 ? "stderr" : "stdout", data };
    int r = stream_send(t->target.call, write_output_piece, &p);

    if (r < 0)
        stop_process_stream(t);
    else
        stream_ping_later(&t->ping);
    return r == 0;
}

/* Ends the stream. If the sandbox ended first, closes the connection without its end instead: the
 * client then queries the sandbox and finds that it is gone. */
static void on_envd_process_ended(struct watcher *w, const struct backend_end *end)
{
    struct envd_process_stream *t = process_stream_of(w);
    struct call *c = t->target.call;

    stop_process_stream(t);
    if (end->how == BACKEND_LOST)
        http_drop(call_take_exchange(c));
    else if (end->how == BACKEND_TIMED_OUT)
        stream_end_with(c, "deadline_exceeded", "the process was killed at its timeout");
    else if (stream_send(c, write_process_end, end) >= 0)
        stream_end(c);
}

static void on_envd_process_behind(struct watcher *w)
{
    struct envd_process_stream *t = process_stream_of(w);

    stop_process_stream(t);
    http_cut(call_take_exchange(t->target.call));
}

static const struct watcher_events watcher_events = { .output = on_envd_process_output,
                                                      .ended = on_envd_process_ended,
                                                      .fell_behind = on_envd_process_behind };

static struct envd_process_stream *new_process_stream(struct call *c)
{
    struct envd_process_stream *t = background_new(c, sizeof *t, 0, release_process_stream);

    t->ping = (struct stream_ping){ .call = c,
                                    .write = write_process_ping,
                                    .on_lost = on_process_ping_lost };
    c->on_gone = on_process_client_gone;
    return t;
}

/* Starts the stream of t->target; live_only: without its earlier output. */
static void begin_process_stream(struct envd_process_stream *t, bool live_only)
{
    struct process_view v;

    process_view(t->target.process, &v);
    t->tty = v.request->tty;
    if (!stream_begin(t->target.call, background_drained) ||
        stream_send(t->target.call, write_process_start, t->target.process) < 0)
        return;
    stream_ping_later(&t->ping);
    background_watch(&t->target, &watcher_events, live_only);
}

/* --- Start --- */

struct start_request {
    struct {
        const char *cmd, *cwd;
        struct json_strs args;
        struct json_map envs;
    } process;
    bool stdin_, stdin_given, pty;
    struct {
        uint16_t cols, rows;
    } size;
    const char *tag;
};

#define AT(member) JSON_AT(struct start_request, member)
#define WHOLE      .offset = 0, .size = sizeof(struct start_request)

static const struct json_field command_fields[] = {
    { "cmd", JSON_KIND_STR, AT(process.cmd), .required = true, .min = 1, .max = 4095 },
    { "args", JSON_KIND_STRS, AT(process.args), .max = ARGS_MAX - 1 },
    { "envs", JSON_KIND_MAP, AT(process.envs), .max = PROCESS_ENV_MAX },
    { "cwd", JSON_KIND_STR, AT(process.cwd), .max = 4095 },
};

static const struct json_field size_fields[] = {
    { "cols", JSON_KIND_UINT, AT(size.cols), .min = 0, .max = 10000 },
    { "rows", JSON_KIND_UINT, AT(size.rows), .min = 0, .max = 10000 },
};

static const struct json_field pty_fields[] = {
    { "size", JSON_KIND_OBJECT, WHOLE, JSON_FIELDS(size_fields) },
};

static const struct json_field start_fields[] = {
    { "process", JSON_KIND_OBJECT, WHOLE, .required = true, JSON_FIELDS(command_fields) },
    { "stdin", JSON_KIND_BOOL, AT(stdin_), .seen = offsetof(struct start_request, stdin_given) },
    { "pty", JSON_KIND_OBJECT, WHOLE, .seen = offsetof(struct start_request, pty),
      JSON_FIELDS(pty_fields) },
    { "tag", JSON_KIND_STR, AT(tag), .max = 256 },
};

static struct json_strs whole_argv(struct call *c, const struct start_request *q)
{
    const char **argv = call_alloc(c, q->process.args.n + 1, sizeof *argv);

    argv[0] = q->process.cmd;
    for (size_t i = 0; i < q->process.args.n; i++)
        argv[i + 1] = q->process.args.p[i];
    return (struct json_strs){ argv, q->process.args.n + 1 };
}

/* Returns "" for the user's home, which the sandbox determines; NULL if the call was answered or
 * its handler will be called again. */
static const char *choose_cwd(struct call *c, struct str given, const char *user)
{
    const char *usual = e2b_workdir(c);

    if (!given.n)
        return usual ? usual : "";
    return e2b_ensure_home(c, user, given) ? e2b_path(c, user, given) : NULL;
}

static bool fill_start_request(struct call *c, const struct start_request *q,
                               struct process_request *ret)
{
    const char *user = e2b_rpc_user(c),
               *cwd = user ? choose_cwd(c, str_from(q->process.cwd), user) : NULL;
    struct err e;

    if (!cwd)
        return false;
    *ret = (struct process_request){
        .argv = whole_argv(c, q),
        .env = q->process.envs,
        .cwd = cwd,
        .user = user,
        .tag = q->tag && q->tag[0] ? q->tag : NULL,
        .stdin_ = !q->stdin_given || q->stdin_,
        .tty = q->pty,
        .background = true,
        .rows = q->size.rows ? q->size.rows : 24,
        .cols = q->size.cols ? q->size.cols : 80,
        .grace_ns = 0,
    };
    if (process_request_check(ret, &e) >= 0)
        return stream_timeout(c, &ret->timeout_ns);
    call_fail(c, &e);
    return false;
}

static void fail_start(const struct background *b, const struct err *e)
{
    if (strcmp(b->op.step, "workdir") == 0) {
        rpc_fail(b->call, 400, "cwd '%.200s' does not exist", b->request.cwd);
    } else if (strcmp(b->op.step, "user") == 0) {
        rpc_fail(b->call, 401, "invalid username: '%.64s'", b->request.user);
    } else {
        call_fail(b->call, e);
    }
}

static void on_envd_process_started(struct background *b, int r, const struct err *e)
{
    if (r < 0)
        fail_start(b, e);
    else
        begin_process_stream(container_of(b, struct envd_process_stream, target), false);
}

static void start_envd_process(struct call *c)
{
    struct start_request q = { 0 };
    struct process_request request;

    if (stream_request(c, start_fields, COUNT_OF(start_fields), &q) &&
        fill_start_request(c, &q, &request))
        background_start(&new_process_stream(c)->target, &request, on_envd_process_started);
}

/* --- existing processes --- */

struct selector {
    uint32_t pid;
    const char *tag;
};

static const struct json_field selector_fields[] = {
    { "pid", JSON_KIND_UINT, JSON_AT(struct selector, pid) },
    { "tag", JSON_KIND_STR, JSON_AT(struct selector, tag), .max = 256 },
};

struct process_search {
    const struct selector *by;
    struct process *found; /* borrowed */
    bool running;
};

/* Selects the newest running process with the pid or tag, else the newest that ended a moment ago,
 * because pids are reused. */
static void match_envd_process(void *user, struct process *p)
{
    struct process_search *s = user;
    struct process_view v;
    bool same, recent;

    process_view(p, &v);
    recent = !v.ended || clock_wall() - v.exited_ns < ENDED_KEPT_S * NS_PER_S;
    same = s->by->tag && s->by->tag[0] ? v.request->tag && strcmp(v.request->tag, s->by->tag) == 0
                                       : v.pid > 0 && (uint32_t)v.pid == s->by->pid;
    if (!same || !recent || (s->running && !v.running))
        return;
    s->found = p;
    s->running = v.running;
}

/* Returns a reference, or NULL after it has answered the call. */
static struct process *select_process(struct call *c, const struct selector *by, bool running)
{
    struct process_search s = { .by = by };

    process_each(c->sandbox, match_envd_process, &s);
    if (s.found && (s.running || !running))
        return process_ref(s.found);
    if (by->tag && by->tag[0])
        rpc_fail(c, 404, "process with tag %s not found", by->tag);
    else
        rpc_fail(c, 404, "process with pid %u not found", by->pid);
    return NULL;
}

struct process_call_request {
    struct selector process;
    const char *stdin_, *pty_input;
    unsigned signal;
    bool has_size;
    struct {
        uint16_t cols, rows;
    } size;
};

#define ONE(member) JSON_AT(struct process_call_request, member)
#define SELECTOR                                                                                   \
    {                                                                                              \
        "process", JSON_KIND_OBJECT, ONE(process), .required = true, JSON_FIELDS(selector_fields)  \
    }

static void on_process_stream_deadline(struct loop_timer *timer)
{
    struct envd_process_stream *t = container_of(timer, struct envd_process_stream, deadline);

    stop_process_stream(t);
    stream_end_with(t->target.call, "deadline_exceeded", "the timeout of the request has expired");
}

static const struct json_field connect_fields[] = { SELECTOR };

static void connect_envd_process(struct call *c)
{
    struct process_call_request q = { 0 };
    struct process *p;
    struct envd_process_stream *t;
    int64_t timeout;

    if (!stream_request(c, connect_fields, COUNT_OF(connect_fields), &q) ||
        !stream_timeout(c, &timeout))
        return;
    p = select_process(c, &q.process, false);
    if (!p)
        return;
    t = new_process_stream(c);
    t->target.process = p;
    call_ref(c);
    begin_process_stream(t, true);
    if (c->x && timeout) /* limits this stream only: the process has a timeout of its own */
        loop_timer_start(c->api->loop, &t->deadline, clock_mono() + timeout,
                         on_process_stream_deadline, NULL);
    call_unref(c);
}

/* --- List --- */

struct process_list {
    struct json_writer *writer;
    bool may_exec;
};

static void write_listed_process(void *user, struct process *p)
{
    const struct process_list *l = user;
    struct json_writer *w = l->writer;
    struct process_view v;

    process_view(p, &v);
    if (v.ended)
        return;
    json_begin_object(w);
    json_field_begin_object(w, "config");
    json_field_text(w, "cmd", v.request->argv.p[0]);
    json_field_begin_array(w, "args");
    for (size_t i = 1; i < v.request->argv.n; i++)
        json_put_lossy(w, str_from(v.request->argv.p[i]));
    json_end_array(w);
    json_key(w, STR("envs"));
    guard_write_env(w, &v.request->env, l->may_exec);
    if (v.request->cwd && v.request->cwd[0])
        json_field_text(w, "cwd", v.request->cwd);
    json_end_object(w);
    json_field_int(w, "pid", v.pid);
    if (v.request->tag)
        json_field_text(w, "tag", v.request->tag);
    json_end_object(w);
}

static void write_envd_processes(struct json_writer *w, const void *what)
{
    const struct call *c = what;
    struct process_list l = { w, guard_may_exec(c, c->sandbox) };

    json_begin_object(w);
    json_field_begin_array(w, "processes");
    process_each(c->sandbox, write_listed_process, &l);
    json_end_array(w);
    json_end_object(w);
}

static void list_envd_processes(struct call *c)
{
    call_answer(c, 200, write_envd_processes, c);
}

/* --- input, signals, size --- */

/* The process of a unary call, referenced; NULL after it has answered the call. */
static struct process *read_process_call(struct call *c, const struct json_field *fields, size_t n,
                                         struct process_call_request *q)
{
    return e2b_read_body(c, fields, n, q) ? select_process(c, &q->process, true) : NULL;
}

static void answer_process_call(struct call *c, struct process *p, int r, const struct err *e)
{
    if (r < 0)
        call_fail(c, e);
    else
        rpc_answer_empty(c);
    process_unref(p);
}

static const struct json_field bytes_fields[] = {
    { "stdin", JSON_KIND_STR, ONE(stdin_) },
    { "pty", JSON_KIND_STR, ONE(pty_input) },
};
static const struct json_field input_fields[] = {
    SELECTOR,
    { "input", JSON_KIND_OBJECT, .offset = 0, .size = sizeof(struct process_call_request),
      JSON_FIELDS(bytes_fields) },
};

static void send_envd_input(struct call *c)
{
    struct buf bytes AUTO(buf_done) = BUF_INIT(INPUT_WHOLE_MAX);
    struct process_call_request q = { 0 };
    struct process *p = read_process_call(c, input_fields, COUNT_OF(input_fields), &q);
    struct err e;

    if (!p)
        return;
    if (crypto_unbase64(str_from(q.pty_input ? q.pty_input : q.stdin_), &bytes, &e) < 0) {
        process_unref(p);
        call_fail(c, &e);
        return;
    }
    input_whole(c, p, buf_str(&bytes), rpc_answer_empty);
}

static const struct json_field close_fields[] = { SELECTOR };

static void close_envd_stdin(struct call *c)
{
    struct process_call_request q = { 0 };
    struct process *p = read_process_call(c, close_fields, COUNT_OF(close_fields), &q);
    struct err e;

    if (p)
        answer_process_call(c, p, process_close_stdin(p, &e), &e);
}

static const char *const signal_names[] = { "SIGNAL_UNSPECIFIED", "SIGNAL_SIGTERM",
                                            "SIGNAL_SIGKILL", NULL };
static const struct json_field signal_fields[] = {
    SELECTOR,
    { "signal", JSON_KIND_ENUM, ONE(signal), .names = signal_names, .required = true },
};

static void send_envd_signal(struct call *c)
{
    struct process_call_request q = { 0 };
    struct process *p = read_process_call(c, signal_fields, COUNT_OF(signal_fields), &q);
    struct err e;
    int r;

    if (!p)
        return;
    if (!q.signal)
        r = err_set(&e, ERR_INVALID, "signal: must be SIGNAL_SIGTERM or SIGNAL_SIGKILL");
    else
        r = process_signal(p, q.signal == 2 ? SIGKILL : SIGTERM,
                           q.signal == 2 ? BACKEND_SCOPE_TREE : BACKEND_SCOPE_ONE, &e);
    answer_process_call(c, p, r, &e);
}

static const struct json_field new_size_fields[] = {
    { "cols", JSON_KIND_UINT, ONE(size.cols), .required = true, .min = 1, .max = 10000 },
    { "rows", JSON_KIND_UINT, ONE(size.rows), .required = true, .min = 1, .max = 10000 },
};
static const struct json_field new_pty_fields[] = {
    { "size", JSON_KIND_OBJECT, .offset = 0, .size = sizeof(struct process_call_request),
      .seen = offsetof(struct process_call_request, has_size), JSON_FIELDS(new_size_fields) },
};
static const struct json_field update_fields[] = {
    SELECTOR,
    { "pty", JSON_KIND_OBJECT, .offset = 0, .size = sizeof(struct process_call_request),
      JSON_FIELDS(new_pty_fields) },
};

static void update_envd_process(struct call *c)
{
    struct process_call_request q = { 0 };
    struct process *p = read_process_call(c, update_fields, COUNT_OF(update_fields), &q);
    struct err e;

    if (p)
        answer_process_call(c, p, q.has_size ? process_resize(p, q.size.rows, q.size.cols, &e) : 0,
                            &e);
}

#define SERVICE "/process.Process/"
#define STREAM  (ROUTE_TEXT | ROUTE_LONG)

const struct route routes_envd_process[] = {
    { H1_POST, VERB_EXEC, SERVICE "Start", STREAM, .handle = start_envd_process },
    { H1_POST, VERB_EXEC, SERVICE "Connect", STREAM, .handle = connect_envd_process },
    { H1_POST, VERB_READ, SERVICE "List", ROUTE_JSON, .handle = list_envd_processes },
    { H1_POST, VERB_EXEC, SERVICE "SendInput", ROUTE_JSON | ROUTE_CONTENT | ROUTE_LONG,
      .handle = send_envd_input },
    { H1_POST, VERB_EXEC, SERVICE "CloseStdin", ROUTE_JSON, .handle = close_envd_stdin },
    { H1_POST, VERB_EXEC, SERVICE "SendSignal", ROUTE_JSON, .handle = send_envd_signal },
    { H1_POST, VERB_EXEC, SERVICE "Update", ROUTE_JSON, .handle = update_envd_process },
    { .path = NULL },
};
