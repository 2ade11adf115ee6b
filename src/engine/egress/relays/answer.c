/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/socket.h>

#include "engine/egress/relays/exchange.h"
#include "engine/egress/relays/rewrite.h"

static const struct h1_limits limits = { EGRESS_HEAD_MAX, H1_TARGET_MAX, H1_FIELDS_MAX };

/* Passes a 1xx response on, except to HTTP/1.0 clients. */
static int pass_interim(struct exchange *x, const struct h1_response *p, struct err *e)
{
    struct rewrite_answer how = { .request = x->request.method, .framing = H1_EMPTY };

    if (p->status == 101)
        return err_set(e, ERR_UPSTREAM,
                       "the destination switched protocols without a request to do so");
    if (++x->answer.interim > EXCHANGE_INTERIM_MAX)
        return err_set(e, ERR_UPSTREAM, "the destination sent more than %d interim responses",
                       EXCHANGE_INTERIM_MAX);
    if (!x->request.old && rewrite_response(p, &how, &x->down.bytes) < 0)
        return err_set(e, ERR_UPSTREAM,
                       "the head of an interim response is longer than the %zu bytes of its buffer",
                       x->down.bytes.max);
    return 1;
}

/* Begins the answer to the client. Chunked and length framing are kept; HTTP/1.0 has no chunks, so
 * the body then ends with the connection. */
static int begin_client_answer(struct exchange *x, const struct h1_response *p, struct err *e)
{
    struct exchange_answer *a = &x->answer;
    const struct exchange_request *q = &x->request;
    struct rewrite_answer how = { .request = q->method, .framing = p->head.framing };

    if (q->old && how.framing == H1_CHUNKED)
        how.framing = H1_UNTIL_CLOSE;
    a->begun = true;
    a->chunked = how.framing == H1_CHUNKED;
    a->until_close = how.framing == H1_UNTIL_CLOSE;
    a->close = how.close = !q->keep_alive || a->until_close || !exchange_sent(x);
    a->reusable = p->head.keep_alive && !a->close;
    body_start(&a->body, p->head.framing, p->head.length);
    a->done = a->body.ended;
    if (rewrite_response(p, &how, &x->down.bytes) < 0)
        return err_set(e, ERR_UPSTREAM,
                       "the head of the answer is longer than the %zu bytes of its buffer",
                       x->down.bytes.max);
    return 1;
}

/* Returns 1 if it consumed a head, 0 if the head is incomplete. */
static int take_answer_head(struct exchange *x, struct str *in, struct err *e)
{
    struct h1_response p;
    int r, n = h1_parse_response(&x->answer.scan, *in, &limits, x->request.method, &p, e);

    if (n <= 0)
        return n;
    x->answer.scan = (struct h1_scan){ 0 };
    r = p.status < 200 ? pass_interim(x, &p, e) : begin_client_answer(x, &p, e);
    *in = (struct str){ in->p + n, in->n - (size_t)n };
    return r;
}

static int take_answer_body(struct exchange *x, struct str *in, struct err *e)
{
    struct exchange_answer *a = &x->answer;
    struct str piece;
    int r = 0, event = body_next(&a->body, in, &piece, e);

    if (event < 0)
        return event;
    if (event == BODY_DATA)
        r = exchange_add_piece(&x->down.bytes, a->chunked, piece);
    a->done = a->body.ended;
    if (a->done && a->chunked)
        r = buf_add(&x->down.bytes, BODY_LAST_CHUNK);
    if (r < 0)
        return err_set(e, ERR_UPSTREAM, "the answer exceeds the buffer");
    return event == BODY_MORE ? 0 : 1;
}

/* A malformed answer is not passed on, and cannot pass for a complete one. */
static void refuse_answer(struct exchange *x, const char *text)
{
    if (x->answer.begun)
        exchange_abort(x, "answer malformed");
    else
        exchange_refuse_as(x, 502, "upstream_malformed", text, "answer malformed");
}

static void take_upstream_answer(struct exchange *x)
{
    struct exchange_answer *a = &x->answer;
    struct str in = buf_str(&x->back);
    struct err e = { 0 };
    int r = 1;

    while (r > 0 && in.n > 0 && !a->done)
        r = a->begun ? take_answer_body(x, &in, &e) : take_answer_head(x, &in, &e);
    if (r < 0) {
        refuse_answer(x, e.msg);
        return;
    }
    /* bytes behind the answer must not become the answer to the next request */
    if (a->done && in.n > 0) {
        a->reusable = false;
        in.n = 0;
    }
    buf_drop(&x->back, x->back.n - in.n);
    if (in.n == 0)
        buf_done(&x->back);
    exchange_deliver(x);
}

/* Handles the end of the upstream connection, orderly or broken. */
static void handle_upstream_end(struct exchange *x, bool broke)
{
    struct exchange_answer *a = &x->answer;

    if (!a->begun && x->used && !a->received) {
        /* The server had closed before it received the request. Closing the client's connection
         * without an answer has the same meaning: a client that reused the connection knows whether
         * it may repeat the request. */
        exchange_end(x, "closed");
    } else if (!a->begun) {
        refuse_answer(x, "the destination closed the connection without an answer");
    } else if (!broke && body_finish(&a->body, NULL) >= 0) {
        a->done = true;
        a->reusable = false;
        exchange_deliver(x);
    } else if (a->until_close) {
        exchange_abort(x, "cut off");
    } else {
        exchange_linger(x, "cut off"); /* the client detects the truncation by the framing */
    }
}

void exchange_read_upstream(struct exchange *x)
{
    /* shared buffer: most reads are small and consumed at once */
    static char room[EXCHANGE_READ_MAX];
    ssize_t n = recv(x->upstream_fd, room, x->back.max - x->back.n, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        handle_upstream_end(x, n < 0);
        return;
    }
    buf_add(&x->back, (struct str){ room, (size_t)n });
    x->answer.received = true;
    x->bytes_in += (uint64_t)n;
    x->box->counters.bytes_in += (uint64_t)n;
    take_upstream_answer(x);
}

/* --- To the client --- */

static void finish_exchange(struct exchange *x)
{
    struct exchange_request *q = &x->request;

    if (x->answer.close || !exchange_sent(x)) {
        exchange_linger(x, "closed");
        return;
    }
    if (!x->answer.reusable || x->outdated)
        exchange_drop_upstream(x, false, "closed");
    x->used = true;
    q->judged = false;
    q->method_text[0] = '\0';
    q->path = q->query = (struct str){ 0 };
    buf_done(&q->target);
    x->state = EXCHANGE_IDLE;
    exchange_wait(x, EGRESS_KEEP_NS);
    exchange_next(x);
}

void exchange_deliver(struct exchange *x)
{
    if (queue_send(&x->down, x->client_fd) < 0) {
        exchange_abort(x, "client reset");
    } else if (queue_left(&x->down) == 0 && x->state == EXCHANGE_LINGERING) {
        shutdown(x->client_fd, SHUT_WR);
        if (x->client_ended)
            exchange_end(x, "closed");
    } else if (queue_left(&x->down) == 0 && x->answer.done && x->state == EXCHANGE_RUNNING) {
        finish_exchange(x);
    } else if (x->state == EXCHANGE_RUNNING) {
        exchange_moved(x);
    }
}
