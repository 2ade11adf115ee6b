/* SPDX-License-Identifier: Apache-2.0 */
/* Daytona's code interpreter: contexts that run Python code in pieces and keep its variables. A
 * context is a code session; messages are frames of a WebSocket. */
#include "edge/code/session.h"

#include <stdio.h>

#include "edge/core/bind_known.h"
#include "edge/daytona/internal.h"
#include "base/clock.h"
#include "base/own.h"
#include "lib/http/websocket.h"
#include "lib/json/reader.h"

enum {
    TIMEOUT_DEFAULT_S = 600,
    TIMEOUT_MAX_S = 86400,
    CLOSE_DONE = 1000,
    CLOSE_POLICY = 1008,
    CLOSE_FAILED = 1011,
    CLOSE_TIMEOUT = 4008,
    RESULT_MAX = 512 << 10,
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

/* An execution over a WebSocket. */
struct interpreter_run {
    struct code_run run;
    struct daytona_code_request asked;
    struct ws ws;
    bool came, over; /* the request was received; the last message was sent */
};

/* --- contexts --- */

static void start_context(struct code_run *r, const char *name, const char *cwd,
                          background_started_fn *started)
{
    code_session_start(r, kernel_find(""), background_tag(r->session.call, CONTEXT, name), cwd,
                       started);
}

static void write_context(struct json_writer *w, const void *process)
{
    struct process_view v;

    process_view(process, &v);
    json_begin_object(w);
    json_field_text(w, "id", background_name(&v, CONTEXT));
    json_field_text(w, "language", "python");
    json_field_text(w, "cwd", v.request->cwd ? v.request->cwd : "/");
    json_field_bool(w, "active", !v.ended);
    time_write(w, "createdAt", v.started_ns);
    json_end_object(w);
}

static void on_context_created(struct background *b, int r, const struct err *e)
{
    if (r < 0)
        call_fail_with(b->call, 400, "BAD_REQUEST", "%s", e->msg);
    else
        call_answer(b->call, 200, write_context, b->process);
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
    struct err e;

    if (!daytona_read_body(c, context_fields, COUNT_OF(context_fields), &q) ||
        !(cwd = daytona_path(c, str_from(q.cwd))))
        return;
    if (q.language && q.language[0] && strcmp(q.language, "python") != 0)
        call_fail_with(c, 400, "BAD_REQUEST", "language: only python is supported");
    else if (background_count(c->sandbox, CONTEXT) >= DAYTONA_RUNNING_MAX)
        call_fail_with(c, 429, "", "this sandbox has %d contexts, the maximum; remove some",
                       DAYTONA_RUNNING_MAX);
    else if (id_make("ctx_", name, &e) < 0)
        call_fail(c, &e);
    else
        start_context(code_run_new(c, sizeof(struct code_run), NULL), name, cwd,
                      on_context_created);
}

static void write_daytona_context(void *user, struct process *p)
{
    struct process_view v;

    process_view(p, &v);
    if (code_session_name(&v, CONTEXT))
        write_context(user, p);
}

static void write_contexts(struct json_writer *w, const void *what)
{
    const struct call *c = what;

    json_begin_object(w);
    json_field_begin_array(w, "contexts");
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
    struct process *p = code_session_find(c->sandbox, CONTEXT, c->params[1]);

    if (p)
        background_remove(c, p);
    else
        call_fail_missing(c, "context", c->params[1]);
}

/* --- an execution --- */

static void close_run(struct interpreter_run *k, int code, struct str why)
{
    k->over = true;
    code_run_stop(&k->run);
    ws_close(&k->ws, code, why);
}

static void refuse_run(struct interpreter_run *k, const char *why)
{
    close_run(k, CLOSE_POLICY, (struct str){ why, strnlen(why, 120) });
}

/* Sends each line as a message; clients ignore types that they do not know. A result is one of
 * these, and is left out if it is too large for a message. */
static int send_code_messages(struct code_run *r, struct str json_lines)
{
    struct interpreter_run *k = container_of(r, struct interpreter_run, run);
    struct str line;
    int sent = 0;

    while (json_lines.n && sent >= 0) {
        json_lines = str_cut(json_lines, '\n', &line);
        if (line.n && !(line.n > RESULT_MAX && str_starts(line, STR("{\"type\":\"result\""))))
            sent = ws_send(&k->ws, FRAME_TEXT, line, NULL);
    }
    return sent;
}

static void stop_code_messages(struct code_run *r, enum code_stop why)
{
    static const struct {
        int code;
        const char *why;
    } closes[] = {
        [CODE_COMPLETED] = { CLOSE_DONE, "" },
        [CODE_SESSION_ENDED] = { CLOSE_FAILED, "the context's process has ended" },
        [CODE_SANDBOX_LOST] = { CLOSE_FAILED, "the context's process has ended" },
        [CODE_TOO_BIG] = { CLOSE_FAILED, "a message of the context is too large" },
        [CODE_UNSENT] = { CLOSE_FAILED, "sending output failed" },
        [CODE_BEHIND] = { CLOSE_FAILED, "the client reads too slowly" },
        [CODE_TIMED_OUT] = { CLOSE_TIMEOUT, "the timeout of the request has expired" },
    };
    struct interpreter_run *k = container_of(r, struct interpreter_run, run);

    if (why == CODE_COMPLETED &&
        ws_send(&k->ws, FRAME_TEXT, STR("{\"type\":\"control\",\"text\":\"completed\"}"), NULL) < 0)
        why = CODE_UNSENT;
    close_run(k, closes[why].code, str_from(closes[why].why));
}

static const struct code_wire code_messages = { send_code_messages, stop_code_messages };

static void execute_daytona_request(struct interpreter_run *k)
{
    int64_t seconds = k->asked.timeout_given ? k->asked.timeout_s : TIMEOUT_DEFAULT_S;
    struct err e;

    if (code_prepare(&k->run, k->asked.code, &k->asked.env, &e) < 0)
        refuse_run(k, e.msg);
    else
        code_execute(&k->run, seconds * NS_PER_S);
}

static void on_default_context_started(struct background *b, int r, const struct err *e)
{
    struct interpreter_run *k = container_of(b, struct interpreter_run, run.session);

    if (r < 0)
        refuse_run(k, e->msg);
    else
        execute_daytona_request(k);
}

static void refuse_missing_context(struct interpreter_run *k, const char *name)
{
    char why[128];

    snprintf(why, sizeof why, "there is no context '%.64s'", name);
    refuse_run(k, why);
}

static void find_then_execute(struct interpreter_run *k)
{
    const char *name = k->asked.context && k->asked.context[0] ? k->asked.context : DEFAULT;
    struct background *b = &k->run.session;

    b->process = code_session_find(b->call->sandbox, CONTEXT, str_from(name));
    if (b->process)
        execute_daytona_request(k);
    else if (strcmp(name, DEFAULT) == 0)
        start_context(&k->run, name, DAYTONA_HOME, on_default_context_started);
    else
        refuse_missing_context(k, name);
}

static void on_interpreter_message(struct ws *w, enum frame_op op, struct str data)
{
    const struct json_limits limits = { .bytes = CALL_ARENA_MAX, .depth = 8 };
    struct interpreter_run *k = container_of(w, struct interpreter_run, ws);
    struct arena *a = &k->run.session.call->arena;
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

    k->over = true;
    code_run_stop(&k->run);
    call_take_exchange(k->run.session.call);
}

static void on_interpreter_drain(struct ws *w)
{
    watcher_resume(&container_of(w, struct interpreter_run, ws)->run.session.watcher);
}

static void execute_daytona_code(struct call *c)
{
    const struct ws_config config = { .on_message = on_interpreter_message,
                                      .on_closed = on_interpreter_closed,
                                      .on_drain = on_interpreter_drain,
                                      .max_message = 2 * CODE_MAX };
    struct interpreter_run *k;
    struct err e;

    if (!daytona_wants_socket(c))
        return;
    k = code_run_new(c, sizeof *k, &code_messages);
    if (ws_accept(&k->ws, c->x, &config, &e) < 0)
        call_fail(c, &e);
}

#define INTERPRETER DAYTONA_INSIDE "/process/interpreter"
#define ROW(method, path, flags, handler)                                                          \
    DAYTONA_ROUTE(method, VERB_EXEC, INTERPRETER path, flags, handler)

const struct route routes_daytona_interpreter[] = {
    ROW(H1_GET, "/execute", ROUTE_LONG, execute_daytona_code),
    ROW(H1_POST, "/context", ROUTE_JSON, create_daytona_context),
    ROW(H1_GET, "/context", 0, list_daytona_contexts),
    ROW(H1_DELETE, "/context/{id}", 0, remove_daytona_context),
    { .path = NULL },
};
