/* SPDX-License-Identifier: Apache-2.0 */
/* Daytona's code interpreter: contexts that run Python code in pieces and keep its variables. A
 * context is a background process that runs the kernel of the code interpreter (kernels.h). */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "edge/core/bind_known.h"
#include "edge/daytona/internal.h"
#include "edge/daytona/sessions.h"
#include "edge/code/code_output.h"
#include "edge/code/kernels.h"
#include "edge/core/guard.h"
#include "base/clock.h"
#include "base/own.h"
#include "lib/http/websocket.h"
#include "lib/json/reader.h"

enum {
    CODE_MAX = 4 << 20,
    TIMEOUT_DEFAULT_S = 600,
    TIMEOUT_MAX_S = 86400,
    CLOSE_DONE = 1000,
    CLOSE_POLICY = 1008,
    CLOSE_FAILED = 1011,
    CLOSE_TIMEOUT = 4008,
};

#define CONTEXT "daytona.code:"
#define DEFAULT "default"

struct daytona_code_request {
    const char *code, *context, *cwd, *language;
    struct json_map env;
    int64_t timeout_s;
    bool timeout_given;
};

#define AT(member) JSON_AT(struct daytona_code_request, member)

static const struct json_field code_fields[] = {
    { "code", JSON_KIND_STR, AT(code), .required = true, .max = CODE_MAX },
    { "contextId", JSON_KIND_STR, AT(context), .max = DAYTONA_TAG_MAX },
    { "envs", JSON_KIND_MAP, AT(env), .max = REQUEST_ENV_MAX },
    { "timeout", JSON_KIND_INT, AT(timeout_s), .min = 0, .max = TIMEOUT_MAX_S,
      .seen = offsetof(struct daytona_code_request, timeout_given) },
};

struct interpreter_run {
    struct call *call;
    struct process *process; /* referenced */
    struct process_op op;
    struct process_request request;
    char tag[sizeof CONTEXT + DAYTONA_TAG_MAX];
    void (*next)(struct interpreter_run *k); /* called when the context runs */
    void (*fail)(struct interpreter_run *k, const char *why);
    /* members of an execution */
    struct daytona_code_request asked;
    struct ws ws;
    bool came, over; /* the request was received; the last message was sent */
    struct watcher watcher;
    struct loop_timer deadline;
    char id[ID_MAX];
    struct buf input;
    struct code_output output;
};

static void on_interpreter_end(struct call *c)
{
    struct interpreter_run *k = c->state;

    watcher_stop(&k->watcher);
    loop_timer_stop(&k->deadline);
    process_unref(k->process);
    buf_done(&k->input);
    code_output_done(&k->output);
    free(k);
}

static void on_interpreter_client_gone(struct call *c)
{
    struct interpreter_run *k = c->state;

    watcher_stop(&k->watcher);
    loop_timer_stop(&k->deadline);
}

static struct interpreter_run *new_interpreter_run(struct call *c)
{
    struct interpreter_run *k = new0(sizeof *k);

    k->call = c;
    buf_init(&k->input, 2 * CODE_MAX);
    c->state = k;
    c->on_end = on_interpreter_end;
    c->on_gone = on_interpreter_client_gone;
    return k;
}

/* --- contexts --- */

/* A running context, referenced, or NULL. */
static struct process *find_running(struct sandbox *s, struct str name)
{
    struct process *p = daytona_find_process(s, CONTEXT, name);
    struct process_view v;

    if (p) {
        process_view(p, &v);
        if (v.ended)
            process_unref(take_ptr(p));
    }
    return p;
}

static void on_context_started(struct process_op *op, int r, const struct err *e)
{
    struct interpreter_run *k = container_of(op, struct interpreter_run, op);
    struct call *c = k->call;

    if (r >= 0)
        k->process = take_ptr(op->process);
    if (c->x && r < 0)
        k->fail(k, e->msg);
    else if (c->x)
        k->next(k);
    call_unref(c);
}

static void start_context(struct interpreter_run *k, const char *name, const char *cwd)
{
    const struct kernel *kernel = kernel_find("");
    struct call *c = k->call;

    snprintf(k->tag, sizeof k->tag, CONTEXT "%s", name);
    k->request = (struct process_request){ .argv = { kernel->argv, KERNEL_ARGS },
                                           .cwd = cwd,
                                           .user = DAYTONA_USER,
                                           .tag = k->tag,
                                           .stdin_ = true,
                                           .background = true,
                                           .helper = PROCESS_KERNEL,
                                           .rows = 24,
                                           .cols = 80 };
    k->op.request = &k->request;
    k->op.done = on_context_started;
    call_ref(c);
    k->op.programs = guard_starts_programs(c);
    process_start(c->sandbox, &c->caller.actor, &k->op);
}

static void write_context(struct json_writer *w, const void *process)
{
    struct process_view v;

    process_view(process, &v);
    json_begin_object(w);
    write_str_member(w, "id", daytona_tag_name(&v, CONTEXT));
    write_str_member(w, "language", "python");
    write_str_member(w, "cwd", v.request->cwd ? v.request->cwd : "/");
    write_bool_member(w, "active", !v.ended);
    time_write(w, "createdAt", v.started_ns);
    json_end_object(w);
}

static void answer_context(struct interpreter_run *k)
{
    call_answer(k->call, 200, write_context, k->process);
}

static void fail_context(struct interpreter_run *k, const char *why)
{
    call_fail_with(k->call, 400, "BAD_REQUEST", why);
}

static const struct json_field context_fields[] = {
    { "cwd", JSON_KIND_STR, AT(cwd), .max = 4095 },
    { "language", JSON_KIND_STR, AT(language), .max = 32 },
};

static void create_daytona_context(struct call *c)
{
    struct daytona_code_request q = { 0 };
    char name[ID_MAX];
    const char *cwd;
    struct interpreter_run *k;
    struct err e;

    if (!daytona_read_body(c, context_fields, COUNT_OF(context_fields), &q) ||
        !(cwd = daytona_path(c, str_from(q.cwd))))
        return;
    if (q.language && q.language[0] && strcmp(q.language, "python") != 0) {
        call_fail_with(c, 400, "BAD_REQUEST", "language: only python is supported");
    } else if (daytona_count_processes(c->sandbox, CONTEXT) >= DAYTONA_RUNNING_MAX) {
        call_fail_with(c, 429, "", "too many contexts in this sandbox; remove some");
    } else if (id_make("ctx_", name, &e) < 0) {
        call_fail(c, &e);
    } else {
        k = new_interpreter_run(c);
        k->next = answer_context;
        k->fail = fail_context;
        start_context(k, name, cwd);
    }
}

static void write_daytona_context(void *user, struct process *p)
{
    struct process_view v;

    process_view(p, &v);
    if (!v.ended && daytona_tag_name(&v, CONTEXT))
        write_context(user, p);
}

static void write_contexts(struct json_writer *w, const void *what)
{
    const struct call *c = what;

    json_begin_object(w);
    json_key(w, STR("contexts"));
    json_begin_array(w);
    process_each(c->sandbox, write_daytona_context, w);
    json_end_array(w);
    json_end_object(w);
}

static void list_daytona_contexts(struct call *c)
{
    call_answer(c, 200, write_contexts, c);
}

static void remove_daytona_context(struct call *c)
{
    struct process *p = find_running(c->sandbox, c->params[1]);

    if (p)
        daytona_remove_process(c, p);
    else
        call_fail_with(c, 404, "NOT_FOUND", "there is no such context");
}

/* --- an execution --- */

static void close_run(struct interpreter_run *k, int code, struct str why)
{
    k->over = true;
    watcher_stop(&k->watcher);
    loop_timer_stop(&k->deadline);
    ws_close(&k->ws, code, why);
}

static void refuse_run(struct interpreter_run *k, const char *why)
{
    close_run(k, CLOSE_POLICY, (struct str){ why, strnlen(why, 120) });
}

/* Sends each line as a message; clients ignore types that they do not know. Returns false if the
 * connection is full. */
static bool send_json_lines(struct interpreter_run *k)
{
    struct str rest = buf_str(&k->output.json_lines), line;
    int r = 0;

    while (rest.n && r >= 0) {
        rest = str_cut(rest, '\n', &line);
        if (line.n)
            r = ws_send(&k->ws, FRAME_TEXT, line, NULL);
    }
    buf_clear(&k->output.json_lines);
    if (r < 0)
        close_run(k, CLOSE_FAILED, STR("sending output failed"));
    return r <= 0;
}

static bool on_context_output(struct watcher *w, int channel, struct str data)
{
    struct interpreter_run *k = container_of(w, struct interpreter_run, watcher);
    int over = code_output_take(&k->output, channel, data);
    bool more;

    if (over < 0) {
        close_run(k, CLOSE_FAILED, STR("a message of the context is too large"));
        return true;
    }
    more = send_json_lines(k);
    if (over > 0 && !k->over &&
        ws_send(&k->ws, FRAME_TEXT, STR("{\"type\":\"control\",\"text\":\"completed\"}"), NULL) >=
            0)
        close_run(k, CLOSE_DONE, STR(""));
    return more;
}

static void on_context_ended(struct watcher *w, const struct backend_end *end)
{
    close_run(container_of(w, struct interpreter_run, watcher), CLOSE_FAILED,
              STR("the context's process has ended"));
}

static void on_context_behind(struct watcher *w)
{
    close_run(container_of(w, struct interpreter_run, watcher), CLOSE_FAILED,
              STR("the client reads too slowly"));
}

static void send_context_input(struct interpreter_run *k)
{
    while (k->input.n) {
        ssize_t n = process_stdin(k->process, buf_str(&k->input), NULL);

        if (n <= 0) /* full: on_context_room() continues; ended: on_context_ended() */
            return;
        buf_drop(&k->input, (size_t)n);
    }
}

static void on_context_room(struct watcher *w)
{
    send_context_input(container_of(w, struct interpreter_run, watcher));
}

static const struct watcher_events events = { .output = on_context_output,
                                              .ended = on_context_ended,
                                              .fell_behind = on_context_behind,
                                              .room = on_context_room };

/* Interrupts the running code; the context continues. */
static void on_execution_deadline(struct loop_timer *timer)
{
    struct interpreter_run *k = container_of(timer, struct interpreter_run, deadline);

    (void)process_signal(k->process, SIGINT, BACKEND_SCOPE_ONE, NULL);
    close_run(k, CLOSE_TIMEOUT, STR("the timeout of the request has expired"));
}

static void execute_code(struct interpreter_run *k)
{
    int64_t seconds = k->asked.timeout_given ? k->asked.timeout_s : TIMEOUT_DEFAULT_S;
    const struct kernel *kernel = kernel_find("");
    struct err e;

    if (id_make("run_", k->id, &e) < 0 ||
        kernel->request(&k->input, k->id, k->asked.code, &k->asked.env, &e) < 0) {
        refuse_run(k, "the code is too long");
        return;
    }
    code_output_init(&k->output, k->id, kernel->raw);
    k->watcher.events = &events;
    process_watch(k->process, &k->watcher, true);
    if (seconds)
        loop_timer_start(k->call->api->loop, &k->deadline, clock_mono() + seconds * NS_PER_S,
                         on_execution_deadline, NULL);
    send_context_input(k);
}

static void find_then_execute(struct interpreter_run *k)
{
    const char *name = k->asked.context && k->asked.context[0] ? k->asked.context : DEFAULT;

    k->next = execute_code;
    k->fail = refuse_run;
    k->process = find_running(k->call->sandbox, str_from(name));
    if (k->process)
        execute_code(k);
    else if (strcmp(name, DEFAULT) == 0)
        start_context(k, name, DAYTONA_HOME);
    else
        refuse_run(k, "there is no such context");
}

static void on_interpreter_message(struct ws *w, enum frame_op op, struct str data)
{
    const struct json_limits limits = { .bytes = CALL_ARENA_MAX, .depth = 8 };
    struct interpreter_run *k = container_of(w, struct interpreter_run, ws);
    struct arena *a = &k->call->arena;
    const struct json *v;
    struct err e;

    if (k->came || k->over)
        return; /* one execution per connection */
    k->came = true;
    if (json_read(data, limits, a, &v, &e) < 0 ||
        bind_known(v, code_fields, COUNT_OF(code_fields), &k->asked, a, &e) < 0)
        refuse_run(k, e.msg);
    else
        find_then_execute(k);
}

static void on_interpreter_closed(struct ws *w, int code)
{
    struct interpreter_run *k = container_of(w, struct interpreter_run, ws);
    struct call *c = k->call;

    on_interpreter_client_gone(c);
    k->over = true;
    c->x = NULL;
    meters_ended(c, CALL_STREAMED);
    call_unref(c); /* held by the exchange */
}

static void on_interpreter_drain(struct ws *w)
{
    watcher_resume(&container_of(w, struct interpreter_run, ws)->watcher);
}

static void execute_daytona_code(struct call *c)
{
    const struct ws_config config = { .on_message = on_interpreter_message,
                                      .on_closed = on_interpreter_closed,
                                      .on_drain = on_interpreter_drain,
                                      .max_message = 2 * CODE_MAX };
    struct interpreter_run *k;
    struct err e;

    if (!ws_wanted(http_request(c->x))) {
        call_fail_with(c, 400, "BAD_REQUEST",
                       "this endpoint requires a WebSocket: send Upgrade: websocket");
        return;
    }
    k = new_interpreter_run(c);
    if (ws_accept(&k->ws, c->x, &config, &e) < 0)
        call_fail(c, &e);
}

#define INTERPRETER DAYTONA_INSIDE "/process/interpreter"
#define ROW(method, path, flags, handler)                                                          \
    {                                                                                              \
        method, VERB_EXEC, INTERPRETER path, DAYTONA_LIVE | (flags), .handle = handler             \
    }

const struct route routes_daytona_interpreter[] = {
    ROW(H1_GET, "/execute", ROUTE_LONG, execute_daytona_code),
    ROW(H1_POST, "/context", ROUTE_JSON, create_daytona_context),
    ROW(H1_GET, "/context", 0, list_daytona_contexts),
    ROW(H1_DELETE, "/context/{id}", 0, remove_daytona_context),
    { .path = NULL },
};
