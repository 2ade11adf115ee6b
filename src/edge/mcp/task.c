/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks: calls that are answered before they are done, and polled for their result. A task belongs
 * to its peer, is kept for an hour after its end, and is lost when the daemon ends. At the limits
 * of count and bytes the oldest finished tasks are dropped first. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "lib/json/reader.h"
#include "edge/mcp/internal.h"

enum {
    TASKS_MAX = 1024,
    TASKS_HOLDER_MAX = TASKS_MAX / 4,
    TASKS_FAMILY_MAX = TASKS_HOLDER_MAX / 8 * 7,
    TASKS_PEER_MAX = 64,
    BYTES_MAX = 128 << 20,     /* of all results */
    BYTES_PEER_MAX = 16 << 20, /* … per peer: at least one message */
    POLL_MS = 1000,
    DEPTH = 64,
    ERROR_MAX = 64 << 10,
};
#define KEEP (INT64_C(3600) * NS_PER_S)

enum task_status { WORKING, INPUT_REQUIRED, COMPLETED, FAILED, CANCELLED };
static const char *const status_names[] = { "working", "input_required", "completed",
                                            "failed",  "cancelled",      NULL };

struct mcp_task {
    struct link link;
    struct mcp_server *server;
    char id[ID_MAX], key[MCP_PEER_MAX];              /* key: the owner, as mcp_session.key … */
    char holder[MCP_PEER_MAX], family[MCP_PEER_MAX]; /* … and as its holder and family */
    enum task_status status;
    int64_t created_ns, updated_ns; /* wall clock */
    struct mcp_request *request;    /* until it has finished */
    struct buf text;                /* its result or error, as JSON */
    struct loop_timer end;
};

static void task_free(struct mcp_task *t)
{
    loop_timer_stop(&t->end);
    link_leave(&t->link);
    t->server->n_tasks--;
    buf_done(&t->text);
    free(t);
}

static void on_task_expired(struct loop_timer *l)
{
    task_free(container_of(l, struct mcp_task, end));
}

void mcp_tasks_done(struct mcp_server *s)
{
    for (struct link *l; (l = list_first(&s->tasks));) {
        struct mcp_task *t = container_of(l, struct mcp_task, link);

        if (t->request)
            mcp_request_cancel(t->request);
        task_free(t);
    }
}

/* --- room for one more --- */

struct task_load {
    size_t tasks, bytes;
    struct mcp_task *oldest; /* finished one, or NULL */
};

/* The scopes of limits: the tasks with the same text at `at`. */
static const struct task_scope {
    size_t at;
    bool all; /* every task */
    size_t tasks, bytes;
} scopes[] = {
    { offsetof(struct mcp_task, key), false, TASKS_PEER_MAX, BYTES_PEER_MAX },
    { offsetof(struct mcp_task, family), false, TASKS_FAMILY_MAX, BYTES_MAX / 4 / 8 * 7 },
    { offsetof(struct mcp_task, holder), false, TASKS_HOLDER_MAX, BYTES_MAX / 4 },
    { 0, true, TASKS_MAX, BYTES_MAX },
};

static const char *get_scope_text(const struct task_scope *x, const struct mcp_task *t)
{
    return (const char *)t + x->at;
}

/* The load of the tasks in the same scope as `of`. */
static struct task_load measure_task_load(const struct task_scope *x, const struct mcp_task *of)
{
    struct task_load l = { 0 };

    LIST_EACH (struct mcp_task, t, &of->server->tasks, link) {
        if (!x->all && strcmp(get_scope_text(x, of), get_scope_text(x, t)) != 0)
            continue;
        l.tasks++;
        l.bytes += t->text.n;
        if (!t->request && !l.oldest)
            l.oldest = t;
    }
    return l;
}

/* Drops finished tasks of a scope until `tasks` and `bytes` more fit. */
static bool make_scope_room(const struct task_scope *x, const struct mcp_task *of, size_t tasks,
                            size_t bytes)
{
    struct task_load l = measure_task_load(x, of);

    for (; l.tasks + tasks > x->tasks || l.bytes + bytes > x->bytes; l = measure_task_load(x, of)) {
        if (!l.oldest)
            return false;
        task_free(l.oldest);
    }
    return true;
}

/* The same in each scope of a task; false if they still do not fit. The client's own tasks go
 * first, then those of its family and of its holder. */
static bool make_task_room(const struct mcp_task *of, size_t tasks, size_t bytes)
{
    bool fits = true;

    for (size_t i = 0; i < COUNT_OF(scopes); i++)
        if (scopes[i].all || get_scope_text(&scopes[i], of)[0])
            fits = make_scope_room(&scopes[i], of, tasks, bytes) && fits;
    return fits;
}

/* --- members of answers --- */

static const struct json_field task_fields[] = {
    { "taskId", JSON_KIND_CHARS, JSON_AT(struct mcp_task, id) },
    { "status", JSON_KIND_ENUM, JSON_AT(struct mcp_task, status), .names = status_names },
    { "createdAt", JSON_KIND_TIME, JSON_AT(struct mcp_task, created_ns), .required = true },
    { "lastUpdatedAt", JSON_KIND_TIME, JSON_AT(struct mcp_task, updated_ns), .required = true },
};
static const struct json_shape task_shape = { NULL, JSON_FIELDS(task_fields) };

static void write_task_members(struct json_writer *w, const struct mcp_task *t)
{
    json_put_members(w, &task_shape, t);
    json_field_int(w, "ttlMs", KEEP / NS_PER_MS);
    json_field_int(w, "pollIntervalMs", POLL_MS);
}

static void set_task_status(struct mcp_task *t, enum task_status to)
{
    t->status = to;
    t->updated_ns = clock_wall();
}

/* --- its life --- */

static int new_mcp_task(struct mcp_request *r, struct mcp_task **ret, struct err *e)
{
    const struct mcp_session *of = r->session;
    struct mcp_server *s = of->server;
    struct mcp_task *t = new0(sizeof *t);
    int res;

    t->server = s;
    snprintf(t->key, sizeof t->key, "%s", of->key);
    snprintf(t->holder, sizeof t->holder, "%s", of->holder);
    snprintf(t->family, sizeof t->family, "%s", of->family);
    res = make_task_room(t, 1, 0)
              ? id_make("tsk_", t->id, e)
              : err_set(e, ERR_BUSY,
                        "the limit of tasks is reached (%d per client, %d per owner, %d in total); "
                        "wait for some to end",
                        TASKS_PEER_MAX, TASKS_HOLDER_MAX, TASKS_MAX);
    if (res < 0) {
        free(t);
        return res;
    }
    t->created_ns = t->updated_ns = clock_wall();
    buf_init(&t->text, MCP_MESSAGE_MAX);
    list_append(&s->tasks, &t->link);
    s->n_tasks++;
    *ret = t;
    return 0;
}

bool mcp_task_begin(struct mcp_request *r)
{
    struct mcp_out *o = r->out;
    struct mcp_task *t;

    if (mcp_is_finished(r) || !(r->can & MCP_CAN_TASKS) || r->task || new_mcp_task(r, &t, NULL) < 0)
        return false;
    buf_clear(&r->text);
    json_writer_init(&r->w, &r->text, JSON_COMPACT);
    rpc_begin_result(&r->w, r->m->id);
    json_begin_object(&r->w);
    mcp_write_str(&r->w, "resultType", "task");
    write_task_members(&r->w, t);
    json_end_object(&r->w);
    json_end_object(&r->w);
    json_writer_finish(&r->w, NULL);
    r->task = t;
    t->request = r; /* takes the session's reference */
    link_leave(&r->in_session);
    link_leave(&r->in_out);
    r->out = NULL;
    if (o)
        o->ops->answer(o, r->m->id, buf_str(&r->text), 200);
    if (r->on_drain)
        r->on_drain(r);
    return true;
}

/* Stores the error's object of an error message. */
static void store_task_error(struct mcp_task *t, struct str message)
{
    const struct json_limits limits = { .bytes = ERROR_MAX, .depth = DEPTH };
    AUTO(arena_done) struct arena a = ARENA_INIT((size_t)16 * ERROR_MAX);
    const struct json *v, *error = NULL;
    struct json_writer w;

    if (json_read(message, limits, &a, &v, NULL) >= 0)
        error = mcp_object(v, "error");
    json_writer_init(&w, &t->text, JSON_COMPACT);
    if (error)
        json_put_tree(&w, error);
    else
        json_put_null(&w);
    json_writer_finish(&w, NULL);
}

/* The result extends to the last brace of the message, which closes the message itself. */
static void store_task_result(struct mcp_task *t, const struct mcp_request *r)
{
    struct str message = buf_str(&r->text);

    if (r->result_at)
        buf_add(&t->text, (struct str){ message.p + r->result_at, message.n - r->result_at - 1 });
    else
        store_task_error(t, message);
}

void mcp_task_deliver(struct mcp_request *r)
{
    struct mcp_task *t = r->task;

    r->task = NULL;
    if (!r->cancelled) {
        make_task_room(t, 0, r->text.n);
        store_task_result(t, r);
    }
    t->request = NULL;
    set_task_status(t, r->cancelled ? CANCELLED : r->result_at ? COMPLETED : FAILED);
    loop_timer_start(t->server->loop, &t->end, clock_mono() + KEEP, on_task_expired, NULL);
}

void mcp_task_wait(struct mcp_request *r)
{
    set_task_status(r->task, INPUT_REQUIRED);
}

/* --- tasks/… --- */

static void write_needs_tasks(struct json_writer *w, const void *what)
{
    json_begin_object(w);
    json_field_begin_object(w, "requiredCapabilities");
    mcp_write_extensions(w);
    json_end_object(w);
    json_end_object(w);
}

void mcp_task_missing(struct mcp_request *r, const char *why)
{
    mcp_fail_with(r, MCP_NO_CAPABILITY, why, write_needs_tasks, NULL);
}

static struct mcp_task *find_own_task(struct mcp_request *r)
{
    struct list *tasks = &r->session->server->tasks;
    struct str id = mcp_param_str(r, "taskId");

    if (!(r->can & MCP_CAN_TASKS)) {
        mcp_task_missing(r, "this method requires the tasks capability");
        return NULL;
    }
    LIST_EACH (struct mcp_task, t, tasks, link) {
        if (str_eq(id, str_from(t->id)) && strcmp(t->key, r->session->key) == 0 && !r->trust.less)
            return t; /* a message with less trust than its session cannot see tasks */
    }
    mcp_fail(r, RPC_INVALID_PARAMS,
             "taskId: there is no task '%.*s'; results are kept for an hour, or until newer ones "
             "need the space",
             (int)(id.n < ID_MAX ? id.n : ID_MAX), id.n ? id.p : "");
    return NULL;
}

void mcp_task_get(struct mcp_request *r)
{
    struct mcp_task *t = find_own_task(r);
    struct json_writer *w;

    if (!t)
        return;
    w = mcp_result(r);
    write_task_members(w, t);
    if (t->status == COMPLETED || t->status == FAILED)
        json_field_written(w, t->status == COMPLETED ? "result" : "error", buf_str(&t->text));
    if (t->status == INPUT_REQUIRED)
        mcp_write_inputs(w, t->request);
    mcp_reply(r);
}

/* Ignores responses to inputs that are not open; runs the tool again when all have arrived. */
void mcp_task_update(struct mcp_request *r)
{
    const struct json *responses = mcp_object(r->m->params, "inputResponses"), *v;
    struct mcp_task *t = find_own_task(r);
    struct mcp_request *work = t ? t->request : NULL;
    size_t open = 0;

    if (!t)
        return;
    if (!responses) {
        mcp_fail(r, RPC_INVALID_PARAMS, "inputResponses: must be an object");
        return;
    }
    for (size_t i = 0; work && i < work->n_inputs; i++) {
        v = json_get(responses, str_from(work->inputs[i].key));
        if (!work->inputs[i].response && v && v->type == JSON_OBJECT)
            mcp_input_take(work, i, v);
        open += !work->inputs[i].response;
    }
    mcp_result(r);
    mcp_reply(r);
    if (!work || open || t->status != INPUT_REQUIRED)
        return;
    set_task_status(t, WORKING);
    mcp_request_ref(work);
    mcp_run_handler(work);
    if (!mcp_is_finished(work))
        mcp_inputs_request(work);
    mcp_request_unref(work);
}

void mcp_task_cancel(struct mcp_request *r)
{
    struct mcp_task *t = find_own_task(r);

    if (!t)
        return;
    if (t->request)
        mcp_request_cancel(t->request);
    mcp_result(r);
    mcp_reply(r);
}
