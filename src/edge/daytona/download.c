/* Several files in one answer: a form with a part for each, in the order they were asked for. A
 * file that cannot be read is a part that says why. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/daytona/inside.h"
#include "api/file_take.h"
#include "crypto/random.h"
#include "crypto/encode.h"

enum { FILES_MAX = 10000, PIECE = 64 << 10, HEAD_MAX = 32 << 10 };

struct download {
    struct call *call;
    struct json_strs paths; /* as they were asked for */
    size_t next;            /* behind the one that is under way */
    const char *argv[2];
    struct run_op op;
    struct loop_fd output;
    int out;
    bool in_part; /* its head was told */
    bool ended, full, over;
    struct err failure;
    char boundary[40];
};

static void download_end(struct call *c)
{
    struct download *d = c->state;

    loop_fd_stop(&d->output);
    drop_fd(&d->out);
    free(d);
}

static void close_output(struct download *d)
{
    loop_fd_stop(&d->output);
    drop_fd(&d->out);
}

static void download_gone(struct call *c)
{
    struct download *d = c->state;

    d->over = true;
    close_output(d);
}

static void cut(struct download *d)
{
    d->over = true;
    close_output(d);
    http_cut(call_take_exchange(d->call));
}

static bool say(struct download *d, struct str text)
{
    int r = http_write(d->call->x, text, NULL);

    if (r < 0)
        cut(d);
    d->full |= r > 0;
    return r >= 0;
}

/* --- parts --- */

/* Readers take plain names for Latin-1: whatever is not plain is encoded. */
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

static bool say_head(struct download *d, const char *name, const char *type)
{
    struct buf head AUTO(buf_done) = BUF_INIT(HEAD_MAX);

    buf_addf(&head, "--%s\r\nContent-Disposition: form-data; name=\"%s\"; ", d->boundary, name);
    add_filename(&head, str_from(d->paths.p[d->next - 1]));
    buf_addf(&head, "\r\nContent-Type: %s\r\n\r\n", type);
    return say(d, buf_str(&head));
}

/* Clients look for these words, and take a "directory" for one. */
static void put_reason(struct json_writer *w, const struct err *e, int status, const char *path)
{
    char text[320];

    snprintf(text, sizeof text, "file not found: %.240s", path);
    put(w, "message", status == 404 ? text : e->msg);
}

static void write_reason(struct json_writer *w, const struct err *e, const char *path)
{
    int status = problem_status(e->code);

    json_begin_object(w);
    put_number(w, "statusCode", status);
    put_reason(w, e, status, path);
    put(w, "code",
        status == 404   ? "FILE_NOT_FOUND"
        : status == 403 ? "FILE_ACCESS_DENIED"
                        : "FILE_READ_FAILED");
    put(w, "source", "DAYTONA_DAEMON");
    json_end_object(w);
}

static bool say_failure(struct download *d, const struct err *e)
{
    struct buf text AUTO(buf_done) = BUF_INIT(HEAD_MAX);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    write_reason(&w, e, d->paths.p[d->next - 1]);
    if (json_writer_finish(&w, NULL) < 0 || buf_add(&text, STR("\r\n")) < 0)
        return false;
    return say_head(d, "error", "application/json") && say(d, buf_str(&text));
}

/* --- one file after the other --- */

static void begin_next(struct download *d);

static void finish_all(struct download *d)
{
    char last[64];

    snprintf(last, sizeof last, "--%s--\r\n", d->boundary);
    if (!say(d, str_from(last)))
        return;
    d->over = true;
    http_end(call_take_exchange(d->call));
}

static bool end_part(struct download *d)
{
    if (d->failure.code && d->in_part) { /* nobody shall take a part for the whole */
        cut(d);
        return false;
    }
    if (d->failure.code)
        return say_failure(d, &d->failure);
    if (!d->in_part && !say_head(d, "file", "application/octet-stream"))
        return false;
    return say(d, STR("\r\n"));
}

static void finish_if_over(struct download *d)
{
    if (d->over || !d->ended || d->out >= 0 || !end_part(d))
        return;
    begin_next(d);
}

static void read_more(struct download *d);

static void on_output(struct loop_fd *s, unsigned events)
{
    static char room[PIECE];
    struct download *d = container_of(s, struct download, output);
    struct call *c = d->call;
    ssize_t n = read(d->out, room, sizeof room);

    (void)events;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    call_ref(c);
    if (n <= 0) {
        close_output(d);
        finish_if_over(d);
    } else if ((d->in_part || say_head(d, "file", "application/octet-stream")) &&
               say(d, (struct str){ room, (size_t)n })) {
        d->in_part = true;
        if (d->full)
            loop_fd_stop(&d->output);
    }
    call_unref(c);
}

static void read_more(struct download *d)
{
    if (d->out >= 0 && !d->full)
        loop_fd_start(d->call->api->loop, &d->output, d->out, LOOP_READ, on_output, NULL);
}

static void on_drain(struct http_exchange *x)
{
    struct call *c = http_state(x);
    struct download *d = c->state;

    if (!d->full || d->over)
        return;
    d->full = false;
    read_more(d);
}

static void on_started(struct run_op *op, int r, const struct err *e)
{
    struct download *d = container_of(op, struct download, op);
    struct call *c = d->call;

    if (r < 0) {
        d->ended = true;
        d->failure = *e;
        finish_if_over(d);
        call_unref(c);
        return;
    }
    drop_fd(&op->process.stdio[0]);
    d->out = take_fd(&op->process.stdio[1]);
    drop_fd(&op->process.stdio[2]);
    if (d->over)
        close_output(d);
    read_more(d);
}

static void on_ended(struct run_op *op, const struct ext_end *end)
{
    struct download *d = container_of(op, struct download, op);
    struct call *c = d->call;

    d->ended = true;
    file_failure(end, &d->failure);
    finish_if_over(d);
    call_unref(c); /* the operation's */
}

static const struct run_op_events events = { .started = on_started, .ended = on_ended };

static void begin_next(struct download *d)
{
    const struct ext_start start = {
        .what = EXT_READ, .user = DAYTONA_USER, .cwd = "/", .argv = d->argv
    };

    if (d->next == d->paths.n) {
        finish_all(d);
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

struct asked {
    struct json_strs paths;
};

static const struct json_field fields[] = {
    { "paths", JSON_KIND_STRS, JSON_AT(struct asked, paths), .required = true, .max = FILES_MAX },
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

static bool begin_answer(struct download *d)
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
    http_on_drain(d->call->x, on_drain);
    return true;
}

/* False: it is answered. */
static bool check_paths(struct call *c, const struct json_strs *paths)
{
    if (!paths->n) {
        call_fail_with(c, 400, "BAD_REQUEST", "paths: at least one");
        return false;
    }
    for (size_t i = 0; i < paths->n; i++)
        if (!daytona_path(c, str_from(paths->p[i])))
            return false;
    return true;
}

static void download_many(struct call *c)
{
    struct asked q = { 0 };
    struct download *d;

    if (!daytona_read(c, fields, COUNT_OF(fields), &q) || !check_paths(c, &q.paths))
        return;
    d = calloc(1, sizeof *d);
    if (!d)
        abort();
    d->call = c;
    d->paths = q.paths;
    d->out = -1;
    c->state = d;
    c->on_end = download_end;
    c->on_gone = download_gone;
    if (begin_answer(d))
        begin_next(d);
}

const struct route routes_daytona_download[] = {
    { H1_POST, VERB_FILES, DAYTONA_INSIDE "/files/bulk-download", DAYTONA_LIVE | ROUTE_JSON,
      download_many, .face = &toolbox_files_face },
    { .path = NULL },
};
