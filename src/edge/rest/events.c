/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/events and /v1/sandboxes/{id}/events: past and live events, as a stream or by polling.
 *
 * Lifecycle events are rows of the store, each with a sequence number. Egress decisions are read
 * from the sandboxes' audit files (control/egress/egress_tail.h) and appear in streams only. The id
 * of a stream message is the number of the last lifecycle event; for a decision, a dot and its time
 * follow. Either form is a position in both sources.
 *
 * A stream reads pages from the store until it is up to date, then sends events as they are
 * published. If it cannot send one at once (a page is being read, or the client is slow), it only
 * notes that there is more and reads pages again: so there are no gaps, no duplicates, and no
 * unbounded queue. */
#include <stdio.h>

#include "edge/core/answers.h"
#include "edge/core/internal.h"
#include "edge/rest/routes.h"
#include "base/clock.h"
#include "base/own.h"
#include "control/egress/egress_tail.h"
#include "lib/http/sse.h"
#include "domain/model/event.h"

enum { PAGE = 64, POLL_DEFAULT = 100, POLL_MAX = 1000, WAIT_MAX = 60, HEARTBEAT_S = 15 };
enum { PAGE_BYTES_MAX = 16 << 20, EVENT_BYTES_MAX = 512 << 10 };
enum { OVERLAP_MS = 2000 }; /* allowance for the delay between a decision and its reading */

enum { /* in addition to the kinds of egress_tail */
       KIND_LIFECYCLE = 1u << EGRESS_TAIL_KINDS_,
       KIND_COMMANDS = 1u << (EGRESS_TAIL_KINDS_ + 1),
       KIND_STORED = KIND_LIFECYCLE | KIND_COMMANDS,
};

static const struct {
    struct str name;
    unsigned kinds;
} kinds[] = {
    { STR("lifecycle"), KIND_LIFECYCLE },
    { STR("commands"), KIND_COMMANDS },
    { STR("denied"), 1u << EGRESS_TAIL_DENIED },
    { STR("allowed"), 1u << EGRESS_TAIL_ALLOWED | 1u << EGRESS_TAIL_CLOSED },
    { STR("egress"),
      1u << EGRESS_TAIL_DENIED | 1u << EGRESS_TAIL_ALLOWED | 1u << EGRESS_TAIL_CLOSED },
};

struct event_stream {
    struct call *call;
    struct store_query query;
    struct event_subscriber subscriber;
    struct egress_tail_reader feed;
    struct loop_timer timer;    /* the next heartbeat, or the end of the wait */
    char sandbox[ID_MAX];       /* "": all */
    int64_t at;                 /* the last event sent */
    int64_t wait_until;         /* deadline of a poll; clock_mono() */
    int64_t from_ms;            /* start time of decisions; 0: now */
    int64_t since_ns, until_ns; /* of what is past; 0: no bound */
    struct str type;            /* empty: any */
    int limit;
    unsigned kinds;
    bool sse, reading, full, more;
    bool latest; /* a poll for the last events */
    bool dates;  /* the time of event `at` is the start time of decisions */
};

static void read_event_page(struct event_stream *s);
static void send_decisions(struct event_stream *s);

static void stop_stream(struct event_stream *s)
{
    loop_timer_stop(&s->timer);
    event_unsubscribe(&s->subscriber);
    egress_tail_end(&s->feed);
}

static void release_stream(void *state)
{
    struct event_stream *s = state;

    stop_stream(s);
    arena_done(&s->query.arena);
}

static void on_stream_client_gone(struct call *c)
{
    stop_stream(c->state);
}

/* --- server-sent events --- */

static void fail_stream(struct event_stream *s, const struct err *e)
{
    stop_stream(s);
    if (s->sse)
        http_cut(call_take_exchange(s->call));
    else
        call_fail(s->call, e);
}

/* False: the client is full, or was cut off. */
static bool send_sse(struct event_stream *s, const char *id, const char *type, int r,
                     struct str text)
{
    const struct sse_event out = { .id = str_from(id), .event = str_from(type), .data = text };

    if (r >= 0)
        r = sse_send(s->call->x, &out, NULL);
    if (r < 0) { /* an event must not be skipped */
        fail_stream(s, NULL);
        return false;
    }
    s->full = r > 0;
    return !s->full;
}

static bool send_lifecycle_event(struct event_stream *s, const struct event_record *v)
{
    struct buf text AUTO(buf_done) = BUF_INIT(EVENT_BYTES_MAX);
    struct json_writer w;
    char id[24];

    snprintf(id, sizeof id, "%lld", (long long)v->seq);
    json_writer_init(&w, &text, JSON_COMPACT);
    event_write(&w, v);
    s->at = v->seq;
    return send_sse(s, id, v->type, json_writer_finish(&w, NULL), buf_str(&text));
}

static bool send_decision(struct event_stream *s, const struct egress_tail_line *l)
{
    struct buf text AUTO(buf_done) = BUF_INIT(EVENT_BYTES_MAX);
    struct json_writer w;
    char id[48];

    snprintf(id, sizeof id, "%lld.%lld", (long long)s->at, (long long)l->time_ms);
    json_writer_init(&w, &text, JSON_COMPACT);
    egress_tail_write(&w, l);
    return send_sse(s, id, egress_tail_types[l->kind], json_writer_finish(&w, NULL),
                    buf_str(&text));
}

static bool is_wanted_type(const struct event_stream *s, const char *type)
{
    return !s->type.n || str_eq(s->type, str_from(type));
}

/* Programs are left out unless their kind or type is named. */
static bool is_wanted_kind(const struct event_stream *s, const struct event_record *v)
{
    unsigned kind = str_starts(str_from(v->type), STR("command.")) ? KIND_COMMANDS : KIND_LIFECYCLE;

    return s->type.n || s->kinds & kind;
}

static void on_stream_drain(struct http_exchange *x)
{
    struct call *c = http_state(x);
    struct event_stream *s = c->state;

    s->full = false;
    if (s->more)
        read_event_page(s);
    else
        send_decisions(s);
}

static void on_stream_token_ended(struct http_exchange *x)
{
    struct buf text AUTO(buf_done) = BUF_INIT(4096);
    struct call *c = http_state(x);
    struct event_stream *s = c->state;
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    problem_write_token_ended(&w, NULL);
    (void)send_sse(s, "", "error", json_writer_finish(&w, NULL), buf_str(&text));
    stop_stream(s);
    if (c->x)
        http_end(call_take_exchange(c));
}

static void on_heartbeat(struct loop_timer *t)
{
    struct event_stream *s = container_of(t, struct event_stream, timer);

    if (!s->full)
        sse_heartbeat(s->call->x, NULL);
    loop_timer_start(s->call->loop, t, clock_mono() + HEARTBEAT_S * NS_PER_S, on_heartbeat, NULL);
}

/* --- decisions of egress workers --- */

static bool on_stream_sees(struct egress_tail_reader *r, const char *box)
{
    struct event_stream *s = container_of(r, struct event_stream, feed);
    struct sandbox *found;

    if (s->sandbox[0])
        return strcmp(s->sandbox, box) == 0;
    if (!control_find_now(s->call->api->control, &s->call->caller, str_from(box), &found))
        return false;
    sandbox_unref(found);
    return true;
}

/* Lifecycle events are sent first, so that an id is a position in both sources. */
static void send_decisions(struct event_stream *s)
{
    struct egress_tail_line l;

    if (!s->feed.more)
        return;
    while (s->call->x && !s->reading && !s->more && !s->full && egress_tail_next(&s->feed, &l) > 0)
        if (is_wanted_type(s, egress_tail_types[l.kind]))
            send_decision(s, &l);
}

static void on_decisions(struct egress_tail_reader *r)
{
    send_decisions(container_of(r, struct event_stream, feed));
}

static void begin_decisions(struct event_stream *s, int64_t from_ns)
{
    int64_t from_ms = from_ns / NS_PER_MS;

    s->dates = false;
    s->feed = (struct egress_tail_reader){ .kinds = s->kinds,
                                           .from_ms = from_ms > OVERLAP_MS ? from_ms - OVERLAP_MS
                                                                           : from_ms,
                                           .resumes = from_ms != 0,
                                           .sees = on_stream_sees,
                                           .more = on_decisions };
    egress_tail_begin(s->call->api->control, &s->feed);
    if (from_ms && s->sandbox[0]) /* the sandbox may have ended */
        egress_tail_scan(&s->feed, s->sandbox);
}

static void send_event_page(struct event_stream *s)
{
    const struct store_query *q = &s->query;
    size_t i = 0;

    if (s->dates)
        begin_decisions(s, q->n && q->events[0].seq == s->at ? q->events[0].time_ns : NS_PER_MS);
    if (!(s->kinds & KIND_STORED))
        return;
    while (i < q->n && (q->events[i].seq <= s->at || !is_wanted_kind(s, &q->events[i]) ||
                        send_lifecycle_event(s, &q->events[i])))
        i++;
    if (i && i == q->n && q->events[i - 1].seq > s->at)
        s->at = q->events[i - 1].seq;
    if (!s->call->x)
        return;
    if (i < q->n || q->n == (size_t)q->limit)
        s->more = true;
    if (s->more && !s->full)
        read_event_page(s);
    else
        send_decisions(s);
}

/* --- polling --- */

struct event_page {
    int64_t next;
    const struct store_query *query;
    const struct event_stream *stream;
};

static void write_events(struct json_writer *w, const void *page)
{
    const struct event_page *p = page;
    const struct store_query *q = p->query;

    for (size_t i = 0; i < q->n; i++) {
        const struct event_record *v = &q->events[q->latest ? q->n - 1 - i : i];

        if (is_wanted_kind(p->stream, v))
            event_write(w, v);
    }
}

static const struct json_field event_list_fields[] = {
    { "events", JSON_KIND_OBJECTS, .required = true, .schema = "Event", .items = write_events },
    { "next", JSON_KIND_INT, JSON_AT(struct event_page, next), .required = true },
};
static const struct json_shape event_list = { "EventList", JSON_FIELDS(event_list_fields) };

static void answer_event_poll(struct event_stream *s)
{
    const struct store_query *q = &s->query;
    const struct event_page page = { q->n ? q->events[q->latest ? 0 : q->n - 1].seq : s->at, q, s };

    stop_stream(s);
    call_answer_as(s->call, 200, &event_list, &page);
}

static void on_poll_timeout(struct loop_timer *t)
{
    struct event_stream *s = container_of(t, struct event_stream, timer);

    if (!s->reading) /* otherwise on_event_page() answers */
        answer_event_poll(s);
}

/* --- both --- */

static void on_event_page(struct store_query *q, int r, const struct err *e)
{
    struct event_stream *s = container_of(q, struct event_stream, query);
    struct call *c = s->call;

    s->reading = false;
    if (!c->x)
        ; /* the client disconnected */
    else if (r < 0)
        fail_stream(s, e);
    else if (s->sse)
        send_event_page(s);
    else if (q->n || clock_mono() >= s->wait_until)
        answer_event_poll(s);
    else if (s->more)
        read_event_page(s);
    call_unref(c);
}

static enum store_commands wanted_commands(const struct event_stream *s)
{
    if (!(s->kinds & KIND_COMMANDS))
        return COMMANDS_LEFT_OUT;
    return s->kinds & KIND_LIFECYCLE ? COMMANDS_TOO : COMMANDS_ALONE;
}

static void read_event_page(struct event_stream *s)
{
    const struct caller *who = &s->call->caller;
    struct err e;

    arena_done(&s->query.arena);
    s->query = (struct store_query){
        .kind = STORE_EVENTS,
        .sandbox = str_from(s->sandbox),
        .owner = who->admin || s->sandbox[0] ? STR("") : str_from(who->owner),
        .labels = who->labels,
        .text = s->type,
        .after_seq = s->at - s->dates,
        .commands = wanted_commands(s),
        .time_ns = s->since_ns,
        .until_ns = s->until_ns,
        .latest = s->latest,
        .limit = s->limit,
    };
    arena_init(&s->query.arena, PAGE_BYTES_MAX);
    s->more = false;
    if (store_ask(control_store(s->call->api->control), &s->query, on_event_page, &e) < 0) {
        fail_stream(s, &e);
        return;
    }
    s->reading = true;
    call_ref(s->call);
}

static void on_lifecycle_event(struct event_subscriber *sub, const struct event_record *v)
{
    struct event_stream *s = container_of(sub, struct event_stream, subscriber);

    if (v->seq <= s->at || !is_wanted_type(s, v->type) || !is_wanted_kind(s, v) ||
        v->time_ns < s->since_ns || s->until_ns ||
        (s->sandbox[0] ? strcmp(s->sandbox, v->sandbox) != 0
                       : !event_visible(s->call->api->control, &s->call->caller, v)))
        return;
    if (s->sse && !s->reading && !s->full)
        send_lifecycle_event(s, v);
    else if (s->sse || s->reading)
        s->more = true;
    else
        read_event_page(s);
}

/* Parses "7", or "7.1794805033333" after a decision. */
static bool read_last_event_id(struct str last, uint64_t *ret_seq, struct event_stream *s)
{
    struct str seq, ms = str_cut(last, '.', &seq);
    uint64_t time = 0;

    if (!str_to_u64(seq, ret_seq) || *ret_seq > INT64_MAX ||
        (ms.p && (!str_to_u64(ms, &time) || time > INT64_MAX / NS_PER_MS)))
        return false;
    s->from_ms = (int64_t)time;
    return true;
}

/* Reads the requested kinds; streams include denials by default. */
static bool read_event_kinds(struct call *c, struct event_stream *s)
{
    struct str rest = { 0 }, name;

    s->kinds = s->sse ? KIND_LIFECYCLE | 1u << EGRESS_TAIL_DENIED : KIND_LIFECYCLE;
    if (call_query(c, "kind", &rest) <= 0)
        return c->x != NULL;
    s->kinds = 0;
    do {
        size_t i = 0;

        rest = str_cut(rest, ',', &name);
        while (i < COUNT_OF(kinds) && !str_eq(name, kinds[i].name))
            i++;
        if (i == COUNT_OF(kinds))
            return call_fail_with(c, 400, "invalid",
                                  "kind: must be lifecycle, commands, denied, allowed or egress, "
                                  "or several of them with commas between");
        s->kinds |= kinds[i].kinds;
    } while (rest.p);
    return s->sse || !(s->kinds & ~(unsigned)KIND_STORED) ||
           call_fail_with(c, 400, "invalid",
                          "kind: egress decisions are only available as a stream: accept "
                          "text/event-stream, or read the sandbox's egress/log");
}

/* Which of the past events, and of which type. */
static bool read_event_filters(struct call *c, struct event_stream *s)
{
    uint64_t tail = 0;

    if (call_query_time(c, "since", &s->since_ns) < 0 ||
        call_query_time(c, "until", &s->until_ns) < 0 || call_query(c, "type", &s->type) < 0 ||
        call_query_number(c, "tail", POLL_MAX, &tail) < 0)
        return false;
    if (s->sse && (tail || s->until_ns))
        return call_fail_with(c, 400, "invalid",
                              "%s: a stream continues without an end; leave it out, or do not "
                              "accept text/event-stream",
                              tail ? "tail" : "until");
    if (s->since_ns && !s->from_ms)
        s->from_ms = s->since_ns / NS_PER_MS;
    s->latest = tail;
    if (tail)
        s->limit = (int)tail;
    return true;
}

static bool read_event_query(struct call *c, struct event_stream *s)
{
    struct str last = call_header(c, "Last-Event-ID");
    uint64_t after = 0, limit = POLL_DEFAULT, wait = 0;

    if (last.n && !read_last_event_id(last, &after, s))
        return call_fail_with(c, 400, "invalid", "Last-Event-ID: not an id of this event stream");
    if (call_query_number(c, "after", INT64_MAX, &after) < 0 ||
        call_query_number(c, "limit", POLL_MAX, &limit) < 0 ||
        call_query_number(c, "wait", WAIT_MAX, &wait) < 0 || !read_event_kinds(c, s))
        return false;
    if (!limit)
        return call_fail_with(c, 400, "invalid", "limit: must be at least 1");
    s->at = (int64_t)after;
    s->dates = last.n && s->at && !s->from_ms && s->kinds & ~(unsigned)KIND_STORED;
    s->limit = s->sse ? PAGE : (int)limit;
    s->wait_until = clock_mono() + (call_wants_head(c) ? 0 : (int64_t)wait * NS_PER_S);
    return read_event_filters(c, s);
}

static void begin_stream(struct event_stream *s)
{
    struct call *c = s->call;
    struct err e;

    if (s->sse && sse_begin(c->x, NULL, 0, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    if (s->sse && call_end_head(c))
        return;
    if (s->sse) {
        http_on_drain(c->x, on_stream_drain);
        http_on_ended(c->x, on_stream_token_ended);
        sse_heartbeat(c->x, NULL); /* sends the head, so that the client knows it is connected */
        loop_timer_start(c->loop, &s->timer, clock_mono() + HEARTBEAT_S * NS_PER_S, on_heartbeat,
                         NULL);
    } else {
        loop_timer_start(c->loop, &s->timer, s->wait_until, on_poll_timeout, NULL);
    }
    if (s->kinds & KIND_STORED)
        control_subscribe(c->api->control, &s->subscriber, on_lifecycle_event);
    if (s->kinds & ~(unsigned)KIND_STORED && !s->dates)
        begin_decisions(s, s->from_ms * NS_PER_MS);
    if (s->kinds & KIND_STORED || s->dates)
        read_event_page(s);
}

static void rest_stream_events(struct call *c)
{
    struct event_stream *s = call_state(c, sizeof *s, release_stream);

    s->call = c;
    s->sse = call_accepts(c, "text/event-stream");
    if (call_sandbox_id(c))
        snprintf(s->sandbox, sizeof s->sandbox, "%s", call_sandbox_id(c));
    c->on_gone = on_stream_client_gone;
    if (read_event_query(c, s))
        begin_stream(s);
}

const struct route routes_events[] = {
    { H1_GET, VERB_READ, "/v1/events", ROUTE_LONG, rest_stream_events, "Events of all sandboxes",
      .answer = "EventList", .query = "after kind limit since tail type until wait" },
    { H1_GET, VERB_READ, "/v1/sandboxes/{id}/events", ROUTE_SANDBOX | ROUTE_LONG,
      rest_stream_events, "Events of a sandbox", .answer = "EventList",
      .query = "after kind limit since tail type until wait" },
    { .path = NULL },
};

const struct json_shape *const answers_events[] = { &event_answer, &actor_answer, &event_list,
                                                    NULL };
