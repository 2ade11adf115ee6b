/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/socket.h>

#include "base/own.h"
#include "engine/egress/audit.h"
#include "engine/egress/relays/exchange.h"
#include "engine/egress/relays/rewrite.h"

static const struct h1_limits limits = { EGRESS_HEAD_MAX, H1_TARGET_MAX, H1_FIELDS_MAX };

enum { HTTP_PORT = 80 };

/* --- Reading a head --- */

/* A client that does not speak HTTP, but TLS for example, gets no HTTP answer. */
static void refuse_malformed(struct exchange *x, int status, const struct err *e)
{
    struct exchange_refusal no;

    audit_malformed(x->box->audit, x->intent.adapter, e->msg);
    x->box->counters.denied++;
    exchange_set_refusal(&no, status, "request_malformed", e->msg,
                         "Send one HTTP/1.1 request as RFC 9112 describes it.");
    if (x->state == EXCHANGE_IDLE && (x->in.p[0] == 0x16 || (unsigned char)x->in.p[0] >= 0x80))
        exchange_abort(x, "not http");
    else
        exchange_refuse(x, &no, "malformed");
}

/* Returns the length of the head, or 0 if there is no complete request. */
static size_t read_exchange_head(struct exchange *x, struct h1_request *q)
{
    struct err e;
    int status,
        n = x->in.n ? h1_parse_request(&x->scan, buf_str(&x->in), &limits, q, &status, &e) : 0;

    if (n > 0) {
        x->scan = (struct h1_scan){ 0 };
        /* A server may read `head` as HEAD: no answer may follow one whose end is in doubt. */
        q->head.keep_alive &= !egress_method_refused(q->method_text);
        return (size_t)n;
    }
    if (n < 0) {
        refuse_malformed(x, status, &e);
    } else if (x->client_ended) {
        exchange_end(x, "closed");
    } else if (x->in.n > 0 && !x->reading) {
        x->reading = true;
        exchange_wait(x, EGRESS_HEAD_NS);
    }
    return 0;
}

/* --- Judging it --- */

/* Stores the target's path and query unchanged, as they are sent upstream. */
static bool keep_target(struct exchange_request *r, const struct h1_request *q)
{
    bool has_path = q->path.n > 0 && q->path.p[0] == '/';
    struct str target;
    size_t end;

    buf_clear(&r->target);
    r->path = r->query = (struct str){ 0 };
    if ((q->form != H1_ORIGIN && q->form != H1_ABSOLUTE) ||
        (!has_path && buf_add_c(&r->target, '/') < 0) || buf_add(&r->target, q->path) < 0)
        return false;
    target = buf_str(&r->target);
    end = str_find(target, '?');
    r->path = (struct str){ target.p, end };
    if (end < target.n)
        r->query = (struct str){ target.p + end + 1, target.n - end - 1 };
    return true;
}

struct egress_action exchange_action(const struct exchange *x)
{
    const struct exchange_request *r = &x->request;

    return (struct egress_action){ .kind = EGRESS_ACTION_HTTP,
                                   .http = { .method = str_from(r->method_text),
                                             .path = r->path,
                                             .query = r->query,
                                             .upgrades = r->upgrades } };
}

/* Records a refusal of ours like a denial of the policy. */
static void record_refusal(struct exchange *x, const struct exchange_refusal *no)
{
    const struct egress_action action = exchange_action(x);

    x->box->counters.denied++;
    audit_request(x->box->audit, &x->intent, exchange_decision(x), EGRESS_DENIED, &action,
                  &no->why);
}

/* Refuses a request whose destination is missing or ambiguous. */
static void refuse_without_target(struct exchange *x, const struct exchange_refusal *no)
{
    if (x->aimed) {
        record_refusal(x, no);
    } else {
        exchange_forget(x);
        x->intent.host = (struct host){ 0 };
        x->intent.port = 0;
        x->box->counters.denied++;
        audit_malformed(x->box->audit, x->intent.adapter, no->why.text);
    }
    exchange_refuse(x, no, "denied");
}

static bool judge_request(struct exchange *x, const struct h1_request *q)
{
    struct exchange_refusal no = { 0 };

    if (keep_target(&x->request, q)) {
        const struct egress_action action = exchange_action(x);

        x->request.judged =
            authorize_request(x->lease, &action, &no.why, &x->request.ticket) != EGRESS_DENIED;
        no.status = str_eq(str_from(no.why.code), STR("path_invalid")) ? 400 : 403;
    } else {
        exchange_set_refusal(&no, 400, "path_invalid", "the target of the request is not a path",
                             "");
        record_refusal(x, &no);
    }
    if (!x->request.judged)
        exchange_refuse(x, &no, "denied");
    return x->request.judged;
}

/* --- Sending it --- */

bool exchange_sent(const struct exchange *x)
{
    return x->request.body.ended && !x->request.lost && queue_left(&x->up) == 0;
}

void exchange_push(struct exchange *x)
{
    int64_t n;

    if (x->request.waits)
        return;
    if (!egress_decision_current(&x->lease->decision, x->box)) {
        exchange_abort(x, "policy changed");
        return;
    }
    n = queue_send(&x->up, x->upstream_fd);
    if (n < 0) { /* upstream may still have answered: read that next */
        x->request.lost = true;
        queue_done(&x->up);
    } else {
        x->bytes_out += (uint64_t)n;
        x->box->counters.bytes_out += (uint64_t)n;
    }
    exchange_moved(x);
}

static int take_request_body(struct exchange *x, struct err *e)
{
    struct body *b = &x->request.body;
    bool chunked = b->framing == H1_CHUNKED;
    struct str in = buf_str(&x->in), piece;
    int event = BODY_DATA, r = 0;

    while (r >= 0 && event == BODY_DATA) {
        event = body_next(b, &in, &piece, e);
        if (event == BODY_DATA)
            r = exchange_add_piece(&x->up.bytes, chunked, piece);
        else if (event == BODY_END && chunked)
            r = buf_add(&x->up.bytes, BODY_LAST_CHUNK);
    }
    buf_drop(&x->in, x->in.n - in.n);
    if (r < 0)
        return err_set(e, ERR_TOO_BIG, "the request body exceeds the buffer");
    return event < 0 ? event : 0;
}

void exchange_take(struct exchange *x)
{
    struct err e;

    if (!x->request.body.ended && take_request_body(x, &e) < 0) {
        if (x->answer.begun)
            exchange_abort(x, "malformed");
        else
            refuse_malformed(x, 400, &e);
    } else if (!x->request.body.ended && x->client_ended) {
        exchange_abort(x, "client closed");
    } else {
        exchange_push(x);
    }
}

/* Whether the request is recorded; otherwise refuses it. */
static bool is_request_recorded(struct exchange *x)
{
    const struct audit_refusal *why;
    struct exchange_refusal no;

    if (audit_kept(x->box->audit, x->request.ticket))
        return true;
    why = audit_refusal(x->box->audit);
    exchange_set_refusal(&no, 503, why->code, why->text, why->next);
    record_refusal(x, &no);
    exchange_refuse(x, &no, "denied");
    return false;
}

static void on_request_recorded(struct loop_later *l)
{
    struct exchange *x = container_of(l, struct exchange, kept);

    x->request.waits = false;
    if (is_request_recorded(x))
        exchange_push(x);
    exchange_settle(x);
}

static void begin_upstream_request(struct exchange *x, const struct h1_request *q, size_t n)
{
    struct exchange_request *r = &x->request;
    struct rewrite_to to = { .host = &x->intent.host,
                             .port = x->intent.port,
                             .default_port = HTTP_PORT,
                             .path = r->path,
                             .query = r->query,
                             .inspected = exchange_inspected(&x->lease->decision.match) };

    if (rewrite_request(q, &to, &x->up.bytes) < 0) {
        exchange_refuse_as(
            x, 431, "request_malformed",
            "the request head is longer than 16 KiB, the most that the proxy can forward",
            "malformed");
        return;
    }
    body_start(&r->body, q->head.framing, q->head.length);
    r->lost = x->reading = false;
    x->answer = (struct exchange_answer){ 0 };
    x->state = EXCHANGE_RUNNING;
    buf_drop(&x->in, n);
    r->waits = true;
    loop_later(x->box->egress->loop, &x->kept, on_request_recorded, NULL);
    exchange_take(x); /* the body bytes read with the head are sent in the same write */
}

/* --- Serving a request --- */

/* Sends the 200 of a tunnel once upstream is connected. */
static bool send_greeting(struct exchange *x)
{
    if (!exchange_has_lease(x))
        exchange_decide(x);
    else if (x->upstream_fd < 0)
        exchange_dial(x);
    if (x->state != EXCHANGE_IDLE)
        return false;
    buf_add(&x->down.bytes, buf_str(&x->greeting));
    buf_done(&x->greeting);
    exchange_deliver(x);
    exchange_wait(x, EGRESS_KEEP_NS);
    return x->state == EXCHANGE_IDLE;
}

/* A kept connection is not reused if it was closed, or if unsolicited bytes wait on it, which would
 * be taken for the answer. */
static bool is_upstream_usable(const struct exchange *x)
{
    char c;

    if (!x->used)
        return true;
    if (x->upstream.want & LOOP_READ && loop_fd_was_quiet(&x->upstream))
        return true;
    return recv(x->upstream_fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* Judges a request under a lease, and dials the lease once. */
static void serve_under_lease(struct exchange *x, const struct h1_request *q, size_t n)
{
    if (x->upstream_fd >= 0 && !is_upstream_usable(x))
        exchange_drop_upstream(x, false, "closed");
    if (!exchange_has_lease(x))
        exchange_decide(x);
    else if (!x->request.judged && !judge_request(x, q))
        return;
    else if (x->upstream_fd >= 0)
        begin_upstream_request(x, q, n);
    else if (is_request_recorded(x))
        exchange_dial(x);
}

static void route_request(struct exchange *x, const struct h1_request *q, size_t n)
{
    struct exchange_request *r = &x->request;
    struct exchange_refusal no;

    r->method = q->method;
    r->keep_alive = q->head.keep_alive;
    r->old = q->head.minor == 0;
    r->upgrades = rewrite_asks_upgrade(&q->head);
    str_copy(q->method_text, r->method_text, sizeof(r->method_text));
    if (q->method == H1_CONNECT && x->tunnel)
        exchange_hand_over(x);
    else if (q->method == H1_CONNECT
                 ? exchange_set_refusal(
                       &no, 403, "method_denied",
                       "CONNECT is not allowed inside a tunnel or a captured connection",
                       "Send CONNECT to the proxy port.")
                 : x->set_target(x, q, &no))
        serve_under_lease(x, q, n);
    else
        refuse_without_target(x, &no);
}

void exchange_next(struct exchange *x)
{
    struct h1_request q;
    size_t n;

    x->state = EXCHANGE_IDLE;
    if (x->greeting.n > 0 && !send_greeting(x))
        return;
    n = read_exchange_head(x, &q);
    if (n > 0)
        route_request(x, &q, n);
}
