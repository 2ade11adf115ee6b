/* SPDX-License-Identifier: Apache-2.0 */
/* Encoders for foreground programs: NDJSON, one collected JSON answer, and passed descriptors. */
#include "edge/core/exec.h"

#include "lib/crypto/encode.h"

enum {
    CONTROL_LINE_MAX = 4096,
    LINE_MAX_BYTES = 1 << 20,
    COLLECT_MAX = 1 << 20,
    COLLECT_KEPT_MAX = 64 << 10
};

/* --- lines --- */

static int send_ndjson_event(struct exec *x, call_write_fn *write, const void *what)
{
    struct buf line AUTO(buf_done) = BUF_INIT(LINE_MAX_BYTES);
    struct json_writer w;
    int r;

    json_writer_init(&w, &line, JSON_COMPACT);
    write(&w, what);
    json_writer_finish(&w, NULL);
    buf_add_c(&line, '\n');
    r = http_write(x->call->x, buf_str(&line), NULL);
    if (r < 0) /* cut, so that the client does not mistake a part for the whole */
        http_cut(call_take_exchange(x->call));
    return r;
}

static void on_ndjson_drain(struct http_exchange *h)
{
    struct call *c = http_state(h);

    exec_resume(c->state);
}

/* The token of the caller ended: the program is killed as if the client had disconnected. */
static void on_ndjson_token_ended(struct http_exchange *h)
{
    struct call *c = call_ref(http_state(h));

    if (send_ndjson_event(c->state, problem_write_token_ended, NULL) >= 0)
        http_end(call_take_exchange(c));
    exec_abandon(c->state);
    call_unref(c);
}

static bool on_ndjson_started(struct exec *x)
{
    if (!call_begin_lines(x->call, on_ndjson_drain))
        return false;
    http_on_ended(x->call->x, on_ndjson_token_ended);
    send_ndjson_event(x, exec_write_started, x);
    return true;
}

struct bytes_answer bytes_answer(struct str data, struct buf *room)
{
    if (str_is_utf8(data))
        return (struct bytes_answer){ .text = data.p ? data : STR("") };
    crypto_base64(data, room);
    return (struct bytes_answer){ .base64 = buf_str(room) };
}

void bytes_write(struct json_writer *w, const char *key, const char *key_b64, struct str data)
{
    struct buf room AUTO(buf_done) = BUF_INIT(4 * COLLECT_MAX);
    struct bytes_answer a = bytes_answer(data, &room);

    if (a.text.p)
        json_field_str(w, key, a.text);
    else
        json_field_str(w, key_b64, a.base64);
}

void exec_write_output(struct json_writer *w, const void *output)
{
    const struct exec_output *o = output;

    json_begin_object(w);
    json_field_str(w, "event", o->channel == 2 ? STR("stderr") : STR("stdout"));
    bytes_write(w, "data", "data_b64", o->data);
    json_end_object(w);
}

static bool on_ndjson_output(struct exec *x, int channel, struct str data)
{
    return send_ndjson_event(x, exec_write_output, &(struct exec_output){ channel, data }) == 0;
}

static void on_ndjson_ended(struct exec *x, const struct backend_end *end)
{
    if (send_ndjson_event(x, exec_write_ended, &(struct exec_ended){ end, x->own }) >= 0)
        http_end(call_take_exchange(x->call));
}

void exec_fail_plain(struct exec *x, const struct err *e)
{
    call_fail_sandbox(x->call, e, call_sandbox_id(x->call), x->op.process.step);
}

const struct exec_encoder exec_ndjson = {
    .started = on_ndjson_started,
    .output = on_ndjson_output,
    .ended = on_ndjson_ended,
    .failed = exec_fail_plain,
};

/* --- one answer --- */

static bool on_collect_started(struct exec *x)
{
    for (int i = 0; i < 2; i++) /* results of approved calls are stored: smaller limit */
        buf_init(&x->out[i], x->call->approved ? COLLECT_KEPT_MAX : COLLECT_MAX);
    return true;
}

static bool on_collect_output(struct exec *x, int channel, struct str data)
{
    struct buf *to = &x->out[channel - 1];

    if (data.n > to->max - to->n) {
        data.n = to->max - to->n;
        x->truncated = true;
    }
    buf_add(to, data);
    return true;
}

struct collected_answer {
    struct ended_answer ended;
    struct process_answer process;
    struct bytes_answer out, err;
    bool truncated;
};

#define AT(member) JSON_AT(struct collected_answer, member)

static const struct json_field collected_fields[] = {
    { "process", JSON_KIND_OBJECT, AT(process), .required = true, .schema = "Process",
      .fields = process_answer_fields, .field_count = PROCESS_ANSWER_FIELDS },
    ENDED_FIELDS(struct collected_answer, true),
    { "stdout", JSON_KIND_SLICE, AT(out.text) },
    { "stdout_b64", JSON_KIND_SLICE, AT(out.base64) },
    { "stderr", JSON_KIND_SLICE, AT(err.text) },
    { "stderr_b64", JSON_KIND_SLICE, AT(err.base64) },
    { "truncated", JSON_KIND_BOOL, AT(truncated), .required = true },
};
static const struct json_shape collected_answer = { "Collected", JSON_FIELDS(collected_fields) };
const struct json_shape *const answers_collected[] = { &collected_answer, NULL };

static void answer_collected(const struct exec *x)
{
    struct buf out AUTO(buf_done) = BUF_INIT(4 * COLLECT_MAX);
    struct buf err AUTO(buf_done) = BUF_INIT(4 * COLLECT_MAX);
    struct collected_answer a = { .process = exec_process_answer(x),
                                  .out = bytes_answer(buf_str(&x->out[0]), &out),
                                  .err = bytes_answer(buf_str(&x->out[1]), &err),
                                  .truncated = x->truncated };

    ended_answer_fill(&a.ended, &x->end, x->own);
    call_answer_as(x->call, 200, &collected_answer, &a);
}

static void on_collect_ended(struct exec *x, const struct backend_end *end)
{
    answer_collected(x);
}

const struct exec_encoder exec_collect = {
    .started = on_collect_started,
    .output = on_collect_output,
    .ended = on_collect_ended,
    .failed = exec_fail_plain,
};

/* --- the descriptors themselves --- */

/* Control messages are lines; a piece may contain several, or a part of one. */
static void on_stdio_message(struct http_exchange *h, struct str data)
{
    struct call *c = http_state(h);
    struct exec *x = c->state;
    struct buf *in = &x->out[0];

    while (data.n) {
        size_t n = str_find(data, '\n');

        if (buf_add(in, (struct str){ data.p, n }) < 0)
            buf_clear(in); /* too long for a control message */
        if (n == data.n)
            return;
        exec_control(x, str_trim(buf_str(in)));
        buf_clear(in);
        data = (struct str){ data.p + n + 1, data.n - n - 1 };
    }
}

static bool on_stdio_started(struct exec *x)
{
    static const struct h1_field fields[] = { { { "Upgrade", 7 }, { "sandboxer-stdio", 15 } } };
    struct buf line AUTO(buf_done) = BUF_INIT(4096);
    int fds[BACKEND_STDIO_MAX], *stdio = x->op.process.stdio;
    struct json_writer w;
    size_t n = 0;
    struct err e;

    for (int i = 0; i < BACKEND_STDIO_MAX; i++)
        if (stdio[i] >= 0)
            fds[n++] = stdio[i];
    json_writer_init(&w, &line, JSON_COMPACT);
    exec_write_started(&w, x);
    json_writer_finish(&w, NULL);
    buf_add_c(&line, '\n');
    buf_init(&x->out[0], CONTROL_LINE_MAX);
    if (http_upgrade(x->call->x, fields, 1, on_stdio_message, &e) < 0 ||
        http_write_fds(x->call->x, buf_str(&line), fds, n, &e) < 0) {
        http_fail(call_take_exchange(x->call), 500, str_from(e.msg));
        return false;
    }
    for (int i = 0; i < BACKEND_STDIO_MAX; i++)
        drop_fd(&stdio[i]);
    return true;
}

const struct exec_encoder exec_stdio = {
    .started = on_stdio_started,
    .output = NULL,
    .ended = on_ndjson_ended,
    .failed = exec_fail_plain,
};

const struct exec_encoder *exec_encoder_for(const struct call *c)
{
    const struct h1_head *h = &http_request(c->x)->head;

    /* TCP cannot pass descriptors: the upgrade is ignored, as HTTP allows. */
    if (h->upgrade && str_eq(h->proto, STR("sandboxer-stdio")) && http_peer(c->x)->is_unix)
        return &exec_stdio;
    return call_accepts(c, "application/json") ? &exec_collect : &exec_ndjson;
}
