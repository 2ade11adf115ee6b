#include "api/file_op.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/file_take.h"
#include "extensions/records.h"
#include "gzip/gzip.h"
#include "http/coding.h"

enum {
    PIECE = 64 << 10,
    SHOWN_MAX = HTTP_QUEUE_HARD - HTTP_QUEUE_SOFT - 64,
    PENDING_MAX = 4 << 20
};

static void close_input(struct file_op *f)
{
    loop_fd_stop(&f->input);
    drop_fd(&f->in);
    buf_done(&f->pending);
}

static void close_output(struct file_op *f)
{
    loop_fd_stop(&f->output);
    drop_fd(&f->out);
}

static void op_end(struct call *c)
{
    struct file_op *f = c->state;

    close_input(f);
    close_output(f);
    buf_done(&f->records);
    gzip_free(f->packer);
    free(f);
}

/* --- the answer --- */

static void on_drain(struct http_exchange *x);

static bool begin(struct file_op *f)
{
    const struct h1_field fields[] = {
        { STR("Content-Type"), str_from(f->face->type) },
        { STR("Cache-Control"), STR("no-store") },
        { STR("X-Content-Type-Options"), STR("nosniff") },
        { STR("Vary"), STR("Accept-Encoding") },
        { STR("Content-Encoding"), STR("gzip") },
    };
    size_t n = COUNT_OF(fields) - (f->packer ? 0 : f->face->packs ? 1 : 2);
    struct err e;

    if (f->begun)
        return true;
    if (http_begin(f->call->x, 200, fields, n, HTTP_UNKNOWN, &e) < 0) {
        call_fail(f->call, &e);
        return false;
    }
    f->begun = true;
    http_on_drain(f->call->x, on_drain);
    if (f->face->before)
        http_write(f->call->x, str_from(f->face->before), NULL);
    return true;
}

/* Nobody gets an answer any more: what only reads is ended; what writes ends by itself, tidily,
 * since its input breaks off. */
static void abandon(struct file_op *f)
{
    close_input(f);
    if (f->out < 0 || f->ended)
        return;
    close_output(f);
    f->ended = true;
    run_op_cancel(&f->op);
    call_unref(f->call); /* the operation's */
}

static void cut(struct file_op *f)
{
    if (f->begun)
        http_cut(call_take_exchange(f->call));
    else
        call_fail_with(f->call, 500, "bug", "the operation's answer is malformed");
    abandon(f);
}

/* As http_write(). One piece at a time is packed, which takes about a millisecond, and others are
 * served between two of them. Smaller ones would be a burden to clients: what unpacks in Node's
 * fetch takes far longer the more there are. */
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

static void finish(struct file_op *f)
{
    struct call *c = f->call;

    if (!f->ended || f->out >= 0 || !c->x)
        return;
    if (f->failure.code && f->begun) {
        http_cut(call_take_exchange(c));
    } else if (f->failure.code) {
        call_fail(c, &f->failure);
    } else if (!f->face->type) {
        call_answer_empty(c);
    } else if (f->records.n || (f->packer && f->begun && send_packed(f, STR(""), true) < 0)) {
        cut(f);
    } else if (!f->begun && !f->face->before && !f->face->after) {
        call_answer_bytes(c, 200, f->face->type, STR("")); /* with its length: none */
    } else if (begin(f)) {
        if (f->face->after)
            http_write(c->x, str_from(f->face->after), NULL);
        http_end(call_take_exchange(c));
    }
}

/* --- out of the sandbox --- */

static int send_records(struct file_op *f, struct str data)
{
    struct buf text AUTO(buf_done) = BUF_INIT(SHOWN_MAX);
    ssize_t used;

    if (buf_add(&f->records, data) < 0)
        return -1;
    used = f->face->show(f, buf_str(&f->records), &text);
    if (used < 0)
        return -1;
    buf_drop(&f->records, (size_t)used);
    return text.n ? http_write(f->call->x, buf_str(&text), NULL) : 0;
}

static void on_output(struct loop_fd *s, unsigned events)
{
    static char room[PIECE];
    struct file_op *f = container_of(s, struct file_op, output);
    ssize_t n = read(f->out, room, sizeof room);
    int r;

    (void)events;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    call_ref(f->call);
    if (n <= 0) {
        close_output(f);
        finish(f);
    } else if (!begin(f) || call_end_head(f->call)) {
        abandon(f);
    } else {
        const struct str data = { room, (size_t)n };

        r = f->face->show ? send_records(f, data)
            : f->packer   ? send_packed(f, data, false)
                          : http_write(f->call->x, data, NULL);
        if (r < 0)
            cut(f);
        else if (r > 0)
            loop_fd_want(s, 0, NULL);
    }
    call_unref(f->call);
}

static void on_drain(struct http_exchange *x)
{
    struct call *c = http_state(x);
    struct file_op *f = c->state;

    if (f->out >= 0)
        loop_fd_want(&f->output, LOOP_READ, NULL);
}

/* --- into the sandbox --- */

static void on_room(struct loop_fd *s, unsigned events);

static void move_input(struct file_op *f)
{
    while (f->in >= 0 && f->pending.n) {
        ssize_t n = write(f->in, f->pending.p, f->pending.n);

        if (n >= 0) {
            buf_drop(&f->pending, (size_t)n);
        } else if (errno == EAGAIN) {
            loop_fd_start(f->call->api->loop, &f->input, f->in, LOOP_WRITE, on_room, NULL);
            if (!f->body_over)
                http_body_pause(f->call->x);
            return;
        } else if (errno != EINTR) {
            close_input(f); /* it takes no more: its end says why */
        }
    }
    if (f->in >= 0 && f->body_over)
        close_input(f);
}

static void on_room(struct loop_fd *s, unsigned events)
{
    struct file_op *f = container_of(s, struct file_op, input);

    (void)events;
    loop_fd_stop(s);
    move_input(f);
    if (!f->pending.n && !f->body_over)
        http_body_resume(f->call->x);
}

/* No data is the end. */
static int add_piece(struct file_op *f, struct str data)
{
    char head[EXT_CHUNK_HEAD];
    int r = 0;

    if (f->face->framed) {
        ext_chunk_head((uint32_t)data.n, head);
        r = buf_add(&f->pending, (struct str){ head, sizeof head });
    }
    return r < 0 ? r : buf_add(&f->pending, data);
}

/* A body that was looked at before; it is short. */
static void take_whole(struct file_op *f)
{
    struct str rest = f->call->body;

    while (rest.n) {
        size_t n = rest.n < PIECE ? rest.n : PIECE;

        if (add_piece(f, (struct str){ rest.p, n }) < 0)
            return; /* it breaks off, and changes nothing */
        rest = (struct str){ rest.p + n, rest.n - n };
    }
    f->body_over = add_piece(f, STR("")) >= 0;
    move_input(f);
}

static void on_body(struct http_exchange *x, struct str data)
{
    struct call *c = http_state(x);
    struct file_op *f = c->state;

    f->body_over = data.n == 0;
    if (f->in < 0)
        return;
    if (add_piece(f, data) <
        0) { /* pieces are small and paused: this cannot be, and must not be written */
        f->body_over = false;
        close_input(f);
        return;
    }
    loop_fd_stop(&f->input);
    move_input(f);
}

/* --- the operation --- */

static void on_started(struct run_op *op, int r, const struct err *e)
{
    struct file_op *f = container_of(op, struct file_op, op);
    struct call *c = f->call;

    if (r < 0) {
        file_not_started(c, op, e);
        f->ended = true;
        f->failure = *e;
        finish(f);
        call_unref(c);
        return;
    }
    f->in = take_fd(&op->process.stdio[0]);
    f->out = take_fd(&op->process.stdio[1]);
    drop_fd(&op->process.stdio[2]); /* operations say what they have to say at their end */
    if (!f->face->type)
        close_output(f);
    if (!c->x) {
        abandon(f);
        return;
    }
    if (f->face->type)
        loop_fd_start(c->api->loop, &f->output, f->out, LOOP_READ, on_output, NULL);
    if (f->face->input && c->body_taken)
        take_whole(f);
    else if (f->face->input)
        http_stream(c->x, on_body);
}

static void on_ended(struct run_op *op, const struct ext_end *end)
{
    struct file_op *f = container_of(op, struct file_op, op);

    f->ended = true;
    file_failure(end, &f->failure);
    close_input(f);
    finish(f);
    call_unref(f->call); /* the operation's */
}

static const struct run_op_events events = { .started = on_started, .ended = on_ended };

static void client_gone(struct call *c)
{
    abandon(c->state);
}

/* What is asked for in parts, or only if it has changed, goes as it is: it would be another. */
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

/* False: it is answered. */
static bool choose_coding(struct call *c, bool *ret)
{
    enum http_coding coding = http_coding(call_header(c, "Accept-Encoding"));

    if (coding == HTTP_NO_CODING)
        call_fail_with(c, 400, "invalid", "Accept-Encoding: must allow gzip, or identity");
    *ret = coding == HTTP_GZIP && !wants_part(c);
    return coding != HTTP_NO_CODING;
}

void file_op_start(struct call *c, const struct file_face *face, const char *const *paths,
                   const char *user, uint32_t mode)
{
    const struct ext_start start = { .what = face->what,
                                     .flags = face->input ? EXT_STDIN : 0,
                                     .user = user,
                                     .cwd = "/",
                                     .argv = paths,
                                     .mode = mode };
    struct file_op *f;
    bool packed = false;

    if (face->packs && !choose_coding(c, &packed))
        return;
    f = calloc(1, sizeof *f);
    if (!f)
        abort();
    f->call = call_ref(c);
    f->face = face;
    f->packer = packed ? gzip_new() : NULL;
    f->in = f->out = -1;
    f->op.events = &events;
    f->op.actor = &c->caller.actor;
    buf_init(&f->records, EXT_RECORD_MAX + PIECE);
    buf_init(&f->pending, PENDING_MAX);
    c->state = f;
    c->on_end = op_end;
    c->on_gone = client_gone;
    sandbox_run(c->sandbox, &start, &f->op);
}
