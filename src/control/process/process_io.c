/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptors of a background process: its output and its input. */
#include "control/process/process.h"

enum { READ_MAX = 64 << 10, DRAIN_READS = 64 };

static void close_stream(struct process_stream *m)
{
    loop_fd_stop(&m->source);
    drop_fd(&m->fd);
    m->writing = false;
}

bool io_reads(const struct process *p)
{
    for (int i = 0; i < BACKEND_STDIO_MAX; i++)
        if (p->stream[i].fd >= 0 && p->stream[i].channel)
            return true;
    return false;
}

/* One read. False: no data now, or end of file. */
static bool read_process_stream(struct process *p, struct process_stream *m)
{
    static char bytes[READ_MAX]; /* the loop has one thread */
    ssize_t n = read(m->fd, bytes, sizeof bytes);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) { /* a terminal ends with EIO */
        close_stream(m);
        return false;
    }
    output_append(&p->output, m->channel, (struct str){ bytes, (size_t)n });
    return true;
}

static void on_stream(struct loop_fd *source, unsigned events)
{
    struct process_stream *m = container_of(source, struct process_stream, source);
    struct process *p = m->process;

    if (m->writing && (events & (LOOP_WRITE | LOOP_HUP | LOOP_ERROR))) {
        m->writing = false;
        watchers_room(p);
    }
    if (m->channel && (events & ~(unsigned)LOOP_WRITE) && read_process_stream(p, m))
        watchers_wake(p);
    io_update(p);
    if (p->phase == PROCESS_DRAINING && !io_reads(p))
        process_finish(p);
}

void io_update(struct process *p)
{
    bool reads = !p->held || p->phase != PROCESS_RUNNING;

    for (int i = 0; i < BACKEND_STDIO_MAX; i++) {
        struct process_stream *m = &p->stream[i];

        if (m->fd >= 0 && m->source.on_)
            loop_fd_want(&m->source,
                         (m->channel && reads ? LOOP_READ : 0u) | (m->writing ? LOOP_WRITE : 0u),
                         NULL);
    }
}

void io_take(struct process *p)
{
    for (int i = 0; i < BACKEND_STDIO_MAX; i++) {
        p->stream[i].process = p;
        p->stream[i].fd = take_fd(&p->backend.stdio[i]);
        p->stream[i].channel = i == 0 && p->request.tty ? 1 : i;
    }
}

void io_start(struct process *p)
{
    for (int i = 0; i < BACKEND_STDIO_MAX; i++) {
        struct process_stream *m = &p->stream[i];

        if (m->fd >= 0 && loop_fd_start(p->control->loop, &m->source, m->fd,
                                        m->channel ? LOOP_READ : 0u, on_stream, NULL) < 0)
            close_stream(m);
    }
}

void io_drain(struct process *p)
{
    for (int i = 0; i < BACKEND_STDIO_MAX; i++) {
        struct process_stream *m = &p->stream[i];
        int reads = 0;

        while (m->fd >= 0 && m->channel && reads++ < DRAIN_READS && read_process_stream(p, m))
            ;
    }
}

void io_close(struct process *p)
{
    for (int i = 0; i < BACKEND_STDIO_MAX; i++)
        close_stream(&p->stream[i]);
    loop_timer_stop(&p->drain);
    loop_timer_stop(&p->stall);
}

/* --- requests --- */

static int check_running(const struct process *p, struct err *e)
{
    if (p->phase != PROCESS_RUNNING)
        return err_set(e, ERR_CONFLICT, "process %u has ended", p->proc);
    return 0;
}

/* In a paused sandbox that was found after a restart nothing is reached before its resume. */
static int check_attached(const struct process *p, struct err *e)
{
    int r = check_running(p, e);

    if (r >= 0 && p->parked)
        return err_set(e, ERR_CONFLICT, "process %u is frozen with its sandbox: resume it first",
                       p->proc);
    return r;
}

ssize_t process_stdin(struct process *p, struct str data, struct err *e)
{
    int r = check_running(p, e);
    ssize_t n;

    if (r < 0)
        return r;
    if (p->attaching)
        return 0; /* watchers hear of the room */
    if (p->stream[0].fd < 0)
        return err_set(e, ERR_CONFLICT, "process %u: %s", p->proc,
                       p->request.stdin_ || p->request.tty ? "its stdin is closed"
                                                           : "it was started without stdin");
    n = write(p->stream[0].fd, data.p, data.n);
    if (n >= 0)
        return n;
    if (errno == EAGAIN || errno == EINTR) {
        p->stream[0].writing = true;
        io_update(p);
        return 0;
    }
    if (errno == EPIPE)
        return err_set(e, ERR_CONFLICT, "process %u has closed its stdin", p->proc);
    return err_sys(e, "writing to process %u", p->proc);
}

int process_close_stdin(struct process *p, struct err *e)
{
    int r = check_attached(p, e);

    if (r >= 0 && p->request.tty)
        return err_set(
            e, ERR_INVALID,
            "process %u has a terminal, whose stdin cannot be closed: send the byte 4 (^D) instead",
            p->proc);
    if (r < 0 || p->stream[0].fd < 0)
        return r;
    close_stream(&p->stream[0]);
    /* The box holds an end, too, so that stdin survives a restart of the daemon. */
    if (p->backend.box)
        p->backend.box->ops->close_stdin(&p->backend);
    return 0;
}

int process_resize(struct process *p, uint16_t rows, uint16_t cols, struct err *e)
{
    int r = check_attached(p, e);

    if (r < 0)
        return r;
    if (!p->request.tty || p->stream[0].fd < 0 || !p->backend.box)
        return err_set(e, ERR_CONFLICT, "process %u has no terminal", p->proc);
    r = p->backend.box->ops->resize(&p->backend, p->stream[0].fd, rows, cols, e);
    return err_wrap(e, r, "process %u", p->proc);
}

int process_signal(struct process *p, int sig, enum backend_scope scope, struct err *e)
{
    int r = check_attached(p, e);

    if (r >= 0 && p->backend.box) {
        p->signals++;
        p->backend.box->ops->signal(&p->backend, sig, scope);
    }
    return r;
}

bool process_is_signalled(const struct process *p)
{
    return p->signals > 0;
}
