/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/dir_watch.h"

#include <errno.h>
#include <unistd.h>

#include "edge/core/file_take.h"

enum { PIECE = 64 << 10 };

static void close_watch_output(struct dir_watch *d)
{
    loop_fd_stop(&d->output);
    drop_fd(&d->out);
}

void dir_watch_stop(struct dir_watch *d)
{
    close_watch_output(d);
    buf_done(&d->records);
    if (d->running) {
        d->running = false;
        run_op_cancel(&d->op);
    }
}

/* False: a record is malformed, or the watch was stopped. */
static bool deliver_changes(struct dir_watch *d)
{
    struct backend_change v;
    ssize_t n = 0;

    while (!d->full && (n = backend_change_read(buf_str(&d->records), &v)) > 0) {
        if (!d->stood) {
            d->stood = true;
            d->events->stands(d);
        } else {
            d->full = !d->events->changed(d, &v);
        }
        if (d->out < 0)
            return false;
        buf_drop(&d->records, (size_t)n);
    }
    return n >= 0;
}

/* Delivers the records that were read; reads more when all were taken. */
static void continue_watch(struct dir_watch *d)
{
    bool good = deliver_changes(d);

    if (d->out < 0)
        return;
    if (good)
        (void)loop_fd_want(&d->output, d->full ? 0 : LOOP_READ, NULL);
    else
        close_watch_output(d); /* the end of the operation follows */
}

static void on_watch_output(struct loop_fd *s, unsigned events)
{
    static char room[PIECE];
    struct dir_watch *d = container_of(s, struct dir_watch, output);
    ssize_t n = read(d->out, room, sizeof room);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0 && buf_add(&d->records, (struct str){ room, (size_t)n }) >= 0)
        continue_watch(d);
    else /* the end of the operation has the reason */
        close_watch_output(d);
}

void dir_watch_resume(struct dir_watch *d)
{
    if (!d->full || d->out < 0)
        return;
    d->full = false;
    continue_watch(d);
}

static void on_watch_started(struct run_op *op, int r, const struct err *e)
{
    struct dir_watch *d = container_of(op, struct dir_watch, op);

    if (r < 0) {
        buf_done(&d->records);
        d->events->over(d, e);
        return;
    }
    d->running = true;
    d->out = take_fd(&op->process.stdio[1]);
    drop_fd(&op->process.stdio[0]);
    drop_fd(&op->process.stdio[2]);
    loop_fd_start(d->loop, &d->output, d->out, LOOP_READ, on_watch_output, NULL);
}

static void on_watch_ended(struct run_op *op, const struct backend_end *end)
{
    struct dir_watch *d = container_of(op, struct dir_watch, op);

    d->running = false;
    file_failure(end, &d->failure);
    dir_watch_stop(d);
    d->events->over(d, d->failure.code ? &d->failure : NULL);
}

static const struct run_op_events run_events = { .started = on_watch_started,
                                                 .ended = on_watch_ended };

void dir_watch_start(struct dir_watch *d, struct loop *l, struct sandbox *s, const char *user,
                     const char *path, uint32_t mode, const struct dir_watch_events *events)
{
    const char *const paths[] = { path, NULL };
    const struct process_start start = {
        .what = START_WATCH, .user = user, .cwd = "/", .argv = paths, .mode = mode
    };

    *d = (struct dir_watch){ .events = events, .loop = l, .out = -1 };
    d->op.events = &run_events;
    buf_init(&d->records, BACKEND_RECORD_MAX + PIECE);
    sandbox_run(s, &start, &d->op);
}
