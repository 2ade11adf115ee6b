/* E2B's logs of a sandbox: what happened to it. */
#include <stdio.h>
#include <stdlib.h>

#include "api/e2b/inside.h"
#include "api/e2b/write.h"
#include "base/clock.h"

enum { LOGS_DEFAULT = 100, LOGS_MAX = 1000 };

struct logs {
    struct call *call;
    struct store_query query;
    bool both; /* also as lines, as the older path has it */
};

static void logs_end(struct call *c)
{
    struct logs *l = c->state;

    arena_done(&l->query.arena);
    free(l);
}

static void put_message(struct json_writer *w, const struct event_record *v)
{
    char text[sizeof v->type + sizeof v->reason + 4];

    snprintf(text, sizeof text, "%s%s%s", v->type, v->reason[0] ? ": " : "", v->reason);
    put(w, "level", "info");
    put(w, "message", text);
}

/* A line is JSON once more: that is how their log has it. */
static void write_line(struct json_writer *w, const struct event_record *v)
{
    struct buf line AUTO(buf_done) = BUF_INIT(4096);
    struct json_writer own;

    json_writer_init(&own, &line, JSON_COMPACT);
    json_begin_object(&own);
    put(&own, "logger", "sandboxer");
    put_message(&own, v);
    json_end_object(&own);
    json_writer_finish(&own, NULL);
    json_begin_object(w);
    time_write(w, "timestamp", v->time_ns);
    json_key(w, STR("line"));
    json_put_str(w, buf_str(&line));
    json_end_object(w);
}

static void write_record(struct json_writer *w, const struct event_record *v)
{
    json_begin_object(w);
    time_write(w, "timestamp", v->time_ns);
    put_message(w, v);
    json_key(w, STR("fields"));
    json_begin_object(w);
    put(w, "event", v->type);
    put(w, "actor", v->actor.id);
    json_end_object(w);
    json_end_object(w);
}

static void write_all(struct json_writer *w, const struct logs *l, const char *key,
                      void (*write)(struct json_writer *w, const struct event_record *v))
{
    json_key(w, str_from(key));
    json_begin_array(w);
    for (size_t i = 0; i < l->query.n; i++)
        write(w, &l->query.events[i]);
    json_end_array(w);
}

static void write_logs(struct json_writer *w, const void *what)
{
    const struct logs *l = what;

    json_begin_object(w);
    write_all(w, l, "logs", l->both ? write_line : write_record);
    if (l->both)
        write_all(w, l, "logEntries", write_record);
    json_end_object(w);
}

static void found(struct store_query *q, int r, const struct err *e)
{
    struct logs *l = container_of(q, struct logs, query);

    if (r < 0)
        call_fail(l->call, e);
    else
        call_answer(l->call, 200, write_logs, l);
    call_unref(l->call);
}

/* All of that millisecond is told, whichever way it is read from there. */
static int64_t from_when(const struct store_query *q, bool given, uint64_t ms)
{
    if (!given)
        return q->ascending ? 0 : INT64_MAX;
    if (ms >= INT64_MAX / NS_PER_MS)
        return INT64_MAX;
    return q->ascending ? (int64_t)ms * NS_PER_MS : (int64_t)(ms + 1) * NS_PER_MS - 1;
}

/* 1, or 0: there is nothing of that level, since events are neither warnings nor errors. A bad one
 * is answered, and -1. */
static int read_query(struct call *c, struct logs *l)
{
    uint64_t limit = LOGS_DEFAULT, from = 0;
    struct str way = { NULL, 0 }, level = { NULL, 0 };
    struct store_query *q = &l->query;
    int given = call_query_number(c, l->both ? "start" : "cursor", INT64_MAX, &from);

    if (given < 0 || call_query_number(c, "limit", LOGS_MAX, &limit) < 0 ||
        call_query(c, "direction", &way) < 0 || call_query(c, "level", &level) < 0 ||
        call_query(c, "search", &q->text) < 0)
        return -1;
    q->ascending = !str_eq(way, STR("backward"));
    q->time_ns = from_when(q, given, from);
    q->limit = limit ? (int)limit : LOGS_DEFAULT;
    return !str_eq(level, STR("warn")) && !str_eq(level, STR("error"));
}

static void show_logs(struct call *c, bool both)
{
    struct logs *l = calloc(1, sizeof *l);
    struct err e;
    int r;

    if (!l)
        abort();
    l->call = c;
    l->both = both;
    l->query = (struct store_query){ .kind = STORE_HISTORY,
                                     .sandbox = str_from(sandbox_view(c->sandbox).record->id) };
    arena_init(&l->query.arena, CALL_ARENA_MAX);
    c->state = l;
    c->on_end = logs_end;
    r = read_query(c, l);
    if (r == 0)
        call_answer(c, 200, write_logs, l);
    if (r <= 0)
        return;
    if (store_ask(control_store(c->api->control), &l->query, found, &e) < 0)
        call_fail(c, &e);
    else
        call_ref(c);
}

static void logs_v1(struct call *c)
{
    show_logs(c, true);
}

static void logs_v2(struct call *c)
{
    show_logs(c, false);
}

#define ONE (ROUTE_SANDBOX | ROUTE_LIVE)

const struct route routes_e2b_logs[] = {
    { H1_GET, VERB_READ, "/sandboxes/{id}/logs", ONE, logs_v1, .face = &e2b_face },
    { H1_GET, VERB_READ, "/v2/sandboxes/{id}/logs", ONE, logs_v2, .face = &e2b_face },
    { .path = NULL },
};
