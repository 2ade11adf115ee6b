/* What E2B's clients ask of a sandbox that is neither its life nor what is inside: measures, logs,
 * and what is not there yet. */
#include <stdio.h>
#include <stdlib.h>

#include "api/e2b/inside.h"
#include "api/e2b/write.h"
#include "base/clock.h"

enum { LOGS_DEFAULT = 100, LOGS_MAX = 1000 };

/* --- metrics --- */

static void write_nothing(struct json_writer *w, const void *what)
{
    (void)what;
    json_begin_array(w);
    json_end_array(w);
}

/* Nothing is sampled: as of a sandbox that is so new that nothing was yet. */
static void metrics(struct call *c)
{
    call_answer(c, 200, write_nothing, NULL);
}

/* --- logs: what happened to it --- */

struct logs {
    struct call *call;
    struct store_query query;
    bool both;        /* also as lines, as the older path has it */
    int64_t since_ms; /* what was before is left out */
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
        if (l->query.events[i].time_ns / NS_PER_MS >= l->since_ms)
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

static void show_logs(struct call *c, bool both)
{
    uint64_t limit = LOGS_DEFAULT, since = 0;
    struct logs *l;
    struct err e;

    if (call_query_number(c, "limit", LOGS_MAX, &limit) < 0 ||
        call_query_number(c, both ? "start" : "cursor", INT64_MAX, &since) < 0)
        return;
    l = calloc(1, sizeof *l);
    if (!l)
        abort();
    l->call = c;
    l->both = both;
    l->since_ms = (int64_t)since;
    l->query = (struct store_query){ .kind = STORE_EVENTS,
                                     .sandbox = str_from(sandbox_view(c->sandbox).record->id),
                                     .limit = limit ? (int)limit : LOGS_DEFAULT };
    arena_init(&l->query.arena, CALL_ARENA_MAX);
    c->state = l;
    c->on_end = logs_end;
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

/* --- not yet --- */

static void not_here(struct call *c)
{
    call_fail_with(c, 501, "unsupported", "this sandboxer cannot do that yet");
}

#define ONE (ROUTE_SANDBOX | ROUTE_LIVE)

const struct route routes_e2b_later[] = {
    { H1_GET, VERB_READ, "/sandboxes/{id}/metrics", ONE, metrics, .face = &e2b_face },
    { H1_GET, VERB_READ, "/sandboxes/{id}/logs", ONE, logs_v1, .face = &e2b_face },
    { H1_GET, VERB_READ, "/v2/sandboxes/{id}/logs", ONE, logs_v2, .face = &e2b_face },
    { H1_POST, VERB_CREATE, "/templates", 0, not_here, .face = &e2b_face },
    { H1_POST, VERB_CREATE, "/v2/templates", 0, not_here, .face = &e2b_face },
    { H1_POST, VERB_CREATE, "/v3/templates", 0, not_here, .face = &e2b_face },
    { .path = NULL },
};
