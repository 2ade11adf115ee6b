/* /v1/sandboxes/{id}/logs: what background processes wrote, a line of text a line of JSON.
 *
 * Every process is watched on its own; without `follow` each watcher stops when it has told what
 * there is. With `tail`, lines of the past are held back until the present is reached, and only the
 * last ones are told. */
#include <stdlib.h>

#include "api/exec.h"
#include "api/processes.h"

enum {
    LINE_BYTES = 64 << 10,  /* a longer line is told in pieces */
    TAIL_BYTES = 512 << 10, /* of held back lines, per process */
    TAIL_MAX = 100000,
    OUT_MAX = 4 << 20, /* the JSON of one piece of output, were it all empty lines, and a tail */
    PUSH = 64 << 10,
    JSON_LINE_MAX = 6 * LINE_BYTES + 256,
};

struct logs {
    struct call *call;
    struct list watches; /* struct log_watch */
    struct list over;    /* those that have told everything; freed at the end */
    struct buf out;      /* what the client has no room for yet; no watcher tells meanwhile */
    struct event_subscriber subscriber;
    struct loop_later look; /* for another process: it is shown when its event has been told */
    uint32_t only;          /* 0: all processes */
    uint32_t last;          /* the newest process that is watched */
    size_t tail;            /* 0: everything */
    bool follow, full;
};

struct log_watch {
    struct logs *logs;
    struct watcher watcher;
    struct link link;
    uint32_t proc;
    struct buf line[2]; /* of stdout and stderr: not ended yet */
    struct buf held;    /* whole JSON lines, from held_at on */
    size_t held_at, held_lines;
    bool live; /* nothing is held back any more */
};

static void watch_free(struct log_watch *v)
{
    watcher_stop(&v->watcher);
    link_leave(&v->link);
    for (int i = 0; i < 2; i++)
        buf_done(&v->line[i]);
    buf_done(&v->held);
    free(v);
}

static void each_watcher(struct logs *l, void (*fn)(struct watcher *w))
{
    for (struct link *m = list_first(&l->watches); m; m = list_after(&l->watches, m))
        fn(&container_of(m, struct log_watch, link)->watcher);
}

static void unsubscribe(struct logs *l)
{
    event_unsubscribe(&l->subscriber);
    loop_later_stop(&l->look);
}

static void logs_gone(struct call *c)
{
    struct logs *l = c->state;

    unsubscribe(l);
    each_watcher(l, watcher_stop);
}

static void logs_end(struct call *c)
{
    struct logs *l = c->state;

    unsubscribe(l);
    list_move(&l->watches, &l->over);
    for (struct link *m; (m = list_first(&l->over));)
        watch_free(container_of(m, struct log_watch, link));
    buf_done(&l->out);
    free(l);
}

/* --- lines --- */

static void cut(struct logs *l)
{
    if (l->call->x)
        http_cut(call_take_exchange(l->call));
    logs_gone(l->call);
}

static void push(struct logs *l)
{
    int r = 0;

    while (r == 0 && l->out.n && l->call->x && !l->full) {
        size_t n = l->out.n < PUSH ? l->out.n : PUSH;

        r = http_write(l->call->x, (struct str){ l->out.p, n }, NULL);
        if (r >= 0)
            buf_drop(&l->out, n);
    }
    if (r < 0)
        cut(l);
    l->full = l->full || r > 0;
}

static void send_text(struct logs *l, struct str text)
{
    if (buf_add(&l->out, text) < 0)
        cut(l); /* never with a hole in it */
}

/* Forgets the oldest held lines until there are no more than asked for, and room for n bytes. */
static void make_room(struct log_watch *v, size_t n)
{
    while (v->held_lines &&
           (v->held_lines >= v->logs->tail || v->held.n - v->held_at + n > TAIL_BYTES)) {
        struct str rest = { v->held.p + v->held_at, v->held.n - v->held_at };

        v->held_at += str_find(rest, '\n') + 1;
        v->held_lines--;
    }
    if (v->held_at > v->held.n / 2) {
        buf_drop(&v->held, v->held_at);
        v->held_at = 0;
    }
}

static void put_line(struct log_watch *v, int channel, struct str text)
{
    struct buf line AUTO(buf_done) = BUF_INIT(JSON_LINE_MAX);
    struct json_writer w;

    json_writer_init(&w, &line, JSON_COMPACT);
    json_begin_object(&w);
    json_key(&w, STR("process"));
    json_put_uint(&w, v->proc);
    json_key(&w, STR("stream"));
    json_put_str(&w, channel == 2 ? STR("stderr") : STR("stdout"));
    bytes_write(&w, "line", "line_b64", text);
    json_end_object(&w);
    json_writer_finish(&w, NULL);
    buf_add_c(&line, '\n');
    if (v->live || !v->logs->tail) {
        send_text(v->logs, buf_str(&line));
        return;
    }
    make_room(v, line.n);
    buf_add(&v->held, buf_str(&line));
    v->held_lines++;
}

/* What is left without an end of line, at the end. */
static void flush_lines(struct log_watch *v)
{
    for (int i = 0; i < 2; i++)
        if (v->line[i].n) {
            put_line(v, i + 1, buf_str(&v->line[i]));
            buf_clear(&v->line[i]);
        }
}

static void flush_held(struct log_watch *v)
{
    if (!v->live && v->held_lines)
        send_text(v->logs, (struct str){ v->held.p + v->held_at, v->held.n - v->held_at });
    v->live = true;
    buf_done(&v->held);
}

static bool on_output(struct watcher *w, int channel, struct str data)
{
    struct log_watch *v = container_of(w, struct log_watch, watcher);
    struct buf *part = &v->line[channel == 2];

    while (data.n && v->logs->call->x) {
        size_t n = str_find(data, '\n'), room = part->max - part->n;
        bool whole = n < data.n && n <= room;

        n = n < room ? n : room;
        buf_add(part, (struct str){ data.p, n });
        n += whole;
        data = (struct str){ data.p + n, data.n - n };
        if (whole || part->n == part->max) {
            put_line(v, channel, buf_str(part));
            buf_clear(part);
        }
    }
    push(v->logs);
    if (v->logs->full)
        each_watcher(v->logs, watcher_pause);
    return !v->logs->full;
}

/* --- the end --- */

static void finish_if_over(struct logs *l)
{
    push(l);
    if (l->call->x && !l->follow && !l->out.n && !list_first(&l->watches)) {
        unsubscribe(l);
        http_end(call_take_exchange(l->call));
    }
}

static void watch_over(struct log_watch *v)
{
    struct logs *l = v->logs;

    flush_lines(v);
    flush_held(v);
    watcher_stop(&v->watcher);
    link_leave(&v->link);
    list_append(&l->over, &v->link);
    finish_if_over(l);
}

static void on_ended(struct watcher *w, const struct ext_end *end)
{
    (void)end;
    watch_over(container_of(w, struct log_watch, watcher));
}

static void on_caught_up(struct watcher *w)
{
    struct log_watch *v = container_of(w, struct log_watch, watcher);

    if (!v->logs->follow) {
        watch_over(v);
        return;
    }
    flush_held(v);
    push(v->logs);
}

static void on_behind(struct watcher *w)
{
    cut(container_of(w, struct log_watch, watcher)->logs);
}

static const struct watcher_events events = {
    .output = on_output,
    .ended = on_ended,
    .fell_behind = on_behind,
    .caught_up = on_caught_up,
};

static void on_drain(struct http_exchange *x)
{
    struct call *c = http_state(x);
    struct logs *l = c->state;

    l->full = false;
    finish_if_over(l);
    if (c->x && !l->full)
        each_watcher(l, watcher_resume);
}

/* --- the beginning --- */

static void watch(void *user, struct process *p)
{
    struct logs *l = user;
    struct process_view view;
    struct log_watch *v;

    process_view(p, &view);
    if (view.proc <= l->last || (l->only && view.proc != l->only))
        return;
    l->last = view.proc;
    v = calloc(1, sizeof *v);
    if (!v)
        abort();
    v->logs = l;
    v->proc = view.proc;
    v->watcher.events = &events;
    for (int i = 0; i < 2; i++)
        buf_init(&v->line[i], LINE_BYTES);
    buf_init(&v->held, TAIL_BYTES + JSON_LINE_MAX);
    list_append(&l->watches, &v->link);
    process_watch(p, &v->watcher, false);
}

static void look(struct loop_later *s)
{
    struct logs *l = container_of(s, struct logs, look);

    process_each(l->call->sandbox, watch, l);
}

/* Somebody started another one, or the sandbox is gone. */
static void on_event(struct event_subscriber *s, const struct event_record *e)
{
    struct logs *l = container_of(s, struct logs, subscriber);

    if (strcmp(e->sandbox, sandbox_view(l->call->sandbox).record->id) != 0)
        return;
    if (strcmp(e->type, "process.started") == 0) {
        (void)loop_later(l->call->loop, &l->look, look, NULL); /* once is enough */
    } else if (e->to == SANDBOX_DESTROYED) {
        l->follow = false;
        finish_if_over(l);
    }
}

static int read_query(struct call *c, struct logs *l)
{
    uint64_t only = 0, tail = 0;

    if (call_query_bool(c, "follow", &l->follow) < 0 ||
        call_query_number(c, "process", UINT32_MAX, &only) < 0 ||
        call_query_number(c, "tail", TAIL_MAX, &tail) < 0)
        return -1;
    l->only = (uint32_t)only;
    l->tail = tail;
    return 0;
}

void process_logs(struct call *c)
{
    static const struct h1_field fields[] = {
        { { "Content-Type", 12 }, { "application/x-ndjson", 20 } },
        { { "Cache-Control", 13 }, { "no-store", 8 } },
    };
    struct logs *l = calloc(1, sizeof *l);
    struct err e;

    if (!l)
        abort();
    l->call = c;
    buf_init(&l->out, OUT_MAX);
    c->state = l;
    c->on_end = logs_end;
    c->on_gone = logs_gone;
    if (read_query(c, l) < 0)
        return;
    if (http_begin(c->x, 200, fields, COUNT_OF(fields), HTTP_UNKNOWN, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    if (call_end_head(c))
        return;
    http_on_drain(c->x, on_drain);
    process_each(c->sandbox, watch, l);
    if (l->follow)
        control_subscribe(c->api->control, &l->subscriber, on_event);
    finish_if_over(l);
}
