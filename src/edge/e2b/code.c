/* SPDX-License-Identifier: Apache-2.0 */
/* E2B's code interpreter (port 49999 of its sandboxes): code sessions as contexts, with messages as
 * JSON lines. */
#include <stdio.h>

#include "edge/code/session.h"
#include "base/own.h"
#include "edge/e2b/internal.h"

enum { CONTEXTS_MAX = 32 };

#define TAG     "e2b.code:"
#define DEFAULT "default" /* Python's default context; other languages append theirs */

struct e2b_code_request {
    const char *code, *context, *language, *cwd;
    struct json_map env;
    const struct kernel *kernel; /* of the language */
};

struct code_call {
    struct code_run run;
    struct e2b_code_request asked;
};

/* --- the answer: JSON lines --- */

static int send_code_lines(struct code_run *r, struct str json_lines)
{
    return http_write(r->session.call->x, json_lines, NULL);
}

/* Without an end of the JSON the connection is cut, or closed if the sandbox is gone. */
static void stop_code_answer(struct code_run *r, enum code_stop why)
{
    static const char ended[] = "{\"type\":\"error\",\"name\":\"SessionEnded\",\"value\":\"the "
                                "session's process has ended\",\"traceback\":\"\"}\n";
    struct call *c = r->session.call;

    if (why == CODE_COMPLETED ||
        (why == CODE_SESSION_ENDED && http_write(c->x, str_from(ended), NULL) >= 0))
        http_end(call_take_exchange(c));
    else if (why == CODE_SANDBOX_LOST)
        http_drop(call_take_exchange(c));
    else
        http_cut(call_take_exchange(c));
}

static const struct code_wire code_lines = { send_code_lines, stop_code_answer };

static void execute_e2b_request(struct code_call *k)
{
    static const struct h1_field fields[] = {
        { { "Content-Type", 12 }, { "application/x-ndjson", 20 } },
        { { "Cache-Control", 13 }, { "no-store", 8 } },
    };
    struct call *c = k->run.session.call;
    struct err e;

    if (code_prepare(&k->run, k->asked.code, &k->asked.env, &e) < 0 ||
        http_begin(c->x, 200, fields, COUNT_OF(fields), HTTP_UNKNOWN, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    http_on_drain(c->x, background_drained);
    code_execute(&k->run, 0);
}

/* --- starting a session --- */

static void fail_code_session(const struct code_run *r, const struct err *e)
{
    if (e->code != ERR_NOT_FOUND) {
        call_fail(r->session.call, e);
        return;
    }
    call_fail_with(r->session.call, 501, "unsupported",
                   "language: %s needs %s, which this sandbox does not have", r->kernel->language,
                   r->kernel->argv[0]);
}

static void on_default_session_started(struct background *b, int r, const struct err *e)
{
    struct code_call *k = container_of(b, struct code_call, run.session);

    if (r < 0)
        fail_code_session(&k->run, e);
    else
        execute_e2b_request(k);
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
    id = q.context && q.context[0]     ? q.context
         : q.kernel == kernel_find("") ? DEFAULT
                                       : background_tag(c, DEFAULT ".", q.kernel->language);
    p = code_session_find(c->sandbox, TAG, str_from(id));
    if (!p && usual && !e2b_ensure_home(c, "user", STR("")))
        return;
    k = code_run_new(c, sizeof *k, &code_lines);
    k->asked = q;
    k->run.session.process = p;
    if (p)
        execute_e2b_request(k);
    else if (usual)
        code_session_start(&k->run, q.kernel, background_tag(c, TAG, id), e2b_home(c, "user"),
                           on_default_session_started);
    else
        call_fail_missing(c, "context", str_from(id));
}

/* --- contexts --- */

static void write_e2b_context(struct json_writer *w, const void *session)
{
    struct process_view v;

    process_view(session, &v);
    json_begin_object(w);
    json_field_text(w, "id", background_name(&v, TAG));
    json_field_text(w, "language", kernel_of(v.request->argv.p[0])->language);
    json_field_text(w, "cwd", v.request->cwd ? v.request->cwd : "/");
    json_end_object(w);
}

static void on_context_started(struct background *b, int r, const struct err *e)
{
    if (r < 0)
        fail_code_session(container_of(b, struct code_run, session), e);
    else
        call_answer(b->call, 200, write_e2b_context, b->process);
}

static const struct json_field context_fields[] = {
    { "language", JSON_KIND_STR, AT(language), .max = 32 },
    { "cwd", JSON_KIND_STR, AT(cwd), .max = 4095 },
};

static void create_e2b_context(struct call *c)
{
    struct e2b_code_request q = { 0 };
    char id[ID_MAX];
    const char *cwd;
    struct err e;

    if (!read_code(c, context_fields, COUNT_OF(context_fields), &q))
        return;
    if (!e2b_ensure_home(c, "user", str_from(q.cwd)) ||
        !(cwd = e2b_path(c, "user", str_from(q.cwd))))
        return;
    if (background_count(c->sandbox, TAG) >= CONTEXTS_MAX)
        call_fail_with(c, 429, "quota", "this sandbox has %d contexts, the maximum; remove some",
                       CONTEXTS_MAX);
    else if (id_make("ctx_", id, &e) < 0)
        call_fail(c, &e);
    else
        code_session_start(code_run_new(c, sizeof(struct code_run), NULL), q.kernel,
                           background_tag(c, TAG, id), cwd, on_context_started);
}

static void write_listed_e2b_context(void *user, struct process *p)
{
    struct process_view v;

    process_view(p, &v);
    if (code_session_name(&v, TAG))
        write_e2b_context(user, p);
}

static void write_e2b_contexts(struct json_writer *w, const void *what)
{
    const struct call *c = what;

    json_begin_array(w);
    process_each(c->sandbox, write_listed_e2b_context, w);
    json_end_array(w);
}

static void list_e2b_contexts(struct call *c)
{
    call_answer(c, 200, write_e2b_contexts, c);
}

/* --- the end of a context --- */

/* Kills the session in the path; `events` report its end. */
static void kill_code_session(struct call *c, const struct watcher_events *events)
{
    struct process *p = code_session_find(c->sandbox, TAG, c->params[0]);
    struct code_run *r;

    if (!p) {
        call_fail_missing(c, "context", c->params[0]);
        return;
    }
    r = code_run_new(c, sizeof *r, NULL);
    r->session.process = p;
    background_kill(&r->session, events);
}

static void on_removed_context_ended(struct watcher *w, const struct backend_end *end)
{
    call_answer_empty(container_of(w, struct background, watcher)->call);
}

static void remove_e2b_context(struct call *c)
{
    static const struct watcher_events events = { .ended = on_removed_context_ended };

    kill_code_session(c, &events);
}

static void on_restarted_context_ended(struct watcher *w, const struct backend_end *end)
{
    struct code_run *r = container_of(w, struct code_run, session.watcher);
    struct call *c = r->session.call;
    const struct kernel *kernel = code_session_kernel(r->session.process);
    struct process_view v;
    const char *cwd, *tag;

    process_view(r->session.process, &v);
    cwd = arena_dup(&c->own, str_from(v.request->cwd));
    tag = arena_dup(&c->own, str_from(v.request->tag));
    process_unref(take_ptr(r->session.process));
    code_session_start(r, kernel, tag, cwd, on_context_started);
}

static void restart_e2b_context(struct call *c)
{
    static const struct watcher_events events = { .ended = on_restarted_context_ended };

    kill_code_session(c, &events);
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
