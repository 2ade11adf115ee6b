/* SPDX-License-Identifier: Apache-2.0 */
/* GET /sandboxes/{id}/logs of E2B's control plane: the events of a sandbox. */
#include <stdio.h>

#include "edge/e2b/internal.h"
#include "edge/core/operation.h"
#include "base/clock.h"
#include "base/own.h"

enum { LOGS_DEFAULT = 100, LOGS_MAX = 1000 };

struct e2b_logs {
    struct call *call;
    struct store_query query;
    bool both; /* also as lines, for the older path */
};

static void write_log_message(struct json_writer *w, const struct event_record *v)
{
    char text[sizeof v->type + sizeof v->reason + 4];

    snprintf(text, sizeof text, "%s%s%s", v->type, v->reason[0] ? ": " : "", v->reason);
    json_field_text(w, "level", "info");
    json_field_text(w, "message", text);
}

/* Writes a log line, whose text is JSON itself in E2B's format. */
static void write_e2b_log_line(struct json_writer *w, const struct event_record *v)
{
    struct buf line AUTO(buf_done) = BUF_INIT(4096);
    struct json_writer own;

    json_writer_init(&own, &line, JSON_COMPACT);
    json_begin_object(&own);
    json_field_text(&own, "logger", "sandboxer");
    write_log_message(&own, v);
    json_end_object(&own);
    json_writer_finish(&own, NULL);
    json_begin_object(w);
    time_write(w, "timestamp", v->time_ns);
    json_field_str(w, "line", buf_str(&line));
    json_end_object(w);
}

static void write_log_record(struct json_writer *w, const struct event_record *v)
{
    json_begin_object(w);
    time_write(w, "timestamp", v->time_ns);
    write_log_message(w, v);
    json_field_begin_object(w, "fields");
    json_field_text(w, "event", v->type);
    json_field_text(w, "actor", v->actor.id);
    json_end_object(w);
    json_end_object(w);
}

static void write_e2b_logs(struct json_writer *w, const void *what)
{
    const struct e2b_logs *l = what;

    json_begin_object(w);
    if (l->both) {
        json_field_begin_array(w, "logs");
        for (size_t i = 0; i < l->query.n; i++)
            write_e2b_log_line(w, &l->query.events[i]);
        json_end_array(w);
    }
    json_field_begin_array(w, l->both ? "logEntries" : "logs");
    for (size_t i = 0; i < l->query.n; i++)
        write_log_record(w, &l->query.events[i]);
    json_end_array(w);
    json_end_object(w);
}

static void on_e2b_logs_found(struct store_query *q, int r, const struct err *e)
{
    struct e2b_logs *l = container_of(q, struct e2b_logs, query);

    call_settle_with(l->call, r, e, 200, write_e2b_logs, l);
}

/* Returns 1; 0 if the level matches no event, because events are neither warnings nor errors; or -1
 * after it has answered the call. */
static int read_logs_query(struct call *c, struct e2b_logs *l)
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
    /* all events of the cursor's millisecond are included in either direction */
    q->time_ns = !given                          ? (q->ascending ? 0 : INT64_MAX)
                 : from >= INT64_MAX / NS_PER_MS ? INT64_MAX
                 : q->ascending                  ? (int64_t)from * NS_PER_MS
                                                 : (int64_t)(from + 1) * NS_PER_MS - 1;
    q->limit = limit ? (int)limit : LOGS_DEFAULT;
    return !str_eq(level, STR("warn")) && !str_eq(level, STR("error"));
}

static void show_e2b_logs(struct call *c)
{
    struct e2b_logs *l = call_state(c, sizeof *l, NULL);
    struct err e;
    int r;

    l->call = c;
    l->both = !str_starts(str_from(c->route->path), STR("/v2/"));
    l->query = (struct store_query){ .kind = STORE_HISTORY,
                                     .sandbox = str_from(sandbox_view(c->sandbox).record->id) };
    call_own_arena(c, &l->query.arena, CALL_ARENA_MAX);
    r = read_logs_query(c, l);
    if (r == 0)
        call_answer(c, 200, write_e2b_logs, l);
    if (r <= 0)
        return;
    if (store_ask(control_store(c->api->control), &l->query, on_e2b_logs_found, &e) < 0)
        call_fail(c, &e);
    else
        call_ref(c);
}

#define ONE (ROUTE_SANDBOX | ROUTE_LIVE)

const struct route routes_e2b_logs[] = {
    { H1_GET, VERB_READ, "/sandboxes/{id}/logs", ONE, .handle = show_e2b_logs },
    { H1_GET, VERB_READ, "/v2/sandboxes/{id}/logs", ONE, .handle = show_e2b_logs },
    { .path = NULL },
};
