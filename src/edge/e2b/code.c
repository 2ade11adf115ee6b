/* SPDX-License-Identifier: Apache-2.0 */
/* E2B's code interpreter (port 49999 of its sandboxes): sessions that run code in pieces. A session
 * is a background process with a tag, so the daemon keeps no state of it and finds it again after a
 * restart. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "edge/code/code_output.h"
#include "base/own.h"
#include "edge/e2b/internal.h"
#include "edge/code/kernels.h"
#include "edge/core/json_members.h"
#include "edge/core/processes.h"
#include "edge/core/guard.h"

enum { CODE_MAX = 4 << 20, CONTEXTS_MAX = 32 };

#define TAG     "e2b.code:"
#define DEFAULT "default" /* Python's default context; other languages append theirs */

/* --- sessions --- */

struct session_search {
    const char *id; /* NULL: only count */
    struct process *found;
    size_t n;
};

/* The id of a running session; NULL for other processes. */
static const char *session_id(const struct process_view *v)
{
    const struct process_request *q = v->request;

    return !v->ended && q->tag && strncmp(q->tag, TAG, strlen(TAG)) == 0 && kernel_of(q->argv.p[0])
               ? q->tag + strlen(TAG)
               : NULL;
}

static void match_code_session(void *user, struct process *p)
{
    struct session_search *s = user;
    struct process_view v;
    const char *id;

    process_view(p, &v);
    id = session_id(&v);
    s->n += id != NULL;
    if (id && s->id && strcmp(id, s->id) == 0)
        s->found = p; /* the newest one, in case an older one is still ending */
}

/* Returns a reference, or NULL. */
static struct process *find_session(struct call *c, const char *id)
{
    struct session_search s = { .id = id };

    process_each(c->sandbox, match_code_session, &s);
    return s.found ? process_ref(s.found) : NULL;
}

/* --- a piece of code --- */

struct e2b_code_request {
    const char *code, *context, *language, *cwd;
    struct json_map env;
    const struct kernel *kernel; /* of the language */
};

struct code_call {
    struct call *call;
    struct process_op op;
    struct process_request request;
    char tag[sizeof TAG + ID_MAX];
    const struct kernel *kernel; /* of the session being started */
    struct process *process;     /* referenced */
    void (*next)(struct code_call *k);
    /* members of an execution */
    struct e2b_code_request asked;
    struct watcher watcher;
    char id[ID_MAX];
    struct buf input;
    struct code_output output;
};

static void on_code_call_end(struct call *c)
{
    struct code_call *k = c->state;

    watcher_stop(&k->watcher);
    process_unref(k->process);
    buf_done(&k->input);
    code_output_done(&k->output);
    free(k);
}

static void on_code_client_gone(struct call *c)
{
    struct code_call *k = c->state;

    watcher_stop(&k->watcher);
}

static struct code_call *new_code_call(struct call *c)
{
    struct code_call *k = new0(sizeof *k);

    k->call = c;
    buf_init(&k->input, 2 * CODE_MAX);
    c->state = k;
    c->on_end = on_code_call_end;
    c->on_gone = on_code_client_gone;
    return k;
}

static void fail_missing(struct code_call *k)
{
    char text[160];

    snprintf(text, sizeof text, "language: %s needs %s, which this sandbox does not have",
             k->kernel->language, k->kernel->argv[0]);
    call_fail_with(k->call, 501, "unsupported", text);
}

static void on_code_session_started(struct process_op *op, int r, const struct err *e)
{
    struct code_call *k = container_of(op, struct code_call, op);
    struct call *c = k->call;

    if (r >= 0)
        k->process = take_ptr(op->process);
    if (c->x && r == -(int)ERR_NOT_FOUND)
        fail_missing(k);
    else if (c->x && r < 0)
        call_fail(c, e);
    else if (c->x)
        k->next(k);
    call_unref(c);
}

/* Starts a session, then calls `next`. */
static void start_session(struct code_call *k, const struct kernel *kernel, const char *id,
                          const char *cwd, void (*next)(struct code_call *k))
{
    struct call *c = k->call;

    snprintf(k->tag, sizeof k->tag, TAG "%s", id);
    k->next = next;
    k->kernel = kernel;
    k->request = (struct process_request){ .argv = { kernel->argv, KERNEL_ARGS },
                                           .cwd = cwd,
                                           .user = "user",
                                           .tag = k->tag,
                                           .stdin_ = true,
                                           .background = true,
                                           .helper = PROCESS_KERNEL,
                                           .rows = 24,
                                           .cols = 80 };
    k->op.request = &k->request;
    k->op.done = on_code_session_started;
    call_ref(c);
    k->op.programs = guard_starts_programs(c);
    process_start(c->sandbox, &c->caller.actor, &k->op);
}

/* --- the answer --- */

static void cut_code_answer(struct code_call *k)
{
    watcher_stop(&k->watcher);
    http_cut(call_take_exchange(k->call));
}

static void end_code_answer(struct code_call *k, struct str last)
{
    struct call *c = k->call;

    watcher_stop(&k->watcher);
    if (last.n && http_write(c->x, last, NULL) < 0)
        http_cut(call_take_exchange(c));
    else
        http_end(call_take_exchange(c));
}

static bool on_code_output(struct watcher *w, int channel, struct str data)
{
    struct code_call *k = container_of(w, struct code_call, watcher);
    struct buf *lines = &k->output.json_lines;
    int over = code_output_take(&k->output, channel, data), r = 0;

    if (over > 0) {
        end_code_answer(k, buf_str(lines));
        return true;
    }
    if (over >= 0 && lines->n)
        r = http_write(k->call->x, buf_str(lines), NULL);
    buf_clear(lines);
    if (over < 0 || r < 0)
        cut_code_answer(k);
    return r <= 0;
}

static void on_code_session_ended(struct watcher *w, const struct backend_end *end)
{
    struct code_call *k = container_of(w, struct code_call, watcher);

    if (end->how == BACKEND_LOST)
        http_cut(call_take_exchange(k->call));
    else
        end_code_answer(
            k, STR("{\"type\":\"error\",\"name\":\"SessionEnded\",\"value\":\"the session's "
                   "process has ended\",\"traceback\":\"\"}\n"));
}

static void on_code_watcher_behind(struct watcher *w)
{
    http_cut(call_take_exchange(container_of(w, struct code_call, watcher)->call));
}

static void send_code_input(struct code_call *k)
{
    while (k->input.n) {
        ssize_t n = process_stdin(k->process, buf_str(&k->input), NULL);

        if (n <= 0) /* full: on_code_input_room() continues; ended: on_code_session_ended() */
            return;
        buf_drop(&k->input, (size_t)n);
    }
}

static void on_code_input_room(struct watcher *w)
{
    send_code_input(container_of(w, struct code_call, watcher));
}

static const struct watcher_events watcher_events = { .output = on_code_output,
                                                      .ended = on_code_session_ended,
                                                      .fell_behind = on_code_watcher_behind,
                                                      .room = on_code_input_room };

static void on_code_client_drained(struct http_exchange *x)
{
    struct call *c = http_state(x);
    struct code_call *k = c->state;

    watcher_resume(&k->watcher);
}

/* Uses the language of the session, not the request's. */
static int prepare_execution(struct code_call *k, struct err *e)
{
    const struct kernel *kernel;
    struct process_view v;
    int r = id_make("run_", k->id, e);

    if (r < 0)
        return r;
    process_view(k->process, &v);
    kernel = kernel_of(v.request->argv.p[0]);
    code_output_init(&k->output, k->id, kernel->raw);
    return kernel->request(&k->input, k->id, k->asked.code, &k->asked.env, e);
}

static void run_code(struct code_call *k)
{
    static const struct h1_field fields[] = {
        { { "Content-Type", 12 }, { "application/x-ndjson", 20 } },
        { { "Cache-Control", 13 }, { "no-store", 8 } },
    };
    struct call *c = k->call;
    struct err e = { .code = ERR_TOO_BIG, .msg = "the code is too long" };

    if (prepare_execution(k, &e) < 0 ||
        http_begin(c->x, 200, fields, COUNT_OF(fields), HTTP_UNKNOWN, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    http_on_drain(c->x, on_code_client_drained);
    k->watcher.events = &watcher_events;
    process_watch(k->process, &k->watcher, true);
    send_code_input(k);
}

#define AT(member) JSON_AT(struct e2b_code_request, member)

static const struct json_field execute_fields[] = {
    { "code", JSON_KIND_STR, AT(code), .required = true, .max = CODE_MAX },
    { "context_id", JSON_KIND_STR, AT(context), .max = ID_MAX - 1 },
    { "language", JSON_KIND_STR, AT(language), .max = 32 },
    { "env_vars", JSON_KIND_MAP, AT(env), .max = REQUEST_ENV_MAX },
};

/* Returns false after it has answered the call. */
static bool read_code(struct call *c, const struct json_field *fields, size_t n,
                      struct e2b_code_request *q)
{
    struct err e;
    int r = e2b_bind(c, c->json, fields, n, q, &e);

    if (r >= 0 && !(q->kernel = kernel_find(q->language ? q->language : "")))
        r = err_set(&e, ERR_UNSUPPORTED, "language: '%.32s' is not supported (supported: %s)",
                    q->language, kernel_languages);
    if (r < 0)
        call_fail(c, &e);
    return r >= 0;
}

/* The context for code of this language without a context id. */
static const char *default_context(struct call *c, const struct kernel *kernel)
{
    char text[ID_MAX];

    if (kernel == kernel_find(""))
        return DEFAULT;
    snprintf(text, sizeof text, DEFAULT ".%s", kernel->language);
    return arena_dup(&c->own, str_from(text));
}

static void execute_e2b_code(struct call *c)
{
    struct e2b_code_request q = { 0 };
    struct process *p;
    struct code_call *k;
    const char *id;
    bool usual;

    if (!read_code(c, execute_fields, COUNT_OF(execute_fields), &q))
        return;
    usual = !q.context || !q.context[0] || strcmp(q.context, DEFAULT) == 0;
    id = q.context && q.context[0] ? q.context : default_context(c, q.kernel);
    p = find_session(c, id);
    if (!p && usual && !e2b_ensure_home(c, "user", STR("")))
        return;
    k = new_code_call(c);
    k->asked = q;
    k->process = p;
    if (p)
        run_code(k);
    else if (usual)
        start_session(k, q.kernel, id, e2b_home(c, "user"), run_code);
    else
        call_fail_with(c, 404, "not_found", "there is no such context");
}

/* --- contexts --- */

static void write_code_session(struct json_writer *w, const struct process_view *v)
{
    json_begin_object(w);
    write_str_member(w, "id", v->request->tag + strlen(TAG));
    write_str_member(w, "language", kernel_of(v->request->argv.p[0])->language);
    write_str_member(w, "cwd", v->request->cwd ? v->request->cwd : "/");
    json_end_object(w);
}

static void write_code_process(struct json_writer *w, const void *what)
{
    struct process_view v;

    process_view(what, &v);
    write_code_session(w, &v);
}

static void answer_code_session(struct code_call *k)
{
    call_answer(k->call, 200, write_code_process, k->process);
}

static const struct json_field context_fields[] = {
    { "language", JSON_KIND_STR, AT(language), .max = 32 },
    { "cwd", JSON_KIND_STR, AT(cwd), .max = 4095 },
};

static void create_e2b_context(struct call *c)
{
    struct e2b_code_request q = { 0 };
    struct session_search s = { 0 };
    char id[ID_MAX];
    const char *cwd;
    struct err e;

    if (!read_code(c, context_fields, COUNT_OF(context_fields), &q))
        return;
    if (!e2b_ensure_home(c, "user", str_from(q.cwd)) ||
        !(cwd = e2b_path(c, "user", str_from(q.cwd))))
        return;
    process_each(c->sandbox, match_code_session, &s);
    if (s.n >= CONTEXTS_MAX)
        call_fail_with(c, 429, "quota", "too many contexts in this sandbox; remove some");
    else if (id_make("ctx_", id, &e) < 0)
        call_fail(c, &e);
    else
        start_session(new_code_call(c), q.kernel, id, cwd, answer_code_session);
}

static void write_e2b_context(void *user, struct process *p)
{
    struct process_view v;

    process_view(p, &v);
    if (session_id(&v))
        write_code_session(user, &v);
}

static void write_e2b_contexts(struct json_writer *w, const void *what)
{
    const struct call *c = what;

    json_begin_array(w);
    process_each(c->sandbox, write_e2b_context, w);
    json_end_array(w);
}

static void list_e2b_contexts(struct call *c)
{
    call_answer(c, 200, write_e2b_contexts, c);
}

/* --- the end of a context --- */

static bool ignore_killed_output(struct watcher *w, int channel, struct str data)
{
    return true;
}

static void on_code_session_killed(struct watcher *w, const struct backend_end *end)
{
    struct code_call *k = container_of(w, struct code_call, watcher);

    k->next(k);
}

static void ignore_killed_behind(struct watcher *w)
{
    /* cannot happen: ignore_killed_output() accepts everything */
}

static const struct watcher_events kill_events = { .output = ignore_killed_output,
                                                   .ended = on_code_session_killed,
                                                   .fell_behind = ignore_killed_behind };

/* Kills the session in the path and calls `next` when it has ended. */
static void kill_code_session(struct call *c, void (*next)(struct code_call *k))
{
    struct process *p = NULL;
    char id[ID_MAX] = "";
    struct code_call *k;

    if (str_copy(c->params[0], id, sizeof id))
        p = find_session(c, id);
    if (!p) {
        call_fail_with(c, 404, "not_found", "there is no such context");
        return;
    }
    k = new_code_call(c);
    k->process = p;
    k->next = next;
    k->watcher.events = &kill_events;
    process_watch(p, &k->watcher, true);
    (void)process_signal(p, SIGKILL, BACKEND_SCOPE_TREE,
                         NULL); /* its end is reported by on_code_session_killed() */
}

static void answer_removed(struct code_call *k)
{
    call_answer_empty(k->call);
}

static void remove_e2b_context(struct call *c)
{
    kill_code_session(c, answer_removed);
}

static void restart_code_session(struct code_call *k)
{
    struct call *c = k->call;
    const struct kernel *kernel;
    struct process_view v;
    const char *cwd;

    process_view(k->process, &v);
    kernel = kernel_of(v.request->argv.p[0]);
    cwd = arena_dup(&c->own, str_from(v.request->cwd));
    process_unref(take_ptr(k->process));
    start_session(k, kernel, arena_dup(&c->own, c->params[0]), cwd, answer_code_session);
}

static void restart_e2b_context(struct call *c)
{
    kill_code_session(c, restart_code_session);
}

const struct route routes_e2b_code[] = {
    { H1_POST, VERB_EXEC, "/execute", ROUTE_JSON | ROUTE_CONTENT | ROUTE_LONG,
      .handle = execute_e2b_code },
    { H1_POST, VERB_EXEC, "/contexts", ROUTE_JSON, .handle = create_e2b_context },
    { H1_GET, VERB_EXEC, "/contexts", 0, .handle = list_e2b_contexts },
    { H1_DELETE, VERB_EXEC, "/contexts/{id}", 0, .handle = remove_e2b_context },
    { H1_POST, VERB_EXEC, "/contexts/{id}/restart", 0, .handle = restart_e2b_context },
    { .path = NULL },
};
