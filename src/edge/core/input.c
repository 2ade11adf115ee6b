/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/input.h"

#include <stdlib.h>

#include "base/own.h"

/* A watcher that ignores output and waits for room in stdin. */
struct input {
    struct call *call;
    struct watcher watcher;
    struct process *process;
    struct buf rest; /* unwritten rest of the last piece of the body */
    bool close;
    void (*done)(struct call *c); /* NULL: the body is streamed */
};

static void free_input(struct call *c)
{
    struct input *i = c->state;

    watcher_stop(&i->watcher);
    process_unref(i->process);
    buf_done(&i->rest);
    free(i);
}

static void on_input_client_gone(struct call *c)
{
    struct input *i = c->state;

    watcher_stop(&i->watcher);
}

static void fail_input(struct input *i, const struct err *e)
{
    watcher_stop(&i->watcher);
    call_fail(i->call, e);
}

/* Writes the rest. False: stdin is full, or the call is answered. */
static bool write_input(struct input *i)
{
    struct err e;

    while (i->rest.n) {
        ssize_t n = process_stdin(i->process, buf_str(&i->rest), &e);

        if (n < 0)
            fail_input(i, &e);
        if (n <= 0)
            return false;
        buf_drop(&i->rest, (size_t)n);
    }
    return true;
}

static void finish_input(struct input *i)
{
    struct err e;
    int r = i->close ? process_close_stdin(i->process, &e) : 0;

    watcher_stop(&i->watcher);
    if (r < 0)
        call_fail(i->call, &e);
    else if (i->done)
        i->done(i->call);
    else
        call_answer_empty(i->call);
}

static void on_input_body(struct http_exchange *x, struct str data)
{
    struct call *c = http_state(x);
    struct input *i = c->state;

    if (!data.n) {
        finish_input(i);
        return;
    }
    if (buf_add(&i->rest, data) < 0) {
        watcher_stop(&i->watcher);
        call_fail_with(c, 500, "bug", "a piece of the body is too big");
    } else if (!write_input(i) && c->x) {
        http_body_pause(x);
    }
}

static void on_input_room(struct watcher *w)
{
    struct input *i = container_of(w, struct input, watcher);

    if (!i->rest.n || !write_input(i))
        return;
    if (i->done)
        finish_input(i);
    else
        http_body_resume(i->call->x);
}

static bool on_input_output(struct watcher *w, int channel, struct str data)
{
    return true;
}

static void on_input_process_ended(struct watcher *w, const struct backend_end *end)
{
    struct input *i = container_of(w, struct input, watcher);

    call_fail_with(i->call, 409, "conflict", "the process has ended");
}

static void on_input_behind(struct watcher *w)
{
    /* cannot happen: output is discarded at once */
}

static const struct watcher_events input_events = {
    .output = on_input_output,
    .ended = on_input_process_ended,
    .fell_behind = on_input_behind,
    .room = on_input_room,
};

static struct input *input_new(struct call *c, struct process *p)
{
    struct input *i = new0(sizeof *i);

    i->call = c;
    i->process = p;
    buf_init(&i->rest, INPUT_WHOLE_MAX);
    i->watcher.events = &input_events;
    c->state = i;
    c->on_end = free_input;
    c->on_gone = on_input_client_gone;
    process_watch(p, &i->watcher, true);
    return i;
}

void input_stream(struct call *c, struct process *p, bool close)
{
    struct input *i = input_new(c, p);

    i->close = close;
    http_body_patience(c->x, 0);
    http_stream(c->x, on_input_body);
}

void input_whole(struct call *c, struct process *p, struct str data, void (*done)(struct call *c))
{
    struct input *i = input_new(c, p);

    i->done = done;
    if (buf_add(&i->rest, data) < 0) {
        watcher_stop(&i->watcher);
        call_fail_with(c, 413, "too_big", "the input is longer than 4 MiB");
    } else if (write_input(i)) {
        finish_input(i);
    }
}
