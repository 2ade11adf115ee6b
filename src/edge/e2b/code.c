/* SPDX-License-Identifier: Apache-2.0 */
/* E2B's code interpreter (port 49999 of its sandboxes): code sessions as contexts, with messages as
 * JSON lines. */
#include <stdio.h>

#include "edge/code/session.h"
#include "base/own.h"
#include "edge/e2b/internal.h"

enum { CONTEXTS_MAX = 32, WRITE_BYTES = 256 << 10, UNSENT_BYTES = 64 << 20 };

#define TAG     "e2b.code:"
#define DEFAULT "default" /* Python's default context; other languages append theirs */

/* Languages whose default contexts are there from the start: listed, and started when first used. */
static const char *const usual_languages[] = { "python", "javascript" };

struct e2b_code_request {
    const char *code, *context, *language, *cwd;
    struct json_map env;
    const struct kernel *kernel; /* of the language */
};

struct code_call {
    struct code_run run;
    struct e2b_code_request asked;
    struct buf unsent; /* messages that wait for the client … */
    size_t sent;       /* … after this many bytes of them */
    bool over;         /* they are the last ones … */
    enum code_stop why;
};

/* --- the answer: JSON lines --- */

/* A message may be larger than what the connection queues. Returns as http_write(). */
static int send_unsent_lines(struct code_call *k)
{
    struct http_exchange *x = k->run.session.call->x;
    int r = 0;

    while (r == 0 && k->sent < k->unsent.n) {
        size_t left = k->unsent.n - k->sent, n = left < WRITE_BYTES ? left : WRITE_BYTES;

        r = http_write(x, (struct str){ k->unsent.p + k->sent, n }, NULL);
        k->sent += r >= 0 ? n : 0;
    }
    if (k->sent == k->unsent.n) {
        buf_clear(&k->unsent);
        k->sent = 0;
    }
    return r;
}

static int send_code_lines(struct code_run *r, struct str json_lines)
{
    struct code_call *k = container_of(r, struct code_call, run);

    if (buf_add(&k->unsent, json_lines) < 0)
        return -(int)ERR_TOO_BIG;
    return k->unsent.n > json_lines.n ? 1 : send_unsent_lines(k);
}

/* Without an end of the JSON the connection is cut, or closed if the sandbox is gone. */
static void end_code_answer(struct code_call *k)
{
    static const char ended[] = "{\"type\":\"error\",\"name\":\"SessionEnded\",\"value\":\"the "
                                "session's process has ended\",\"traceback\":\"\"}\n";
    struct call *c = k->run.session.call;

    if (k->why == CODE_COMPLETED ||
        (k->why == CODE_SESSION_ENDED && http_write(c->x, str_from(ended), NULL) >= 0))
        http_end(call_take_exchange(c));
    else if (k->why == CODE_SANDBOX_LOST)
        http_drop(call_take_exchange(c));
    else
        http_cut(call_take_exchange(c));
}

static void stop_code_answer(struct code_run *r, enum code_stop why)
{
    struct code_call *k = container_of(r, struct code_call, run);

    k->over = true;
    k->why = why;
    if (!k->unsent.n || (why != CODE_COMPLETED && why != CODE_SESSION_ENDED))
        end_code_answer(k);
}

static void on_code_client_drained(struct http_exchange *x)
{
    struct call *c = http_state(x);
    struct code_call *k = c->state;
    int r = send_unsent_lines(k);

    if (r < 0) {
        code_run_stop(&k->run);
        http_cut(call_take_exchange(c));
    } else if (!k->unsent.n && k->over) {
        end_code_answer(k);
    } else if (!k->unsent.n) {
        watcher_resume(&k->run.session.watcher);
    }
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
    http_on_drain(c->x, on_code_client_drained);
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

static const char *default_context_name(struct call *c, const struct kernel *kernel)
{
    return kernel == kernel_find("") ? DEFAULT : background_tag(c, DEFAULT ".", kernel->language);
}

/* The kernel of a default context; NULL: it is another one. */
static const struct kernel *default_context_kernel(struct str name)
{
    struct str first, language = str_cut(name, '.', &first);
    const struct kernel *kernel;
    char text[32];

    if (str_eq(name, STR(DEFAULT)))
        return kernel_find("");
    if (!str_eq(first, STR(DEFAULT)) || !str_copy(language, text, sizeof text))
        return NULL;
    kernel = kernel_find(text);
    return kernel && kernel != kernel_find("") && strcmp(kernel->language, text) == 0 ? kernel
                                                                                      : NULL;
}

static void execute_e2b_code(struct call *c)
{
    struct e2b_code_request q = { 0 };
    const struct kernel *kernel; /* to start one with */
    struct process *p;
    struct code_call *k;
    const char *id;

    if (!read_code(c, execute_fields, COUNT_OF(execute_fields), &q))
        return;
    id = q.context && q.context[0] ? q.context : default_context_name(c, q.kernel);
    kernel = default_context_kernel(str_from(id));
    p = code_session_find(c->sandbox, TAG, str_from(id));
    if (!p && kernel && !e2b_ensure_home(c, "user", STR("")))
        return;
    k = code_run_new(c, sizeof *k, &code_lines);
    call_own_buf(c, &k->unsent, UNSENT_BYTES);
    k->asked = q;
    k->run.session.process = p;
    if (p)
        execute_e2b_request(k);
    else if (kernel)
        code_session_start(&k->run, kernel, background_tag(c, TAG, id), e2b_home(c, "user"),
                           on_default_session_started);
    else
        call_fail_missing(c, "context", str_from(id));
}

/* --- contexts --- */

static void write_context_fields(struct json_writer *w, const char *id, const char *language,
                                 const char *cwd)
{
    json_begin_object(w);
    json_field_text(w, "id", id);
    json_field_text(w, "language", language);
    json_field_text(w, "cwd", cwd ? cwd : "/");
    json_end_object(w);
}

static void write_e2b_context(struct json_writer *w, const void *session)
{
    struct process_view v;

    process_view(session, &v);
    write_context_fields(w, background_name(&v, TAG), kernel_of(v.request->argv)->language,
                         v.request->cwd);
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

static bool is_usual_language(const char *language)
{
    for (size_t i = 0; i < COUNT_OF(usual_languages); i++)
        if (strcmp(usual_languages[i], language) == 0)
            return true;
    return false;
}

static void write_listed_e2b_context(void *user, struct process *p)
{
    const struct kernel *kernel;
    struct process_view v;
    const char *name;

    process_view(p, &v);
    name = code_session_name(&v, TAG);
    kernel = name ? default_context_kernel(str_from(name)) : NULL;
    if (name && !(kernel && is_usual_language(kernel->language)))
        write_e2b_context(user, p);
}

static void write_usual_e2b_context(struct json_writer *w, struct call *c, const char *language)
{
    const char *id = default_context_name(c, kernel_find(language));
    struct process *p = code_session_find(c->sandbox, TAG, str_from(id));

    if (p)
        write_e2b_context(w, p);
    else
        write_context_fields(w, id, language, e2b_home(c, "user"));
    process_unref(p);
}

static void write_e2b_contexts(struct json_writer *w, const void *what)
{
    struct call *c = *(struct call *const *)what;

    json_begin_array(w);
    for (size_t i = 0; i < COUNT_OF(usual_languages); i++)
        write_usual_e2b_context(w, c, usual_languages[i]);
    process_each(c->sandbox, write_listed_e2b_context, w);
    json_end_array(w);
}

static void list_e2b_contexts(struct call *c)
{
    if (e2b_ensure_home(c, "user", STR("")))
        call_answer(c, 200, write_e2b_contexts, &c);
}

/* --- the end of a context --- */

/* Takes the reference; `events` report the end. */
static void kill_code_session(struct call *c, struct process *p,
                              const struct watcher_events *events)
{
    struct code_run *r = code_run_new(c, sizeof *r, NULL);

    r->session.process = p;
    background_kill(&r->session, events);
}

/* A default context need not run. Returns false after it has answered the call. */
static bool find_code_session(struct call *c, struct process **ret)
{
    *ret = code_session_find(c->sandbox, TAG, c->params[0]);
    if (!*ret && !default_context_kernel(c->params[0]))
        return call_fail_missing(c, "context", c->params[0]);
    return true;
}

static void on_removed_context_ended(struct watcher *w, const struct backend_end *end)
{
    call_answer_empty(container_of(w, struct background, watcher)->call);
}

static void remove_e2b_context(struct call *c)
{
    static const struct watcher_events events = { .ended = on_removed_context_ended };
    struct process *p;

    if (!find_code_session(c, &p))
        return;
    if (p)
        kill_code_session(c, p, &events);
    else
        call_answer_empty(c);
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
    struct process *p;

    if (!find_code_session(c, &p))
        return;
    if (p)
        kill_code_session(c, p, &events);
    else if (e2b_ensure_home(c, "user", STR("")))
        code_session_start(code_run_new(c, sizeof(struct code_run), NULL),
                           default_context_kernel(c->params[0]),
                           background_tag(c, TAG, arena_dup(&c->own, c->params[0])),
                           e2b_home(c, "user"), on_context_started);
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
