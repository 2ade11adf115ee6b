/* /v1/sandboxes/{id}/processes: start, in the foreground or background, and what goes on then. */
#include "api/processes.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/exec.h"
#include "api/input.h"
#include "api/route.h"
#include "api/guard.h"
#include "proc/signals.h"

/* --- how one looks --- */

static void put_argv(struct json_writer *w, const struct json_strs *argv)
{
    json_key(w, STR("argv"));
    json_begin_array(w);
    for (size_t i = 0; i < argv->n; i++)
        json_put_lossy(w, str_from(argv->p[i]));
    json_end_array(w);
}

void process_write(struct json_writer *w, const void *process)
{
    struct process_view v;

    process_view(process, &v);
    json_begin_object(w);
    json_key(w, STR("process"));
    json_put_uint(w, v.proc);
    json_key(w, STR("pid"));
    json_put_int(w, v.pid);
    put_argv(w, &v.request->argv);
    json_key(w, STR("state"));
    json_put_str(w, v.ended ? STR("exited") : STR("running"));
    time_write(w, "started_at", v.started_ns);
    time_write(w, "exited_at", v.exited_ns);
    if (v.ended)
        exec_end_fields(w, &v.end, NULL);
    json_key(w, STR("tty"));
    json_put_bool(w, v.request->tty);
    json_key(w, STR("background"));
    json_put_bool(w, true);
    if (v.request->tag) {
        json_key(w, STR("tag"));
        json_put_lossy(w, str_from(v.request->tag));
    }
    json_key(w, STR("lost_bytes"));
    json_put_uint(w, v.lost_bytes);
    json_end_object(w);
}

/* --- start --- */

/* An operation on a process that outlives its request. */
struct background {
    struct call *call;
    struct process_op op;
    struct process_request request;
};

static void background_end(struct call *c)
{
    struct background *b = c->state;

    if (b->op.process)
        process_unref(b->op.process);
    free(b);
}

static void begun(struct process_op *op, int r, const struct err *e)
{
    struct call *c = container_of(op, struct background, op)->call;

    if (r < 0)
        call_fail_sandbox(c, e, sandbox_view(c->sandbox).record->id, op->step);
    else
        call_answer(c, 201, process_write, op->process);
    call_unref(c);
}

static struct background *background_new(struct call *c, void (*done)(struct process_op *op, int r,
                                                                      const struct err *e))
{
    struct background *b = calloc(1, sizeof *b);

    if (!b)
        abort();
    b->call = call_ref(c);
    b->op.done = done;
    c->state = b;
    c->on_end = background_end;
    return b;
}

static void start_background(struct call *c, const struct process_request *q)
{
    struct background *b = background_new(c, begun);

    b->request = *q;
    b->op.request = &b->request;
    b->op.programs = guard_starts_programs(c);
    process_start(c->sandbox, &c->caller.actor, &b->op);
}

static void start(struct call *c)
{
    struct process_request q;
    struct err e;

    if (process_request_read(c->json, &q, &c->arena, &e) < 0)
        call_fail(c, &e);
    else if (q.background)
        start_background(c, &q);
    else
        exec_start(c, &q, exec_face_for(c), NULL);
}

/* --- list and get --- */

static void put_one(void *user, struct process *p)
{
    process_write(user, p);
}

static void write_list(struct json_writer *w, const void *what)
{
    const struct call *c = what;

    json_begin_object(w);
    json_key(w, STR("processes"));
    json_begin_array(w);
    process_each(c->sandbox, put_one, w);
    json_end_array(w);
    json_end_object(w);
}

static void list(struct call *c)
{
    call_answer(c, 200, write_list, c);
}

struct process *process_of_call(struct call *c)
{
    struct process *p = NULL;
    uint64_t n;

    if (str_to_u64(c->params[1], &n) && n <= UINT32_MAX)
        p = process_find(c->sandbox, (uint32_t)n);
    if (!p)
        call_fail_with(c, 404, "not_found", "there is no such background process in this sandbox");
    return p;
}

static void get(struct call *c)
{
    struct process *p = process_of_call(c);

    if (!p)
        return;
    call_answer(c, 200, process_write, p);
    process_unref(p);
}

/* --- forget --- */

static void forgotten(struct process_op *op, int r, const struct err *e)
{
    struct call *c = container_of(op, struct background, op)->call;

    if (r < 0)
        call_fail(c, e);
    else
        call_answer_empty(c);
    call_unref(c);
}

static void forget(struct call *c)
{
    struct process *p = process_of_call(c);
    struct background *b;

    if (!p)
        return;
    b = background_new(c, forgotten);
    b->op.process = p;
    process_forget(&b->op, &c->caller.actor);
}

/* --- signal and resize --- */

/* Answers with the process, or with why not. */
static void answer_done(struct call *c, struct process *p, int r, const struct err *e)
{
    if (r < 0)
        call_fail(c, e);
    else
        call_answer(c, 200, process_write, p);
}

static const char *const scope_names[] = { "process", "group", "tree", NULL };

struct signal_request {
    const char *signal;
    enum ext_scope scope;
};

static const struct json_field signal_fields[] = {
    { "signal", JSON_KIND_STR, JSON_AT(struct signal_request, signal), .required = true, .max = 32,
      .doc = "Its name or number; KILL always means the tree." },
    { "scope", JSON_KIND_ENUM, JSON_AT(struct signal_request, scope), .names = scope_names,
      .doc = "The process itself, its process group, or everything it started." },
};
static const size_t signal_field_count = COUNT_OF(signal_fields);

static int send_signal(struct call *c, struct process *p, struct err *e)
{
    struct signal_request q = { .scope = EXT_SCOPE_ONE };
    int r = json_bind(c->json, signal_fields, signal_field_count, &q, &c->arena, e), sig;

    if (r < 0)
        return r;
    sig = signal_number(str_from(q.signal));
    if (!sig)
        return err_set(e, ERR_INVALID, "signal: there is no signal '%.32s'", q.signal);
    return process_signal(p, sig, sig == SIGKILL ? EXT_SCOPE_TREE : q.scope, e);
}

static void signal_process(struct call *c)
{
    struct process *p = process_of_call(c);
    struct err e;

    if (!p)
        return;
    answer_done(c, p, send_signal(c, p, &e), &e);
    process_unref(p);
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
static const size_t resize_field_count = COUNT_OF(resize_fields);

static void resize(struct call *c)
{
    struct process *p = process_of_call(c);
    struct resize_request q = { 0 };
    struct err e;
    int r;

    if (!p)
        return;
    r = json_bind(c->json, resize_fields, resize_field_count, &q, &c->arena, &e);
    if (r >= 0)
        r = process_resize(p, q.rows, q.cols, &e);
    answer_done(c, p, r, &e);
    process_unref(p);
}

/* --- stdin --- */

static void write_stdin(struct call *c)
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

static void connect_new(struct call *c)
{
    exec_ws_accept(c);
}

#define INSIDE      (ROUTE_SANDBOX | ROUTE_LIVE)
#define LONG_INSIDE (INSIDE | ROUTE_LONG)
#define PROCESSES   "/v1/sandboxes/{id}/processes"

const struct route routes_processes[] = {
    { H1_POST, VERB_EXEC, PROCESSES, LONG_INSIDE | ROUTE_JSON | ROUTE_CONTENT, start,
      "Start a process", .fields = process_request_fields,
      .field_count = &process_request_field_count, .answer = "application/x-ndjson Collected" },
    { H1_GET, VERB_READ, PROCESSES, INSIDE, list, "List background processes",
      .answer = "ProcessList" },
    { H1_GET, VERB_EXEC, PROCESSES "/new", LONG_INSIDE, connect_new,
      "Start a process over a WebSocket; its first message is the request", .status = 101 },
    { H1_GET, VERB_READ, PROCESSES "/{n}", INSIDE, get, "Show a background process",
      .answer = "Process" },
    { H1_DELETE, VERB_EXEC, PROCESSES "/{n}", INSIDE, forget,
      "Forget a background process that has ended, and its output", .status = 204 },
    { H1_GET, VERB_EXEC, PROCESSES "/{n}/attach", LONG_INSIDE, process_attach,
      "A background process's output, as lines or over a WebSocket",
      .answer = "application/x-ndjson", .query = "replay" },
    { H1_POST, VERB_EXEC, PROCESSES "/{n}/signal", INSIDE | ROUTE_JSON, signal_process,
      "Signal a background process", .fields = signal_fields, .field_count = &signal_field_count,
      .answer = "Process" },
    { H1_POST, VERB_EXEC, PROCESSES "/{n}/stdin", LONG_INSIDE | ROUTE_STREAM, write_stdin,
      "Write to a background process", .query = "close", .status = 204 },
    { H1_POST, VERB_EXEC, PROCESSES "/{n}/resize", INSIDE | ROUTE_JSON, resize,
      "Resize a background process's terminal", .fields = resize_fields,
      .field_count = &resize_field_count, .answer = "Process" },
    { H1_GET, VERB_READ, "/v1/sandboxes/{id}/logs", LONG_INSIDE, process_logs,
      "What background processes wrote", .answer = "application/x-ndjson",
      .query = "follow process tail" },
    { .path = NULL },
};
