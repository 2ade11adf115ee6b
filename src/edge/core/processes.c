/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/sandboxes/{id}/processes: starts processes in the foreground or background, and controls
 * background ones. */
#include "edge/core/processes.h"

#include <signal.h>

#include "edge/core/answers.h"
#include "edge/core/background.h"
#include "edge/core/exec.h"
#include "edge/core/input.h"
#include "edge/core/route.h"
#include "lib/proc/signals.h"

/* --- JSON --- */

static const char *const process_states[] = { "running", "exited", NULL };

#define AT(member) JSON_AT(struct process_answer, member)
#define BACKGROUND .seen = offsetof(struct process_answer, background)

const struct json_field process_answer_fields[PROCESS_ANSWER_FIELDS] = {
    { "process", JSON_KIND_UINT, AT(process), .required = true },
    { "pid", JSON_KIND_INT, AT(pid) },
    { "argv", JSON_KIND_TEXTS, .via = offsetof(struct process_answer, argv) },
    { "state", JSON_KIND_ENUM, AT(exited), .names = process_states },
    { "started_at", JSON_KIND_TIME, AT(started_ns) },
    { "exited_at", JSON_KIND_TIME, AT(exited_ns) },
    ENDED_FIELDS(struct process_answer, false),
    { "tty", JSON_KIND_BOOL, AT(tty) },
    { "background", JSON_KIND_BOOL, AT(background) },
    { "tag", JSON_KIND_TEXT, AT(tag) },
    { "lost_bytes", JSON_KIND_UINT, AT(lost_bytes), BACKGROUND },
};
const struct json_shape process_answer = { "Process", JSON_FIELDS(process_answer_fields) };

void process_write(struct json_writer *w, const void *process)
{
    struct process_answer a;
    struct process_view v;

    process_view(process, &v);
    a = (struct process_answer){ .process = v.proc,
                                 .pid = v.pid,
                                 .exited = v.ended,
                                 .tty = v.request->tty,
                                 .background = true,
                                 .argv = &v.request->argv,
                                 .started_ns = v.started_ns,
                                 .exited_ns = v.exited_ns,
                                 .tag = v.request->tag,
                                 .lost_bytes = v.lost_bytes };
    if (v.ended)
        ended_answer_fill(&a.ended, &v.end, NULL);
    json_put_shape(w, &process_answer, &a);
}

/* --- start --- */

static void answer_started_process(struct background *b, int r, const struct err *e)
{
    if (r < 0)
        call_fail_sandbox(b->call, e, call_sandbox_id(b->call), b->op.step);
    else
        call_answer(b->call, 201, process_write, b->process);
}

static void rest_start_process(struct call *c)
{
    struct process_request q;
    struct err e;

    if (process_request_read(c->json, &q, &c->arena, &e) < 0)
        call_fail(c, &e);
    else if (q.background)
        background_start(background_new(c, sizeof(struct background), 0, NULL), &q,
                         answer_started_process);
    else
        exec_start(c, &q, exec_encoder_for(c), NULL);
}

/* --- list and get --- */

static void on_listed_process(void *user, struct process *p)
{
    process_write(user, p);
}

static void write_processes(struct json_writer *w, const void *call)
{
    const struct call *c = call;

    process_each(c->sandbox, on_listed_process, w);
}

static const struct json_shape process_list = { "ProcessList", JSON_LIST("processes", "Process",
                                                                         write_processes) };
const struct json_shape *const answers_processes[] = { &process_answer, &process_list, NULL };

struct process *process_of_call(struct call *c)
{
    struct process *p = NULL;
    uint64_t n;

    if (str_to_u64(c->params[1], &n) && n <= UINT32_MAX)
        p = process_find(c->sandbox, (uint32_t)n);
    if (!p)
        call_fail_with(c, 404, "not_found", "there is no background process '%.*s' in sandbox %s",
                       (int)(c->params[1].n < ID_MAX ? c->params[1].n : ID_MAX), c->params[1].p,
                       sandbox_view(c->sandbox).record->id);
    return p;
}

/* Answers with the process or the error; releases the process. */
static void answer_with_process(struct call *c, struct process *p, int r, const struct err *e)
{
    if (r < 0)
        call_fail(c, e);
    else
        call_answer(c, 200, process_write, p);
    process_unref(p);
}

static void rest_get_process(struct call *c)
{
    struct process *p = process_of_call(c);

    if (p)
        answer_with_process(c, p, 0, NULL);
}

/* --- forget --- */

static void rest_forget_process(struct call *c)
{
    struct process *p = process_of_call(c);

    if (p)
        background_forget(c, p);
}

/* --- signal and resize --- */

static const char *const scope_names[] = { "process", "group", "tree", NULL };

struct signal_request {
    const char *signal;
    enum backend_scope scope;
};

static const struct json_field signal_fields[] = {
    { "signal", JSON_KIND_STR, JSON_AT(struct signal_request, signal), .required = true, .max = 32,
      .doc = "Its name or number; KILL always means the tree." },
    { "scope", JSON_KIND_ENUM, JSON_AT(struct signal_request, scope), .names = scope_names,
      .doc = "The process itself, its process group, or everything it started." },
};

static void rest_signal_process(struct call *c)
{
    struct process *p = process_of_call(c);
    struct signal_request q = { .scope = BACKEND_SCOPE_ONE };
    struct err e;
    int r, sig;

    if (!p)
        return;
    r = json_bind(c->json, signal_fields, COUNT_OF(signal_fields), &q, &c->arena, &e);
    sig = r < 0 ? 0 : signal_number(str_from(q.signal));
    if (r >= 0 && !sig)
        r = err_set(&e, ERR_INVALID, "signal: there is no signal '%.32s'", q.signal);
    if (r >= 0)
        r = process_signal(p, sig, sig == SIGKILL ? BACKEND_SCOPE_TREE : q.scope, &e);
    answer_with_process(c, p, r, &e);
}

struct resize_request {
    uint16_t rows, cols;
};

static const struct json_field resize_fields[] = {
    { "rows", JSON_KIND_UINT, JSON_AT(struct resize_request, rows), .required = true, .min = 1,
      .max = 10000, .doc = "Lines of the terminal." },
    { "cols", JSON_KIND_UINT, JSON_AT(struct resize_request, cols), .required = true, .min = 1,
      .max = 10000, .doc = "Characters of a line." },
};

static void rest_resize_process(struct call *c)
{
    struct process *p = process_of_call(c);
    struct resize_request q = { 0 };
    struct err e;
    int r;

    if (!p)
        return;
    r = json_bind(c->json, resize_fields, COUNT_OF(resize_fields), &q, &c->arena, &e);
    if (r >= 0)
        r = process_resize(p, q.rows, q.cols, &e);
    answer_with_process(c, p, r, &e);
}

/* --- stdin --- */

static void rest_write_process_stdin(struct call *c)
{
    struct process *p = process_of_call(c);
    bool close = false;

    if (!p)
        return;
    if (call_query_bool(c, "close", &close) < 0)
        process_unref(p);
    else
        input_stream(c, p, close);
}

#define INSIDE      (ROUTE_SANDBOX | ROUTE_LIVE)
#define LONG_INSIDE (INSIDE | ROUTE_LONG)
#define PROCESSES   "/v1/sandboxes/{id}/processes"

const struct route routes_processes[] = {
    { H1_POST, VERB_EXEC, PROCESSES, LONG_INSIDE | ROUTE_JSON | ROUTE_CONTENT, rest_start_process,
      "Start a process", .fields = process_request_fields,
      .field_count = &process_request_field_count, .answer = "application/x-ndjson Collected" },
    { H1_GET, VERB_READ, PROCESSES, INSIDE, call_answer_route, "List background processes",
      .answer = "ProcessList", .with = &process_list },
    { H1_GET, VERB_EXEC, PROCESSES "/new", LONG_INSIDE, exec_ws_accept,
      "Start a process over a WebSocket; its first message is the request", .status = 101 },
    { H1_GET, VERB_READ, PROCESSES "/{n}", INSIDE, rest_get_process, "Show a background process",
      .answer = "Process" },
    { H1_DELETE, VERB_EXEC, PROCESSES "/{n}", INSIDE, rest_forget_process,
      "Remove an ended background process and its output", .status = 204 },
    { H1_GET, VERB_EXEC, PROCESSES "/{n}/attach", LONG_INSIDE, process_attach,
      "A background process's output, as lines or over a WebSocket",
      .answer = "application/x-ndjson", .query = "replay" },
    { H1_POST, VERB_EXEC, PROCESSES "/{n}/signal", INSIDE | ROUTE_JSON, rest_signal_process,
      "Signal a background process", ROUTE_FIELDS(signal_fields), .answer = "Process" },
    { H1_POST, VERB_EXEC, PROCESSES "/{n}/stdin", LONG_INSIDE | ROUTE_STREAM,
      rest_write_process_stdin, "Write to a background process", .query = "close", .status = 204 },
    { H1_POST, VERB_EXEC, PROCESSES "/{n}/resize", INSIDE | ROUTE_JSON, rest_resize_process,
      "Resize a background process's terminal", ROUTE_FIELDS(resize_fields), .answer = "Process" },
    { H1_GET, VERB_READ, "/v1/sandboxes/{id}/logs", LONG_INSIDE, process_logs,
      "The output of background processes", .answer = "application/x-ndjson",
      .query = "follow process tail" },
    { .path = NULL },
};
