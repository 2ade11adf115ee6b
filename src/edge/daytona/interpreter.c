/* Daytona's code interpreter: contexts that keep their names, which run Python in pieces. A context
 * is a background process, and its program is that of E2B's code interpreter. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/bind_known.h"
#include "api/daytona/inside.h"
#include "api/daytona/sessions.h"
#include "api/e2b/code_output.h"
#include "api/e2b/kernels.h"
#include "api/guard.h"
#include "base/clock.h"
#include "http/websocket.h"
#include "json/reader.h"

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

struct code_request {
    const char *code, *context, *cwd, *language;
    struct json_map env;
    int64_t timeout_s;
    bool timeout_given;
};

#define AT(member) JSON_AT(struct code_request, member)

static const struct json_field code_fields[] = {
    { "code", JSON_KIND_STR, AT(code), .required = true, .max = CODE_MAX },
    { "contextId", JSON_KIND_STR, AT(context), .max = DAYTONA_TAG_MAX },
    { "envs", JSON_KIND_MAP, AT(env), .max = REQUEST_ENV_MAX },
    { "timeout", JSON_KIND_INT, AT(timeout_s), .min = 0, .max = TIMEOUT_MAX_S,
      .seen = offsetof(struct code_request, timeout_given) },
};

struct run {
    struct call *call;
    struct process *process; /* referenced */
    struct process_op op;
    struct process_request request;
    char tag[sizeof CONTEXT + DAYTONA_TAG_MAX];
    void (*next)(struct run *k); /* when the context is there */
    void (*fail)(struct run *k, const char *why);
    /* an execution */
    struct code_request asked;
    struct ws ws;
    bool came, over; /* the request; the last message */
    struct watcher watcher;
    struct loop_timer deadline;
    char id[ID_MAX];
    struct buf input;
    struct code_output output;
};

static void run_end(struct call *c)
{
    struct run *k = c->state;

    watcher_stop(&k->watcher);
    loop_timer_stop(&k->deadline);
    process_unref(k->process);
    buf_done(&k->input);
    code_output_done(&k->output);
    free(k);
}

static void run_gone(struct call *c)
{
    struct run *k = c->state;

    watcher_stop(&k->watcher);
    loop_timer_stop(&k->deadline);
}

static struct run *run_new(struct call *c)
{
    struct run *k = calloc(1, sizeof *k);

    if (!k)
        abort();
    k->call = c;
    buf_init(&k->input, 2 * CODE_MAX);
    c->state = k;
    c->on_end = run_end;
    c->on_gone = run_gone;
    return k;
}

/* --- contexts --- */

/* Of one that runs, referenced. */
static struct process *find_running(struct sandbox *s, struct str name)
{
    struct process *p = daytona_find(s, CONTEXT, name);
    struct process_view v;

    if (p) {
        process_view(p, &v);
        if (v.ended)
            process_unref(take_ptr(p));
    }
    return p;
}

static void started(struct process_op *op, int r, const struct err *e)
{
    struct run *k = container_of(op, struct run, op);
    struct call *c = k->call;

    if (r >= 0)
        k->process = take_ptr(op->process);
    if (c->x && r < 0)
        k->fail(k, e->msg);
    else if (c->x)
        k->next(k);
    call_unref(c);
}

static void start_context(struct run *k, const char *name, const char *cwd)
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
    k->op.done = started;
    call_ref(c);
    k->op.programs = guard_starts_programs(c);
    process_start(c->sandbox, &c->caller.actor, &k->op);
}

static void write_context(struct json_writer *w, const void *process)
{
    struct process_view v;

    process_view(process, &v);
    json_begin_object(w);
    put(w, "id", daytona_tag(&v, CONTEXT));
    put(w, "language", "python");
    put(w, "cwd", v.request->cwd ? v.request->cwd : "/");
    put_flag(w, "active", !v.ended);
    time_write(w, "createdAt", v.started_ns);
    json_end_object(w);
}

static void answer_context(struct run *k)
{
    call_answer(k->call, 200, write_context, k->process);
}

static void fail_context(struct run *k, const char *why)
{
    call_fail_with(k->call, 400, "BAD_REQUEST", why);
}

static const struct json_field context_fields[] = {
    { "cwd", JSON_KIND_STR, AT(cwd), .max = 4095 },
    { "language", JSON_KIND_STR, AT(language), .max = 32 },
};

static void create_context(struct call *c)
{
    struct code_request q = { 0 };
    char name[ID_MAX];
    const char *cwd;
    struct run *k;
    struct err e;

    if (!daytona_read(c, context_fields, COUNT_OF(context_fields), &q) ||
        !(cwd = daytona_path(c, str_from(q.cwd))))
        return;
    if (q.language && q.language[0] && strcmp(q.language, "python") != 0) {
        call_fail_with(c, 400, "BAD_REQUEST", "language: there is python here");
    } else if (daytona_count(c->sandbox, CONTEXT) >= DAYTONA_RUNNING_MAX) {
        call_fail_with(c, 429, "", "this sandbox has as many contexts as it may have");
    } else if (id_make("ctx_", name, &e) < 0) {
        call_fail(c, &e);
    } else {
        k = run_new(c);
        k->next = answer_context;
        k->fail = fail_context;
        start_context(k, name, cwd);
    }
}

static void put_context(void *user, struct process *p)
{
    struct process_view v;

    process_view(p, &v);
    if (!v.ended && daytona_tag(&v, CONTEXT))
        write_context(user, p);
}

static void write_contexts(struct json_writer *w, const void *what)
{
    const struct call *c = what;

    json_begin_object(w);
    json_key(w, STR("contexts"));
    json_begin_array(w);
    process_each(c->sandbox, put_context, w);
    json_end_array(w);
    json_end_object(w);
}

static void list_contexts(struct call *c)
{
    call_answer(c, 200, write_contexts, c);
}

static void remove_context(struct call *c)
{
    struct process *p = find_running(c->sandbox, c->params[1]);

    if (p)
        daytona_remove(c, p);
    else
        call_fail_with(c, 404, "NOT_FOUND", "there is no such context");
}

/* --- an execution --- */

static void close_run(struct run *k, int code, struct str why)
{
    k->over = true;
    watcher_stop(&k->watcher);
    loop_timer_stop(&k->deadline);
    ws_close(&k->ws, code, why);
}

static void refuse_run(struct run *k, const char *why)
{
    close_run(k, CLOSE_POLICY, (struct str){ why, strnlen(why, 120) });
}

/* Each line is a message; the client knows which of them are for it. False: it is full. */
static bool send_told(struct run *k)
{
    struct str rest = buf_str(&k->output.told), line;
    int r = 0;

    while (rest.n && r >= 0) {
        rest = str_cut(rest, '\n', &line);
        if (line.n)
            r = ws_send(&k->ws, FRAME_TEXT, line, NULL);
    }
    buf_clear(&k->output.told);
    if (r < 0)
        close_run(k, CLOSE_FAILED, STR("output could not be told"));
    return r <= 0;
}

static bool on_output(struct watcher *w, int channel, struct str data)
{
    struct run *k = container_of(w, struct run, watcher);
    int over = code_output_take(&k->output, channel, data);
    bool more;

    if (over < 0) {
        close_run(k, CLOSE_FAILED, STR("more was said at once than fits into a message"));
        return true;
    }
    more = send_told(k);
    if (over > 0 && !k->over &&
        ws_send(&k->ws, FRAME_TEXT, STR("{\"type\":\"control\",\"text\":\"completed\"}"), NULL) >=
            0)
        close_run(k, CLOSE_DONE, STR(""));
    return more;
}

static void on_ended(struct watcher *w, const struct ext_end *end)
{
    (void)end;
    close_run(container_of(w, struct run, watcher), CLOSE_FAILED,
              STR("the context's process has ended"));
}

static void on_behind(struct watcher *w)
{
    close_run(container_of(w, struct run, watcher), CLOSE_FAILED, STR("the client does not read"));
}

static void give_input(struct run *k)
{
    while (k->input.n) {
        ssize_t n = process_stdin(k->process, buf_str(&k->input), NULL);

        if (n <= 0) /* full: `room` comes; or over, which is told */
            return;
        buf_drop(&k->input, (size_t)n);
    }
}

static void on_room(struct watcher *w)
{
    give_input(container_of(w, struct run, watcher));
}

static const struct watcher_events events = {
    .output = on_output, .ended = on_ended, .fell_behind = on_behind, .room = on_room
};

/* What runs is interrupted; the context goes on. */
static void on_deadline(struct loop_timer *timer)
{
    struct run *k = container_of(timer, struct run, deadline);

    (void)process_signal(k->process, SIGINT, EXT_SCOPE_ONE, NULL);
    close_run(k, CLOSE_TIMEOUT, STR("the time that was given is over"));
}

static void execute_code(struct run *k)
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
                         on_deadline, NULL);
    give_input(k);
}

static void find_then_execute(struct run *k)
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

static void on_message(struct ws *w, enum frame_op op, struct str data)
{
    const struct json_limits limits = { .bytes = CALL_ARENA_MAX, .depth = 8 };
    struct run *k = container_of(w, struct run, ws);
    struct arena *a = &k->call->arena;
    const struct json *v;
    struct err e;

    (void)op;
    if (k->came || k->over)
        return; /* one request is one connection */
    k->came = true;
    if (json_read(data, limits, a, &v, &e) < 0 ||
        bind_known(v, code_fields, COUNT_OF(code_fields), &k->asked, a, &e) < 0)
        refuse_run(k, e.msg);
    else
        find_then_execute(k);
}

static void on_closed(struct ws *w, int code)
{
    struct run *k = container_of(w, struct run, ws);
    struct call *c = k->call;

    (void)code;
    run_gone(c);
    k->over = true;
    c->x = NULL;
    meters_ended(c, CALL_STREAMED);
    call_unref(c); /* the exchange's */
}

static void on_drain(struct ws *w)
{
    watcher_resume(&container_of(w, struct run, ws)->watcher);
}

static void execute(struct call *c)
{
    const struct ws_config config = { .on_message = on_message,
                                      .on_closed = on_closed,
                                      .on_drain = on_drain,
                                      .max_message = 2 * CODE_MAX };
    struct run *k;
    struct err e;

    if (!ws_wanted(http_request(c->x))) {
        call_fail_with(c, 400, "BAD_REQUEST", "this is for WebSockets: send Upgrade: websocket");
        return;
    }
    k = run_new(c);
    if (ws_accept(&k->ws, c->x, &config, &e) < 0)
        call_fail(c, &e);
}

#define INTERPRETER DAYTONA_INSIDE "/process/interpreter"
#define ROW(method, path, flags, handler)                                                          \
    {                                                                                              \
        method, VERB_EXEC, INTERPRETER path, DAYTONA_LIVE | (flags), handler,                      \
            .face = &toolbox_face                                                                  \
    }

const struct route routes_daytona_interpreter[] = {
    ROW(H1_GET, "/execute", ROUTE_LONG, execute),
    ROW(H1_POST, "/context", ROUTE_JSON, create_context),
    ROW(H1_GET, "/context", 0, list_contexts),
    ROW(H1_DELETE, "/context/{id}", 0, remove_context),
    { .path = NULL },
};
