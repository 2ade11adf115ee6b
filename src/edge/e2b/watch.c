/* Watching directories for E2B's clients: on a stream, or kept to be asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>

#include "api/dir_watch.h"
#include "api/e2b/entry.h"
#include "api/e2b/inside.h"
#include "api/file_take.h"
#include "base/clock.h"
#include "loop/timer.h"

enum { KEPT_EVENTS_MAX = 10000, KEPT_TEXT_MAX = 4 << 20, KEPT_MAX = 16 };
enum { PATH_BYTES_MAX = 8192 };
enum { ESCAPED_MAX = 6, EVENT_TOLD_MAX = 512 }; /* bytes: of one in JSON, and of what all have */

static const char *type_of(uint32_t mask)
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

/* False: it is answered, or the handler will be called again. */
static bool find_place(struct call *c, const struct watch_request *q, const char **ret_user,
                       const char **ret_path)
{
    const char *user = e2b_rpc_user(c);

    if (!user || !e2b_at_home(c, user, str_from(q->path)))
        return false;
    *ret_user = user;
    *ret_path = e2b_path(c, user, str_from(q->path));
    return *ret_path;
}

static uint32_t mode_of(const struct watch_request *q)
{
    return (q->recursive ? (uint32_t)EXT_WATCH_TREE : 0) |
           (q->entries ? (uint32_t)EXT_WATCH_ENTRIES : 0);
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

struct streamed {
    struct call *call;
    struct dir_watch watch;
    const char *top;
    struct stream_ping ping;
    struct loop_timer deadline;
    int64_t timeout;
};

static void streamed_stop(struct streamed *s)
{
    stream_ping_stop(&s->ping);
    loop_timer_stop(&s->deadline);
}

static void streamed_end(struct call *c)
{
    struct streamed *s = c->state;

    streamed_stop(s);
    dir_watch_stop(&s->watch);
    free(s);
}

/* The operation's reference, if it is still held. */
static void streamed_leave(struct streamed *s)
{
    bool held = s->watch.running;

    streamed_stop(s);
    dir_watch_stop(&s->watch);
    if (held)
        call_unref(s->call);
}

static void streamed_gone(struct call *c)
{
    streamed_leave(c->state);
}

static void open_event(struct json_writer *w, const char *kind)
{
    json_begin_object(w);
    json_key(w, str_from(kind));
    json_begin_object(w);
}

static void close_event(struct json_writer *w)
{
    json_end_object(w);
    json_end_object(w);
}

static void write_empty(struct json_writer *w, const void *what)
{
    open_event(w, what);
    close_event(w);
}

struct change {
    const char *type, *top;
    struct str name, entry; /* entry: a record; empty: none */
};

static void put_entry(struct json_writer *w, const struct change *v)
{
    struct buf path AUTO(buf_done) = BUF_INIT(PATH_BYTES_MAX);
    struct ext_entry entry;

    if (ext_entry_read(v->entry, &entry) <= 0 ||
        buf_addf(&path, "%s/" STR_FMT, strcmp(v->top, "/") == 0 ? "" : v->top, STR_ARG(v->name)) <
            0 ||
        buf_add_c(&path, '\0') < 0)
        return;
    json_key(w, STR("entry"));
    entry_write(w, &(struct shown_entry){ .entry = &entry, .path = path.p });
}

static void put_change(struct json_writer *w, const struct change *v)
{
    json_key(w, STR("name"));
    json_put_lossy(w, v->name);
    json_key(w, STR("type"));
    json_put_str(w, str_from(v->type));
    put_entry(w, v);
}

static void write_change(struct json_writer *w, const void *what)
{
    open_event(w, "filesystem");
    put_change(w, what);
    close_event(w);
}

static void write_ping(struct json_writer *w, const void *what)
{
    (void)what;
    write_empty(w, "keepalive");
}

static void ping_lost(struct stream_ping *p)
{
    streamed_leave(container_of(p, struct streamed, ping));
}

static void on_deadline(struct loop_timer *t)
{
    struct streamed *s = container_of(t, struct streamed, deadline);
    struct call *c = call_ref(s->call);

    stream_end_with(c, "deadline_exceeded", "the time that was given is over");
    streamed_leave(s);
    call_unref(c);
}

static void on_drain(struct http_exchange *x)
{
    struct call *c = http_state(x);
    struct streamed *s = c->state;

    dir_watch_resume(&s->watch);
}

static void streamed_stands(struct dir_watch *d)
{
    struct streamed *s = container_of(d, struct streamed, watch);
    struct call *c = call_ref(s->call);

    if (!c->x || !stream_begin(c, on_drain) || stream_send(c, write_empty, "start") < 0) {
        streamed_leave(s);
    } else {
        stream_ping_later(&s->ping);
        if (s->timeout)
            loop_timer_start(c->api->loop, &s->deadline, clock_mono() + s->timeout, on_deadline,
                             NULL);
    }
    call_unref(c);
}

static bool streamed_changed(struct dir_watch *d, const struct ext_change *v)
{
    struct streamed *s = container_of(d, struct streamed, watch);
    const struct change change = {
        .type = type_of(v->mask), .top = s->top, .name = v->name, .entry = v->entry
    };
    struct call *c;
    int r;

    if (!change.type)
        return true;
    c = call_ref(s->call);
    r = stream_send(c, write_change, &change);
    if (r < 0)
        streamed_leave(s);
    else
        stream_ping_later(&s->ping);
    call_unref(c);
    return r == 0;
}

static void not_started(struct call *c, const struct dir_watch *d, const struct err *e)
{
    file_not_started(c, &d->op, e);
    call_fail(c, e);
}

/* Not started, or its sandbox went: then the stream breaks off. */
static void streamed_over(struct dir_watch *d, const struct err *e)
{
    struct streamed *s = container_of(d, struct streamed, watch);
    struct call *c = s->call;

    streamed_stop(s);
    if (c->x && d->stood)
        http_cut(call_take_exchange(c));
    else if (c->x && e)
        not_started(c, d, e);
    call_unref(c);
}

static const struct dir_watch_events streamed_events = { .stands = streamed_stands,
                                                         .changed = streamed_changed,
                                                         .over = streamed_over };

static void watch_dir(struct call *c)
{
    struct watch_request q = { 0 };
    const char *user, *top;
    struct streamed *s;
    int64_t timeout;

    if (!stream_request(c, watch_fields, COUNT_OF(watch_fields), &q) ||
        !stream_timeout(c, &timeout) || !find_place(c, &q, &user, &top))
        return;
    s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->call = c;
    s->top = top;
    s->ping = (struct stream_ping){ .call = c, .write = write_ping, .on_lost = ping_lost };
    s->timeout = timeout;
    c->state = s;
    c->on_end = streamed_end;
    c->on_gone = streamed_gone;
    call_ref(c); /* the operation's */
    dir_watch_start(&s->watch, c->api->loop, c->sandbox, user, top, mode_of(&q), &streamed_events);
}

/* --- kept --- */

struct kept_event {
    const char *type;
    uint32_t at, n, entry_n; /* its name, and what is there, in the texts */
};

struct kept {
    struct api *api;
    struct link link;
    char id[ID_MAX], sandbox[ID_MAX];
    struct dir_watch watch;
    struct call *call; /* that waits until it stands; referenced */
    char top[PATH_BYTES_MAX];
    struct kept_event events[KEPT_EVENTS_MAX];
    size_t n;
    struct buf texts;
    size_t told; /* bytes that it takes at most to tell them */
    struct loop_later later;
};

static void kept_free(struct loop_later *l)
{
    struct kept *k = container_of(l, struct kept, later);

    buf_done(&k->texts);
    free(k);
}

static void kept_drop(struct kept *k)
{
    link_leave(&k->link);
    dir_watch_stop(&k->watch);
    loop_later(k->api->loop, &k->later, kept_free, NULL);
}

static void write_id(struct json_writer *w, const void *what)
{
    json_begin_object(w);
    json_key(w, STR("watcherId"));
    json_put_str(w, str_from(what));
    json_end_object(w);
}

static void kept_stands(struct dir_watch *d)
{
    struct kept *k = container_of(d, struct kept, watch);
    struct call *c = take_ptr(k->call);

    call_answer(c, 200, write_id, k->id);
    call_unref(c);
}

static void kept_clear(struct kept *k)
{
    buf_clear(&k->texts);
    k->n = k->told = 0;
}

/* The oldest go when nobody asks for them. */
static bool kept_changed(struct dir_watch *d, const struct ext_change *v)
{
    struct kept *k = container_of(d, struct kept, watch);
    const char *type = type_of(v->mask);
    size_t text = v->name.n + v->entry.n;
    size_t told = EVENT_TOLD_MAX + ESCAPED_MAX * (text + v->name.n + strlen(k->top));

    if (!type)
        return true;
    if (k->n == KEPT_EVENTS_MAX || k->texts.n + text > KEPT_TEXT_MAX ||
        k->told + told > CALL_ANSWER_MAX)
        kept_clear(k);
    k->told += told;
    k->events[k->n++] = (struct kept_event){ .type = type,
                                             .at = (uint32_t)k->texts.n,
                                             .n = (uint32_t)v->name.n,
                                             .entry_n = (uint32_t)v->entry.n };
    buf_add(&k->texts, v->name);
    buf_add(&k->texts, v->entry);
    return true;
}

static void kept_over(struct dir_watch *d, const struct err *e)
{
    struct kept *k = container_of(d, struct kept, watch);
    struct call *c = take_ptr(k->call);

    if (c && e)
        not_started(c, d, e);
    if (c)
        call_unref(c);
    kept_drop(k);
}

static const struct dir_watch_events kept_dir_events = { .stands = kept_stands,
                                                         .changed = kept_changed,
                                                         .over = kept_over };

static struct kept *find_kept(struct call *c, struct str id)
{
    const char *box = sandbox_view(c->sandbox).record->id;

    for (struct link *m = list_first(&c->api->e2b_watchers); m;
         m = list_after(&c->api->e2b_watchers, m)) {
        struct kept *k = container_of(m, struct kept, link);

        if (str_eq(str_from(k->id), id) && strcmp(k->sandbox, box) == 0)
            return k;
    }
    return NULL;
}

static size_t count_kept(const struct call *c)
{
    const char *box = sandbox_view(c->sandbox).record->id;
    size_t n = 0;

    for (struct link *m = list_first(&c->api->e2b_watchers); m;
         m = list_after(&c->api->e2b_watchers, m))
        n += strcmp(container_of(m, struct kept, link)->sandbox, box) == 0;
    return n;
}

static bool read_request(struct call *c, const struct json_field *fields, size_t n,
                         struct watch_request *q)
{
    struct err e;

    if (e2b_bind(c, c->json, fields, n, q, &e) >= 0)
        return true;
    call_fail(c, &e);
    return false;
}

static void create_watcher(struct call *c)
{
    struct watch_request q = { 0 };
    const char *user, *top;
    struct kept *k;
    struct err e;

    if (!read_request(c, watch_fields, COUNT_OF(watch_fields), &q) ||
        !find_place(c, &q, &user, &top))
        return;
    if (count_kept(c) >= KEPT_MAX) {
        rpc_fail(c, 429, "this sandbox has as many watchers as it may have; remove some");
        return;
    }
    k = calloc(1, sizeof *k);
    if (!k)
        abort();
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
    list_append(&c->api->e2b_watchers, &k->link);
    dir_watch_start(&k->watch, c->api->loop, c->sandbox, user, k->top, mode_of(&q),
                    &kept_dir_events);
}

static struct kept *read_kept(struct call *c)
{
    struct watch_request q = { 0 };
    struct kept *k;

    if (!read_request(c, watcher_fields, COUNT_OF(watcher_fields), &q))
        return NULL;
    k = find_kept(c, str_from(q.watcher));
    if (!k || k->call)
        rpc_fail(c, 404, "there is no such watcher in this sandbox");
    return k && !k->call ? k : NULL;
}

static void write_events(struct json_writer *w, const void *what)
{
    const struct kept *k = what;

    json_begin_object(w);
    json_key(w, STR("events"));
    json_begin_array(w);
    for (size_t i = 0; i < k->n; i++) {
        const struct kept_event *v = &k->events[i];

        json_begin_object(w);
        put_change(w, &(struct change){ .type = v->type,
                                        .top = k->top,
                                        .name = { k->texts.p + v->at, v->n },
                                        .entry = { k->texts.p + v->at + v->n, v->entry_n } });
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
}

static void get_events(struct call *c)
{
    struct kept *k = read_kept(c);

    if (!k)
        return;
    call_answer(c, 200, write_events, k);
    kept_clear(k);
}

static void remove_watcher(struct call *c)
{
    struct kept *k = read_kept(c);

    if (!k)
        return;
    kept_drop(k);
    rpc_answer_empty(c);
}

void watchers_close(struct api *a)
{
    for (struct link *m; (m = list_take(&a->e2b_watchers));) {
        struct kept *k = container_of(m, struct kept, link);
        struct call *c = take_ptr(k->call);

        if (c)
            call_unref(c);
        kept_drop(k);
    }
}

#define SERVICE "/filesystem.Filesystem/"

const struct route routes_envd_watch[] = {
    { H1_POST, VERB_FILES, SERVICE "WatchDir", ROUTE_TEXT | ROUTE_LONG, watch_dir,
      .face = &rpc_stream_face },
    { H1_POST, VERB_FILES, SERVICE "CreateWatcher", ROUTE_JSON, create_watcher, .face = &rpc_face },
    { H1_POST, VERB_FILES, SERVICE "GetWatcherEvents", ROUTE_JSON, get_events, .face = &rpc_face },
    { H1_POST, VERB_FILES, SERVICE "RemoveWatcher", ROUTE_JSON, remove_watcher, .face = &rpc_face },
    { .path = NULL },
};
