#include "control/outbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/outbox_inside.h"
#include "model/event.h"
#include "model/time.h"

#if defined(__GNUC__) && !defined(__clang__) /* it does not follow what lists and tables own */
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

enum {
    SCAN_PAGE = 256,
    HEADERS_BYTES = 32 << 10,
    HEADERS_STEP = 4 << 10,
    BODY_MAX = 1 << 20,
    ANSWER_MAX = 64 << 10,
    FIRST_REST_MS = 500,
    REST_MAX_S = 60,
    RETRY_AFTER_MAX_S = 300,
    SOURCE_MAX = 128,
};

struct lane {
    struct outbox *outbox;
    struct index_entry entry;
    char id[ID_MAX];  /* of the sandbox, or "#" and the seq of the only event */
    int64_t sent;     /* everything up to here was taken */
    bool single;      /* of no sandbox */
    bool busy;        /* holds one of the places */
    bool in_store;    /* the store will answer */
    bool more;        /* something happened since the store was asked */
    bool unreachable; /* why it rests */
    unsigned failures;
    struct loop_timer rest;
    struct link link; /* waits for a place */

    /* while it is busy */
    struct store_query page;
    size_t at;
    struct store_txn txn;
    struct parcel parcel;
};

struct outbox {
    struct control *control;
    struct fetcher_share requests;
    struct event_subscriber events;
    struct outbox_egress *egress; /* NULL: the hub is not told of decisions */
    char source[SOURCE_MAX];
    struct buf head; /* headers that the operator wants sent along, a line each; secret */
    struct index lanes;
    struct list ready;
    unsigned busy;
    bool unreachable; /* said so */
    bool closing;
    struct {
        struct store_query query;
        bool asked, again; /* under way; from the start, as soon as there is room */
    } scan;
    struct loop_later later;
    size_t in_store; /* answers to wait for */
};

static void forget(struct buf *head);
static void scan(struct outbox *o);
static void turn(struct loop_later *l);

/* --- lanes --- */

static void soon(struct outbox *o)
{
    /* -ERR_CONFLICT: it is coming already */
    (void)loop_later(o->control->loop, &o->later, turn, NULL);
}

static struct lane *find_lane(struct outbox *o, const char *id)
{
    struct index_entry *v = index_find(&o->lanes, str_from(id));

    return v ? container_of(v, struct lane, entry) : NULL;
}

static void make_ready(struct lane *l)
{
    loop_timer_stop(&l->rest);
    list_append(&l->outbox->ready, &l->link);
    soon(l->outbox);
}

/* There is an event that waits: its lane takes care of it. */
static void note(struct outbox *o, const struct event_record *v)
{
    char id[ID_MAX];
    struct lane *l;

    if (v->sandbox[0])
        snprintf(id, sizeof id, "%s", v->sandbox);
    else
        snprintf(id, sizeof id, "#%lld", (long long)v->seq);
    l = find_lane(o, id);
    if (l) {
        l->more = true;
        return;
    }
    if (o->lanes.n >= OUTBOX_LANES_MAX) {
        o->scan.again = true;
        return;
    }
    l = calloc(1, sizeof *l);
    if (!l)
        abort();
    l->outbox = o;
    snprintf(l->id, sizeof l->id, "%s", id);
    l->entry.id = l->id;
    l->single = !v->sandbox[0];
    l->sent = v->seq - 1;
    index_add(&o->lanes, &l->entry);
    make_ready(l);
}

static void release(struct lane *l)
{
    arena_done(&l->page.arena);
    parcel_done(&l->parcel);
    if (l->busy)
        l->outbox->busy--;
    l->busy = false;
    soon(l->outbox);
}

static void lane_free(struct lane *l)
{
    struct outbox *o = l->outbox;

    release(l);
    loop_timer_stop(&l->rest);
    link_leave(&l->link);
    index_remove(&o->lanes, &l->entry);
    free(l);
}

static void rested(struct loop_timer *t)
{
    make_ready(container_of(t, struct lane, rest));
}

/* Between half and all of it, so that lanes do not come back in step. */
static int64_t jitter(int64_t ns)
{
    uint32_t random = 0;

    if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0)
        random = (uint32_t)clock_mono();
    return ns / 2 + random % (ns / 2);
}

int64_t outbox_rest_ns(unsigned failures, int64_t at_least_ns)
{
    int64_t ns = FIRST_REST_MS * NS_PER_MS;

    for (unsigned i = 0; i < failures && ns < REST_MAX_S * NS_PER_S; i++)
        ns *= 2;
    ns = jitter(ns > REST_MAX_S * NS_PER_S ? REST_MAX_S * NS_PER_S : ns);
    return ns > at_least_ns ? ns : at_least_ns;
}

static void take_rest(struct lane *l, int64_t at_least_ns)
{
    int64_t ns = outbox_rest_ns(l->failures, at_least_ns);

    l->failures++;
    release(l);
    loop_timer_start(l->outbox->control->loop, &l->rest, clock_mono() + ns, rested, NULL);
}

static void wake_lane(struct index_entry *v, void *user)
{
    struct lane *l = container_of(v, struct lane, entry);

    (void)user;
    if (l->unreachable && loop_timer_started(&l->rest))
        make_ready(l);
    l->unreachable = false;
}

void outbox_reached(struct outbox *o)
{
    if (!o->unreachable)
        return;
    o->unreachable = false;
    LOG(INFO, "hub.reachable", LOG_I("waiting", (int64_t)o->lanes.n));
    index_each(&o->lanes, wake_lane, NULL);
}

/* --- an event as the hub gets it --- */

static void put(struct json_writer *w, struct str key, const char *value)
{
    json_key(w, key);
    json_put_lossy(w, str_from(value));
}

void parcel_begin(struct outbox *o, struct parcel *p, const struct envelope *v,
                  struct json_writer *w)
{
    char time[TIME_TEXT], type[64];

    snprintf(type, sizeof type, "dev.sandboxer.%s", v->type);
    time_text(v->time_ns, time);
    buf_done(&p->body);
    buf_init(&p->body, BODY_MAX);
    json_writer_init(w, &p->body, JSON_COMPACT);
    json_begin_object(w);
    put(w, STR("specversion"), "1.0");
    put(w, STR("id"), v->id);
    put(w, STR("source"), o->source);
    put(w, STR("type"), type);
    if (v->subject[0])
        put(w, STR("subject"), v->subject);
    put(w, STR("time"), time);
    put(w, STR("datacontenttype"), "application/json");
    json_key(w, STR("data"));
}

int parcel_end(struct json_writer *w, struct err *e)
{
    json_end_object(w);
    return json_writer_finish(w, e);
}

static int write_body(struct lane *l, const struct event_record *v, struct err *e)
{
    struct envelope envelope = { .type = v->type, .subject = v->sandbox, .time_ns = v->time_ns };
    struct json_writer w;
    char id[24];

    snprintf(id, sizeof id, "%lld", (long long)v->seq);
    envelope.id = id;
    parcel_begin(l->outbox, &l->parcel, &envelope, &w);
    event_write(&w, v);
    return parcel_end(&w, e);
}

/* --- headers that the operator wants sent along --- */

static int read_head(struct control *c, struct buf *out, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    int r = c->headers(c->user, &fd, e);
    ssize_t n = 0;
    char *room;

    buf_init(out, HEADERS_BYTES);
    while (r >= 0 && (r = buf_room(out, HEADERS_STEP, &room)) >= 0 &&
           (n = read(fd, room, HEADERS_STEP)) > 0)
        buf_grew(out, (size_t)n);
    if (n < 0)
        return err_sys(e, "hub.headers_file");
    if (r == -(int)ERR_TOO_BIG)
        return err_set(e, ERR_TOO_BIG, "hub.headers_file: more than %d bytes", HEADERS_BYTES);
    return r;
}

static int split_head(struct str text, struct fetch_header *ret, size_t *n, struct err *e)
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
        if (!value.p || !name.n || *n == OUTBOX_HEADERS_MAX + 1)
            return err_set(e, ERR_INVALID,
                           "hub.headers_file: line %zu: write 'Name: value', at most %d of them",
                           number, OUTBOX_HEADERS_MAX);
        ret[(*n)++] = (struct fetch_header){ str_trim(name), str_trim(value) };
    }
    return 0;
}

static void forget(struct buf *head)
{
    if (head->p)
        explicit_bzero(head->p, head->n);
    buf_done(head);
}

/* What every attempt takes from now on. */
static int load_headers(struct outbox *o, struct err *e)
{
    AUTO(forget) struct buf head = { 0 };
    struct fetch_header headers[OUTBOX_HEADERS_MAX + 1];
    size_t n = 1;
    int r;

    if (!o->control->config->hub.headers_file)
        return 0;
    r = read_head(o->control, &head, e);
    if (r >= 0)
        r = split_head(buf_str(&head), headers, &n, e);
    if (r < 0)
        return r;
    forget(&o->head);
    o->head = head;
    head = (struct buf){ 0 };
    return 0;
}

/* A copy: they may be replaced while it is on its way. */
static int fill_headers(const struct outbox *o, struct parcel *p, struct err *e)
{
    forget(&p->head);
    buf_init(&p->head, HEADERS_BYTES);
    p->headers[0] = (struct fetch_header){ STR("Content-Type"),
                                           STR("application/cloudevents+json; charset=utf-8") };
    p->request.header_count = 1;
    buf_add(&p->head, buf_str(&o->head));
    return split_head(buf_str(&p->head), p->headers, &p->request.header_count, e);
}

int parcel_send(struct outbox *o, struct parcel *p, fetch_done_fn *done, struct err *e)
{
    const struct config *config = o->control->config;
    int r;

    p->request = (struct fetch_request){ .method = FETCH_POST,
                                         .url = config->hub.url,
                                         .headers = p->headers,
                                         .timeout = config->hub.timeout,
                                         .max_body = ANSWER_MAX,
                                         .body = buf_str(&p->body),
                                         .reach = FETCH_REACH_ANY, /* the operator wrote the URL */
                                         .done = done };
    r = fill_headers(o, p, e);
    return r < 0 ? r : fetcher_start(&o->requests, &p->request, e);
}

void parcel_done(struct parcel *p)
{
    fetcher_cancel(&p->request);
    forget(&p->head);
    buf_done(&p->body);
}

/* --- delivering --- */

static void deliver(struct lane *l);
static void ask(struct lane *l);

static void failed(struct lane *l, const struct err *e)
{
    if (!l->failures)
        LOG(WARN, "hub.failed", LOG_S("lane", l->id), LOG_S("error", e->msg));
    take_rest(l, 0);
}

/* An answer of the store came. True if the outbox still wants it. */
static bool from_store(struct lane *l)
{
    struct outbox *o = l->outbox;

    l->in_store = false;
    o->in_store--;
    if (!o->closing)
        return true;
    lane_free(l);
    soon(o);
    return false;
}

static void to_store(struct lane *l)
{
    l->in_store = true;
    l->outbox->in_store++;
}

static void noted_sent(struct store_txn *t, int r, const struct err *e)
{
    struct lane *l = container_of(t, struct lane, txn);

    if (!from_store(l))
        return;
    if (r < 0) { /* it will be sent again, which is better than never */
        failed(l, e);
        return;
    }
    l->failures = 0;
    l->sent = l->page.events[l->at++].seq;
    if (l->at < l->page.n) {
        deliver(l);
    } else if (l->single) {
        lane_free(l);
    } else { /* the others' turn */
        release(l);
        make_ready(l);
    }
}

/* How long the hub wants to be left alone. */
int64_t outbox_retry_after(const struct fetch_answer *a)
{
    uint64_t seconds;

    if (!str_to_u64(str_trim(fetch_answer_header(a, "retry-after")), &seconds))
        return 0;
    return (int64_t)(seconds > RETRY_AFTER_MAX_S ? RETRY_AFTER_MAX_S : seconds) * NS_PER_S;
}

void outbox_missed(struct outbox *o, const struct fetch_answer *a)
{
    if (!o->unreachable)
        LOG(WARN, "hub.unreachable", LOG_S("error", a->err.msg));
    o->unreachable = true;
}

static void not_taken(struct lane *l, const struct fetch_answer *a)
{
    l->unreachable = a->err.code != ERR_OK;
    if (l->unreachable)
        outbox_missed(l->outbox, a);
    else if (!l->failures)
        LOG(WARN, "hub.refused", LOG_S("lane", l->id), LOG_I("status", a->status),
            LOG_I("seq", l->page.events[l->at].seq));
    take_rest(l, l->unreachable ? 0 : outbox_retry_after(a));
}

bool parcel_taken(const struct fetch_answer *a)
{
    return a->err.code == ERR_OK && a->status >= 200 && a->status <= 299;
}

static void on_answer(struct fetch_request *q, const struct fetch_answer *a)
{
    struct lane *l = container_of(q, struct lane, parcel.request);

    if (a->err.code == ERR_OK)
        outbox_reached(l->outbox);
    if (!parcel_taken(a)) {
        not_taken(l, a);
        return;
    }
    to_store(l);
    store_txn_begin(&l->txn, l->outbox->control->store);
    store_outbox_sent(&l->txn, l->page.events[l->at].seq);
    store_commit(&l->txn, noted_sent);
}

static void deliver(struct lane *l)
{
    struct err e;
    int r = write_body(l, &l->page.events[l->at], &e);

    if (r >= 0)
        r = parcel_send(l->outbox, &l->parcel, on_answer, &e);
    if (r < 0)
        failed(l, &e);
}

static void answered(struct store_query *q, int r, const struct err *e)
{
    struct lane *l = container_of(q, struct lane, page);

    if (!from_store(l))
        return;
    if (r < 0)
        failed(l, e);
    else if (q->n)
        deliver(l);
    else if (l->more)
        ask(l);
    else
        lane_free(l);
}

/* Everything that comes after what was sent: a sandbox's events are taken in order. */
static void ask(struct lane *l)
{
    struct str sandbox = str_from(l->single ? "" : l->id);
    struct err e;

    l->more = false;
    l->at = 0;
    arena_done(&l->page.arena);
    l->page = (struct store_query){ .kind = STORE_EVENTS,
                                    .sandbox = sandbox,
                                    .after_seq = l->sent,
                                    .limit = l->single ? 1 : OUTBOX_PAGE };
    arena_init(&l->page.arena, CONTROL_ARENA_MAX);
    if (store_ask(l->outbox->control->store, &l->page, answered, &e) < 0)
        failed(l, &e);
    else
        to_store(l);
}

/* --- finding what waits in the store --- */

static void scanned(struct store_query *q, int r, const struct err *e)
{
    struct outbox *o = container_of(q, struct outbox, scan.query);
    int64_t after = q->n && r >= 0 ? q->events[q->n - 1].seq : 0;

    o->in_store--;
    o->scan.asked = false;
    if (r < 0)
        LOG(WARN, "hub.failed", LOG_S("error", e->msg));
    o->scan.again = r < 0;
    for (size_t i = 0; r >= 0 && !o->closing && i < q->n && !o->scan.again; i++)
        note(o, &q->events[i]);
    arena_done(&q->arena);
    soon(o);
    if (r < 0 || o->closing || o->scan.again || q->n < SCAN_PAGE)
        return;
    q->after_seq = after;
    scan(o);
}

static void scan(struct outbox *o)
{
    struct store_query *q = &o->scan.query;

    *q =
        (struct store_query){ .kind = STORE_OUTBOX, .after_seq = q->after_seq, .limit = SCAN_PAGE };
    arena_init(&q->arena, CONTROL_ARENA_MAX);
    o->scan.asked = store_ask(o->control->store, q, scanned, NULL) >= 0;
    o->scan.again = !o->scan.asked;
    if (o->scan.asked)
        o->in_store++;
}

/* --- opening, closing, and what is next --- */

static void outbox_free(struct outbox *o)
{
    forget(&o->head);
    index_done(&o->lanes);
    free(o);
}

static void turn(struct loop_later *later)
{
    struct outbox *o = container_of(later, struct outbox, later);

    if (o->closing) {
        if (!o->in_store)
            outbox_free(o);
        return;
    }
    while (o->busy < OUTBOX_BUSY_MAX) {
        struct link *m = list_take(&o->ready);
        struct lane *l;

        if (!m)
            break;
        l = container_of(m, struct lane, link);
        l->busy = true;
        o->busy++;
        ask(l);
    }
    if (o->scan.again && !o->scan.asked && o->lanes.n < OUTBOX_LANES_MAX / 2) {
        o->scan.query.after_seq = 0;
        scan(o);
    }
}

static void on_event(struct event_subscriber *s, const struct event_record *v)
{
    note(container_of(s, struct outbox, events), v);
}

static void name_source(struct outbox *o)
{
    char host[64] = "";

    if (gethostname(host, sizeof host - 1) < 0 || !host[0])
        snprintf(host, sizeof host, "localhost");
    snprintf(o->source, sizeof o->source, "/sandboxer/%s", host);
}

int outbox_open(struct control *c, struct err *e)
{
    struct outbox *o;
    int r;

    if (!c->config->hub.url)
        return 0;
    o = calloc(1, sizeof *o);
    if (!o)
        abort();
    o->control = c;
    fetcher_share_init(&o->requests, &c->fetcher, OUTBOX_BUSY_MAX);
    r = load_headers(o, e);
    if (r < 0) {
        outbox_free(o);
        return r;
    }
    name_source(o);
    c->outbox = o;
    store_hub(c->store, true);
    control_subscribe(c, &o->events, on_event);
    scan(o);
    return 0;
}

void outbox_open_egress(struct control *c)
{
    if (c->outbox && c->config->hub.egress)
        c->outbox->egress = outbox_egress_open(c->outbox, c);
}

void outbox_reload(struct control *c)
{
    struct err e;

    if (c->outbox && load_headers(c->outbox, &e) < 0)
        LOG(ERROR, "hub.reload_failed", LOG_S("error", e.msg));
}

static void close_lane(struct index_entry *v, void *user)
{
    struct lane *l = container_of(v, struct lane, entry);

    (void)user;
    if (l->in_store)
        loop_timer_stop(&l->rest);
    else
        lane_free(l);
}

void outbox_close(struct control *c)
{
    struct outbox *o = take_ptr(c->outbox);

    if (!o)
        return;
    o->closing = true;
    event_unsubscribe(&o->events);
    index_each(&o->lanes, close_lane, NULL);
    outbox_egress_close(take_ptr(o->egress));
    fetcher_share_done(&o->requests);
    soon(o); /* or when the store has answered the last of them */
}
