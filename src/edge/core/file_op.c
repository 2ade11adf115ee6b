/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/file_op.h"

#include <errno.h>
#include <unistd.h>

#include "base/own.h"
#include "edge/core/file_take.h"
#include "backends/records.h"
#include "lib/gzip/gzip.h"
#include "lib/http/coding.h"

enum {
    PIECE = 64 << 10,
    SHOWN_MAX = HTTP_QUEUE_HARD - HTTP_QUEUE_SOFT - 64,
    PENDING_MAX = 4 << 20
};

static void close_file_input(struct file_op *f)
{
    loop_fd_stop(&f->input);
    drop_fd(&f->in);
    buf_done(&f->pending);
}

static void close_file_output(struct file_op *f)
{
    loop_fd_stop(&f->output);
    drop_fd(&f->out);
}

static void release_file_op(void *state)
{
    struct file_op *f = state;

    close_file_input(f);
    close_file_output(f);
    buf_done(&f->records);
    gzip_free(f->packer);
}

/* --- the answer --- */

static void on_file_drain(struct http_exchange *x);

static bool begin_file_answer(struct file_op *f)
{
    const struct h1_field fields[] = {
        { STR("Content-Type"), str_from(f->encoder->type) },
        { STR("Cache-Control"), STR("no-store") },
        { STR("X-Content-Type-Options"), STR("nosniff") },
        { STR("Vary"), STR("Accept-Encoding") },
        { STR("Content-Encoding"), STR("gzip") },
    };
    size_t n = COUNT_OF(fields) - (f->packer ? 0 : f->encoder->packs ? 1 : 2);
    struct err e;

    if (f->begun)
        return true;
    if (http_begin(f->call->x, 200, fields, n, HTTP_UNKNOWN, &e) < 0) {
        call_fail(f->call, &e);
        return false;
    }
    f->begun = true;
    http_on_drain(f->call->x, on_file_drain);
    if (f->encoder->before)
        http_write(f->call->x, str_from(f->encoder->before), NULL);
    return true;
}

/* There is no client to answer: an operation that reads is cancelled; one that writes ends by
 * itself without effect, since its input is cut off. */
static void abandon_file_op(struct file_op *f)
{
    close_file_input(f);
    if (f->out < 0 || f->ended)
        return;
    close_file_output(f);
    f->ended = true;
    run_op_cancel(&f->op);
    call_unref(f->call); /* the reference of the operation */
}

static void cut_file_answer(struct file_op *f)
{
    if (f->begun)
        http_cut(call_take_exchange(f->call));
    else
        call_fail_with(f->call, 500, "bug", "the operation's answer is malformed");
    abandon_file_op(f);
}

/* As http_write(). Compresses one piece at a time, about a millisecond, so that other clients are
 * served in between. Smaller pieces would slow clients down: the decompression in Node's fetch
 * costs time per piece. */
static int send_packed(struct file_op *f, struct str data, bool last)
{
    static char room[PIECE];
    size_t n;
    int r = 0;

    do {
        n = gzip_some(f->packer, &data, last, room, sizeof room);
        if (n)
            r = http_write(f->call->x, (struct str){ room, n }, NULL);
    } while (r >= 0 && n == sizeof room);
    return r;
}

static void finish_file_op(struct file_op *f)
{
    struct call *c = f->call;

    if (!f->ended || f->out >= 0 || !c->x)
        return;
    if (f->failure.code && f->begun) {
        http_cut(call_take_exchange(c));
    } else if (f->failure.code) {
        call_fail(c, &f->failure);
    } else if (!f->encoder->type) {
        call_answer_empty(c);
    } else if (f->records.n || (f->packer && f->begun && send_packed(f, STR(""), true) < 0)) {
        cut_file_answer(f);
    } else if (!f->begun && !f->encoder->before && !f->encoder->after) {
        call_answer_bytes(c, 200, f->encoder->type, STR("")); /* with Content-Length: 0 */
    } else if (begin_file_answer(f)) {
        if (f->encoder->after)
            http_write(c->x, str_from(f->encoder->after), NULL);
        http_end(call_take_exchange(c));
    }
}

/* --- out of the sandbox --- */

static int send_records(struct file_op *f, struct str data)
{
    struct buf text AUTO(buf_done) = BUF_INIT(SHOWN_MAX);
    ssize_t used = buf_add(&f->records, data);

    if (used >= 0)
        used = f->encoder->show(f, buf_str(&f->records), &text);
    if (used < 0)
        return -1;
    buf_drop(&f->records, (size_t)used);
    return text.n ? http_write(f->call->x, buf_str(&text), NULL) : 0;
}

static void on_file_op_output(struct loop_fd *s, unsigned events)
{
    static char room[PIECE];
    struct file_op *f = container_of(s, struct file_op, output);
    ssize_t n = read(f->out, room, sizeof room);
    int r;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    call_ref(f->call);
    if (n <= 0) {
        close_file_output(f);
        finish_file_op(f);
    } else if (!begin_file_answer(f) || call_end_head(f->call)) {
        abandon_file_op(f);
    } else {
        const struct str data = { room, (size_t)n };

        r = f->encoder->show ? send_records(f, data)
            : f->packer      ? send_packed(f, data, false)
                             : http_write(f->call->x, data, NULL);
        if (r < 0)
            cut_file_answer(f);
        else if (r > 0)
            loop_fd_want(s, 0, NULL);
    }
    call_unref(f->call);
}

static void on_file_drain(struct http_exchange *x)
{
    struct call *c = http_state(x);
    struct file_op *f = c->state;

    if (f->out >= 0)
        loop_fd_want(&f->output, LOOP_READ, NULL);
}

/* --- into the sandbox --- */

static void on_file_input_room(struct loop_fd *s, unsigned events);

static void write_file_input(struct file_op *f)
{
    while (f->in >= 0 && f->pending.n) {
        ssize_t n = write(f->in, f->pending.p, f->pending.n);

        if (n >= 0) {
            buf_drop(&f->pending, (size_t)n);
        } else if (errno == EAGAIN) {
            loop_fd_start(f->call->api->loop, &f->input, f->in, LOOP_WRITE, on_file_input_room,
                          NULL);
            if (!f->body_over)
                http_body_pause(f->call->x);
            return;
        } else if (errno != EINTR) {
            close_file_input(f); /* closed by the operation: its end has the reason */
        }
    }
    if (f->in >= 0 && f->body_over)
        close_file_input(f);
}

static void on_file_input_room(struct loop_fd *s, unsigned events)
{
    struct file_op *f = container_of(s, struct file_op, input);

    loop_fd_stop(s);
    write_file_input(f);
    if (!f->pending.n && !f->body_over)
        http_body_resume(f->call->x);
}

/* Queues a piece for stdin; an empty one marks the end. */
static int queue_file_piece(struct file_op *f, struct str data)
{
    char head[BACKEND_CHUNK_HEAD];
    int r = 0;

    if (f->encoder->framed) {
        backend_chunk_head((uint32_t)data.n, head);
        r = buf_add(&f->pending, (struct str){ head, sizeof head });
    }
    return r < 0 ? r : buf_add(&f->pending, data);
}

/* Queues a body that was collected for the policy; it is short. */
static void queue_collected_body(struct file_op *f)
{
    struct str rest = f->call->body;

    while (rest.n) {
        size_t n = rest.n < PIECE ? rest.n : PIECE;

        if (queue_file_piece(f, (struct str){ rest.p, n }) < 0)
            return; /* the input is cut off: the operation changes nothing */
        rest = (struct str){ rest.p + n, rest.n - n };
    }
    f->body_over = queue_file_piece(f, STR("")) >= 0;
    write_file_input(f);
}

static void on_file_body(struct http_exchange *x, struct str data)
{
    struct call *c = http_state(x);
    struct file_op *f = c->state;

    f->body_over = data.n == 0;
    if (f->in < 0)
        return;
    if (queue_file_piece(f, data) < 0) {
        /* cannot happen, since pieces are small and the body is paused; must not be stored */
        f->body_over = false;
        close_file_input(f);
        return;
    }
    loop_fd_stop(&f->input);
    write_file_input(f);
}

/* --- the operation --- */

static void on_file_op_started(struct run_op *op, int r, const struct err *e)
{
    struct file_op *f = container_of(op, struct file_op, op);
    struct call *c = f->call;

    if (r < 0) {
        file_not_started(c, op, e);
        f->ended = true;
        f->failure = *e;
        finish_file_op(f);
        call_unref(c);
        return;
    }
    f->in = take_fd(&op->process.stdio[0]);
    f->out = take_fd(&op->process.stdio[1]);
    drop_fd(&op->process.stdio[2]); /* operations report errors at their end */
    if (!f->encoder->type)
        close_file_output(f);
    if (!c->x) {
        abandon_file_op(f);
        return;
    }
    if (f->encoder->type)
        loop_fd_start(c->api->loop, &f->output, f->out, LOOP_READ, on_file_op_output, NULL);
    if (f->encoder->input && c->body_taken)
        queue_collected_body(f);
    else if (f->encoder->input)
        http_stream(c->x, on_file_body);
}

static void on_file_op_ended(struct run_op *op, const struct backend_end *end)
{
    struct file_op *f = container_of(op, struct file_op, op);

    f->ended = true;
    file_failure(end, &f->failure);
    close_file_input(f);
    finish_file_op(f);
    call_unref(f->call); /* the reference of the operation */
}

static const struct run_op_events events = { .started = on_file_op_started,
                                             .ended = on_file_op_ended };

static void on_file_client_gone(struct call *c)
{
    abandon_file_op(c->state);
}

/* Range and conditional requests get the bytes uncompressed: a compressed body would be another
 * representation. */
static bool wants_part(const struct call *c)
{
    static const char *const fields[] = {
        "Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"
    };

    for (size_t i = 0; i < COUNT_OF(fields); i++)
        if (call_header(c, fields[i]).p)
            return true;
    return false;
}

void file_op_start(struct call *c, const struct file_encoder *encoder, const char *const *paths,
                   const char *user, uint32_t mode)
{
    const struct process_start start = { .what = encoder->what,
                                         .flags = encoder->input ? START_STDIN : 0,
                                         .user = user,
                                         .cwd = "/",
                                         .argv = paths,
                                         .mode = mode };
    enum http_coding coding = http_coding(call_header(c, "Accept-Encoding"));
    struct file_op *f;

    if (encoder->packs && coding == HTTP_NO_CODING) {
        call_fail_with(c, 400, "invalid", "Accept-Encoding: must allow gzip, or identity");
        return;
    }
    f = call_state(c, sizeof *f, release_file_op);
    f->call = call_ref(c);
    f->encoder = encoder;
    f->packer = encoder->packs && coding == HTTP_GZIP && !wants_part(c) ? gzip_new() : NULL;
    f->in = f->out = -1;
    f->op.events = &events;
    f->op.actor = &c->caller.actor;
    buf_init(&f->records, BACKEND_RECORD_MAX + PIECE);
    buf_init(&f->pending, PENDING_MAX);
    c->on_gone = on_file_client_gone;
    sandbox_run(c->sandbox, &start, &f->op);
}
