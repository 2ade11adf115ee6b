/* SPDX-License-Identifier: Apache-2.0 */
/* Bulk download: a multipart answer with one part per file, in the order of the request. The part
 * of a file that cannot be read contains the error. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "edge/daytona/internal.h"
#include "base/own.h"
#include "edge/core/file_take.h"
#include "lib/crypto/random.h"
#include "lib/crypto/encode.h"

enum { FILES_MAX = 10000, PIECE = 64 << 10, HEAD_MAX = 32 << 10 };

struct bulk_download {
    struct call *call;
    struct json_strs paths; /* as in the request */
    size_t next;            /* index after the current file */
    const char *argv[2];
    struct run_op op;
    struct loop_fd output;
    int out;
    bool in_part; /* the head of the part is sent */
    bool ended, full, over;
    struct err failure;
    char boundary[40];
};

static void close_download_output(void *state)
{
    struct bulk_download *d = state;

    loop_fd_stop(&d->output);
    drop_fd(&d->out);
}

static void on_download_client_gone(struct call *c)
{
    struct bulk_download *d = c->state;

    d->over = true;
    close_download_output(d);
}

static void cut_download(struct bulk_download *d)
{
    d->over = true;
    close_download_output(d);
    http_cut(call_take_exchange(d->call));
}

static bool write_download(struct bulk_download *d, struct str text)
{
    int r = http_write(d->call->x, text, NULL);

    if (r < 0)
        cut_download(d);
    d->full |= r > 0;
    return r >= 0;
}

/* --- parts --- */

/* Adds the file's name; non-ASCII names use the extended notation, because clients read plain names
 * as Latin-1. */
static void add_filename(struct buf *head, struct str name)
{
    for (size_t i = 0; i < name.n; i++)
        if (name.p[i] < ' ' || name.p[i] > '~' || name.p[i] == '"' || name.p[i] == '\\') {
            buf_addf(head, "filename*=utf-8''");
            url_encode(head, name);
            return;
        }
    buf_addf(head, "filename=\"" STR_FMT "\"", STR_ARG(name));
}

static bool write_part_head(struct bulk_download *d, const char *name, const char *type)
{
    struct buf head AUTO(buf_done) = BUF_INIT(HEAD_MAX);

    buf_addf(&head, "--%s\r\nContent-Disposition: form-data; name=\"%s\"; ", d->boundary, name);
    add_filename(&head, str_from(d->paths.p[d->next - 1]));
    buf_addf(&head, "\r\nContent-Type: %s\r\n\r\n", type);
    return write_download(d, buf_str(&head));
}

/* Clients search the message for these words, and treat the word "directory" as such. */
static void write_failure_json(struct json_writer *w, const struct err *e, const char *path)
{
    int status = problem_status(e->code);
    char text[320];

    snprintf(text, sizeof text, "file not found: %.240s", path);
    json_begin_object(w);
    json_field_int(w, "statusCode", status);
    json_field_text(w, "message", status == 404 ? text : e->msg);
    json_field_text(w, "code",
                    status == 404   ? "FILE_NOT_FOUND"
                    : status == 403 ? "FILE_ACCESS_DENIED"
                                    : "FILE_READ_FAILED");
    json_field_text(w, "source", "DAYTONA_DAEMON");
    json_end_object(w);
}

static bool write_failure_part(struct bulk_download *d, const struct err *e)
{
    struct buf text AUTO(buf_done) = BUF_INIT(HEAD_MAX);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    write_failure_json(&w, e, d->paths.p[d->next - 1]);
    if (json_writer_finish(&w, NULL) < 0 || buf_add(&text, STR("\r\n")) < 0)
        return false;
    return write_part_head(d, "error", "application/json") && write_download(d, buf_str(&text));
}

/* --- one file after the other --- */

static void begin_next_file(struct bulk_download *d);

static void finish_download(struct bulk_download *d)
{
    char last[64];

    snprintf(last, sizeof last, "--%s--\r\n", d->boundary);
    if (!write_download(d, str_from(last)))
        return;
    d->over = true;
    http_end(call_take_exchange(d->call));
}

static bool end_file_part(struct bulk_download *d)
{
    if (d->failure.code &&
        d->in_part) { /* a client must not mistake a partial file for a complete one */
        cut_download(d);
        return false;
    }
    if (d->failure.code)
        return write_failure_part(d, &d->failure);
    if (!d->in_part && !write_part_head(d, "file", "application/octet-stream"))
        return false;
    return write_download(d, STR("\r\n"));
}

static void finish_file_if_done(struct bulk_download *d)
{
    if (d->over || !d->ended || d->out >= 0 || !end_file_part(d))
        return;
    begin_next_file(d);
}

static void resume_download_output(struct bulk_download *d);

static void on_download_output(struct loop_fd *s, unsigned events)
{
    static char room[PIECE];
    struct bulk_download *d = container_of(s, struct bulk_download, output);
    struct call *c = d->call;
    ssize_t n = read(d->out, room, sizeof room);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    call_ref(c);
    if (n <= 0) {
        close_download_output(d);
        finish_file_if_done(d);
    } else if ((d->in_part || write_part_head(d, "file", "application/octet-stream")) &&
               write_download(d, (struct str){ room, (size_t)n })) {
        d->in_part = true;
        if (d->full)
            loop_fd_stop(&d->output);
    }
    call_unref(c);
}

static void resume_download_output(struct bulk_download *d)
{
    if (d->out >= 0 && !d->full)
        loop_fd_start(d->call->api->loop, &d->output, d->out, LOOP_READ, on_download_output, NULL);
}

static void on_download_drained(struct http_exchange *x)
{
    struct call *c = http_state(x);
    struct bulk_download *d = c->state;

    if (!d->full || d->over)
        return;
    d->full = false;
    resume_download_output(d);
}

static void on_download_started(struct run_op *op, int r, const struct err *e)
{
    struct bulk_download *d = container_of(op, struct bulk_download, op);
    struct call *c = d->call;

    if (r < 0) {
        d->ended = true;
        d->failure = *e;
        finish_file_if_done(d);
        call_unref(c);
        return;
    }
    drop_fd(&op->process.stdio[0]);
    d->out = take_fd(&op->process.stdio[1]);
    drop_fd(&op->process.stdio[2]);
    if (d->over)
        close_download_output(d);
    resume_download_output(d);
}

static void on_download_ended(struct run_op *op, const struct backend_end *end)
{
    struct bulk_download *d = container_of(op, struct bulk_download, op);
    struct call *c = d->call;

    d->ended = true;
    file_failure(end, &d->failure);
    finish_file_if_done(d);
    call_unref(c); /* held by the operation */
}

static const struct run_op_events events = { .started = on_download_started,
                                             .ended = on_download_ended };

static void begin_next_file(struct bulk_download *d)
{
    const struct process_start start = {
        .what = START_READ, .user = DAYTONA_USER, .cwd = "/", .argv = d->argv
    };

    if (d->next == d->paths.n) {
        finish_download(d);
        return;
    }
    d->argv[0] = daytona_path(d->call, str_from(d->paths.p[d->next++]));
    d->in_part = d->ended = false;
    d->failure = (struct err){ 0 };
    d->op = (struct run_op){ .events = &events, .actor = &d->call->caller.actor };
    call_ref(d->call);
    sandbox_run(d->call->sandbox, &start, &d->op);
}

/* --- the request --- */

struct bulk_download_request {
    struct json_strs paths;
};

static const struct json_field fields[] = {
    { "paths", JSON_KIND_STRS, JSON_AT(struct bulk_download_request, paths), .required = true,
      .max = FILES_MAX },
};

static int make_boundary(char ret[static 40], struct err *e)
{
    struct buf text AUTO(buf_done) = BUF_INIT(40);
    char bytes[16];
    int r = crypto_random(bytes, sizeof bytes, e);

    if (r < 0)
        return r;
    crypto_hex((struct str){ bytes, sizeof bytes }, &text);
    return str_copy(buf_str(&text), ret, 40) ? 0 : -(int)ERR_BUG;
}

static bool begin_download_answer(struct bulk_download *d)
{
    char type[96];
    struct h1_field head[] = { { STR("Content-Type"), STR("") },
                               { STR("Cache-Control"), STR("no-store") } };
    struct err e;

    if (make_boundary(d->boundary, &e) < 0) {
        call_fail(d->call, &e);
        return false;
    }
    snprintf(type, sizeof type, "multipart/form-data; boundary=%s", d->boundary);
    head[0].value = str_from(type);
    if (http_begin(d->call->x, 200, head, COUNT_OF(head), HTTP_UNKNOWN, &e) < 0) {
        http_fail(call_take_exchange(d->call), 500, str_from(e.msg));
        return false;
    }
    http_on_drain(d->call->x, on_download_drained);
    return true;
}

/* Returns false after it has answered the call. */
static bool check_download_paths(struct call *c, const struct json_strs *paths)
{
    if (!paths->n) {
        call_fail_with(c, 400, "BAD_REQUEST", "paths: must not be empty");
        return false;
    }
    for (size_t i = 0; i < paths->n; i++)
        if (!daytona_path(c, str_from(paths->p[i])))
            return false;
    return true;
}

static void download_many(struct call *c)
{
    struct bulk_download_request q = { 0 };
    struct bulk_download *d;

    if (!daytona_read_body(c, fields, COUNT_OF(fields), &q) || !check_download_paths(c, &q.paths))
        return;
    d = call_state(c, sizeof *d, close_download_output);
    d->call = c;
    d->paths = q.paths;
    d->out = -1;
    c->on_gone = on_download_client_gone;
    if (begin_download_answer(d))
        begin_next_file(d);
}

const struct route routes_daytona_download[] = {
    { H1_POST, VERB_FILES, DAYTONA_INSIDE "/files/bulk-download", DAYTONA_LIVE | ROUTE_JSON,
      .handle = download_many },
    { .path = NULL },
};
