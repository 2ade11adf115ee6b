/* /v1/events and /v1/sandboxes/{id}/events: what happened, and what happens.
 *
 * Lifecycle events are rows of the store, with a sequence number each; what egress workers decided
 * is in the sandboxes' audit files (control/feed.h), and only streams have it. A stream's id is the
 * last lifecycle event's number, behind a decision with a dot and its time: either says where to go
 * on in both.
 *
 * A stream reads pages from the store until it has everything, then takes events as they are
 * published. Whenever it cannot take one at once (a page is being read, or the client is slow), it
 * only remembers that there is more and goes back to reading pages: so there are no gaps, no
 * repetitions, and nothing grows. */
#include <stdio.h>
#include <stdlib.h>

#include "api/inside.h"
#include "api/route.h"
#include "base/clock.h"
#include "control/feed.h"
#include "http/sse.h"
#include "model/event.h"

enum { PAGE = 64, POLL_DEFAULT = 100, POLL_MAX = 1000, WAIT_MAX = 60, HEARTBEAT_S = 15 };
enum { PAGE_BYTES_MAX = 16 << 20, EVENT_BYTES_MAX = 512 << 10 };
enum { OVERLAP_MS = 2000 }; /* workers write, and we read, a little later than they decide */

enum { KIND_LIFECYCLE = 1u << FEED_KINDS_ }; /* beside those of the feed */

static const struct {
    struct str name;
    unsigned kinds;
} kinds[] = {
    { STR("lifecycle"), KIND_LIFECYCLE },
    { STR("denied"), 1u << FEED_DENIED },
    { STR("allowed"), 1u << FEED_ALLOWED | 1u << FEED_CLOSED },
    { STR("egress"), 1u << FEED_DENIED | 1u << FEED_ALLOWED | 1u << FEED_CLOSED },
};

struct stream {
    struct call *call;
    struct store_query query;
    struct event_subscriber subscriber;
    struct feed_reader feed;
    struct loop_timer timer; /* the next heartbeat, or the end of the wait */
    char sandbox[ID_MAX];    /* "": all */
    int64_t at;              /* the last one that was told */
    int64_t wait_until;      /* of a poll; clock_mono() */
    int64_t from_ms;         /* where to go on with decisions; 0: from now on */
    int limit;
    unsigned kinds;
    bool sse, reading, full, more;
    bool dates; /* the time of event `at` says where to go on with decisions */
};

static void read_page(struct stream *s);
static void send_decisions(struct stream *s);

static void stop(struct stream *s)
{
    loop_timer_stop(&s->timer);
    event_unsubscribe(&s->subscriber);
    feed_end(&s->feed);
}

static void stream_end(struct call *c)
{
    struct stream *s = c->state;

    stop(s);
    arena_done(&s->query.arena);
    free(s);
}

static void stream_gone(struct call *c)
{
    stop(c->state);
}

/* --- server-sent events --- */

static void cut(struct stream *s)
{
    stop(s);
    http_cut(call_take_exchange(s->call));
}

/* False: the client has enough, or is cut off. */
static bool send_text(struct stream *s, const char *id, const char *type, int r, struct str text)
{
    const struct sse_event out = { .id = str_from(id), .event = str_from(type), .data = text };

    if (r >= 0)
        r = sse_send(s->call->x, &out, NULL);
    if (r < 0) { /* never left out silently */
        cut(s);
        return false;
    }
    s->full = r > 0;
    return !s->full;
}

static bool send_event(struct stream *s, const struct event_record *v)
{
    struct buf text AUTO(buf_done) = BUF_INIT(EVENT_BYTES_MAX);
    struct json_writer w;
    char id[24];

    snprintf(id, sizeof id, "%lld", (long long)v->seq);
    json_writer_init(&w, &text, JSON_COMPACT);
    event_write(&w, v);
    s->at = v->seq;
    return send_text(s, id, v->type, json_writer_finish(&w, NULL), buf_str(&text));
}

static bool send_decision(struct stream *s, const struct feed_line *l)
{
    struct buf text AUTO(buf_done) = BUF_INIT(EVENT_BYTES_MAX);
    struct json_writer w;
    char id[48];

    snprintf(id, sizeof id, "%lld.%lld", (long long)s->at, (long long)l->time_ms);
    json_writer_init(&w, &text, JSON_COMPACT);
    feed_write(&w, l);
    return send_text(s, id, feed_types[l->kind], json_writer_finish(&w, NULL), buf_str(&text));
}

static void on_drain(struct http_exchange *x)
{
    struct call *c = http_state(x);
    struct stream *s = c->state;

    s->full = false;
    if (s->more)
        read_page(s);
    else
        send_decisions(s);
}

static void on_stream_token_ended(struct http_exchange *x)
{
    struct buf text AUTO(buf_done) = BUF_INIT(4096);
    struct call *c = http_state(x);
    struct stream *s = c->state;
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    problem_write_token_ended(&w);
    (void)send_text(s, "", "error", json_writer_finish(&w, NULL), buf_str(&text));
    stop(s);
    if (c->x)
        http_end(call_take_exchange(c));
}

static void on_heartbeat(struct loop_timer *t)
{
    struct stream *s = container_of(t, struct stream, timer);

    if (!s->full)
        sse_heartbeat(s->call->x, NULL);
    loop_timer_start(s->call->loop, t, clock_mono() + HEARTBEAT_S * NS_PER_S, on_heartbeat, NULL);
}

/* --- decisions of egress workers --- */

static bool sees(struct feed_reader *r, const char *box)
{
    struct stream *s = container_of(r, struct stream, feed);
    struct sandbox *found;

    if (s->sandbox[0])
        return strcmp(s->sandbox, box) == 0;
    if (!control_find_now(s->call->api->control, &s->call->caller, str_from(box), &found))
        return false;
    sandbox_unref(found);
    return true;
}

/* What happened to sandboxes comes first, so that an id says where to go on with both. */
static void send_decisions(struct stream *s)
{
    struct feed_line l;

    if (!s->feed.more)
        return;
    while (s->call->x && !s->reading && !s->more && !s->full && feed_next(&s->feed, &l) > 0)
        send_decision(s, &l);
}

static void on_decisions(struct feed_reader *r)
{
    send_decisions(container_of(r, struct stream, feed));
}

static void begin_decisions(struct stream *s, int64_t from_ns)
{
    int64_t from_ms = from_ns / NS_PER_MS;

    s->dates = false;
    s->feed =
        (struct feed_reader){ .kinds = s->kinds,
                              .from_ms = from_ms > OVERLAP_MS ? from_ms - OVERLAP_MS : from_ms,
                              .resumes = from_ms != 0,
                              .sees = sees,
                              .more = on_decisions };
    feed_begin(s->call->api->control, &s->feed);
    if (from_ms && s->sandbox[0]) /* it may have ended */
        feed_look(&s->feed, s->sandbox);
}

static void send_page(struct stream *s)
{
    const struct store_query *q = &s->query;
    size_t i = 0;

    if (s->dates)
        begin_decisions(s, q->n && q->events[0].seq == s->at ? q->events[0].time_ns : NS_PER_MS);
    if (!(s->kinds & KIND_LIFECYCLE))
        return;
    while (i < q->n && (q->events[i].seq <= s->at || send_event(s, &q->events[i])))
        i++;
    if (!s->call->x)
        return;
    if (i < q->n || q->n == (size_t)q->limit)
        s->more = true;
    if (s->more && !s->full)
        read_page(s);
    else
        send_decisions(s);
}

/* --- one answer --- */

static void write_page(struct json_writer *w, const void *what)
{
    const struct stream *s = what;
    size_t n = s->query.n;

    json_begin_object(w);
    json_key(w, STR("events"));
    json_begin_array(w);
    for (size_t i = 0; i < n; i++)
        event_write(w, &s->query.events[i]);
    json_end_array(w);
    json_key(w, STR("next"));
    json_put_int(w, n ? s->query.events[n - 1].seq : s->at);
    json_end_object(w);
}

static void answer(struct stream *s)
{
    stop(s);
    call_answer(s->call, 200, write_page, s);
}

static void waited(struct loop_timer *t)
{
    struct stream *s = container_of(t, struct stream, timer);

    if (!s->reading) /* else the page will answer */
        answer(s);
}

static void answer_or_wait(struct stream *s)
{
    if (s->query.n || clock_mono() >= s->wait_until)
        answer(s);
    else if (s->more)
        read_page(s);
}

/* --- both --- */

static void page_came(struct store_query *q, int r, const struct err *e)
{
    struct stream *s = container_of(q, struct stream, query);
    struct call *c = s->call;

    s->reading = false;
    if (c->x && r < 0 && s->sse)
        cut(s);
    else if (c->x && r < 0)
        stop(s), call_fail(c, e);
    else if (c->x && s->sse)
        send_page(s);
    else if (c->x)
        answer_or_wait(s);
    call_unref(c);
}

static void read_page(struct stream *s)
{
    const struct caller *who = &s->call->caller;
    struct err e;

    arena_done(&s->query.arena);
    s->query = (struct store_query){
        .kind = STORE_EVENTS,
        .sandbox = str_from(s->sandbox),
        .owner = who->admin || s->sandbox[0] ? STR("") : str_from(who->owner),
        .labels = who->labels,
        .after_seq = s->at - s->dates,
        .limit = s->limit,
    };
    arena_init(&s->query.arena, PAGE_BYTES_MAX);
    s->more = false;
    if (store_ask(control_store(s->call->api->control), &s->query, page_came, &e) < 0) {
        if (s->sse)
            cut(s);
        else
            stop(s), call_fail(s->call, &e);
        return;
    }
    s->reading = true;
    call_ref(s->call);
}

static void on_event(struct event_subscriber *sub, const struct event_record *v)
{
    struct stream *s = container_of(sub, struct stream, subscriber);

    if (v->seq <= s->at ||
        (s->sandbox[0] ? strcmp(s->sandbox, v->sandbox) != 0
                       : !event_visible(s->call->api->control, &s->call->caller, v)))
        return;
    if (s->sse && !s->reading && !s->full)
        send_event(s, v);
    else if (s->sse || s->reading)
        s->more = true;
    else
        read_page(s);
}

/* "7", or "7.1794805033333" of a decision. */
static bool read_last(struct str last, uint64_t *ret_seq, struct stream *s)
{
    struct str seq, ms = str_cut(last, '.', &seq);
    uint64_t time = 0;

    if (!str_to_u64(seq, ret_seq) || *ret_seq > INT64_MAX ||
        (ms.p && (!str_to_u64(ms, &time) || time > INT64_MAX / NS_PER_MS)))
        return false;
    s->from_ms = (int64_t)time;
    return true;
}

/* Those that were asked for; of a stream, denials unless something else was. */
static bool read_kinds(struct call *c, struct stream *s)
{
    struct str rest = { 0 }, name;

    s->kinds = s->sse ? KIND_LIFECYCLE | 1u << FEED_DENIED : KIND_LIFECYCLE;
    if (call_query(c, "kind", &rest) <= 0)
        return c->x != NULL;
    s->kinds = 0;
    do {
        size_t i = 0;

        rest = str_cut(rest, ',', &name);
        while (i < COUNT_OF(kinds) && !str_eq(name, kinds[i].name))
            i++;
        if (i == COUNT_OF(kinds)) {
            call_fail_with(c, 400, "invalid",
                           "kind: must be lifecycle, denied, allowed or egress, or several of them "
                           "with commas between");
            return false;
        }
        s->kinds |= kinds[i].kinds;
    } while (rest.p);
    if (!s->sse && s->kinds != KIND_LIFECYCLE) {
        call_fail_with(c, 400, "invalid",
                       "kind: what egress decided comes as a stream only: accept "
                       "text/event-stream, or read a sandbox's egress/log");
        return false;
    }
    return true;
}

static bool read_query(struct call *c, struct stream *s)
{
    struct str last = call_header(c, "Last-Event-ID");
    uint64_t after = 0, limit = POLL_DEFAULT, wait = 0;

    if (last.n && !read_last(last, &after, s)) {
        call_fail_with(c, 400, "invalid", "Last-Event-ID: is none of ours");
        return false;
    }
    if (call_query_number(c, "after", INT64_MAX, &after) < 0 ||
        call_query_number(c, "limit", POLL_MAX, &limit) < 0 ||
        call_query_number(c, "wait", WAIT_MAX, &wait) < 0 || !read_kinds(c, s))
        return false;
    if (!limit) {
        call_fail_with(c, 400, "invalid", "limit: must be at least 1");
        return false;
    }
    s->at = (int64_t)after;
    s->dates = last.n && s->at && !s->from_ms && s->kinds != KIND_LIFECYCLE;
    s->limit = s->sse ? PAGE : (int)limit;
    s->wait_until = clock_mono() + (call_wants_head(c) ? 0 : (int64_t)wait * NS_PER_S);
    return true;
}

static void begin(struct stream *s)
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
        http_on_drain(c->x, on_drain);
        http_on_ended(c->x, on_stream_token_ended);
        sse_heartbeat(c->x, NULL); /* the head is on its way: the client knows that it is heard */
        loop_timer_start(c->loop, &s->timer, clock_mono() + HEARTBEAT_S * NS_PER_S, on_heartbeat,
                         NULL);
    } else {
        loop_timer_start(c->loop, &s->timer, s->wait_until, waited, NULL);
    }
    if (s->kinds & KIND_LIFECYCLE)
        control_subscribe(c->api->control, &s->subscriber, on_event);
    if (s->kinds != KIND_LIFECYCLE && !s->dates)
        begin_decisions(s, s->from_ms * NS_PER_MS);
    if (s->kinds & KIND_LIFECYCLE || s->dates)
        read_page(s);
}

static void start(struct call *c, const char *sandbox)
{
    struct stream *s = calloc(1, sizeof *s);

    if (!s)
        abort();
    s->call = c;
    s->sse = call_accepts(c, "text/event-stream");
    snprintf(s->sandbox, sizeof s->sandbox, "%s", sandbox);
    c->state = s;
    c->on_end = stream_end;
    c->on_gone = stream_gone;
    if (read_query(c, s))
        begin(s);
}

static void all(struct call *c)
{
    start(c, "");
}

static void of_sandbox(struct call *c)
{
    start(c, c->sandbox ? sandbox_view(c->sandbox).record->id : c->find.record->id);
}

const struct route routes_events[] = {
    { H1_GET, VERB_READ, "/v1/events", ROUTE_LONG, all, "What happened to all sandboxes",
      .answer = "EventList", .query = "after kind limit wait" },
    { H1_GET, VERB_READ, "/v1/sandboxes/{id}/events", ROUTE_SANDBOX | ROUTE_LONG, of_sandbox,
      "What happened to a sandbox", .answer = "EventList", .query = "after kind limit wait" },
    { .path = NULL },
};
