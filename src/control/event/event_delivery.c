/* SPDX-License-Identifier: Apache-2.0 */
#include "control/event/event_delivery.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/own.h"
#include "control/event/event_delivery_internal.h"
#include "domain/model/event.h"
#include "base/rfc3339.h"

#if defined(__GNUC__) && !defined(__clang__) /* it does not track what lists and maps own */
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

enum {
    SCAN_PAGE = 256,
    HEADERS_BYTES = 32 << 10,
    BODY_MAX = 1 << 20,
    ANSWER_MAX = 64 << 10,
    FIRST_BACKOFF_MS = 500,
    BACKOFF_MAX_S = 60,
    RETRY_AFTER_MAX_S = 300,
    SOURCE_MAX = 128,
};

struct delivery_lane {
    struct event_delivery *event_delivery;
    struct map_entry entry;
    char id[ID_MAX];  /* of the sandbox, or "#" and the seq of the only event */
    int64_t sent;     /* the hub has accepted everything up to here */
    bool single;      /* an event without a sandbox */
    bool busy;        /* counted in event_delivery.busy */
    bool in_store;    /* waits for an answer of the store */
    bool more;        /* an event was recorded after the last query */
    bool unreachable; /* the reason of its backoff */
    unsigned failures;
    struct loop_timer backoff;
    struct link link; /* in `ready` */

    /* while it is busy */
    struct store_query page;
    size_t at;
    struct store_txn txn;
    struct parcel parcel;
};

struct event_delivery {
    struct control *control;
    struct fetcher_share requests;
    struct event_subscriber events;
    struct event_delivery_egress *egress; /* NULL: denials are not delivered */
    char source[SOURCE_MAX];
    struct buf head; /* headers from the operator, one per line; secret */
    struct map lanes;
    struct list ready;
    unsigned busy;
    bool unreachable; /* logged already */
    bool closing;
    struct {
        struct store_query query;
        bool pending, restart; /* under way; restart from the beginning when there is room */
    } scan;
    struct loop_later later;
    size_t in_store; /* pending answers of the store */
};

static void wipe_headers(struct buf *head);
static void scan_outbox(struct event_delivery *o);
static void on_delivery_turn(struct loop_later *l);

/* --- lanes --- */

static void schedule_delivery(struct event_delivery *o)
{
    /* -ERR_CONFLICT: scheduled already */
    (void)loop_later(o->control->loop, &o->later, on_delivery_turn, NULL);
}

static void make_lane_ready(struct delivery_lane *l)
{
    loop_timer_stop(&l->backoff);
    list_append(&l->event_delivery->ready, &l->link);
    schedule_delivery(l->event_delivery);
}

/* Makes sure that the event's lane delivers it. */
static void note_event(struct event_delivery *o, const struct event_record *v)
{
    char id[ID_MAX];
    struct map_entry *known;
    struct delivery_lane *l;

    if (v->sandbox[0])
        snprintf(id, sizeof id, "%s", v->sandbox);
    else
        snprintf(id, sizeof id, "#%lld", (long long)v->seq);
    known = map_find(&o->lanes, str_from(id));
    if (known) {
        container_of(known, struct delivery_lane, entry)->more = true;
        return;
    }
    if (o->lanes.n >= EVENT_DELIVERY_LANES_MAX) {
        o->scan.restart = true;
        return;
    }
    l = new0(sizeof *l);
    l->event_delivery = o;
    snprintf(l->id, sizeof l->id, "%s", id);
    l->entry.id = l->id;
    l->single = !v->sandbox[0];
    l->sent = v->seq - 1;
    map_add(&o->lanes, &l->entry);
    make_lane_ready(l);
}

static void release_lane(struct delivery_lane *l)
{
    arena_done(&l->page.arena);
    parcel_done(&l->parcel);
    if (l->busy)
        l->event_delivery->busy--;
    l->busy = false;
    schedule_delivery(l->event_delivery);
}

static void delivery_lane_free(struct delivery_lane *l)
{
    struct event_delivery *o = l->event_delivery;

    release_lane(l);
    loop_timer_stop(&l->backoff);
    link_leave(&l->link);
    map_remove(&o->lanes, &l->entry);
    free(l);
}

static void on_lane_retry(struct loop_timer *t)
{
    make_lane_ready(container_of(t, struct delivery_lane, backoff));
}

int64_t event_delivery_backoff_ns(unsigned failures, int64_t at_least_ns)
{
    int64_t ns = FIRST_BACKOFF_MS * NS_PER_MS;
    uint32_t random = 0;

    for (unsigned i = 0; i < failures && ns < BACKOFF_MAX_S * NS_PER_S; i++)
        ns *= 2;
    if (ns > BACKOFF_MAX_S * NS_PER_S)
        ns = BACKOFF_MAX_S * NS_PER_S;
    /* Between half and all of it, so that lanes do not retry at the same time. */
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0)
        random = (uint32_t)clock_mono();
    ns = ns / 2 + random % (ns / 2);
    return ns > at_least_ns ? ns : at_least_ns;
}

static void back_off_lane(struct delivery_lane *l, int64_t at_least_ns)
{
    int64_t ns = event_delivery_backoff_ns(l->failures, at_least_ns);

    l->failures++;
    release_lane(l);
    loop_timer_start(l->event_delivery->control->loop, &l->backoff, clock_mono() + ns,
                     on_lane_retry, NULL);
}

static void wake_lane(struct map_entry *v, void *user)
{
    struct delivery_lane *l = container_of(v, struct delivery_lane, entry);

    if (l->unreachable && loop_timer_started(&l->backoff))
        make_lane_ready(l);
    l->unreachable = false;
}

void event_delivery_note_reachable(struct event_delivery *o)
{
    if (!o->unreachable)
        return;
    o->unreachable = false;
    LOG(INFO, "hub.reachable", LOG_I("waiting", (int64_t)o->lanes.n));
    map_each(&o->lanes, wake_lane, NULL);
}

/* --- CloudEvents --- */

void parcel_begin(struct event_delivery *o, struct parcel *p, const struct event_envelope *v,
                  struct json_writer *w)
{
    char time[TIME_TEXT], type[64];

    snprintf(type, sizeof type, "dev.sandboxer.%s", v->type);
    time_text(v->time_ns, time);
    buf_done(&p->body);
    buf_init(&p->body, BODY_MAX);
    json_writer_init(w, &p->body, JSON_COMPACT);
    json_begin_object(w);
    json_field_text(w, "specversion", "1.0");
    json_field_text(w, "id", v->id);
    json_field_text(w, "source", o->source);
    json_field_text(w, "type", type);
    json_field_optional(w, "subject", v->subject);
    json_field_text(w, "time", time);
    json_field_text(w, "datacontenttype", "application/json");
    json_key(w, STR("data"));
}

int parcel_end(struct json_writer *w, struct err *e)
{
    json_end_object(w);
    return json_writer_finish(w, e);
}

/* --- headers from the operator --- */

static int split_headers(struct str text, struct fetch_header *ret, size_t *n, struct err *e)
{
    for (size_t number = 1; text.n; number++) {
        struct str line, name;
        struct str rest = str_cut(text, '\n', &line);
        struct str value;

        text = rest;
        line = str_trim(line);
        if (!line.n || line.p[0] == '#')
            continue;
        value = str_cut(line, ':', &name);
        if (!value.p || !name.n || *n == EVENT_DELIVERY_HEADERS_MAX + 1)
            return err_set(e, ERR_INVALID,
                           "hub.headers_file: line %zu: write 'Name: value', at most %d of them",
                           number, EVENT_DELIVERY_HEADERS_MAX);
        ret[(*n)++] = (struct fetch_header){ str_trim(name), str_trim(value) };
    }
    return 0;
}

static void wipe_headers(struct buf *head)
{
    if (head->p)
        explicit_bzero(head->p, head->n);
    buf_done(head);
}

/* Loads the headers for all later requests. */
static int load_delivery_headers(struct event_delivery *o, struct err *e)
{
    AUTO(wipe_headers) struct buf head = { 0 };
    AUTO_CLOSE int fd = -1;
    struct fetch_header headers[EVENT_DELIVERY_HEADERS_MAX + 1];
    size_t n = 1;
    int r;

    if (!o->control->config->hub.headers_file)
        return 0;
    buf_init(&head, HEADERS_BYTES);
    r = o->control->supervisor.headers(o->control->supervisor.user, &fd, e);
    r = r < 0 ? r : err_wrap(e, buf_read_fd(&head, fd, e), "hub.headers_file");
    r = r < 0 ? r : split_headers(buf_str(&head), headers, &n, e);
    if (r < 0)
        return r;
    wipe_headers(&o->head);
    o->head = head;
    head = (struct buf){ 0 };
    return 0;
}

int parcel_send(struct event_delivery *o, struct parcel *p, fetch_done_fn *done, struct err *e)
{
    const struct config *config = o->control->config;
    int r;

    p->request = (struct fetch_request){ .method = FETCH_POST,
                                         .url = config->hub.url,
                                         .headers = p->headers,
                                         .timeout = config->hub.timeout,
                                         .max_body = ANSWER_MAX,
                                         .body = buf_str(&p->body),
                                         .reach = FETCH_REACH_ANY, /* configured by the operator */
                                         .done = done };
    wipe_headers(&p->head);
    buf_init(&p->head, HEADERS_BYTES);
    p->headers[0] = (struct fetch_header){ STR("Content-Type"),
                                           STR("application/cloudevents+json; charset=utf-8") };
    p->request.header_count = 1;
    buf_add(&p->head, buf_str(&o->head)); /* a copy: they may be replaced during the request */
    r = split_headers(buf_str(&p->head), p->headers, &p->request.header_count, e);
    return r < 0 ? r : fetcher_start(&o->requests, &p->request, e);
}

void parcel_done(struct parcel *p)
{
    fetcher_cancel(&p->request);
    wipe_headers(&p->head);
    buf_done(&p->body);
}

/* --- delivering --- */

static void deliver_event(struct delivery_lane *l);
static void query_lane_events(struct delivery_lane *l);

static void fail_lane(struct delivery_lane *l, const struct err *e)
{
    if (!l->failures)
        LOG(WARN, "hub.failed", LOG_S("lane", l->id), LOG_S("error", e->msg));
    back_off_lane(l, 0);
}

/* The store has answered. True if the delivery is not closing. */
static bool end_store_wait(struct delivery_lane *l)
{
    struct event_delivery *o = l->event_delivery;

    l->in_store = false;
    o->in_store--;
    if (!o->closing)
        return true;
    delivery_lane_free(l);
    schedule_delivery(o);
    return false;
}

static void begin_store_wait(struct delivery_lane *l)
{
    l->in_store = true;
    l->event_delivery->in_store++;
}

static void on_sent_noted(struct store_txn *t, int r, const struct err *e)
{
    struct delivery_lane *l = container_of(t, struct delivery_lane, txn);

    if (!end_store_wait(l))
        return;
    if (r < 0) { /* it is delivered twice, which is better than never */
        fail_lane(l, e);
        return;
    }
    l->failures = 0;
    l->sent = l->page.events[l->at++].seq;
    if (l->at < l->page.n) {
        deliver_event(l);
    } else if (l->single) {
        delivery_lane_free(l);
    } else { /* gives other lanes a turn */
        release_lane(l);
        make_lane_ready(l);
    }
}

/* The hub's Retry-After. */
int64_t event_delivery_retry_after(const struct fetch_answer *a)
{
    uint64_t seconds;

    if (!str_to_u64(str_trim(fetch_answer_header(a, "retry-after")), &seconds))
        return 0;
    return (int64_t)(seconds > RETRY_AFTER_MAX_S ? RETRY_AFTER_MAX_S : seconds) * NS_PER_S;
}

void event_delivery_note_unreachable(struct event_delivery *o, const struct fetch_answer *a)
{
    if (!o->unreachable)
        LOG(WARN, "hub.unreachable", LOG_S("error", a->err.msg));
    o->unreachable = true;
}

bool parcel_accepted(const struct fetch_answer *a)
{
    return a->err.code == ERR_OK && a->status >= 200 && a->status <= 299;
}

static void on_delivery_answer(struct fetch_request *q, const struct fetch_answer *a)
{
    struct delivery_lane *l = container_of(q, struct delivery_lane, parcel.request);

    if (a->err.code == ERR_OK)
        event_delivery_note_reachable(l->event_delivery);
    if (!parcel_accepted(a)) {
        l->unreachable = a->err.code != ERR_OK;
        if (l->unreachable)
            event_delivery_note_unreachable(l->event_delivery, a);
        else if (!l->failures)
            LOG(WARN, "hub.refused", LOG_S("lane", l->id), LOG_I("status", a->status),
                LOG_I("seq", l->page.events[l->at].seq));
        back_off_lane(l, l->unreachable ? 0 : event_delivery_retry_after(a));
        return;
    }
    begin_store_wait(l);
    store_txn_begin(&l->txn, l->event_delivery->control->store);
    store_outbox_sent(&l->txn, l->page.events[l->at].seq);
    store_commit(&l->txn, on_sent_noted);
}

static void deliver_event(struct delivery_lane *l)
{
    const struct event_record *v = &l->page.events[l->at];
    char id[24];
    const struct event_envelope envelope = {
        .id = id, .type = v->type, .subject = v->sandbox, .time_ns = v->time_ns
    };
    struct json_writer w;
    struct err e;
    int r;

    snprintf(id, sizeof id, "%lld", (long long)v->seq);
    parcel_begin(l->event_delivery, &l->parcel, &envelope, &w);
    event_write(&w, v);
    r = parcel_end(&w, &e);
    r = r < 0 ? r : parcel_send(l->event_delivery, &l->parcel, on_delivery_answer, &e);
    if (r < 0)
        fail_lane(l, &e);
}

static void on_lane_events(struct store_query *q, int r, const struct err *e)
{
    struct delivery_lane *l = container_of(q, struct delivery_lane, page);

    if (!end_store_wait(l))
        return;
    if (r < 0)
        fail_lane(l, e);
    else if (q->n)
        deliver_event(l);
    else if (l->more)
        query_lane_events(l);
    else
        delivery_lane_free(l);
}

/* Queries the events after the last accepted one: those of a sandbox are delivered in order. */
static void query_lane_events(struct delivery_lane *l)
{
    struct str sandbox = str_from(l->single ? "" : l->id);
    struct err e;

    l->more = false;
    l->at = 0;
    arena_done(&l->page.arena);
    l->page = (struct store_query){ .kind = STORE_EVENTS,
                                    .sandbox = sandbox,
                                    .after_seq = l->sent,
                                    .commands = COMMANDS_TOO,
                                    .limit = l->single ? 1 : EVENT_DELIVERY_PAGE };
    arena_init(&l->page.arena, CONTROL_ARENA_MAX);
    if (store_ask(l->event_delivery->control->store, &l->page, on_lane_events, &e) < 0)
        fail_lane(l, &e);
    else
        begin_store_wait(l);
}

/* --- finding undelivered events in the store --- */

static void on_outbox_scanned(struct store_query *q, int r, const struct err *e)
{
    struct event_delivery *o = container_of(q, struct event_delivery, scan.query);
    int64_t after = q->n && r >= 0 ? q->events[q->n - 1].seq : 0;

    o->in_store--;
    o->scan.pending = false;
    if (r < 0)
        LOG(WARN, "hub.failed", LOG_S("error", e->msg));
    o->scan.restart = r < 0;
    for (size_t i = 0; r >= 0 && !o->closing && i < q->n && !o->scan.restart; i++)
        note_event(o, &q->events[i]);
    arena_done(&q->arena);
    schedule_delivery(o);
    if (r < 0 || o->closing || o->scan.restart || q->n < SCAN_PAGE)
        return;
    q->after_seq = after;
    scan_outbox(o);
}

static void scan_outbox(struct event_delivery *o)
{
    struct store_query *q = &o->scan.query;

    *q =
        (struct store_query){ .kind = STORE_OUTBOX, .after_seq = q->after_seq, .limit = SCAN_PAGE };
    arena_init(&q->arena, CONTROL_ARENA_MAX);
    o->scan.pending = store_ask(o->control->store, q, on_outbox_scanned, NULL) >= 0;
    o->scan.restart = !o->scan.pending;
    if (o->scan.pending)
        o->in_store++;
}

/* --- opening, closing, scheduling --- */

static void event_delivery_free(struct event_delivery *o)
{
    wipe_headers(&o->head);
    map_done(&o->lanes);
    free(o);
}

static void on_delivery_turn(struct loop_later *later)
{
    struct event_delivery *o = container_of(later, struct event_delivery, later);

    if (o->closing) {
        if (!o->in_store)
            event_delivery_free(o);
        return;
    }
    while (o->busy < EVENT_DELIVERY_BUSY_MAX) {
        struct link *m = list_take(&o->ready);
        struct delivery_lane *l;

        if (!m)
            break;
        l = container_of(m, struct delivery_lane, link);
        l->busy = true;
        o->busy++;
        query_lane_events(l);
    }
    if (o->scan.restart && !o->scan.pending && o->lanes.n < EVENT_DELIVERY_LANES_MAX / 2) {
        o->scan.query.after_seq = 0;
        scan_outbox(o);
    }
}

static void on_delivery_event(struct event_subscriber *s, const struct event_record *v)
{
    note_event(container_of(s, struct event_delivery, events), v);
}

int event_delivery_open(struct control *c, struct err *e)
{
    struct event_delivery *o;
    char host[64] = "";
    int r;

    if (!c->config->hub.url)
        return 0;
    o = new0(sizeof *o);
    o->control = c;
    fetcher_share_init(&o->requests, &c->fetcher, EVENT_DELIVERY_BUSY_MAX);
    r = load_delivery_headers(o, e);
    if (r < 0) {
        event_delivery_free(o);
        return r;
    }
    if (gethostname(host, sizeof host - 1) < 0 || !host[0])
        snprintf(host, sizeof host, "localhost");
    snprintf(o->source, sizeof o->source, "/sandboxer/%s", host);
    c->event_delivery = o;
    store_hub(c->store, true);
    control_subscribe(c, &o->events, on_delivery_event);
    scan_outbox(o);
    return 0;
}

void event_delivery_open_egress(struct control *c)
{
    if (c->event_delivery && c->config->hub.egress)
        c->event_delivery->egress = event_delivery_egress_open(c->event_delivery, c);
}

void event_delivery_reload(struct control *c)
{
    struct err e;

    if (c->event_delivery && load_delivery_headers(c->event_delivery, &e) < 0)
        LOG(ERROR, "hub.reload_failed", LOG_S("error", e.msg));
}

static void close_lane(struct map_entry *v, void *user)
{
    struct delivery_lane *l = container_of(v, struct delivery_lane, entry);

    if (l->in_store)
        loop_timer_stop(&l->backoff);
    else
        delivery_lane_free(l);
}

void event_delivery_close(struct control *c)
{
    struct event_delivery *o = take_ptr(c->event_delivery);

    if (!o)
        return;
    o->closing = true;
    event_unsubscribe(&o->events);
    map_each(&o->lanes, close_lane, NULL);
    event_delivery_egress_close(take_ptr(o->egress));
    fetcher_share_done(&o->requests);
    schedule_delivery(o); /* or when the store has answered the last query */
}
