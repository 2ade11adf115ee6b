/* /v1/sandboxes/{id}/egress/log and …/denials: what was decided, as the egress worker wrote it. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/egress.h"
#include "api/inside.h"
#include "api/route.h"
#include "base/clock.h"
#include "control/outlet.h"
#include "json/reader.h"
#include "loop/timer.h"

enum {
    PIECE = 32 << 10,     /* a line is shorter by far */
    LOOK_MS = 200,        /* how often somebody who follows hears of what is new */
    TAIL_MAX = 10000,     /* lines */
    RECENT = 1 << 20,     /* bytes that are looked at for denials */
    DENIALS_DEFAULT = 20, /* different ones */
    DENIALS_MAX = 100,
};

static const char *id_of(const struct call *c)
{
    return c->sandbox ? sandbox_view(c->sandbox).record->id : c->find.record->id;
}

/* --- the log --- */

struct tailing {
    struct call *call;
    struct loop_timer timer;
    int fd;
    off_t at;
    bool follow, full;
};

static void tailing_gone(struct call *c)
{
    struct tailing *t = c->state;

    loop_timer_stop(&t->timer);
}

static void tailing_end(struct call *c)
{
    struct tailing *t = c->state;

    loop_timer_stop(&t->timer);
    drop_fd(&t->fd);
    free(t);
}

/* Up to the end of the last whole line; 0: there is none. */
static size_t whole_lines(const char *p, size_t n)
{
    while (n && p[n - 1] != '\n')
        n--;
    return n;
}

/* Sends what there is: true at the end of the file. */
static bool send_rest(struct tailing *t)
{
    static char piece[PIECE];

    while (t->call->x && !t->full) {
        ssize_t n = pread(t->fd, piece, sizeof piece, t->at);
        size_t lines = n > 0 ? whole_lines(piece, (size_t)n) : 0;
        int r;

        if (!lines)
            return true;
        r = http_write(t->call->x, (struct str){ piece, lines }, NULL);
        if (r < 0) {
            tailing_gone(t->call);
            http_cut(call_take_exchange(t->call));
            return false;
        }
        t->at += (off_t)lines;
        t->full = r > 0;
    }
    return false;
}

/* The index of the part that is open; all->n: it has expired. */
static size_t find_open_part(const struct tailing *t, const struct outlet_parts *all)
{
    const struct control *c = t->call->api->control;
    struct stat ours, st;

    for (size_t i = all->n; fstat(t->fd, &ours) == 0 && i-- > 0;) {
        AUTO_CLOSE int fd = -1;

        if (outlet_open_part(c, id_of(t->call), all->parts[i], &fd, NULL) >= 0 &&
            fstat(fd, &st) == 0 && st.st_ino == ours.st_ino)
            return i;
    }
    return all->n;
}

/* The part behind the one that we have. Its first line says that the worker has written the last of
 * the one before, which may have come since we looked. */
static bool next_file(struct tailing *t)
{
    const struct control *c = t->call->api->control;
    AUTO_CLOSE int fd = -1;
    struct outlet_parts all;
    struct stat st;
    size_t i;

    outlet_list_parts(c, id_of(t->call), &all);
    i = find_open_part(t, &all);
    i = i == all.n ? 0 : i + 1;
    if (i >= all.n || outlet_open_part(c, id_of(t->call), all.parts[i], &fd, NULL) < 0 ||
        fstat(fd, &st) < 0 || st.st_size == 0 || !send_rest(t))
        return false;
    drop_fd(&t->fd);
    t->fd = take_fd(&fd);
    t->at = 0;
    return true;
}

static bool goes_on(const struct tailing *t)
{
    return t->follow && t->call->sandbox && sandbox_state(t->call->sandbox) < SANDBOX_EXPIRED;
}

static void on_look(struct loop_timer *timer);

static void pump(struct tailing *t)
{
    bool alive = goes_on(t); /* asked first: what was written before its end is told */

    while (send_rest(t) && next_file(t))
        ;
    if (!t->call->x || t->full)
        return;
    if (alive)
        loop_timer_start(t->call->loop, &t->timer, clock_mono() + LOOK_MS * NS_PER_MS, on_look,
                         NULL);
    else
        http_end(call_take_exchange(t->call));
}

static void on_look(struct loop_timer *timer)
{
    pump(container_of(timer, struct tailing, timer));
}

static void on_drain(struct http_exchange *x)
{
    struct call *c = http_state(x);
    struct tailing *t = c->state;

    t->full = false;
    pump(t);
}

/* Where the last lines of the file begin; *lines is how many are left to find before it. */
static off_t find_tail(int fd, uint64_t *lines)
{
    static char piece[PIECE];
    struct stat st;
    off_t at = fstat(fd, &st) == 0 ? st.st_size : 0;

    if (at > 0)
        (*lines)--; /* the last one, whose end is the file's */
    while (at > 0) {
        size_t n = at < PIECE ? (size_t)at : PIECE;

        if (pread(fd, piece, n, at - (off_t)n) != (ssize_t)n)
            return 0;
        for (size_t i = n; i-- > 0;) {
            if (piece[i] != '\n' || at - (off_t)(n - i) + 1 >= st.st_size)
                continue;
            if (*lines == 0)
                return at - (off_t)(n - i) + 1;
            (*lines)--;
        }
        at -= (off_t)n;
    }
    return 0;
}

/* The oldest part first, or the one that has the first of the last lines. */
static int open_files(struct tailing *t, uint64_t tail, struct err *e)
{
    const struct control *c = t->call->api->control;
    struct outlet_parts all;
    size_t i;
    int r;

    outlet_list_parts(c, id_of(t->call), &all);
    i = tail && all.n ? all.n - 1 : 0;
    do {
        drop_fd(&t->fd);
        r = outlet_open_part(c, id_of(t->call), all.n ? all.parts[i] : OUTLET_PART_NOW, &t->fd, e);
        if (r >= 0 && tail)
            t->at = find_tail(t->fd, &tail);
    } while (r >= 0 && tail && i-- > 0);
    return r;
}

static void log_of(struct call *c)
{
    static const struct h1_field fields[] = {
        { { "Content-Type", 12 }, { "application/x-ndjson", 20 } },
        { { "Cache-Control", 13 }, { "no-store", 8 } },
    };
    struct tailing *t = calloc(1, sizeof *t);
    uint64_t tail = 0;
    struct err e;

    if (!t)
        abort();
    t->call = c;
    t->fd = -1;
    c->state = t;
    c->on_end = tailing_end;
    c->on_gone = tailing_gone;
    if (call_query_bool(c, "follow", &t->follow) < 0 ||
        call_query_number(c, "tail", TAIL_MAX, &tail) < 0)
        return;
    if (open_files(t, tail, &e) < 0 ||
        http_begin(c->x, 200, fields, COUNT_OF(fields), HTTP_UNKNOWN, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    if (call_end_head(c))
        return;
    http_on_drain(c->x, on_drain);
    pump(t);
}

/* --- denials --- */

struct denial {
    char host[256], code[64], message[256], program[256];
    uint64_t port, count;
    int64_t last_ms;
};

struct denials {
    struct denial list[DENIALS_MAX]; /* in no order */
    size_t n, limit;
};

static void copy(const struct json *v, char *ret, size_t cap)
{
    if (v && v->type == JSON_STR)
        snprintf(ret, cap, STR_FMT, STR_ARG(v->s));
}

static const struct json *walk(const struct json *v, const char *path)
{
    struct str rest = str_from(path), key;

    while (v && rest.p) {
        rest = str_cut(rest, '.', &key);
        v = json_get(v, key);
    }
    return v;
}

static bool read_denial(const struct json *v, struct denial *ret)
{
    const struct json *action = json_get(v, STR("action_id"));
    const struct json *time = json_get(v, STR("time")), *count = json_get(v, STR("count"));
    const struct json *port = walk(v, "dst_endpoint.port"),
                      *host = walk(v, "dst_endpoint.hostname");

    if (!action || action->type != JSON_INT || action->i != 2)
        return false;
    *ret = (struct denial){ .count = count && count->type == JSON_INT ? (uint64_t)count->i : 1,
                            .port = port && port->type == JSON_INT ? (uint64_t)port->i : 0,
                            .last_ms = time && time->type == JSON_INT ? time->i : 0 };
    copy(host ? host : walk(v, "dst_endpoint.ip"), ret->host, sizeof ret->host);
    copy(json_get(v, STR("status_code")), ret->code, sizeof ret->code);
    copy(json_get(v, STR("message")), ret->message, sizeof ret->message);
    copy(walk(v, "actor.process.file.path"), ret->program, sizeof ret->program);
    return true;
}

static bool same(const struct denial *a, const struct denial *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0 && strcmp(a->code, b->code) == 0 &&
           strcmp(a->program, b->program) == 0;
}

/* In place of the oldest, where there is no room. */
static void add(struct denials *all, const struct denial *d)
{
    struct denial *oldest = &all->list[0];

    for (size_t i = 0; i < all->n; i++) {
        struct denial *v = &all->list[i];

        if (same(v, d)) {
            v->count += d->count;
            v->last_ms = d->last_ms;
            return;
        }
        if (v->last_ms < oldest->last_ms)
            oldest = v;
    }
    *(all->n < all->limit ? &all->list[all->n++] : oldest) = *d;
}

static void read_lines(struct str text, struct denials *all)
{
    const struct json_limits limits = { .bytes = PIECE, .depth = 16 };
    struct str line;

    while (text.p && text.n) {
        AUTO(arena_done) struct arena a = ARENA_INIT(256 << 10);
        const struct json *v;
        struct denial d;

        text = str_cut(text, '\n', &line);
        if (json_read(line, limits, &a, &v, NULL) >= 0 && read_denial(v, &d))
            add(all, &d);
    }
}

/* The last part of a file, of at most `room` bytes. */
static void read_recent(struct call *c, uint32_t part, size_t room, struct denials *all)
{
    AUTO_CLOSE int fd = -1;
    struct stat st;
    char *text;
    ssize_t n;
    size_t from = 0;

    if (!room || outlet_open_part(c->api->control, id_of(c), part, &fd, NULL) < 0 ||
        fstat(fd, &st) < 0 || !(text = malloc(room)))
        return;
    n = pread(fd, text, room, st.st_size > (off_t)room ? st.st_size - (off_t)room : 0);
    if (n > 0 && st.st_size > (off_t)room) /* not in the middle of a line */
        from = str_find((struct str){ text, (size_t)n }, '\n');
    if (n > 0 && from < (size_t)n)
        read_lines((struct str){ text + from, (size_t)n - from }, all);
    free(text);
}

static size_t find_part_size(const struct call *c, uint32_t part)
{
    AUTO_CLOSE int fd = -1;
    struct stat st;

    return outlet_open_part(c->api->control, id_of(c), part, &fd, NULL) >= 0 &&
                   fstat(fd, &st) == 0 && st.st_size > 0
               ? (size_t)st.st_size
               : 0;
}

/* The last RECENT bytes of all parts, the oldest first. False: there is no log. */
static bool read_recent_parts(struct call *c, struct denials *all)
{
    struct outlet_parts parts;
    size_t first, room = RECENT, size = 0;

    outlet_list_parts(c->api->control, id_of(c), &parts);
    for (first = parts.n; first > 0 && room > size;) {
        room -= size;
        size = find_part_size(c, parts.parts[--first]);
    }
    for (size_t i = first; i < parts.n; i++)
        read_recent(c, parts.parts[i], i == first ? room : RECENT, all);
    return parts.n > 0;
}

static int newer(const void *a, const void *b)
{
    const struct denial *x = a, *y = b;

    return x->last_ms < y->last_ms ? 1 : x->last_ms > y->last_ms ? -1 : 0;
}

static void put(struct json_writer *w, const char *key, const char *value)
{
    if (!value[0])
        return;
    json_key(w, str_from(key));
    json_put_lossy(w, str_from(value));
}

static void write_denials(struct json_writer *w, const void *what)
{
    const struct denials *all = what;

    json_begin_object(w);
    json_key(w, STR("denials"));
    json_begin_array(w);
    for (size_t i = 0; i < all->n; i++) {
        const struct denial *d = &all->list[i];

        json_begin_object(w);
        put(w, "host", d->host);
        json_key(w, STR("port"));
        json_put_uint(w, d->port);
        put(w, "code", d->code);
        put(w, "message", d->message);
        put(w, "program", d->program);
        json_key(w, STR("count"));
        json_put_uint(w, d->count);
        time_write(w, "last_at", d->last_ms * NS_PER_MS);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
}

/* What was denied lately, each once. */
static void denials(struct call *c)
{
    struct denials *all = arena_alloc(&c->own, sizeof *all);
    uint64_t limit = DENIALS_DEFAULT;
    struct err e;

    if (!all)
        abort();
    if (call_query_number(c, "limit", DENIALS_MAX, &limit) < 0)
        return;
    *all = (struct denials){ .limit = limit ? limit : 1 };
    if (!read_recent_parts(c, all)) {
        (void)err_set(&e, ERR_NOT_FOUND, "%s has no egress log", id_of(c));
        call_fail(c, &e);
        return;
    }
    qsort(all->list, all->n, sizeof all->list[0], newer);
    call_answer(c, 200, write_denials, all);
}

const struct route routes_egress_log[] = {
    { H1_GET, VERB_READ, "/v1/sandboxes/{id}/egress/log", ROUTE_SANDBOX | ROUTE_LONG, log_of,
      "What a sandbox reached and wanted to reach", .answer = "application/x-ndjson",
      .query = "follow tail" },
    { H1_GET, VERB_READ, "/v1/sandboxes/{id}/egress/denials", ROUTE_SANDBOX, denials,
      "What a sandbox was denied lately", .answer = "EgressDenials", .query = "limit" },
    { .path = NULL },
};
