/* How a program in the foreground looks on the wire. */
#include "api/exec.h"

#include "crypto/encode.h"

enum {
    CONTROL_LINE_MAX = 4096,
    LINE_MAX_BYTES = 1 << 20,
    COLLECT_MAX = 1 << 20,
    COLLECT_KEPT_MAX = 64 << 10
};

/* --- lines --- */

static int send_line(struct exec *x, const struct buf *line)
{
    int r = http_write(x->call->x, buf_str(line), NULL);

    if (r < 0) /* cut: a client must not take half of it for all */
        http_cut(call_take_exchange(x->call));
    return r;
}

static void ndjson_drained(struct http_exchange *h)
{
    struct call *c = http_state(h);

    exec_resume(c->state);
}

/* Its token has ended: so does the program, as for a client that left. */
static void on_ndjson_token_ended(struct http_exchange *h)
{
    struct buf line AUTO(buf_done) = BUF_INIT(4096);
    struct call *c = call_ref(http_state(h));
    struct json_writer w;

    json_writer_init(&w, &line, JSON_COMPACT);
    problem_write_token_ended(&w);
    json_writer_finish(&w, NULL);
    buf_add_c(&line, '\n');
    if (send_line(c->state, &line) >= 0)
        http_end(call_take_exchange(c));
    exec_gone(c->state);
    call_unref(c);
}

static bool ndjson_started(struct exec *x)
{
    static const struct h1_field fields[] = {
        { { "Content-Type", 12 }, { "application/x-ndjson", 20 } },
        { { "Cache-Control", 13 }, { "no-store", 8 } },
    };
    struct buf line AUTO(buf_done) = BUF_INIT(4096);
    struct json_writer w;
    struct err e;

    if (http_begin(x->call->x, 200, fields, 2, HTTP_UNKNOWN, &e) < 0) {
        call_fail(x->call, &e);
        return false;
    }
    http_on_drain(x->call->x, ndjson_drained);
    http_on_ended(x->call->x, on_ndjson_token_ended);
    json_writer_init(&w, &line, JSON_COMPACT);
    exec_write_started(&w, x);
    json_writer_finish(&w, NULL);
    buf_add_c(&line, '\n');
    send_line(x, &line);
    return true;
}

/* Text as text; what is not UTF-8 in base64, so that nothing is lost. */
void bytes_write(struct json_writer *w, const char *key, const char *key_b64, struct str data)
{
    struct buf text AUTO(buf_done) = BUF_INIT(4 * COLLECT_MAX);

    if (str_is_utf8(data)) {
        json_key(w, str_from(key));
        json_put_str(w, data);
        return;
    }
    crypto_base64(data, &text);
    json_key(w, str_from(key_b64));
    json_put_str(w, buf_str(&text));
}

void exec_write_output(struct json_writer *w, int channel, struct str data)
{
    json_begin_object(w);
    json_key(w, STR("event"));
    json_put_str(w, channel == 2 ? STR("stderr") : STR("stdout"));
    bytes_write(w, "data", "data_b64", data);
    json_end_object(w);
}

static bool ndjson_output(struct exec *x, int channel, struct str data)
{
    struct buf line AUTO(buf_done) = BUF_INIT(LINE_MAX_BYTES);
    struct json_writer w;

    json_writer_init(&w, &line, JSON_COMPACT);
    exec_write_output(&w, channel, data);
    json_writer_finish(&w, NULL);
    buf_add_c(&line, '\n');
    return send_line(x, &line) == 0;
}

static void ndjson_ended(struct exec *x, const struct ext_end *end)
{
    struct buf line AUTO(buf_done) = BUF_INIT(4096);
    struct json_writer w;

    json_writer_init(&w, &line, JSON_COMPACT);
    exec_write_ended(&w, end, x->own);
    json_writer_finish(&w, NULL);
    buf_add_c(&line, '\n');
    if (send_line(x, &line) >= 0)
        http_end(call_take_exchange(x->call));
}

static void plain_failed(struct exec *x, const struct err *e)
{
    call_fail_sandbox(x->call, e, sandbox_view(x->call->sandbox).record->id, x->op.process.step);
}

const struct exec_face exec_ndjson = {
    .started = ndjson_started,
    .output = ndjson_output,
    .ended = ndjson_ended,
    .failed = plain_failed,
};

/* --- one answer --- */

static bool collect_started(struct exec *x)
{
    for (int i = 0; i < 2; i++) /* what is kept on disk is less */
        buf_init(&x->out[i], x->call->approved ? COLLECT_KEPT_MAX : COLLECT_MAX);
    return true;
}

static bool collect_output(struct exec *x, int channel, struct str data)
{
    struct buf *to = &x->out[channel - 1];

    if (data.n > to->max - to->n) {
        data.n = to->max - to->n;
        x->truncated = true;
    }
    buf_add(to, data);
    return true;
}

static void write_collected(struct json_writer *w, const void *what)
{
    const struct exec *x = what;

    json_begin_object(w);
    exec_process_field(w, x);
    exec_end_fields(w, &x->end, x->own);
    bytes_write(w, "stdout", "stdout_b64", buf_str(&x->out[0]));
    bytes_write(w, "stderr", "stderr_b64", buf_str(&x->out[1]));
    json_key(w, STR("truncated"));
    json_put_bool(w, x->truncated);
    json_end_object(w);
}

static void collect_ended(struct exec *x, const struct ext_end *end)
{
    (void)end;
    call_answer(x->call, 200, write_collected, x);
}

const struct exec_face exec_collect = {
    .started = collect_started,
    .output = collect_output,
    .ended = collect_ended,
    .failed = plain_failed,
};

/* --- the descriptors themselves --- */

/* Messages are lines; a piece may hold several, or a part of one. */
static void stdio_heard(struct http_exchange *h, struct str data)
{
    struct call *c = http_state(h);
    struct exec *x = c->state;
    struct buf *in = &x->out[0];

    while (data.n) {
        size_t n = str_find(data, '\n');

        if (buf_add(in, (struct str){ data.p, n }) < 0)
            buf_clear(in); /* too long to be one of ours */
        if (n == data.n)
            return;
        exec_control(x, str_trim(buf_str(in)));
        buf_clear(in);
        data = (struct str){ data.p + n + 1, data.n - n - 1 };
    }
}

static bool stdio_started(struct exec *x)
{
    static const struct h1_field fields[] = { { { "Upgrade", 7 }, { "sandboxer-stdio", 15 } } };
    struct buf line AUTO(buf_done) = BUF_INIT(4096);
    int fds[EXT_STDIO_MAX], *stdio = x->op.process.stdio;
    struct json_writer w;
    size_t n = 0;
    struct err e;

    buf_init(&x->out[0], CONTROL_LINE_MAX);
    for (int i = 0; i < EXT_STDIO_MAX; i++)
        if (stdio[i] >= 0)
            fds[n++] = stdio[i];
    json_writer_init(&w, &line, JSON_COMPACT);
    exec_write_started(&w, x);
    json_writer_finish(&w, NULL);
    buf_add_c(&line, '\n');
    buf_init(&x->out[0], CONTROL_LINE_MAX);
    if (http_upgrade(x->call->x, fields, 1, stdio_heard, &e) < 0 ||
        http_write_fds(x->call->x, buf_str(&line), fds, n, &e) < 0) {
        http_fail(call_take_exchange(x->call), 500, str_from(e.msg));
        return false;
    }
    for (int i = 0; i < EXT_STDIO_MAX; i++)
        drop_fd(&stdio[i]);
    return true;
}

const struct exec_face exec_stdio = {
    .started = stdio_started,
    .output = NULL,
    .ended = ndjson_ended,
    .failed = plain_failed,
};

const struct exec_face *exec_face_for(const struct call *c)
{
    const struct h1_head *h = &http_request(c->x)->head;

    /* On TCP nobody could take the descriptors: the upgrade is not accepted, as HTTP allows. */
    if (h->upgrade && str_eq(h->proto, STR("sandboxer-stdio")) && http_peer(c->x)->is_unix)
        return &exec_stdio;
    return call_accepts(c, "application/json") ? &exec_collect : &exec_ndjson;
}
