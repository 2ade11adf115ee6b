/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/file_put.h"

#include <errno.h>
#include <unistd.h>

#include "edge/core/file_take.h"
#include "backends/records.h"

enum { PIECE = 64 << 10 };

static void close_put_input(struct file_put *p)
{
    loop_fd_stop(&p->input_);
    drop_fd(&p->in_);
}

/* Frames the next piece; after the last one, the frame that marks the end. */
static void frame_put_piece(struct file_put *p)
{
    struct str piece = { p->data_.p, p->data_.n < PIECE ? p->data_.n : PIECE };
    char head[BACKEND_CHUNK_HEAD];

    backend_chunk_head((uint32_t)piece.n, head);
    buf_add(&p->framed_, (struct str){ head, sizeof head }); /* fits: the buffer was empty */
    if (piece.n)
        buf_add(&p->framed_, piece);
    p->last_ = !piece.n;
    p->data_ = (struct str){ p->data_.p + piece.n, p->data_.n - piece.n };
}

static void on_put_room(struct loop_fd *s, unsigned events);

/* If the operation closes its stdin, its end has the reason. */
static void write_put_input(struct file_put *p)
{
    while (p->in_ >= 0) {
        ssize_t n;

        if (!p->framed_.n && p->last_)
            return;
        if (!p->framed_.n)
            frame_put_piece(p);
        n = write(p->in_, p->framed_.p, p->framed_.n);
        if (n >= 0) {
            buf_drop(&p->framed_, (size_t)n);
        } else if (errno == EAGAIN) {
            loop_fd_start(p->call->api->loop, &p->input_, p->in_, LOOP_WRITE, on_put_room, NULL);
            return;
        } else if (errno != EINTR) {
            close_put_input(p);
        }
    }
}

static void on_put_room(struct loop_fd *s, unsigned events)
{
    loop_fd_stop(s);
    write_put_input(container_of(s, struct file_put, input_));
}

static void finish_put(struct file_put *p, const struct err *e)
{
    struct call *c = p->call;

    close_put_input(p);
    buf_done(&p->framed_);
    p->done(p, e);
    call_unref(c);
}

static void on_put_started(struct run_op *op, int r, const struct err *e)
{
    struct file_put *p = container_of(op, struct file_put, op_);

    if (r < 0) {
        file_not_started(p->call, op, e);
        finish_put(p, e);
        return;
    }
    p->in_ = take_fd(&op->process.stdio[0]);
    drop_fd(&op->process.stdio[1]);
    drop_fd(&op->process.stdio[2]);
    write_put_input(p);
}

static void on_put_ended(struct run_op *op, const struct backend_end *end)
{
    struct err e;

    file_failure(end, &e);
    finish_put(container_of(op, struct file_put, op_), e.code ? &e : NULL);
}

static const struct run_op_events put_events = { .started = on_put_started, .ended = on_put_ended };

void file_put_start(struct file_put *p, struct call *c, const char *const *paths, const char *user,
                    struct str data, file_put_fn *done)
{
    const struct process_start start = {
        .what = START_WRITE, .flags = START_STDIN, .user = user, .cwd = "/", .argv = paths
    };

    *p = (struct file_put){ .call = call_ref(c), .done = done, .in_ = -1, .data_ = data };
    buf_init(&p->framed_, PIECE + BACKEND_CHUNK_HEAD);
    p->op_.events = &put_events;
    p->op_.actor = &c->caller.actor;
    sandbox_run(c->sandbox, &start, &p->op_);
}
