/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/sandboxes/{id}/logs: the output of background processes, one JSON object per line of text.
 *
 * Each process has its own watcher; without `follow` a watcher stops when it has sent the existing
 * output. With `tail`, lines are held back until the watcher has caught up, and only the last ones
 * are sent. */
#include <stdlib.h>

#include "edge/core/exec.h"
#include "base/own.h"
#include "edge/core/processes.h"

enum {
    LINE_BYTES = 64 << 10,  /* longer lines are split */
    TAIL_BYTES = 512 << 10, /* limit of held lines, per process */
    TAIL_MAX = 100000,
    OUT_MAX = 4 << 20, /* the JSON of one piece of output that is all empty lines, and a tail */
    PUSH = 64 << 10,
    JSON_LINE_MAX = 6 * LINE_BYTES + 256,
};

struct log_reader {
    struct call *call;
    struct list watches; /* struct log_watch */
    struct list over;    /* finished watches; freed with the call */
    struct buf out;      /* pending output; watchers are paused meanwhile */
    struct event_subscriber subscriber;
    struct loop_later rescan; /* looks for new processes after their event was published */
    uint32_t only;            /* 0: all processes */
    uint32_t last;            /* the newest process that is watched */
    size_t tail;              /* 0: everything */
    bool follow, full;
};

struct log_watch {
    struct log_reader *logs;
    struct watcher watcher;
    struct link link;
    uint32_t proc;
    struct buf line[2]; /* incomplete lines of stdout and stderr */
    struct buf held;    /* complete JSON lines, from held_at on */
    size_t held_at, held_lines;
    bool live; /* caught up: lines are sent at once */
};

static void for_each_watcher(struct log_reader *l, void (*fn)(struct watcher *w))
{
    LIST_EACH (struct log_watch, v, &l->watches, link)
        fn(&v->watcher);
}

static void stop_log_events(struct log_reader *l)
{
    event_unsubscribe(&l->subscriber);
    loop_later_stop(&l->rescan);
}

static void on_logs_client_gone(struct call *c)
{
    struct log_reader *l = c->state;

    stop_log_events(l);
    for_each_watcher(l, watcher_stop);
}

static void release_log_reader(void *state)
{
    struct log_reader *l = state;

    stop_log_events(l);
    list_move(&l->watches, &l->over);
    LIST_EACH_SAFE (struct log_watch, v, &l->over, link) {
        watcher_stop(&v->watcher);
        for (int i = 0; i < 2; i++)
            buf_done(&v->line[i]);
        buf_done(&v->held);
        free(v);
    }
}

/* --- lines --- */

static void cut_logs(struct log_reader *l)
{
    if (l->call->x)
        http_cut(call_take_exchange(l->call));
    on_logs_client_gone(l->call);
}

static void push_logs(struct log_reader *l)
{
    int r = 0;

    while (r == 0 && l->out.n && l->call->x && !l->full) {
        size_t n = l->out.n < PUSH ? l->out.n : PUSH;

        r = http_write(l->call->x, (struct str){ l->out.p, n }, NULL);
        if (r >= 0)
            buf_drop(&l->out, n);
    }
    if (r < 0)
        cut_logs(l);
    l->full = l->full || r > 0;
}

static void queue_log_text(struct log_reader *l, struct str text)
{
    if (buf_add(&l->out, text) < 0)
        cut_logs(l); /* output must not have gaps */
}

/* Drops the oldest held lines until they are within `tail` and leave room for n bytes. */
static void drop_oldest_lines(struct log_watch *v, size_t n)
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

static void write_log_line(struct log_watch *v, int channel, struct str text)
{
    struct buf line AUTO(buf_done) = BUF_INIT(JSON_LINE_MAX);
    struct json_writer w;

    json_writer_init(&w, &line, JSON_COMPACT);
    json_begin_object(&w);
    json_field_uint(&w, "process", v->proc);
    json_field_str(&w, "stream", channel == 2 ? STR("stderr") : STR("stdout"));
    bytes_write(&w, "line", "line_b64", text);
    json_end_object(&w);
    json_writer_finish(&w, NULL);
    buf_add_c(&line, '\n');
    if (v->live || !v->logs->tail) {
        queue_log_text(v->logs, buf_str(&line));
        return;
    }
    drop_oldest_lines(v, line.n);
    buf_add(&v->held, buf_str(&line));
    v->held_lines++;
}

static void flush_held_lines(struct log_watch *v)
{
    if (!v->live && v->held_lines)
        queue_log_text(v->logs, (struct str){ v->held.p + v->held_at, v->held.n - v->held_at });
    v->live = true;
    buf_done(&v->held);
}

static bool on_log_output(struct watcher *w, int channel, struct str data)
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
            write_log_line(v, channel, buf_str(part));
            buf_clear(part);
        }
    }
    push_logs(v->logs);
    if (v->logs->full)
        for_each_watcher(v->logs, watcher_pause);
    return !v->logs->full;
}

/* --- end --- */

static void finish_logs_if_done(struct log_reader *l)
{
    push_logs(l);
    if (l->call->x && !l->follow && !l->out.n && !list_first(&l->watches)) {
        stop_log_events(l);
        http_end(call_take_exchange(l->call));
    }
}

static void finish_log_watch(struct log_watch *v)
{
    struct log_reader *l = v->logs;

    for (int i = 0; i < 2; i++) /* the last, unterminated lines */
        if (v->line[i].n) {
            write_log_line(v, i + 1, buf_str(&v->line[i]));
            buf_clear(&v->line[i]);
        }
    flush_held_lines(v);
    watcher_stop(&v->watcher);
    link_leave(&v->link);
    list_append(&l->over, &v->link);
    finish_logs_if_done(l);
}

static void on_log_process_ended(struct watcher *w, const struct backend_end *end)
{
    finish_log_watch(container_of(w, struct log_watch, watcher));
}

static void on_log_caught_up(struct watcher *w)
{
    struct log_watch *v = container_of(w, struct log_watch, watcher);

    if (!v->logs->follow) {
        finish_log_watch(v);
        return;
    }
    flush_held_lines(v);
    push_logs(v->logs);
}

static void on_log_behind(struct watcher *w)
{
    cut_logs(container_of(w, struct log_watch, watcher)->logs);
}

static const struct watcher_events events = {
    .output = on_log_output,
    .ended = on_log_process_ended,
    .fell_behind = on_log_behind,
    .caught_up = on_log_caught_up,
};

static void on_logs_drain(struct http_exchange *x)
{
    struct call *c = http_state(x);
    struct log_reader *l = c->state;

    l->full = false;
    finish_logs_if_done(l);
    if (c->x && !l->full)
        for_each_watcher(l, watcher_resume);
}

/* --- start --- */

static void watch_process_log(void *user, struct process *p)
{
    struct log_reader *l = user;
    struct process_view view;
    struct log_watch *v;

    process_view(p, &view);
    if (view.proc <= l->last || (l->only && view.proc != l->only))
        return;
    l->last = view.proc;
    v = new0(sizeof *v);
    v->logs = l;
    v->proc = view.proc;
    v->watcher.events = &events;
    for (int i = 0; i < 2; i++)
        buf_init(&v->line[i], LINE_BYTES);
    buf_init(&v->held, TAIL_BYTES + JSON_LINE_MAX);
    list_append(&l->watches, &v->link);
    process_watch(p, &v->watcher, false);
}

static void watch_new_processes(struct loop_later *s)
{
    struct log_reader *l = container_of(s, struct log_reader, rescan);

    process_each(l->call->sandbox, watch_process_log, l);
}

/* A process was started, or the sandbox was destroyed. */
static void on_log_event(struct event_subscriber *s, const struct event_record *e)
{
    struct log_reader *l = container_of(s, struct log_reader, subscriber);

    if (strcmp(e->sandbox, sandbox_view(l->call->sandbox).record->id) != 0)
        return;
    if (strcmp(e->type, "process.started") == 0) {
        /* already pending: fine */
        (void)loop_later(l->call->loop, &l->rescan, watch_new_processes, NULL);
    } else if (e->to == SANDBOX_DESTROYED) {
        l->follow = false;
        finish_logs_if_done(l);
    }
}

void process_logs(struct call *c)
{
    struct log_reader *l = call_state(c, sizeof *l, release_log_reader);
    uint64_t only = 0, tail = 0;

    l->call = c;
    call_own_buf(c, &l->out, OUT_MAX);
    c->on_gone = on_logs_client_gone;
    if (call_query_bool(c, "follow", &l->follow) < 0 ||
        call_query_number(c, "process", UINT32_MAX, &only) < 0 ||
        call_query_number(c, "tail", TAIL_MAX, &tail) < 0 || !call_begin_lines(c, on_logs_drain))
        return;
    l->only = (uint32_t)only;
    l->tail = tail;
    process_each(c->sandbox, watch_process_log, l);
    if (l->follow)
        control_subscribe(c->api->control, &l->subscriber, on_log_event);
    finish_logs_if_done(l);
}
