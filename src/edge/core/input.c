/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/input.h"

#include "edge/core/background.h"
#include "base/own.h"

/* A watcher that ignores output and waits for room in stdin. */
struct input {
    struct background target;
    bool close;
    void (*done)(struct call *c); /* NULL: the body is streamed */
};

/* Writes the pending input. False: stdin is full, or the call is answered. */
static bool write_input(struct input *i)
{
    struct err e;
    int r = background_send_input(&i->target, &e);

    if (r < 0) {
        watcher_stop(&i->target.watcher);
        call_fail(i->target.call, &e);
    }
    return r > 0;
}

static void finish_input(struct input *i)
{
    struct err e;
    struct call *c = i->target.call;
    int r = i->close ? process_close_stdin(i->target.process, &e) : 0;

    watcher_stop(&i->target.watcher);
    if (r < 0)
        call_fail(c, &e);
    else if (i->done)
        i->done(c);
    else
        call_answer_empty(c);
}

static void on_input_body(struct http_exchange *x, struct str data)
{
    struct call *c = http_state(x);
    struct input *i = c->state;

    if (!data.n) {
        finish_input(i);
        return;
    }
    if (buf_add(&i->target.input, data) < 0) {
        watcher_stop(&i->target.watcher);
        call_fail_with(c, 500, "bug",
                       "internal error: a piece of the request body has %zu bytes, more than the "
                       "%zu of its buffer",
                       data.n, i->target.input.max);
    } else if (!write_input(i) && c->x) {
        http_body_pause(x);
    }
}

static void on_input_room(struct watcher *w)
{
    struct input *i = container_of(w, struct input, target.watcher);

    if (!i->target.input.n || !write_input(i))
        return;
    if (i->done)
        finish_input(i);
    else
        http_body_resume(i->target.call->x);
}

static void on_input_process_ended(struct watcher *w, const struct backend_end *end)
{
    struct background *b = container_of(w, struct background, watcher);
    struct process_view v;

    process_view(b->process, &v);
    call_fail_with(b->call, 409, "conflict", "process %u has ended", v.proc);
}

static struct input *input_new(struct call *c, struct process *p)
{
    static const struct watcher_events events = { .ended = on_input_process_ended,
                                                  .room = on_input_room };
    struct input *i = background_new(c, sizeof *i, INPUT_WHOLE_MAX, NULL);

    i->target.process = p;
    background_watch(&i->target, &events, true);
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
    if (buf_add(&i->target.input, data) < 0) {
        watcher_stop(&i->target.watcher);
        call_fail_with(c, 413, "too_big", "the input is longer than 4 MiB");
    } else if (write_input(i)) {
        finish_input(i);
    }
}
