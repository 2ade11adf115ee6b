/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/sandboxes/{id}/egress/log and …/denials: the decisions in the egress worker's log files. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "edge/core/answers.h"
#include "edge/core/internal.h"
#include "edge/rest/decision_filter.h"
#include "edge/rest/routes.h"
#include "base/clock.h"
#include "base/own.h"
#include "control/egress/egress_link.h"
#include "lib/json/reader.h"
#include "lib/loop/timer.h"

enum {
    PIECE = 32 << 10,     /* longer than any line */
    LOOK_MS = 200,        /* poll interval of `follow` */
    TURN = 256 << 10,     /* bytes that are read in one turn of the loop */
    TAIL_MAX = 10000,     /* lines */
    RECENT = 1 << 20,     /* bytes at the end of the log that are searched for denials */
    DENIALS_DEFAULT = 20, /* distinct denials */
    DENIALS_MAX = 100,
    LINE_MEMORY = 256 << 10, /* of a parsed line */
};

/* --- the log --- */

struct log_tail {
    struct call *call;
    struct loop_timer timer;
    struct decision_filter filter;
    int fd;
    off_t at;
    off_t turn;      /* bytes that may be read before other work of the loop */
    uint64_t wanted; /* lines that the search has not found yet */
    bool searches;   /* backward from `at`, for the first line */
    bool follow, full, over;
};

static void stop_log_tail(void *state)
{
    struct log_tail *t = state;

    loop_timer_stop(&t->timer);
}

static void on_tail_client_gone(struct call *c)
{
    stop_log_tail(c->state);
}

static enum decision_fit test_log_line(const struct decision_filter *f, struct str text)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(LINE_MEMORY);
    const struct json_limits limits = { .bytes = PIECE, .depth = 16 };
    const struct json *line;

    if (!decision_filter_selects(f))
        return DECISION_FITS;
    return json_read(text, limits, &a, &line, NULL) < 0 ? DECISION_OTHER
                                                        : decision_filter_test(f, line);
}

/* Leaves the lines that fit, each with its end. */
static struct str select_log_lines(struct log_tail *t, char *text, size_t n)
{
    size_t kept = 0;
    char *end;

    for (char *line = text; line < text + n && !t->over; line = end) {
        enum decision_fit fit;

        end = (char *)memchr(line, '\n', (size_t)(text + n - line)) + 1;
        fit = test_log_line(&t->filter, (struct str){ line, (size_t)(end - line) - 1 });
        t->over = fit == DECISION_LATER;
        if (fit != DECISION_FITS)
            continue;
        memmove(text + kept, line, (size_t)(end - line));
        kept += (size_t)(end - line);
    }
    return (struct str){ text, kept };
}

/* Sends complete lines of the open file; true at its end. */
static bool send_log_rest(struct log_tail *t)
{
    static char piece[PIECE];

    while (t->call->x && !t->full && !t->over && t->turn > 0) {
        ssize_t n = pread(t->fd, piece, sizeof piece, t->at);
        struct str lines;
        int r;

        while (n > 0 && piece[n - 1] != '\n')
            n--;
        if (n <= 0)
            return true;
        lines = decision_filter_selects(&t->filter) ? select_log_lines(t, piece, (size_t)n)
                                                    : (struct str){ piece, (size_t)n };
        r = lines.n ? http_write(t->call->x, lines, NULL) : 0;
        if (r < 0) {
            stop_log_tail(t);
            http_cut(call_take_exchange(t->call));
            return false;
        }
        t->at += n;
        t->turn -= n;
        t->full = r > 0;
    }
    return false;
}

/* The index of the open part; all->n: the part has expired. */
static size_t find_open_part(const struct log_tail *t, const struct egress_link_parts *all)
{
    const struct control *c = t->call->api->control;
    struct stat ours, st;

    for (size_t i = all->n; fstat(t->fd, &ours) == 0 && i-- > 0;) {
        AUTO_CLOSE int fd = -1;

        if (egress_link_open_part(c, call_sandbox_id(t->call), all->parts[i], &fd, NULL) >= 0 &&
            fstat(fd, &st) == 0 && st.st_ino == ours.st_ino)
            return i;
    }
    return all->n;
}

/* Opens the part after the open one. Once it has a first line, the worker no longer writes to the
 * previous part, whose last lines are sent first. */
static bool open_next_log_part(struct log_tail *t)
{
    const struct control *c = t->call->api->control;
    AUTO_CLOSE int fd = -1;
    struct egress_link_parts all;
    struct stat st;
    size_t i;

    egress_link_list_parts(c, call_sandbox_id(t->call), &all);
    i = find_open_part(t, &all);
    i = i == all.n ? 0 : i + 1;
    if (i >= all.n ||
        egress_link_open_part(c, call_sandbox_id(t->call), all.parts[i], &fd, NULL) < 0 ||
        fstat(fd, &st) < 0 || st.st_size == 0 || !send_log_rest(t))
        return false;
    drop_fd(&t->fd);
    t->fd = take_fd(&fd);
    t->at = 0;
    return true;
}

static void on_tail_poll(struct loop_timer *timer);

static bool search_first_line(struct log_tail *t);

static void pump_log(struct log_tail *t)
{
    /* before reading, so that the last lines before the end are sent */
    bool alive = t->follow && t->call->sandbox && sandbox_state(t->call->sandbox) < SANDBOX_EXPIRED;
    int64_t pause = 0;

    t->turn = TURN;
    if (t->searches)
        t->searches = !search_first_line(t);
    while (!t->searches && send_log_rest(t) && open_next_log_part(t))
        ;
    if (!t->call->x || t->full)
        return;
    if (!t->searches && t->turn > 0)
        pause = LOOK_MS * NS_PER_MS;
    if (!pause || (alive && !t->over))
        loop_timer_start(t->call->loop, &t->timer, clock_mono() + pause, on_tail_poll, NULL);
    else
        http_end(call_take_exchange(t->call));
}

static void on_tail_poll(struct loop_timer *timer)
{
    pump_log(container_of(timer, struct log_tail, timer));
}

static void on_tail_drain(struct http_exchange *x)
{
    struct call *c = http_state(x);
    struct log_tail *t = c->state;

    t->full = false;
    pump_log(t);
}

/* --- where the log begins --- */

static off_t find_file_end(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 ? st.st_size : 0;
}

/* Moves t->at before the lines from `text` + `from` to + n, which end at t->at, as far as they are
 * wanted: true if that is the beginning. */
static bool search_lines(struct log_tail *t, const char *text, size_t from, size_t n)
{
    while (n > from) {
        const char *end = memrchr(text + from, '\n', n - 1 - from);
        size_t begin = end ? (size_t)(end - text) + 1 : from;
        enum decision_fit fit =
            test_log_line(&t->filter, (struct str){ text + begin, n - 1 - begin });

        if (!t->wanted || fit == DECISION_EARLIER)
            return true;
        t->at -= (off_t)(n - begin);
        n = begin;
        if (fit == DECISION_FITS && --t->wanted == 0)
            return true;
    }
    return false;
}

/* The same for the piece of the open part before t->at. */
static bool search_piece(struct log_tail *t)
{
    static char piece[PIECE];
    size_t n = t->at < PIECE ? (size_t)t->at : PIECE, from = 0;

    if (pread(t->fd, piece, n, t->at - (off_t)n) != (ssize_t)n) {
        t->at = 0;
        return true;
    }
    t->turn -= (off_t)n;
    while (n > 0 && piece[n - 1] != '\n') { /* a line that is being written */
        n--;
        t->at--;
    }
    if (t->at > (off_t)n) { /* the rest of a line that begins before the piece */
        const char *first = memchr(piece, '\n', n);

        from = first ? (size_t)(first - piece) + 1 : n;
    }
    if (from == n) { /* a line that is too long: no worker wrote it */
        t->at -= (off_t)n;
        return false;
    }
    return search_lines(t, piece, from, n);
}

/* Opens the part before the open one, at its end. */
static bool open_earlier_part(struct log_tail *t)
{
    const struct control *c = t->call->api->control;
    AUTO_CLOSE int fd = -1;
    struct egress_link_parts all;
    size_t i;

    egress_link_list_parts(c, call_sandbox_id(t->call), &all);
    i = find_open_part(t, &all);
    if (i == 0 || i >= all.n ||
        egress_link_open_part(c, call_sandbox_id(t->call), all.parts[i - 1], &fd, NULL) < 0)
        return false;
    drop_fd(&t->fd);
    t->fd = take_fd(&fd);
    t->at = find_file_end(t->fd);
    return true;
}

/* False: the turn is over. */
static bool search_first_line(struct log_tail *t)
{
    bool found = false;

    while (!found && t->turn > 0)
        found = t->at > 0 ? search_piece(t) : !open_earlier_part(t);
    return found;
}

/* Opens the oldest part or, for a search, the newest at its end. */
static int open_first_part(struct log_tail *t, struct err *e)
{
    const struct control *c = t->call->api->control;
    struct egress_link_parts all;
    uint32_t part = EGRESS_LINK_PART_NOW;
    int r;

    egress_link_list_parts(c, call_sandbox_id(t->call), &all);
    if (all.n)
        part = all.parts[t->searches ? all.n - 1 : 0];
    r = egress_link_open_part(c, call_sandbox_id(t->call), part, &t->fd, e);
    if (r >= 0 && t->searches)
        t->at = find_file_end(t->fd);
    return r;
}

static void rest_tail_egress_log(struct call *c)
{
    struct log_tail *t = call_state(c, sizeof *t, stop_log_tail);
    int tail;
    struct err e;

    t->call = c;
    t->wanted = UINT64_MAX;
    call_own_fd(c, &t->fd);
    c->on_gone = on_tail_client_gone;
    if (call_query_bool(c, "follow", &t->follow) < 0 || !decision_filter_read(c, &t->filter))
        return;
    tail = call_query_number(c, "tail", TAIL_MAX, &t->wanted);
    if (tail < 0)
        return;
    t->searches = tail || t->filter.since_ms;
    if (open_first_part(t, &e) < 0)
        call_fail(c, &e);
    else if (call_begin_lines(c, on_tail_drain))
        pump_log(t);
}

/* --- denials --- */

struct egress_denial {
    char host[256], code[64], message[256], program[256];
    uint64_t port, count;
    int64_t last_ns;
};

struct denial_list {
    struct decision_filter filter;
    struct egress_denial list[DENIALS_MAX]; /* unordered */
    size_t n, limit;
};

static void copy_json_text(const struct json *v, char *ret, size_t cap)
{
    if (v && v->type == JSON_STR)
        snprintf(ret, cap, STR_FMT, STR_ARG(v->s));
}

static const struct json *get_json_path(const struct json *v, const char *path)
{
    struct str rest = str_from(path), key;

    while (v && rest.p) {
        rest = str_cut(rest, '.', &key);
        v = json_get(v, key);
    }
    return v;
}

static bool read_denial(const struct json *v, struct egress_denial *ret)
{
    const struct json *action = json_get(v, STR("action_id"));
    const struct json *time = json_get(v, STR("time")), *count = json_get(v, STR("count"));
    const struct json *port = get_json_path(v, "dst_endpoint.port"),
                      *host = get_json_path(v, "dst_endpoint.hostname");

    if (!action || action->type != JSON_INT || action->i != 2)
        return false;
    *ret =
        (struct egress_denial){ .count = count && count->type == JSON_INT ? (uint64_t)count->i : 1,
                                .port = port && port->type == JSON_INT ? (uint64_t)port->i : 0,
                                .last_ns =
                                    time && time->type == JSON_INT ? time->i * NS_PER_MS : 0 };
    copy_json_text(host ? host : get_json_path(v, "dst_endpoint.ip"), ret->host, sizeof ret->host);
    copy_json_text(json_get(v, STR("status_code")), ret->code, sizeof ret->code);
    copy_json_text(json_get(v, STR("message")), ret->message, sizeof ret->message);
    copy_json_text(get_json_path(v, "actor.process.file.path"), ret->program, sizeof ret->program);
    return true;
}

/* Adds a denial, replacing the oldest if the list is full. */
static void add_denial(struct denial_list *all, const struct egress_denial *d)
{
    struct egress_denial *oldest = &all->list[0];

    for (size_t i = 0; i < all->n; i++) {
        struct egress_denial *v = &all->list[i];

        if (v->port == d->port && strcmp(v->host, d->host) == 0 && strcmp(v->code, d->code) == 0 &&
            strcmp(v->program, d->program) == 0) {
            v->count += d->count;
            v->last_ns = d->last_ns;
            return;
        }
        if (v->last_ns < oldest->last_ns)
            oldest = v;
    }
    *(all->n < all->limit ? &all->list[all->n++] : oldest) = *d;
}

static void read_denial_lines(struct str text, struct denial_list *all)
{
    const struct json_limits limits = { .bytes = PIECE, .depth = 16 };
    struct str line;

    while (text.p && text.n) {
        AUTO(arena_done) struct arena a = ARENA_INIT(LINE_MEMORY);
        const struct json *v;
        struct egress_denial d;

        text = str_cut(text, '\n', &line);
        if (json_read(line, limits, &a, &v, NULL) >= 0 &&
            decision_filter_test(&all->filter, v) == DECISION_FITS && read_denial(v, &d))
            add_denial(all, &d);
    }
}

/* Reads denials from the last `room` bytes of a part. */
static void read_recent(struct call *c, uint32_t part, size_t room, struct denial_list *all)
{
    AUTO_CLOSE int fd = -1;
    struct stat st;
    char *text;
    ssize_t n;
    size_t from = 0;

    if (!room || egress_link_open_part(c->api->control, call_sandbox_id(c), part, &fd, NULL) < 0 ||
        fstat(fd, &st) < 0 || !(text = malloc(room)))
        return;
    n = pread(fd, text, room, st.st_size > (off_t)room ? st.st_size - (off_t)room : 0);
    if (n > 0 && st.st_size > (off_t)room) /* skip the partial line */
        from = str_find((struct str){ text, (size_t)n }, '\n');
    if (n > 0 && from < (size_t)n)
        read_denial_lines((struct str){ text + from, (size_t)n - from }, all);
    free(text);
}

static size_t find_part_size(const struct call *c, uint32_t part)
{
    AUTO_CLOSE int fd = -1;
    struct stat st;

    return egress_link_open_part(c->api->control, call_sandbox_id(c), part, &fd, NULL) >= 0 &&
                   fstat(fd, &st) == 0 && st.st_size > 0
               ? (size_t)st.st_size
               : 0;
}

/* Reads denials from the last RECENT bytes of all parts, oldest part first. False: there is no
 * log. */
static bool read_recent_parts(struct call *c, struct denial_list *all)
{
    struct egress_link_parts parts;
    size_t first, room = RECENT, size = 0;

    egress_link_list_parts(c->api->control, call_sandbox_id(c), &parts);
    for (first = parts.n; first > 0 && room > size;) {
        room -= size;
        size = find_part_size(c, parts.parts[--first]);
    }
    for (size_t i = first; i < parts.n; i++)
        read_recent(c, parts.parts[i], i == first ? room : RECENT, all);
    return parts.n > 0;
}

static int compare_denial_age(const void *a, const void *b)
{
    const struct egress_denial *x = a, *y = b;

    return x->last_ns < y->last_ns ? 1 : x->last_ns > y->last_ns ? -1 : 0;
}

static const struct json_field denial_fields[] = {
    { "host", JSON_KIND_CHARS, JSON_AT(struct egress_denial, host), .optional = true },
    { "port", JSON_KIND_UINT, JSON_AT(struct egress_denial, port), .required = true },
    { "code", JSON_KIND_CHARS, JSON_AT(struct egress_denial, code), .optional = true },
    { "message", JSON_KIND_CHARS, JSON_AT(struct egress_denial, message), .optional = true },
    { "program", JSON_KIND_CHARS, JSON_AT(struct egress_denial, program), .optional = true },
    { "count", JSON_KIND_UINT, JSON_AT(struct egress_denial, count), .required = true },
    { "last_at", JSON_KIND_TIME, JSON_AT(struct egress_denial, last_ns) },
};
static const struct json_shape denial_answer = { "EgressDenial", JSON_FIELDS(denial_fields) };

static void write_denials(struct json_writer *w, const void *list)
{
    const struct denial_list *all = list;

    for (size_t i = 0; i < all->n; i++)
        json_put_shape(w, &denial_answer, &all->list[i]);
}

static const struct json_shape denial_list = { "EgressDenials", JSON_LIST("denials", "EgressDenial",
                                                                          write_denials) };

/* Lists recent denials without duplicates. */
static void rest_list_denials(struct call *c)
{
    struct denial_list *all = call_alloc(c, 1, sizeof *all);
    uint64_t limit = DENIALS_DEFAULT;
    struct err e;

    if (call_query_number(c, "limit", DENIALS_MAX, &limit) < 0 ||
        !decision_filter_read(c, &all->filter))
        return;
    all->limit = limit ? limit : 1;
    if (!read_recent_parts(c, all)) {
        (void)err_set(&e, ERR_NOT_FOUND, "%s has no egress log", call_sandbox_id(c));
        call_fail(c, &e);
        return;
    }
    qsort(all->list, all->n, sizeof all->list[0], compare_denial_age);
    call_answer_as(c, 200, &denial_list, all);
}

const struct route routes_egress_log[] = {
    { H1_GET, VERB_READ, "/v1/sandboxes/{id}/egress/log", ROUTE_SANDBOX | ROUTE_LONG,
      rest_tail_egress_log, "The egress log of a sandbox", .answer = "application/x-ndjson",
      .query = "follow tail " DECISION_FILTER_QUERY },
    { H1_GET, VERB_READ, "/v1/sandboxes/{id}/egress/denials", ROUTE_SANDBOX, rest_list_denials,
      "Recently denied egress of a sandbox", .answer = "EgressDenials",
      .query = "limit " DECISION_FILTER_QUERY },
    { .path = NULL },
};

const struct json_shape *const answers_egress_log[] = { &denial_answer, &denial_list, NULL };
