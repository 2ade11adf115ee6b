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
    bool backward;
    int64_t from_ms; /* what was before, or after if that is asked for, is left out */
    struct str search;
    size_t limit;
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

static bool is_wanted(const struct logs *l, const struct event_record *v)
{
    int64_t at = v->time_ns / NS_PER_MS;

    return (l->backward ? at <= l->from_ms : at >= l->from_ms) &&
           (!l->search.n || memmem(v->type, strlen(v->type), l->search.p, l->search.n) ||
            memmem(v->reason, strlen(v->reason), l->search.p, l->search.n));
}

/* The store has the oldest first. */
static void write_all(struct json_writer *w, const struct logs *l, const char *key,
                      void (*write)(struct json_writer *w, const struct event_record *v))
{
    size_t n = 0;

    json_key(w, str_from(key));
    json_begin_array(w);
    for (size_t i = 0; i < l->query.n && n < l->limit; i++) {
        const struct event_record *v = &l->query.events[l->backward ? l->query.n - 1 - i : i];

        if (is_wanted(l, v)) {
            write(w, v);
            n++;
        }
    }
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

/* Events are neither warnings nor errors: with such a level there is nothing. */
static int read_query(struct call *c, struct logs *l)
{
    uint64_t limit = LOGS_DEFAULT, from;
    struct str word = { NULL, 0 }, level = { NULL, 0 };
    int given = call_query_number(c, l->both ? "start" : "cursor", INT64_MAX, &from);

    if (given < 0 || call_query_number(c, "limit", LOGS_MAX, &limit) < 0 ||
        call_query(c, "direction", &word) < 0 || call_query(c, "level", &level) < 0 ||
        call_query(c, "search", &l->search) < 0)
        return -1;
    l->backward = str_eq(word, STR("backward"));
    l->from_ms = given ? (int64_t)from : l->backward ? INT64_MAX : 0;
    l->limit = str_eq(level, STR("warn")) || str_eq(level, STR("error")) ? 0
               : limit                                                   ? (size_t)limit
                                                                         : LOGS_DEFAULT;
    return 0;
}

static void show_logs(struct call *c, bool both)
{
    struct logs *l = calloc(1, sizeof *l);
    struct err e;

    if (!l)
        abort();
    l->call = c;
    l->both = both;
    l->query = (struct store_query){ .kind = STORE_EVENTS,
                                     .sandbox = str_from(sandbox_view(c->sandbox).record->id),
                                     .limit = LOGS_MAX };
    arena_init(&l->query.arena, CALL_ARENA_MAX);
    c->state = l;
    c->on_end = logs_end;
    if (read_query(c, l) < 0)
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
