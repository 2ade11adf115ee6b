/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/exec.h"
#include "edge/core/answers.h"
#include "edge/core/guard.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/proc/signals.h"
#include "base/clock.h"
#include "base/own.h"
#include "base/units.h"
#include "lib/json/reader.h"

enum { LINGER_MS = 300, INPUT_MAX = 1 << 20 };

static void close_exec_pump(struct exec_pump *p)
{
    loop_fd_stop(&p->source);
    drop_fd(&p->fd);
}

static void stop_exec(struct exec *x)
{
    for (int i = 0; i < 2; i++)
        close_exec_pump(&x->pumps[i]);
    loop_fd_stop(&x->input);
    loop_timer_stop(&x->linger);
    drop_fd(&x->op.process.stdio[0]);
}

/* Frees the exec, with its call. */
static void release_exec(void *state)
{
    struct exec *x = state;

    stop_exec(x);
    buf_done(&x->out[0]);
    buf_done(&x->out[1]);
}

static void on_one_shot_removed(struct sandbox_op *op, int r, const struct err *e)
{
    struct exec *x = container_of(op, struct exec, removal);
    struct call *c = x->call;

    x->own = r >= 0 ? c->sandbox : NULL;
    if (c->x)
        x->encoder->ended(x, &x->end);
    call_unref(c);
}

/* OOM kills and egress counters of a one-shot sandbox are final only after its removal, so a failed
 * program or one with network access is reported afterwards. */
static bool must_remove_first(const struct exec *x)
{
    struct sandbox_egress network;
    bool good = x->end.how == BACKEND_EXITED && x->end.status == 0;

    return x->call->one_shot && (!good || sandbox_egress(x->call->sandbox, &network));
}

static void finish_exec_if_ended(struct exec *x)
{
    struct call *c = x->call;

    if (!x->ended || x->pumps[0].fd >= 0 || x->pumps[1].fd >= 0 || x->removal.done)
        return;
    loop_timer_stop(&x->linger);
    loop_fd_stop(&x->input);
    drop_fd(&x->op.process.stdio[0]);
    if (!c->x)
        return;
    if (!must_remove_first(x)) {
        x->encoder->ended(x, &x->end);
        return;
    }
    call_ref(c);
    x->removal.done = on_one_shot_removed;
    sandbox_destroy(c->sandbox, &c->caller.actor, "its program ended", DESTROY_NO_SYNC,
                    &x->removal);
}

static void on_linger_timeout(struct loop_timer *t)
{
    struct exec *x = container_of(t, struct exec, linger);

    if (x->full) { /* the client is slow: output may still be pending */
        loop_timer_start(x->call->api->loop, t, clock_mono() + LINGER_MS * NS_PER_MS,
                         on_linger_timeout, NULL);
        return;
    }
    for (int i = 0; i < 2; i++)
        close_exec_pump(&x->pumps[i]);
    finish_exec_if_ended(x);
}

static void on_exec_output(struct loop_fd *s, unsigned events)
{
    static char room[EXEC_CHUNK];
    struct exec_pump *p = container_of(s, struct exec_pump, source);
    struct exec *x = p->exec;
    ssize_t n = read(p->fd, room, sizeof room);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    call_ref(x->call);
    if (n <= 0) { /* a terminal returns EIO when its last process has closed it */
        close_exec_pump(p);
        finish_exec_if_ended(x);
    } else if (x->encoder->output(x, p->channel, (struct str){ room, (size_t)n })) {
        /* continue reading */
    } else if (!x->call->x) { /* the encoder dropped the client */
        exec_abandon(x);
    } else {
        x->full = true;
        for (int i = 0; i < 2; i++)
            loop_fd_stop(&x->pumps[i].source);
    }
    call_unref(x->call);
}

static void start_exec_pump(struct exec_pump *p)
{
    if (p->fd >= 0)
        loop_fd_start(p->exec->call->api->loop, &p->source, p->fd, LOOP_READ, on_exec_output, NULL);
}

void exec_resume(struct exec *x)
{
    if (!x->full)
        return;
    x->full = false;
    for (int i = 0; i < 2; i++)
        start_exec_pump(&x->pumps[i]);
}

/* Starts to read the output, unless the encoder handed out the descriptors. */
static void start_exec_pumps(struct exec *x)
{
    int *stdio = x->op.process.stdio;

    x->pumps[0].channel = 1;
    x->pumps[1].channel = 2;
    if (x->request.tty) {
        x->pumps[0].fd = dup(stdio[0]);
    } else {
        x->pumps[0].fd = take_fd(&stdio[1]);
        x->pumps[1].fd = take_fd(&stdio[2]);
    }
    for (int i = 0; i < 2; i++)
        start_exec_pump(&x->pumps[i]);
}

static void on_exec_started(struct run_op *op, int r, const struct err *e)
{
    struct exec *x = container_of(op, struct exec, op);
    struct call *c = x->call;

    if (!c->x) {
        if (r >= 0)
            run_op_cancel(op);
        call_unref(c);
        return;
    }
    if (r < 0) {
        x->encoder->failed(x, e);
        call_unref(c);
        return;
    }
    x->running = true;
    if (!x->encoder->started(x) || !c->x)
        exec_abandon(x);
    else if (x->encoder->output)
        start_exec_pumps(x);
}

static void on_exec_ended(struct run_op *op, const struct backend_end *end)
{
    struct exec *x = container_of(op, struct exec, op);

    x->running = false;
    x->ended = true;
    x->end = *end;
    loop_timer_start(x->call->api->loop, &x->linger, clock_mono() + LINGER_MS * NS_PER_MS,
                     on_linger_timeout, NULL);
    finish_exec_if_ended(x);
    call_unref(x->call); /* the reference of the operation */
}

static const struct run_op_events events = { .started = on_exec_started, .ended = on_exec_ended };

void exec_abandon(struct exec *x)
{
    stop_exec(x);
    if (!x->running)
        return; /* starting: on_exec_started() sees it; ended: nothing to do */
    x->running = false;
    run_op_cancel(&x->op);
    call_unref(x->call);
}

static void on_exec_client_gone(struct call *c)
{
    exec_abandon(c->state);
}

static struct exec *exec_new(struct call *c, const struct process_request *q,
                             const struct exec_encoder *encoder)
{
    struct exec *x = call_state(c, sizeof *x, release_exec);

    x->call = call_ref(c);
    x->encoder = encoder;
    x->request = *q;
    x->op.events = &events;
    x->op.actor = &c->caller.actor;
    x->op.client = call_client(c);
    x->op.programs = guard_starts_programs(c);
    for (int i = 0; i < 2; i++)
        x->pumps[i] = (struct exec_pump){ .exec = x, .fd = -1 };
    call_own_buf(c, &x->pending, INPUT_MAX);
    c->on_gone = on_exec_client_gone;
    return x;
}

static void start_exec_program(struct exec *x, const int *lent, size_t n)
{
    struct call *c = x->call;
    struct process_start start;
    struct err e;

    if (process_start_fill(c->sandbox, &x->request, &c->arena, &start, &e) < 0) {
        x->encoder->failed(x, &e);
        call_unref(c);
        return;
    }
    start.flags |= n ? (unsigned)START_WHOLE : 0u;
    start.lent = lent;
    start.n_lent = n;
    sandbox_run(c->sandbox, &start, &x->op);
}

void exec_start(struct call *c, const struct process_request *q, const struct exec_encoder *encoder,
                struct ws_session *session)
{
    struct exec *x = exec_new(c, q, encoder);

    x->session = session;
    start_exec_program(x, NULL, 0);
}

void exec_start_lent(struct call *c, const struct process_request *q, const int *lent, size_t n,
                     const char *requested, const struct exec_encoder *encoder)
{
    struct exec *x = exec_new(c, q, encoder);

    x->op.client = "ssh"; /* its server is what inherits descriptors */
    x->op.requested = requested;
    start_exec_program(x, lent, n);
}

/* --- stdin --- */

static void on_exec_stdin_writable(struct loop_fd *s, unsigned events_);

static void close_exec_stdin(struct exec *x)
{
    loop_fd_stop(&x->input);
    buf_done(&x->pending);
    if (!x->request.tty)
        drop_fd(&x->op.process.stdio[0]);
}

static void write_exec_stdin(struct exec *x)
{
    int fd = x->op.process.stdio[0];
    ssize_t n = 1;

    while (fd >= 0 && x->pending.n && n > 0) {
        n = write(fd, x->pending.p, x->pending.n);
        if (n > 0)
            buf_drop(&x->pending, (size_t)n);
        else if (errno != EAGAIN && errno != EINTR)
            close_exec_stdin(x); /* the reader closed it: drop the rest */
    }
    if (x->pending.n && x->op.process.stdio[0] >= 0) {
        loop_fd_start(x->call->api->loop, &x->input, fd, LOOP_WRITE, on_exec_stdin_writable, NULL);
        return;
    }
    loop_fd_stop(&x->input);
    if (x->close_input)
        close_exec_stdin(x);
}

static void on_exec_stdin_writable(struct loop_fd *s, unsigned events_)
{
    struct exec *x = container_of(s, struct exec, input);

    loop_fd_stop(s);
    write_exec_stdin(x);
    if (!x->pending.n && x->on_input_room)
        x->on_input_room(x);
}

bool exec_input(struct exec *x, struct str data)
{
    if (x->close_input || x->op.process.stdio[0] < 0 || buf_add(&x->pending, data) < 0)
        return true; /* stdin is closed: drop the data */
    loop_fd_stop(&x->input);
    write_exec_stdin(x);
    return x->pending.n == 0;
}

void exec_close_input(struct exec *x)
{
    static const char end_of_file = 4;

    if (x->request.tty) {
        exec_input(x, (struct str){ &end_of_file, 1 });
        return;
    }
    x->close_input = true;
    if (!x->pending.n)
        close_exec_stdin(x);
}

/* --- control messages --- */

struct control_message {
    unsigned op;
    const char *signal;
    uint16_t rows, cols;
};

static const char *const message_ops[] = { "resize", "signal", "close_stdin", NULL };

static const struct json_field message_fields[] = {
    { "op", JSON_KIND_ENUM, JSON_AT(struct control_message, op), .required = true,
      .names = message_ops },
    { "signal", JSON_KIND_STR, JSON_AT(struct control_message, signal), .max = 32 },
    { "rows", JSON_KIND_UINT, JSON_AT(struct control_message, rows), .min = 1, .max = 10000 },
    { "cols", JSON_KIND_UINT, JSON_AT(struct control_message, cols), .min = 1, .max = 10000 },
};

int exec_message_read(struct str text, struct exec_message *ret)
{
    const struct json_limits limits = { .bytes = 4096, .depth = 3 };
    AUTO(arena_done) struct arena a = ARENA_INIT(64 << 10);
    struct control_message m = { 0 };
    const struct json *v;
    int sig = 0;

    if (json_read(text, limits, &a, &v, NULL) < 0 ||
        json_bind(v, message_fields, COUNT_OF(message_fields), &m, &a, NULL) < 0)
        return -(int)ERR_INVALID;
    if (m.op == EXEC_SIGNAL && m.signal)
        sig = signal_number(str_from(m.signal));
    if ((m.op == EXEC_SIGNAL && !sig) || (m.op == EXEC_RESIZE && (!m.rows || !m.cols)))
        return -(int)ERR_INVALID;
    *ret = (struct exec_message){ .op = m.op, .signal = sig, .rows = m.rows, .cols = m.cols };
    return 0;
}

void exec_control(struct exec *x, struct str text)
{
    struct exec_message m;

    if (exec_message_read(text, &m) < 0)
        return;
    if (m.op == EXEC_CLOSE_STDIN)
        exec_close_input(x);
    else if (m.op == EXEC_SIGNAL)
        run_op_signal(&x->op, m.signal,
                      m.signal == SIGKILL ? BACKEND_SCOPE_TREE : BACKEND_SCOPE_GROUP);
    else if (x->request.tty)
        run_op_resize(&x->op, m.rows, m.cols);
}

/* --- JSON --- */

void ended_answer_fill(struct ended_answer *a, const struct backend_end *end,
                       const struct sandbox *own)
{
    struct sandbox_view v = own ? sandbox_view(own) : (struct sandbox_view){ 0 };
    bool whole = v.oom_kills; /* of a one-shot sandbox the total is known */

    *a = (struct ended_answer){ .end = end,
                                .ended = true,
                                .timed_out = end->how == BACKEND_TIMED_OUT,
                                .lost = end->how == BACKEND_LOST,
                                .has_oom = whole || end->oom_kills,
                                .signal = "",
                                .oom_kills = whole ? v.oom_kills : end->oom_kills,
                                .memory_limit = whole ? v.memory : end->memory_limit };
    if (end->how != BACKEND_SIGNALLED)
        return;
    snprintf(a->number, sizeof a->number, "%d", end->status);
    a->signal = signal_name(end->status);
    if (!a->signal) /* a real-time signal */
        a->signal = a->number;
}

void exit_code_write(struct json_writer *w, const char *name, const void *answer)
{
    const struct backend_end *end = ((const struct ended_answer *)answer)->end;

    if (end && end->how == BACKEND_EXITED)
        json_field_int(w, name, end->status);
    else if (end)
        json_field_null(w, name);
}

struct ended_event {
    struct ended_answer ended;
};

static const struct json_field ended_fields[] = { ENDED_FIELDS(struct ended_event, true) };
static const struct json_shape ended_event = { NULL, JSON_FIELDS(ended_fields) };

void exec_write_ended(struct json_writer *w, const void *ended)
{
    const struct exec_ended *x = ended;
    struct ended_event v;

    ended_answer_fill(&v.ended, x->end, x->own);
    json_begin_object(w);
    json_field_cstr(w, "event", "exited");
    json_put_members(w, &ended_event, &v);
    json_end_object(w);
}

struct process_answer exec_process_answer(const struct exec *x)
{
    return (struct process_answer){ .process = x->op.process.proc,
                                    .pid = x->op.process.pid,
                                    .exited = x->ended,
                                    .tty = x->request.tty };
}

void exec_write_started(struct json_writer *w, const void *exec)
{
    const struct exec *x = exec;
    const struct process_answer process = exec_process_answer(x);

    json_begin_object(w);
    json_field_cstr(w, "event", "started");
    if (x->call->one_shot)
        json_field_cstr(w, "sandbox_id", sandbox_view(x->call->sandbox).record->id);
    json_key(w, STR("process"));
    json_put_shape(w, &process_answer, &process);
    json_end_object(w);
}

const char *exec_oom_text(const struct backend_end *end, char ret[static EXEC_LIMIT_TEXT])
{
    char size[24];

    units_show_bytes(end->memory_limit, size);
    if (end->memory_limit)
        snprintf(ret, EXEC_LIMIT_TEXT, "out of memory (limit %s)", size);
    else
        snprintf(ret, EXEC_LIMIT_TEXT, "out of memory");
    return ret;
}
