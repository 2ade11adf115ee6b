/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>

#include "base/clock.h"
#include "base/own.h"
#include "lib/http/connection.h"

const struct h1_request *http_request(const struct http_exchange *x)
{
    return &x->request;
}

const struct http_peer *http_peer(const struct http_exchange *x)
{
    return &x->c->peer;
}

int http_connection_fd(const struct http_exchange *x)
{
    return x->c->peer.is_unix ? x->c->fd : -1;
}

int http_received_fd(const struct http_exchange *x)
{
    return x->c->received;
}

struct loop *http_loop(const struct http_exchange *x)
{
    return x->c->server->loop;
}

void *http_user(const struct http_exchange *x)
{
    return x->c->server->config.user;
}

void http_set_state(struct http_exchange *x, void *state)
{
    x->state = state;
}

void *http_state(const struct http_exchange *x)
{
    return x->state;
}

void http_on_gone(struct http_exchange *x, http_exchange_fn *on_gone)
{
    x->on_gone = on_gone;
}

void http_on_ended(struct http_exchange *x, http_exchange_fn *on_ended)
{
    x->on_ended = on_ended;
}

void http_on_drain(struct http_exchange *x, http_exchange_fn *on_drain)
{
    x->on_drain = on_drain;
}

size_t http_queued(const struct http_exchange *x)
{
    return output_queued(&x->c->out);
}

/* connection_run() continues by itself when this is called from inside it. */
static void continue_connection(struct http_exchange *x)
{
    if (!x->c->running)
        connection_kick(x->c);
}

/* --- The request's body --- */

static void set_patience(struct http_exchange *x)
{
    bool waits = !x->body.ended && !x->paused && x->patience > 0;

    x->rate_by = waits ? clock_mono() + x->patience : 0;
    x->c->read_deadline = x->rate_by;
}

/* A body that is streamed earns time with every byte, never more than its patience. */
void exchange_piece_came(struct http_exchange *x, size_t n)
{
    int64_t now, latest;

    if (x->mode == BODY_RAW || x->patience <= 0) {
        x->c->read_deadline = 0;
        return;
    }
    now = clock_mono();
    latest = now + x->patience;
    x->rate_by += (int64_t)((double)n / (double)x->c->server->config.body_rate * NS_PER_S);
    if (x->rate_by > latest || x->any_rate)
        x->rate_by = latest;
    x->c->read_deadline = x->rate_by;
}

static void want_body(struct http_exchange *x, enum body_mode mode, http_body_fn *call)
{
    x->mode = mode;
    x->on_body = call;
    x->body_told = false; /* the end of an empty body is reported, too */
    if (x->continue_due) {
        struct str go = STR("HTTP/1.1 100 Continue\r\n\r\n");

        x->continue_due = false;
        connection_send(x->c, &go, 1);
    }
    set_patience(x);
    continue_connection(x);
}

void http_collect(struct http_exchange *x, size_t max, http_body_fn *done)
{
    buf_init(&x->collected, max);
    if (x->body.framing == H1_LENGTH && x->body.left > max)
        x->continue_due = false; /* a client that sent Expect gets 413 instead of 100 */
    want_body(x, BODY_COLLECT, done);
}

void http_stream(struct http_exchange *x, http_body_fn *piece)
{
    want_body(x, BODY_STREAM, piece);
}

void http_body_pause(struct http_exchange *x)
{
    if (!x->paused && x->rate_by)
        x->rate_left = x->rate_by - clock_mono();
    x->paused = true;
    x->c->read_deadline = 0;
    continue_connection(x);
}

void http_body_resume(struct http_exchange *x)
{
    if (!x->paused)
        return;
    x->paused = false;
    if (x->mode == BODY_STREAM && x->rate_by) {
        x->rate_by = clock_mono() + x->rate_left;
        x->c->read_deadline = x->rate_by;
    } else if (x->mode == BODY_STREAM) {
        set_patience(x);
    }
    continue_connection(x);
}

void http_body_any_rate(struct http_exchange *x)
{
    x->any_rate = true;
}

void http_body_patience(struct http_exchange *x, int64_t ns)
{
    x->patience = ns;
    if (x->mode != BODY_UNDECIDED && x->mode != BODY_RAW)
        set_patience(x);
    continue_connection(x);
}

/* --- The answer --- */

/* Whether the client could continue to send an unwanted body for longer than we read it. */
static bool body_in_the_way(const struct http_exchange *x)
{
    return x->continue_due ||
           (x->body.framing == H1_LENGTH && !x->body.ended && x->body.left > HTTP_DRAIN_MAX);
}

static bool status_has_no_body(int status)
{
    return status == 204 || status == 304;
}

static int check_unanswered(const struct http_exchange *x, struct err *e)
{
    return x->begun || x->answered ? err_set(e, ERR_BUG, "the request was answered before") : 0;
}

void http_also(struct http_exchange *x, struct h1_field field)
{
    x->also = field;
}

/* Writes the head to `out` and settles how the body goes. */
static int make_answer_head(struct http_exchange *x, int status, const struct h1_field *fields,
                            size_t n, int64_t length, struct buf *out, struct err *e)
{
    struct answer_head h = {
        .status = status, .fields = fields, .n = n, .also = x->also, .length = length
    };
    int r = check_unanswered(x, e);

    if (r >= 0 && status < 200)
        r = err_set(e, ERR_INVALID, "%d is no status to answer with", status);
    if (r < 0)
        return r;
    h.close = !x->request.head.keep_alive || x->c->server->stopping || body_in_the_way(x);
    if (status_has_no_body(status))
        h.length = HTTP_UNKNOWN;
    else if (length == HTTP_UNKNOWN && x->request.head.minor == 1)
        h.chunked = true;
    else if (length == HTTP_UNKNOWN)
        h.close = true;
    r = answer_write_head(x->c->server, &h, out, e);
    if (r < 0)
        return r;
    x->begun = true;
    x->close = h.close;
    x->chunked = h.chunked;
    x->no_body = x->no_body || status_has_no_body(status);
    x->promised = length;
    return 0;
}

static void finish_http_answer(struct http_exchange *x)
{
    x->answered = true;
    x->paused = false;
    if (!x->body.ended) /* dropping what is left of it is a favour, and short */
        x->c->read_deadline = clock_mono() + x->c->server->config.linger_ns;
    continue_connection(x);
}

int http_respond(struct http_exchange *x, int status, const struct h1_field *fields, size_t n,
                 struct str body, struct err *e)
{
    AUTO(buf_done) struct buf head = BUF_INIT(H1_HEAD_MAX);
    struct str parts[2];
    int r;

    if (body.n > HTTP_RESPONSE_MAX)
        return err_set(e, ERR_TOO_BIG, "an answer of %zu bytes must be streamed", body.n);
    r = make_answer_head(x, status, fields, n, (int64_t)body.n, &head, e);
    if (r < 0)
        return r;
    parts[0] = buf_str(&head);
    parts[1] = body;
    connection_send(x->c, parts, x->no_body ? 1 : 2);
    finish_http_answer(x);
    return 0;
}

int http_interim(struct http_exchange *x, const struct h1_field *fields, size_t n, struct err *e)
{
    AUTO(buf_done) struct buf head = BUF_INIT(H1_HEAD_MAX);
    const struct answer_head h = {
        .status = 102, .fields = fields, .n = n, .length = HTTP_UNKNOWN
    };
    struct str part;
    int r = check_unanswered(x, e);

    if (r < 0 || x->request.head.minor == 0 || output_queued(&x->c->out) > HTTP_QUEUE_SOFT)
        return r;
    r = answer_write_head(x->c->server, &h, &head, e);
    if (r < 0)
        return r;
    part = buf_str(&head);
    connection_send(x->c, &part, 1);
    return 0;
}

/* The head waits for the first bytes of the body, but not longer than this batch. */
int http_begin(struct http_exchange *x, int status, const struct h1_field *fields, size_t n,
               int64_t length, struct err *e)
{
    AUTO(buf_done) struct buf head = BUF_INIT(H1_HEAD_MAX);
    int r = make_answer_head(x, status, fields, n, length, &head, e);

    if (r < 0)
        return r;
    r = output_add(&x->c->out, buf_str(&head), e);
    connection_kick(x->c);
    return r;
}

static int check_write(struct http_exchange *x, size_t n, struct err *e)
{
    if (!x->begun || x->answered)
        return err_set(e, ERR_BUG, "writing outside of an answer");
    if (x->promised >= 0 && (uint64_t)x->promised < n)
        return err_set(e, ERR_BUG, "more was written than the answer's length");
    if (output_queued(&x->c->out) + n + BODY_CHUNK_LINE_MAX + 2 > HTTP_QUEUE_HARD) {
        x->wants_drain = true;
        return err_set(e, ERR_BUSY, "the client has %zu bytes of output waiting",
                       output_queued(&x->c->out));
    }
    return 0;
}

static int after_write(struct http_exchange *x, size_t n)
{
    if (x->promised >= 0)
        x->promised -= (int64_t)n;
    if (output_queued(&x->c->out) > HTTP_QUEUE_SOFT) {
        x->wants_drain = true;
        return 1;
    }
    if (x->wants_drain) /* another part waits for the drain, such as a WebSocket's pong */
        connection_kick(x->c);
    return 0;
}

/* Frames the data for the wire. Returns the number of parts. */
static size_t frame_data(const struct http_exchange *x, const struct str *data, size_t n,
                         size_t total, char line[static BODY_CHUNK_LINE_MAX],
                         struct str parts[static OUTPUT_PARTS_MAX])
{
    size_t count = 0;

    if (total == 0 || x->no_body)
        return 0;
    if (x->chunked)
        parts[count++] = body_chunk_line(line, total);
    for (size_t i = 0; i < n; i++)
        parts[count++] = data[i];
    if (x->chunked)
        parts[count++] = BODY_CHUNK_AFTER;
    return count;
}

int http_write_parts(struct http_exchange *x, const struct str *data, size_t n, struct err *e)
{
    char line[BODY_CHUNK_LINE_MAX];
    struct str parts[OUTPUT_PARTS_MAX];
    size_t total = 0;
    int r;

    if (n > OUTPUT_PARTS_MAX - 2)
        return err_set(e, ERR_BUG, "%zu parts in one write", n);
    for (size_t i = 0; i < n; i++)
        total += data[i].n;
    r = check_write(x, total, e);
    if (r < 0)
        return r;
    n = frame_data(x, data, n, total, line, parts);
    if (n > 0)
        connection_send(x->c, parts, n);
    return after_write(x, total);
}

int http_write(struct http_exchange *x, struct str data, struct err *e)
{
    return http_write_parts(x, &data, 1, e);
}

static int duplicate_fds(const int *fds, size_t n, int *copies, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        copies[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
        if (copies[i] < 0) {
            int r = err_sys(e, "duplicating a descriptor for a client");

            while (i > 0)
                close(copies[--i]);
            return r;
        }
    }
    return 0;
}

int http_write_fds(struct http_exchange *x, struct str data, const int *fds, size_t n,
                   struct err *e)
{
    char line[BODY_CHUNK_LINE_MAX];
    struct str parts[OUTPUT_PARTS_MAX];
    int copies[HTTP_FDS_MAX], r = check_write(x, data.n, e);

    if (r < 0)
        return r;
    if (!x->c->peer.is_unix || x->no_body)
        return err_set(e, ERR_UNSUPPORTED, "descriptors go with a body to a local client only");
    if (data.n == 0 || n == 0 || n > HTTP_FDS_MAX)
        return err_set(e, ERR_BUG, "1 to %d descriptors go with at least one byte", HTTP_FDS_MAX);
    r = duplicate_fds(fds, n, copies, e);
    if (r < 0)
        return r;
    output_add_fds(&x->c->out, copies, n, NULL);
    for (size_t i = 0, count = frame_data(x, &data, 1, data.n, line, parts); i < count; i++)
        output_add(&x->c->out, parts[i], NULL);
    connection_send(x->c, NULL, 0);
    return after_write(x, data.n);
}

void http_end(struct http_exchange *x)
{
    struct str last = BODY_LAST_CHUNK;

    if (!x->begun || (x->promised > 0 && !x->no_body)) {
        http_cut(x);
        return;
    }
    if (x->mode == BODY_RAW)
        x->close = true;
    connection_send(x->c, &last, x->chunked && !x->no_body ? 1 : 0);
    finish_http_answer(x);
}

void http_cut(struct http_exchange *x)
{
    x->begun = x->answered = true;
    x->c->broken = true;
    connection_kick(x->c);
}

void http_drop(struct http_exchange *x)
{
    if (!x->begun || !x->chunked || x->no_body) {
        http_cut(x);
        return;
    }
    x->close = true;
    connection_send(x->c, NULL, 0);
    finish_http_answer(x);
}

void http_fail(struct http_exchange *x, int status, struct str why)
{
    AUTO(buf_done) struct buf out = BUF_INIT(H1_HEAD_MAX);
    struct str part;

    if (x->begun) {
        http_cut(x);
        return;
    }
    x->begun = x->close = true;
    answer_error(x->c->server, status, why, !x->no_body, &out);
    part = buf_str(&out);
    connection_send(x->c, &part, 1);
    finish_http_answer(x);
}

int http_upgrade(struct http_exchange *x, const struct h1_field *fields, size_t n,
                 http_body_fn *piece, struct err *e)
{
    AUTO(buf_done) struct buf head = BUF_INIT(H1_HEAD_MAX);
    bool tunnel = x->request.method == H1_CONNECT;
    struct answer_head h = {
        .status = tunnel ? 200 : 101,
        .fields = fields,
        .n = n,
        .also = x->also,
        .upgrade = !tunnel,
        .length = HTTP_UNKNOWN,
    };
    int r = check_unanswered(x, e);

    if (r < 0)
        return r;
    if (!tunnel && !x->request.head.upgrade)
        return err_set(e, ERR_INVALID, "the request does not ask for an upgrade");
    if (x->body.framing != H1_EMPTY && !x->body_told)
        return err_set(e, ERR_INVALID, "the request's body comes before the upgrade");
    r = answer_write_head(x->c->server, &h, &head, e);
    if (r < 0)
        return r;
    x->begun = true;
    x->promised = HTTP_UNKNOWN;
    x->no_body = x->body_told = false;
    body_start(&x->body, H1_UNTIL_CLOSE, 0);
    x->patience = 0;
    r = output_add(&x->c->out, buf_str(&head), e);
    want_body(x, BODY_RAW, piece);
    connection_kick(x->c);
    return r;
}
