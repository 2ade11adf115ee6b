/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/audit/commands and /v1/sandboxes/{id}/audit/commands: the programs that callers started, the
 * newest first; and, with `follow`, as they are recorded.
 *
 * Those that run are known to the control plane (control/event/commands.h); the others are events
 * of the store, in pages. A request looks at a bounded number of them, and says where it stopped. */
#include <stdio.h>

#include "base/own.h"
#include "control/event/commands.h"
#include "edge/core/answers.h"
#include "edge/core/internal.h"
#include "edge/rest/command_filter.h"
#include "edge/rest/routes.h"

enum {
    PAGE = 256,
    SEEN_MAX = 16 << 10, /* events that a request looks at */
    RUNNING_MAX = 4096,  /* programs that run, of those that the caller may see */
    LIMIT_DEFAULT = 100,
    LIMIT_MAX = 1000,
    PAGE_BYTES_MAX = 32 << 20,
    ROW_BYTES_MAX = 64 << 10,
    ROWS_BYTES_MAX = 24 << 20,
};

struct command_list {
    struct call *call;
    struct command_filter filter;
    struct store_query query;
    struct event_subscriber subscriber; /* of `follow` */
    char sandbox[ID_MAX];               /* "": all */
    struct buf rows;                    /* JSON, a row a line */
    uint64_t limit, n, seen, running, before;
    bool follow;
};

static void release_command_list(void *state)
{
    struct command_list *l = state;

    event_unsubscribe(&l->subscriber);
    arena_done(&l->query.arena);
}

static void on_command_client_gone(struct call *c)
{
    struct command_list *l = c->state;

    event_unsubscribe(&l->subscriber);
}

static int write_command_row(const struct command_row *row, struct buf *out, struct err *e)
{
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    json_put_shape(&w, &command_answer, row);
    return json_writer_finish(&w, e);
}

/* A record, if it is wanted; one that cannot be read, or that does not fit, is left out. */
static void add_command_row(struct command_list *l, const struct command_row *row)
{
    AUTO(buf_done) struct buf text = BUF_INIT(ROW_BYTES_MAX);

    if (!command_filter_fits(&l->filter, row) || write_command_row(row, &text, NULL) < 0 ||
        buf_add_c(&text, '\n') < 0 || buf_add(&l->rows, buf_str(&text)) < 0)
        return;
    l->n++;
}

/* --- a page --- */

struct command_page {
    int64_t next;
    struct str rows;
};

static void write_command_rows(struct json_writer *w, const void *page)
{
    struct str rest = ((const struct command_page *)page)->rows, row;

    while (rest.n) {
        rest = str_cut(rest, '\n', &row);
        json_put_written(w, row);
    }
}

static const struct json_field page_fields[] = {
    { "commands", JSON_KIND_OBJECTS, .required = true, .schema = "Command",
      .items = write_command_rows },
    { "next", JSON_KIND_INT, JSON_AT(struct command_page, next), .optional = true },
};
static const struct json_shape command_list = { "CommandList", JSON_FIELDS(page_fields) };

static void answer_command_page(struct command_list *l, bool over)
{
    const struct command_page page = { over ? 0 : (int64_t)l->before, buf_str(&l->rows) };

    call_answer_as(l->call, 200, &command_list, &page);
}

static void ask_for_commands(struct command_list *l);

static void add_command_event(struct command_list *l, const struct event_record *v)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(8 * COMMAND_JSON_MAX);
    struct command c;
    const struct command_row row = { v->seq, v, &c };

    if (command_read(v->detail, &c, &a, NULL) >= 0)
        add_command_row(l, &row);
}

static void take_commands(struct command_list *l)
{
    const struct store_query *q = &l->query;
    size_t i = 0;

    for (; i < q->n && l->n < l->limit; i++) {
        l->before = (uint64_t)q->events[i].seq;
        add_command_event(l, &q->events[i]);
    }
    l->seen += i;
    if (i == q->n && q->n < PAGE)
        answer_command_page(l, true);
    else if (l->n >= l->limit || l->seen >= SEEN_MAX)
        answer_command_page(l, false);
    else
        ask_for_commands(l);
}

static void on_commands_read(struct store_query *q, int r, const struct err *e)
{
    struct command_list *l = container_of(q, struct command_list, query);
    struct call *c = l->call;

    if (c->x && r < 0)
        call_fail(c, e);
    else if (c->x)
        take_commands(l);
    call_unref(c);
}

static void ask_for_commands(struct command_list *l)
{
    const struct caller *who = &l->call->caller;
    struct err e;

    arena_done(&l->query.arena);
    l->query = (struct store_query){
        .kind = STORE_EVENTS,
        .text = STR(COMMAND_ENDED),
        .sandbox = str_from(l->sandbox),
        .owner = who->admin || l->sandbox[0] ? STR("") : str_from(who->owner),
        .labels = who->labels,
        .before_seq = (int64_t)l->before,
        .time_ns = l->filter.since_ns,
        .until_ns = l->filter.until_ns,
        .latest = true,
        .limit = PAGE,
    };
    arena_init(&l->query.arena, PAGE_BYTES_MAX);
    if (store_ask(control_store(l->call->api->control), &l->query, on_commands_read, &e) < 0)
        call_fail(l->call, &e);
    else
        call_ref(l->call);
}

/* --- those that run --- */

static bool is_command_visible(const struct command_list *l, const struct event_record *v)
{
    return l->sandbox[0] ? strcmp(l->sandbox, v->sandbox) == 0
                         : event_visible(l->call->api->control, &l->call->caller, v);
}

static bool on_running_command(void *user, const struct command_row *row)
{
    struct command_list *l = user;

    if (!is_command_visible(l, row->event)) /* nor counted: else others could hide this one */
        return true;
    add_command_row(l, row);
    return l->n < l->limit && ++l->running < RUNNING_MAX;
}

/* --- follow --- */

static void on_command_event(struct event_subscriber *s, const struct event_record *v)
{
    struct command_list *l = container_of(s, struct command_list, subscriber);

    if ((strcmp(v->type, COMMAND_STARTED) != 0 && strcmp(v->type, COMMAND_ENDED) != 0) ||
        !is_command_visible(l, v))
        return;
    buf_clear(&l->rows);
    add_command_event(l, v);
    if (!l->rows.n || http_write(l->call->x, buf_str(&l->rows), NULL) >= 0)
        return;
    event_unsubscribe(
        &l->subscriber); /* the client does not read: it must see that it missed some */
    http_cut(call_take_exchange(l->call));
}

static void on_command_drain(struct http_exchange *x)
{
}

static void stream_commands(struct command_list *l)
{
    if (call_begin_lines(l->call, on_command_drain))
        control_subscribe(l->call->api->control, &l->subscriber, on_command_event);
}

static void rest_list_commands(struct call *c)
{
    struct command_list *l = call_state(c, sizeof *l, release_command_list);

    l->call = c;
    l->limit = LIMIT_DEFAULT;
    call_own_buf(c, &l->rows, ROWS_BYTES_MAX);
    if (call_sandbox_id(c))
        snprintf(l->sandbox, sizeof l->sandbox, "%s", call_sandbox_id(c));
    c->on_gone = on_command_client_gone;
    if (call_query_number(c, "limit", LIMIT_MAX, &l->limit) < 0 ||
        call_query_number(c, "before", INT64_MAX, &l->before) < 0 ||
        call_query_bool(c, "follow", &l->follow) < 0 || !command_filter_read(c, &l->filter))
        return;
    if (l->follow) {
        stream_commands(l);
        return;
    }
    if (!l->before && !l->filter.until_ns && l->limit)
        commands_each_running(c->api->control, on_running_command, l);
    ask_for_commands(l);
}

#define QUERY "before follow limit " COMMAND_FILTER_QUERY

const struct route routes_commands[] = {
    { H1_GET, VERB_READ, "/v1/audit/commands", ROUTE_LONG, rest_list_commands,
      "Programs that were started in sandboxes", .answer = "CommandList", .query = QUERY },
    { H1_GET, VERB_READ, "/v1/sandboxes/{id}/audit/commands",
      ROUTE_SANDBOX | ROUTE_LONG | ROUTE_QUIET, rest_list_commands,
      "Programs that were started in a sandbox", .answer = "CommandList", .query = QUERY },
    { .path = NULL },
};

const struct json_shape *const answers_commands[] = { &command_answer, &command_list, NULL };
