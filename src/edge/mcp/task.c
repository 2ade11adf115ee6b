/* Tasks: a call that is answered before it is done, and asked about later. They are their peer's,
 * are kept for an hour after their end, and go with the daemon; where there are too many, or what
 * they answer is too much, the oldest that are over go first. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "json/reader.h"
#include "mcp/inside.h"
#include "model/time.h"

enum {
    TASKS_MAX = 1024,
    TASKS_PEER_MAX = 64,
    BYTES_MAX = 128 << 20,     /* of all that they answer */
    BYTES_PEER_MAX = 16 << 20, /* … by one peer: at least one message */
    POLL_MS = 1000,
    DEPTH = 64,
    ERROR_MAX = 64 << 10,
};
#define KEEP (INT64_C(3600) * NS_PER_S)

enum task_status { WORKING, INPUT_REQUIRED, COMPLETED, FAILED, CANCELLED };
static const char *const status_names[] = { "working", "input_required", "completed", "failed",
                                            "cancelled" };

struct mcp_task {
    struct link link;
    struct mcp_server *server;
    char id[ID_MAX], key[MCP_PEER_MAX]; /* whose: mcp_session.key */
    enum task_status status;
    int64_t created_ns, updated_ns; /* wall clock */
    struct mcp_request *request;    /* while it works */
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

static void kept_long_enough(struct loop_timer *l)
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

struct load {
    size_t tasks, bytes;
    struct mcp_task *oldest; /* that is over; NULL: none */
};

/* Of one peer, or of all. */
static struct load load_of(struct mcp_server *s, const char *key)
{
    struct load l = { 0 };

    for (struct link *m = list_first(&s->tasks); m; m = list_after(&s->tasks, m)) {
        struct mcp_task *t = container_of(m, struct mcp_task, link);

        if (key && strcmp(key, t->key) != 0)
            continue;
        l.tasks++;
        l.bytes += t->text.n;
        if (!t->request && !l.oldest)
            l.oldest = t;
    }
    return l;
}

/* Drops what is over until so much more fits: false if that is not enough. */
static bool make_room(struct mcp_server *s, const char *key, size_t tasks, size_t bytes)
{
    const size_t most_tasks = key ? TASKS_PEER_MAX : TASKS_MAX;
    const size_t most_bytes = key ? BYTES_PEER_MAX : BYTES_MAX;
    struct load l = load_of(s, key);

    for (; l.tasks + tasks > most_tasks || l.bytes + bytes > most_bytes; l = load_of(s, key)) {
        if (!l.oldest)
            return false;
        task_free(l.oldest);
    }
    return true;
}

/* --- what is told of it --- */

static void put_time(struct json_writer *w, const char *key, int64_t ns)
{
    char text[TIME_TEXT];

    time_text(ns, text);
    mcp_put(w, key, text);
}

static void put_task(struct json_writer *w, const struct mcp_task *t)
{
    mcp_put(w, "taskId", t->id);
    mcp_put(w, "status", status_names[t->status]);
    put_time(w, "createdAt", t->created_ns);
    put_time(w, "lastUpdatedAt", t->updated_ns);
    json_key(w, STR("ttlMs"));
    json_put_int(w, KEEP / NS_PER_MS);
    json_key(w, STR("pollIntervalMs"));
    json_put_int(w, POLL_MS);
}

static void put_outcome(struct json_writer *w, const struct mcp_task *t)
{
    if (t->status != COMPLETED && t->status != FAILED)
        return;
    json_key(w, t->status == COMPLETED ? STR("result") : STR("error"));
    json_put_written(w, buf_str(&t->text));
}

static void move(struct mcp_task *t, enum task_status to)
{
    t->status = to;
    t->updated_ns = clock_wall();
}

/* --- its life --- */

static int make(struct mcp_request *r, struct mcp_task **ret, struct err *e)
{
    struct mcp_server *s = r->session->server;
    struct mcp_task *t;
    int res;

    if (!make_room(s, r->session->key, 1, 0) || !make_room(s, NULL, 1, 0))
        return err_set(e, ERR_BUSY, "there are %d tasks of yours, or %d of all: wait for some",
                       TASKS_PEER_MAX, TASKS_MAX);
    t = calloc(1, sizeof *t);
    if (!t)
        abort();
    res = id_make("tsk_", t->id, e);
    if (res < 0) {
        free(t);
        return res;
    }
    t->server = s;
    snprintf(t->key, sizeof t->key, "%s", r->session->key);
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

    if (mcp_over(r) || !(r->can & MCP_CAN_TASKS) || r->task || make(r, &t, NULL) < 0)
        return false;
    buf_clear(&r->text);
    json_writer_init(&r->w, &r->text, JSON_COMPACT);
    rpc_begin_result(&r->w, r->m->id);
    json_begin_object(&r->w);
    mcp_put(&r->w, "resultType", "task");
    put_task(&r->w, t);
    json_end_object(&r->w);
    json_end_object(&r->w);
    json_writer_finish(&r->w, NULL);
    r->task = t;
    t->request = r; /* with the reference that was the session's */
    link_leave(&r->in_session);
    link_leave(&r->in_out);
    r->out = NULL;
    if (o)
        o->ops->answer(o, r->m->id, buf_str(&r->text), 200);
    if (r->on_drain)
        r->on_drain(r);
    return true;
}

/* The error's object, out of the message that tells it. */
static void keep_error(struct mcp_task *t, struct str message)
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

/* A result ends just before its message does. */
static void keep(struct mcp_task *t, const struct mcp_request *r)
{
    struct str message = buf_str(&r->text);

    if (r->result_at)
        buf_add(&t->text, (struct str){ message.p + r->result_at, message.n - r->result_at - 1 });
    else
        keep_error(t, message);
}

void mcp_task_deliver(struct mcp_request *r)
{
    struct mcp_task *t = r->task;

    r->task = NULL;
    if (!r->cancelled) {
        make_room(t->server, t->key, 0, r->text.n);
        make_room(t->server, NULL, 0, r->text.n);
        keep(t, r);
    }
    t->request = NULL;
    move(t, r->cancelled ? CANCELLED : r->result_at ? COMPLETED : FAILED);
    loop_timer_start(t->server->loop, &t->end, clock_mono() + KEEP, kept_long_enough, NULL);
}

void mcp_task_wait(struct mcp_request *r)
{
    move(r->task, INPUT_REQUIRED);
}

/* --- tasks/… --- */

static void write_needs_tasks(struct json_writer *w, const void *what)
{
    (void)what;
    json_begin_object(w);
    json_key(w, STR("requiredCapabilities"));
    json_begin_object(w);
    json_key(w, STR("extensions"));
    json_begin_object(w);
    json_key(w, STR(MCP_TASKS));
    json_begin_object(w);
    json_end_object(w);
    json_end_object(w);
    json_end_object(w);
    json_end_object(w);
}

void mcp_task_missing(struct mcp_request *r, const char *why)
{
    mcp_fail_with(r, MCP_NO_CAPABILITY, why, write_needs_tasks, NULL);
}

static struct mcp_task *task_of(struct mcp_request *r)
{
    struct list *tasks = &r->session->server->tasks;
    struct str id = mcp_param_str(r, "taskId");

    if (!(r->can & MCP_CAN_TASKS)) {
        mcp_task_missing(r, "this is for clients that know tasks");
        return NULL;
    }
    for (struct link *l = list_first(tasks); l; l = list_after(tasks, l)) {
        struct mcp_task *t = container_of(l, struct mcp_task, link);

        if (str_eq(id, str_from(t->id)) && strcmp(t->key, r->session->key) == 0 && !r->trust.less)
            return t; /* who is trusted less than its session did not begin it */
    }
    mcp_fail(
        r, RPC_INVALID_PARAMS,
        "taskId: there is no such task, or not any more: its answer is kept for an hour, or until "
        "newer ones need the room");
    return NULL;
}

void mcp_task_get(struct mcp_request *r)
{
    struct mcp_task *t = task_of(r);
    struct json_writer *w;

    if (!t)
        return;
    w = mcp_result(r);
    put_task(w, t);
    put_outcome(w, t);
    if (t->status == INPUT_REQUIRED)
        mcp_put_inputs(w, t->request);
    mcp_reply(r);
}

/* What is not asked for is ignored; when all is there, the tool goes on. */
void mcp_task_update(struct mcp_request *r)
{
    const struct json *responses = mcp_object(r->m->params, "inputResponses"), *v;
    struct mcp_task *t = task_of(r);
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
    move(t, WORKING);
    mcp_request_ref(work);
    mcp_run_handler(work);
    if (!mcp_over(work))
        mcp_inputs_ask(work);
    mcp_request_unref(work);
}

void mcp_task_cancel(struct mcp_request *r)
{
    struct mcp_task *t = task_of(r);

    if (!t)
        return;
    if (t->request)
        mcp_request_cancel(t->request);
    mcp_result(r);
    mcp_reply(r);
}
