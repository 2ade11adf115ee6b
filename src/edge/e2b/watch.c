/* SPDX-License-Identifier: Apache-2.0 */
/* Directory watches of E2B's envd: reported on a stream, or kept for polling. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>

#include "edge/core/dir_watch.h"
#include "edge/e2b/entry.h"
#include "edge/e2b/internal.h"
#include "edge/core/file_take.h"
#include "base/clock.h"
#include "base/own.h"
#include "lib/loop/timer.h"

enum { KEPT_EVENTS_MAX = 10000, KEPT_TEXT_MAX = 4 << 20, KEPT_MAX = 16 };
enum { PATH_BYTES_MAX = 8192 };
enum {
    ESCAPED_MAX = 6,
    EVENT_JSON_MAX = 512
}; /* bytes: per escaped byte, and fixed part of an event in JSON */

static const char *watch_event_type(uint32_t mask)
{
    static const struct {
        uint32_t bits;
        const char *name;
    } types[] = {
        { IN_CREATE | IN_MOVED_TO, "EVENT_TYPE_CREATE" },
        { IN_MODIFY, "EVENT_TYPE_WRITE" },
        { IN_DELETE | IN_DELETE_SELF, "EVENT_TYPE_REMOVE" },
        { IN_MOVED_FROM | IN_MOVE_SELF, "EVENT_TYPE_RENAME" },
        { IN_ATTRIB, "EVENT_TYPE_CHMOD" },
    };

    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (mask & types[i].bits)
            return types[i].name;
    return NULL;
}

struct watch_request {
    const char *path, *watcher;
    bool recursive, entries;
};

/* Returns false if the call was answered or its handler will be called again. */
static bool find_watched_path(struct call *c, const struct watch_request *q, const char **ret_user,
                              const char **ret_path)
{
    const char *user = e2b_rpc_user(c);

    if (!user || !e2b_ensure_home(c, user, str_from(q->path)))
        return false;
    *ret_user = user;
    *ret_path = e2b_path(c, user, str_from(q->path));
    return *ret_path;
}

static uint32_t watch_mode(const struct watch_request *q)
{
    return (q->recursive ? (uint32_t)START_WATCH_TREE : 0) |
           (q->entries ? (uint32_t)START_WATCH_ENTRIES : 0);
}

#define AT(member) JSON_AT(struct watch_request, member)

static const struct json_field watch_fields[] = {
    { "path", JSON_KIND_STR, AT(path) },
    { "recursive", JSON_KIND_BOOL, AT(recursive) },
    { "includeEntry", JSON_KIND_BOOL, AT(entries) },
};
static const struct json_field watcher_fields[] = {
    { "watcherId", JSON_KIND_STR, AT(watcher), .required = true, .max = ID_MAX },
};

/* --- on a stream --- */

struct watch_stream {
    struct call *call;
    struct dir_watch watch;
    const char *top;
    struct stream_ping ping;
    struct loop_timer deadline;
    int64_t timeout;
};

static void stop_watch_stream(struct watch_stream *s)
{
    stream_ping_stop(&s->ping);
    loop_timer_stop(&s->deadline);
}

static void release_watch_stream(void *state)
{
    struct watch_stream *s = state;

    stop_watch_stream(s);
    dir_watch_stop(&s->watch);
}

/* Stops the watch and drops the operation's reference to the call, if it still holds it. */
static void leave_watch_stream(struct watch_stream *s)
{
    bool held = s->watch.running;

    stop_watch_stream(s);
    dir_watch_stop(&s->watch);
    if (held)
        call_unref(s->call);
}

static void on_watch_client_gone(struct call *c)
{
    leave_watch_stream(c->state);
}

static void write_empty_event(struct json_writer *w, const void *kind)
{
    json_begin_object(w);
    json_field_begin_object(w, kind);
    json_end_object(w);
    json_end_object(w);
}

struct watched_change {
    const char *type, *top;
    struct str name, entry; /* entry: encoded record, or empty */
};

static void write_change(struct json_writer *w, const struct watched_change *v)
{
    struct buf path AUTO(buf_done) = BUF_INIT(PATH_BYTES_MAX);
    struct backend_entry entry;

    json_begin_object(w);
    json_field_lossy(w, "name", v->name);
    json_field_cstr(w, "type", v->type);
    if (backend_entry_read(v->entry, &entry) > 0 &&
        buf_addf(&path, "%s/" STR_FMT, strcmp(v->top, "/") == 0 ? "" : v->top, STR_ARG(v->name)) >=
            0 &&
        buf_add_c(&path, '\0') >= 0) {
        json_key(w, STR("entry"));
        entry_write(w, &(struct shown_entry){ .entry = &entry, .path = path.p });
    }
    json_end_object(w);
}

static void write_stream_change(struct json_writer *w, const void *what)
{
    json_begin_object(w);
    json_key(w, STR("filesystem"));
    write_change(w, what);
    json_end_object(w);
}

static void write_watch_ping(struct json_writer *w, const void *what)
{
    write_empty_event(w, "keepalive");
}

static void on_watch_ping_lost(struct stream_ping *p)
{
    leave_watch_stream(container_of(p, struct watch_stream, ping));
}

static void on_watch_deadline(struct loop_timer *t)
{
    struct watch_stream *s = container_of(t, struct watch_stream, deadline);
    struct call *c = call_ref(s->call);

    stream_end_with(c, "deadline_exceeded", "the timeout of the request has expired");
    leave_watch_stream(s);
    call_unref(c);
}

static void on_watch_stream_drained(struct http_exchange *x)
{
    struct call *c = http_state(x);
    struct watch_stream *s = c->state;

    dir_watch_resume(&s->watch);
}

static void on_watch_stream_ready(struct dir_watch *d)
{
    struct watch_stream *s = container_of(d, struct watch_stream, watch);
    struct call *c = call_ref(s->call);

    if (!c->x || !stream_begin(c, on_watch_stream_drained) ||
        stream_send(c, write_empty_event, "start") < 0) {
        leave_watch_stream(s);
    } else {
        stream_ping_later(&s->ping);
        if (s->timeout)
            loop_timer_start(c->api->loop, &s->deadline, clock_mono() + s->timeout,
                             on_watch_deadline, NULL);
    }
    call_unref(c);
}

static bool on_watch_stream_change(struct dir_watch *d, const struct backend_change *v)
{
    struct watch_stream *s = container_of(d, struct watch_stream, watch);
    const struct watched_change change = {
        .type = watch_event_type(v->mask), .top = s->top, .name = v->name, .entry = v->entry
    };
    struct call *c;
    int r;

    if (!change.type)
        return true;
    c = call_ref(s->call);
    r = stream_send(c, write_stream_change, &change);
    if (r < 0)
        leave_watch_stream(s);
    else
        stream_ping_later(&s->ping);
    call_unref(c);
    return r == 0;
}

static void fail_watch_start(struct call *c, const struct dir_watch *d, const struct err *e)
{
    file_not_started(c, &d->op, e);
    call_fail(c, e);
}

/* The watch failed to start, or its sandbox ended: then the connection is closed. */
static void on_watch_stream_ended(struct dir_watch *d, const struct err *e)
{
    struct watch_stream *s = container_of(d, struct watch_stream, watch);
    struct call *c = s->call;

    stop_watch_stream(s);
    if (c->x && d->stood)
        http_drop(call_take_exchange(c));
    else if (c->x && e)
        fail_watch_start(c, d, e);
    call_unref(c);
}

static const struct dir_watch_events streamed_events = { .stands = on_watch_stream_ready,
                                                         .changed = on_watch_stream_change,
                                                         .over = on_watch_stream_ended };

static void watch_dir(struct call *c)
{
    struct watch_request q = { 0 };
    const char *user, *top;
    struct watch_stream *s;
    int64_t timeout;

    if (!stream_request(c, watch_fields, COUNT_OF(watch_fields), &q) ||
        !stream_timeout(c, &timeout) || !find_watched_path(c, &q, &user, &top))
        return;
    s = call_state(c, sizeof *s, release_watch_stream);
    s->call = c;
    s->top = top;
    s->ping =
        (struct stream_ping){ .call = c, .write = write_watch_ping, .on_lost = on_watch_ping_lost };
    s->timeout = timeout;
    c->on_gone = on_watch_client_gone;
    call_ref(c); /* held by the operation */
    dir_watch_start(&s->watch, c->api->loop, c->sandbox, user, top, watch_mode(&q),
                    &streamed_events);
}

/* --- watchers that are polled --- */

struct polled_event {
    const char *type;
    uint32_t at, n, entry_n; /* offsets of the name and the entry in `texts` */
};

struct polled_watcher {
    struct api *api;
    struct link link;
    char id[ID_MAX], sandbox[ID_MAX];
    struct dir_watch watch;
    struct call *call; /* waits until the watch is established; referenced */
    char top[PATH_BYTES_MAX];
    struct polled_event events[KEPT_EVENTS_MAX];
    size_t n;
    struct buf texts;
    size_t json_bytes; /* maximum size of the events as JSON */
    struct loop_later later;
};

static void on_polled_watcher_free(struct loop_later *l)
{
    struct polled_watcher *k = container_of(l, struct polled_watcher, later);

    buf_done(&k->texts);
    free(k);
}

static void drop_polled_watcher(struct polled_watcher *k)
{
    link_leave(&k->link);
    dir_watch_stop(&k->watch);
    loop_later(k->api->loop, &k->later, on_polled_watcher_free, NULL);
}

static void write_watcher_id(struct json_writer *w, const void *what)
{
    json_begin_object(w);
    json_field_cstr(w, "watcherId", what);
    json_end_object(w);
}

static void on_polled_watch_ready(struct dir_watch *d)
{
    struct polled_watcher *k = container_of(d, struct polled_watcher, watch);
    struct call *c = take_ptr(k->call);

    call_answer(c, 200, write_watcher_id, k->id);
    call_unref(c);
}

static void clear_polled_events(struct polled_watcher *k)
{
    buf_clear(&k->texts);
    k->n = k->json_bytes = 0;
}

/* Adds an event. Drops all earlier ones if the client has not polled them and there is no room. */
static bool on_polled_change(struct dir_watch *d, const struct backend_change *v)
{
    struct polled_watcher *k = container_of(d, struct polled_watcher, watch);
    const char *type = watch_event_type(v->mask);
    size_t text = v->name.n + v->entry.n;
    size_t bytes = EVENT_JSON_MAX + ESCAPED_MAX * (text + v->name.n + strlen(k->top));

    if (!type)
        return true;
    if (k->n == KEPT_EVENTS_MAX || k->texts.n + text > KEPT_TEXT_MAX ||
        k->json_bytes + bytes > CALL_ANSWER_MAX)
        clear_polled_events(k);
    k->json_bytes += bytes;
    k->events[k->n++] = (struct polled_event){ .type = type,
                                               .at = (uint32_t)k->texts.n,
                                               .n = (uint32_t)v->name.n,
                                               .entry_n = (uint32_t)v->entry.n };
    buf_add(&k->texts, v->name);
    buf_add(&k->texts, v->entry);
    return true;
}

static void on_polled_watch_ended(struct dir_watch *d, const struct err *e)
{
    struct polled_watcher *k = container_of(d, struct polled_watcher, watch);
    struct call *c = take_ptr(k->call);

    if (c && e)
        fail_watch_start(c, d, e);
    if (c)
        call_unref(c);
    drop_polled_watcher(k);
}

static const struct dir_watch_events kept_dir_events = { .stands = on_polled_watch_ready,
                                                         .changed = on_polled_change,
                                                         .over = on_polled_watch_ended };

static size_t count_watchers(const struct call *c)
{
    const char *box = sandbox_view(c->sandbox).record->id;
    struct list *all = &e2b_state_of(c->api)->watchers;
    size_t n = 0;

    LIST_EACH (const struct polled_watcher, k, all, link)
        n += strcmp(k->sandbox, box) == 0;
    return n;
}

static void create_watcher(struct call *c)
{
    struct watch_request q = { 0 };
    const char *user, *top;
    struct polled_watcher *k;
    struct err e;

    if (!e2b_read_body(c, watch_fields, COUNT_OF(watch_fields), &q) ||
        !find_watched_path(c, &q, &user, &top))
        return;
    if (count_watchers(c) >= KEPT_MAX) {
        rpc_fail(c, 429, "this sandbox has %d watchers, the maximum; remove some", KEPT_MAX);
        return;
    }
    k = new0(sizeof *k);
    k->api = c->api;
    buf_init(&k->texts, KEPT_TEXT_MAX);
    snprintf(k->sandbox, sizeof k->sandbox, "%s", sandbox_view(c->sandbox).record->id);
    if (id_make("wat_", k->id, &e) < 0) {
        call_fail(c, &e);
        free(k);
        return;
    }
    snprintf(k->top, sizeof k->top, "%s", top);
    k->call = call_ref(c);
    list_append(&e2b_state_of(c->api)->watchers, &k->link);
    dir_watch_start(&k->watch, c->api->loop, c->sandbox, user, k->top, watch_mode(&q),
                    &kept_dir_events);
}

static struct polled_watcher *read_named_watcher(struct call *c)
{
    const char *box = sandbox_view(c->sandbox).record->id;
    struct list *all = &e2b_state_of(c->api)->watchers;
    struct watch_request q = { 0 };

    if (!e2b_read_body(c, watcher_fields, COUNT_OF(watcher_fields), &q))
        return NULL;
    LIST_EACH (struct polled_watcher, k, all, link) {
        if (strcmp(k->id, q.watcher) == 0 && strcmp(k->sandbox, box) == 0 && !k->call)
            return k;
    }
    rpc_fail(c, 404, "there is no watcher '%.64s' in sandbox %s", q.watcher, box);
    return NULL;
}

static void write_events(struct json_writer *w, const void *what)
{
    const struct polled_watcher *k = what;

    json_begin_object(w);
    json_field_begin_array(w, "events");
    for (size_t i = 0; i < k->n; i++) {
        const struct polled_event *v = &k->events[i];

        write_change(
            w, &(struct watched_change){ .type = v->type,
                                         .top = k->top,
                                         .name = { k->texts.p + v->at, v->n },
                                         .entry = { k->texts.p + v->at + v->n, v->entry_n } });
    }
    json_end_array(w);
    json_end_object(w);
}

static void get_watcher_events(struct call *c)
{
    struct polled_watcher *k = read_named_watcher(c);

    if (!k)
        return;
    call_answer(c, 200, write_events, k);
    clear_polled_events(k);
}

static void remove_watcher(struct call *c)
{
    struct polled_watcher *k = read_named_watcher(c);

    if (!k)
        return;
    drop_polled_watcher(k);
    rpc_answer_empty(c);
}

void watchers_close(struct api *a)
{
    for (struct link *m; (m = list_take(&e2b_state_of(a)->watchers));) {
        struct polled_watcher *k = container_of(m, struct polled_watcher, link);
        struct call *c = take_ptr(k->call);

        if (c)
            call_unref(c);
        drop_polled_watcher(k);
    }
}

#define SERVICE "/filesystem.Filesystem/"

const struct route routes_envd_watch[] = {
    { H1_POST, VERB_FILES, SERVICE "WatchDir", ROUTE_TEXT | ROUTE_LONG, .handle = watch_dir },
    { H1_POST, VERB_FILES, SERVICE "CreateWatcher", ROUTE_JSON, .handle = create_watcher },
    { H1_POST, VERB_FILES, SERVICE "GetWatcherEvents", ROUTE_JSON, .handle = get_watcher_events },
    { H1_POST, VERB_FILES, SERVICE "RemoveWatcher", ROUTE_JSON, .handle = remove_watcher },
    { .path = NULL },
};
