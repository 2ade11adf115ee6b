/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/tools/run.h"

#include <errno.h>
#include <unistd.h>

#include "edge/core/file_take.h"
#include "base/clock.h"

enum { CHUNK = 64 << 10, LINGER_MS = 300, INPUT_MAX = 64 << 20 };

static void close_run_pump(struct mcp_run_pump *p)
{
    loop_fd_stop(&p->source);
    drop_fd(&p->fd);
}

static void close_run_input(struct mcp_run *x)
{
    loop_fd_stop(&x->input);
    buf_done(&x->pending);
    drop_fd(&x->op.process.stdio[0]);
}

void mcp_run_done(struct mcp_run *x)
{
    if (!x->request)
        return;
    for (int i = 0; i < 2; i++)
        close_run_pump(&x->pumps[i]);
    loop_timer_stop(&x->linger);
    close_run_input(x);
}

/* Ends the run and drops its reference to the request. */
static void end_tool_run(struct mcp_run *x)
{
    x->over = true;
    mcp_run_done(x);
    mcp_request_unref(x->request);
}

static void finish_tool_run(struct mcp_run *x)
{
    if (!x->ended || x->over || x->pumps[0].fd >= 0 || x->pumps[1].fd >= 0)
        return;
    x->events->ended(x, &x->end);
    end_tool_run(x);
}

/* Closes the output some time after the program's end, even if other processes still hold it
 * open. */
static void on_output_linger(struct loop_timer *t)
{
    struct mcp_run *x = container_of(t, struct mcp_run, linger);

    if (x->full) { /* paused by a slow client */
        loop_timer_start(x->loop, t, clock_mono() + LINGER_MS * NS_PER_MS, on_output_linger, NULL);
        return;
    }
    for (int i = 0; i < 2; i++)
        close_run_pump(&x->pumps[i]);
    finish_tool_run(x);
}

static void on_run_output(struct loop_fd *s, unsigned events)
{
    static char room[CHUNK];
    struct mcp_run_pump *p = container_of(s, struct mcp_run_pump, source);
    struct mcp_run *x = p->run;
    ssize_t n = read(p->fd, room, sizeof room);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        close_run_pump(p);
        finish_tool_run(x);
    } else if (!x->events->output(x, p->channel, (struct str){ room, (size_t)n }) && !x->over) {
        x->full = true;
        for (int i = 0; i < 2; i++)
            loop_fd_stop(&x->pumps[i].source);
    }
}

static void run_pumps(struct mcp_run *x)
{
    for (int i = 0; i < 2; i++)
        if (x->pumps[i].fd >= 0)
            loop_fd_start(x->loop, &x->pumps[i].source, x->pumps[i].fd, LOOP_READ, on_run_output,
                          NULL);
}

void mcp_run_resume(struct mcp_run *x)
{
    if (!x->full || x->over)
        return;
    x->full = false;
    run_pumps(x);
}

static void on_run_input_room(struct loop_fd *s, unsigned events);

static void write_run_input(struct mcp_run *x)
{
    int fd = x->op.process.stdio[0];

    while (x->pending.n) {
        ssize_t n = write(fd, x->pending.p, x->pending.n);

        if (n >= 0) {
            buf_drop(&x->pending, (size_t)n);
        } else if (errno == EAGAIN) {
            loop_fd_start(x->loop, &x->input, fd, LOOP_WRITE, on_run_input_room, NULL);
            return;
        } else if (errno != EINTR) {
            break; /* the program does not read */
        }
    }
    close_run_input(x);
}

static void on_run_input_room(struct loop_fd *s, unsigned events)
{
    loop_fd_stop(s);
    write_run_input(container_of(s, struct mcp_run, input));
}

static void on_tool_run_started(struct run_op *op, int r, const struct err *e)
{
    struct mcp_run *x = container_of(op, struct mcp_run, op);

    if (mcp_is_finished(x->request) || r < 0) {
        if (r >= 0)
            run_op_cancel(op);
        else if (!mcp_is_finished(x->request))
            x->events->failed(x, e);
        end_tool_run(x);
        return;
    }
    x->running = true;
    for (int i = 0; i < 2; i++) {
        x->pumps[i].channel = i + 1;
        x->pumps[i].fd = take_fd(&op->process.stdio[i + 1]);
    }
    run_pumps(x);
    if (op->process.stdio[0] >= 0)
        write_run_input(x);
}

static void on_tool_run_ended(struct run_op *op, const struct backend_end *end)
{
    struct mcp_run *x = container_of(op, struct mcp_run, op);

    x->running = false;
    x->ended = true;
    x->end = *end;
    file_failure(&x->end, &x->failure);
    loop_timer_start(x->loop, &x->linger, clock_mono() + LINGER_MS * NS_PER_MS, on_output_linger,
                     NULL);
    finish_tool_run(x);
}

static const struct run_op_events events_of_run = { .started = on_tool_run_started,
                                                    .ended = on_tool_run_ended };

void mcp_run_cancel(struct mcp_run *x)
{
    if (x->over || !x->request)
        return;
    if (x->running) {
        x->running = false;
        run_op_cancel(&x->op);
    } else if (!x->ended) {
        return; /* still starting: on_tool_run_started() cancels it */
    }
    end_tool_run(x);
}

void mcp_run_start(struct mcp_run *x, struct mcp_request *r, struct sandbox *s,
                   const struct process_start *start, struct str input, bool programs,
                   const struct mcp_run_events *events)
{
    *x = (struct mcp_run){ .request = mcp_request_ref(r),
                           .events = events,
                           .loop = r->session->loop };
    for (int i = 0; i < 2; i++)
        x->pumps[i] = (struct mcp_run_pump){ .run = x, .fd = -1 };
    for (int i = 0; i < BACKEND_STDIO_MAX; i++)
        x->op.process.stdio[i] = -1;
    x->op.events = &events_of_run;
    x->op.programs = programs;
    x->op.client = "mcp";
    x->op.actor = &mcp_client_of(r)->caller.actor;
    buf_init(&x->pending, INPUT_MAX);
    buf_add(&x->pending, input);
    sandbox_run(s, start, &x->op);
}
