/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/upload.h"

#include <errno.h>
#include <unistd.h>

#include "base/own.h"
#include "edge/core/file_take.h"
#include "edge/core/multipart.h"
#include "backends/records.h"
#include "lib/gzip/gzip.h"

enum { PIECE = 64 << 10, RAW_MAX = 4 << 20, FRAMED_MAX = 256 << 10 };

enum upload_state {
    UPLOAD_NEXT,     /* between parts */
    UPLOAD_FIELD,    /* in a part that is not a file */
    UPLOAD_STARTING, /* the operation starts, for the first file */
    UPLOAD_WRITING,
    UPLOAD_COMMITTING, /* all files are passed: waits for the operation's end */
    UPLOAD_FAILING,    /* waits for the operation to remove partial files, then answers */
    UPLOAD_OVER,       /* answered */
};

struct upload {
    struct call *call;
    struct upload_setup setup;
    enum upload_state state;
    struct multipart multipart;
    struct gunzip *gunzip; /* NULL: not compressed */
    struct buf packed;     /* received, not decompressed */
    struct buf raw;        /* not yet split into parts */
    bool body_over, paused;
    bool running; /* the operation runs */
    struct run_op op;
    int in;
    struct loop_fd input;
    struct buf framed; /* framed data for the operation's stdin */
    struct buf field;  /* text of a part that is not a file */
    const char *path, *attributes[UPLOAD_ATTRIBUTES_MAX + 1];
    size_t files, text; /* text: total bytes of their paths */
    struct err why;     /* the failure */
};

/* Closes stdin: an operation whose data is truncated stores nothing, and ends. */
static void close_upload_input(struct upload *u)
{
    loop_fd_stop(&u->input);
    drop_fd(&u->in);
}

static void release_upload(void *state)
{
    struct upload *u = state;

    close_upload_input(u);
    gunzip_free(u->gunzip);
}

static void on_upload_client_gone(struct call *c)
{
    struct upload *u = c->state;

    u->state = UPLOAD_OVER;
    close_upload_input(u);
}

static bool is_settled(const struct upload *u)
{
    return u->state == UPLOAD_FAILING || u->state == UPLOAD_OVER;
}

static void answer_upload_failure(struct upload *u)
{
    u->state = UPLOAD_OVER;
    u->setup.events->failed(u->call, &u->why);
}

/* The first failure is reported. */
static void fail_upload(struct upload *u, const struct err *e)
{
    if (is_settled(u))
        return;
    close_upload_input(u);
    u->why = *e;
    u->state = UPLOAD_FAILING;
    if (!u->running)
        answer_upload_failure(u);
}

static void advance_upload(struct upload *u);

/* --- the operation --- */

static void on_upload_op_started(struct run_op *op, int r, const struct err *e)
{
    struct upload *u = container_of(op, struct upload, op);
    struct call *c = u->call;

    if (r < 0) {
        u->running = false;
        file_not_started(c, op, e);
        if (u->state == UPLOAD_FAILING)
            answer_upload_failure(u);
        else
            fail_upload(u, e);
        call_unref(c);
        return;
    }
    u->in = take_fd(&op->process.stdio[0]);
    drop_fd(&op->process.stdio[1]);
    drop_fd(&op->process.stdio[2]);
    if (is_settled(u)) {
        drop_fd(&u->in);
        return;
    }
    u->state = UPLOAD_WRITING;
    advance_upload(u);
}

static void finish_upload(struct upload *u, const struct backend_end *end)
{
    struct err e;

    file_failure(end, &e);
    if (!e.code && u->state != UPLOAD_COMMITTING)
        (void)err_set(&e, ERR_SYS, "the upload ended early");
    if (e.code) {
        fail_upload(u, &e);
        return;
    }
    close_upload_input(u);
    u->state = UPLOAD_OVER;
    u->setup.events->done(u->call);
}

static void on_upload_op_ended(struct run_op *op, const struct backend_end *end)
{
    struct upload *u = container_of(op, struct upload, op);

    u->running = false;
    if (u->state == UPLOAD_FAILING)
        answer_upload_failure(u);
    else if (u->state != UPLOAD_OVER)
        finish_upload(u, end);
    call_unref(u->call); /* the reference of the operation */
}

static const struct run_op_events upload_op_events = { .started = on_upload_op_started,
                                                       .ended = on_upload_op_ended };

static void start_operation(struct upload *u)
{
    const struct process_start start = { .what = START_UPLOAD,
                                         .flags = START_STDIN,
                                         .user = u->setup.user,
                                         .cwd = "/",
                                         .argv = u->attributes };

    for (size_t i = 0; i < u->setup.n_attributes; i++)
        u->attributes[i] = u->setup.attributes[i];
    u->state = UPLOAD_STARTING;
    u->running = true;
    u->op = (struct run_op){ .events = &upload_op_events, .actor = &u->call->caller.actor };
    call_ref(u->call);
    sandbox_run(u->call->sandbox, &start, &u->op);
}

/* --- stdin of the operation --- */

static void on_upload_input_room(struct loop_fd *s, unsigned events)
{
    struct upload *u = container_of(s, struct upload, input);

    loop_fd_stop(s);
    advance_upload(u);
}

/* True: all framed data was written. If the operation closes its stdin, its end has the reason. */
static bool write_upload_input(struct upload *u)
{
    while (u->in >= 0 && u->framed.n) {
        ssize_t n = write(u->in, u->framed.p, u->framed.n);

        if (n >= 0) {
            buf_drop(&u->framed, (size_t)n);
        } else if (errno == EAGAIN) {
            loop_fd_stop(&u->input);
            loop_fd_start(u->call->api->loop, &u->input, u->in, LOOP_WRITE, on_upload_input_room,
                          NULL);
            return false;
        } else if (errno != EINTR) {
            drop_fd(&u->in);
        }
    }
    if (u->in < 0)
        buf_clear(&u->framed);
    return true;
}

static void frame_record(struct upload *u, enum backend_upload kind, struct str data)
{
    char head[BACKEND_UPLOAD_HEAD];

    backend_upload_head(kind, (uint32_t)data.n, head);
    buf_add(&u->framed, (struct str){ head, sizeof head }); /* fits: the buffer was empty */
    buf_add(&u->framed, data);
}

/* --- files --- */

static int start_upload_file(struct upload *u, const char *path, struct err *e)
{
    struct str text = str_from(path);

    if (u->files == BACKEND_UPLOAD_FILES_MAX)
        return err_set(e, ERR_TOO_BIG, "more than %d files at once", BACKEND_UPLOAD_FILES_MAX);
    if (text.n > BACKEND_UPLOAD_TEXT_MAX - u->text)
        return err_set(e, ERR_TOO_BIG, "the paths have more than %d bytes",
                       BACKEND_UPLOAD_TEXT_MAX);
    u->files++;
    u->text += text.n;
    u->path = path;
    frame_record(u, BACKEND_UPLOAD_FILE, text);
    if (u->running)
        u->state = UPLOAD_WRITING;
    else
        start_operation(u);
    return 0;
}

static void finish_upload_file(struct upload *u)
{
    u->state = UPLOAD_NEXT;
    if (u->setup.events->taken)
        u->setup.events->taken(u->call, u->path);
}

static int commit_upload(struct upload *u, struct err *e)
{
    int r = u->setup.events->complete ? u->setup.events->complete(u->call, e) : 0;

    if (r < 0)
        return r;
    u->state = u->files ? UPLOAD_COMMITTING : UPLOAD_OVER;
    if (u->files) {
        frame_record(u, BACKEND_UPLOAD_COMMIT, STR(""));
        (void)write_upload_input(u);
    } else {
        u->setup.events->done(u->call);
    }
    return 0;
}

/* --- parts --- */

/* Whether `raw` holds the whole rest of the body. */
static bool body_is_complete(const struct upload *u)
{
    return u->body_over && !u->packed.n && (!u->gunzip || gunzip_is_finished(u->gunzip));
}

static int begin_form_part(struct upload *u, struct err *e)
{
    const struct multipart *m = &u->multipart;
    const char *path = NULL;
    int r = u->setup.events->part(u->call, m->name, m->has_filename ? m->filename : NULL, &path, e);

    if (r < 0 || path)
        return r < 0 ? r : start_upload_file(u, path, e);
    u->state = UPLOAD_FIELD;
    return 0;
}

static int end_form_part(struct upload *u, struct err *e)
{
    int r;

    if (u->state != UPLOAD_FIELD) {
        finish_upload_file(u);
        return 0;
    }
    u->state = UPLOAD_NEXT;
    if (!u->setup.events->field)
        return 0;
    r = u->setup.events->field(u->call, u->multipart.name, buf_str(&u->field), e);
    buf_clear(&u->field);
    return r;
}

static int take_form_event(struct upload *u, const struct multipart_event *v, struct err *e)
{
    switch (v->kind) {
    case MULTIPART_PART:
        return begin_form_part(u, e);
    case MULTIPART_DATA:
        if (u->state != UPLOAD_FIELD)
            frame_record(u, BACKEND_UPLOAD_DATA, v->data);
        else if (u->setup.events->field && buf_add(&u->field, v->data) < 0)
            return err_set(e, ERR_TOO_BIG, "multipart: '%.64s' has more than %d bytes",
                           u->multipart.name, UPLOAD_FIELD_MAX);
        return 0;
    case MULTIPART_PART_END:
        return end_form_part(u, e);
    case MULTIPART_END:
        return body_is_complete(u) ? commit_upload(u, e) : 0;
    default:
        return 0;
    }
}

/* False: more input is needed. */
static bool parse_form_part(struct upload *u)
{
    struct multipart_event v;
    struct str in = buf_str(&u->raw);
    struct err e;
    ssize_t n;

    if (in.n > PIECE)
        in.n = PIECE;
    n = multipart_next(&u->multipart, in, &v, &e);
    if (n == 0 && v.kind == MULTIPART_MORE && body_is_complete(u))
        n = err_set(&e, ERR_INVALID, "multipart: the body ends before the last boundary");
    if (n < 0 || take_form_event(u, &v, &e) < 0) {
        fail_upload(u, &e);
        return false;
    }
    buf_drop(&u->raw, (size_t)n);
    return n > 0;
}

/* Passes the body on as a single file. */
static bool take_single_file(struct upload *u)
{
    struct str in = buf_str(&u->raw);
    struct err e;

    if (u->state == UPLOAD_WRITING && in.n) {
        in.n = in.n < PIECE ? in.n : PIECE;
        frame_record(u, BACKEND_UPLOAD_DATA, in);
        buf_drop(&u->raw, in.n);
        return true;
    }
    if (u->state == UPLOAD_WRITING && !body_is_complete(u))
        return false;
    if (u->state == UPLOAD_WRITING)
        finish_upload_file(u);
    if ((u->files ? commit_upload(u, &e) : start_upload_file(u, u->setup.whole, &e)) < 0)
        fail_upload(u, &e);
    return false;
}

/* Decompresses from `packed` to `raw`, if necessary. False: the data is damaged, which is
 * answered. */
static bool unpack_upload(struct upload *u)
{
    struct str in = buf_str(&u->packed);
    struct err e;
    ssize_t n = 1;
    char *room;

    if (!u->gunzip)
        return true;
    while (n > 0 && u->raw.n < PIECE && buf_room(&u->raw, PIECE, &room) >= 0) {
        n = gunzip_some(u->gunzip, &in, room, PIECE, &e);
        if (n > 0)
            buf_grew(&u->raw, (size_t)n);
    }
    buf_drop(&u->packed, u->packed.n - in.n);
    if (n == 0 && u->body_over && !gunzip_is_finished(u->gunzip))
        n = err_set(&e, ERR_INVALID, "gzip: the data is truncated");
    if (n < 0)
        fail_upload(u, &e);
    return n >= 0;
}

static void pace_body(struct upload *u)
{
    bool full = u->raw.n + u->packed.n > PIECE;

    if (!u->call->x || u->body_over || full == u->paused)
        return;
    u->paused = full;
    if (full)
        http_body_pause(u->call->x);
    else
        http_body_resume(u->call->x);
}

static void advance_upload(struct upload *u)
{
    if (u->state == UPLOAD_COMMITTING)
        (void)write_upload_input(u);
    while ((u->state == UPLOAD_NEXT || u->state == UPLOAD_FIELD || u->state == UPLOAD_WRITING) &&
           write_upload_input(u) && unpack_upload(u) &&
           (u->setup.whole ? take_single_file(u) : parse_form_part(u)))
        ;
    pace_body(u);
}

static void on_upload_body(struct http_exchange *x, struct str data)
{
    struct call *c = http_state(x);
    struct upload *u = c->state;
    struct err e;

    if (is_settled(u))
        return;
    u->body_over = data.n == 0;
    if (buf_add(u->gunzip ? &u->packed : &u->raw, data) < 0) {
        (void)err_set(&e, ERR_BUG,
                      "internal error: a piece of the request body has %zu bytes, more than its "
                      "buffer can take",
                      data.n);
        fail_upload(u, &e);
        return;
    }
    call_ref(c);
    advance_upload(u);
    call_unref(c);
}

void upload_start(struct call *c, const struct upload_setup *setup)
{
    struct upload *u = call_state(c, sizeof *u, release_upload);
    struct err e;

    u->call = c;
    u->setup = *setup;
    u->in = -1;
    call_own_buf(c, &u->packed, RAW_MAX);
    call_own_buf(c, &u->raw, RAW_MAX);
    call_own_buf(c, &u->framed, FRAMED_MAX);
    call_own_buf(c, &u->field, UPLOAD_FIELD_MAX);
    if (setup->packed)
        u->gunzip = gunzip_new();
    c->on_gone = on_upload_client_gone;
    if (!setup->whole && multipart_init(&u->multipart, call_header(c, "Content-Type"), &e) < 0)
        fail_upload(u, &e);
    else
        http_stream(c->x, on_upload_body);
}

void *upload_owner(const struct call *c)
{
    const struct upload *u = c->state;

    return u->setup.owner;
}
