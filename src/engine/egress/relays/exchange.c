/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/relays/exchange.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/own.h"
#include "engine/egress/refuse.h"

enum {
    /* a head, the bytes read with it, and framing */
    OUT_MAX = EGRESS_HEAD_MAX + EGRESS_BUFFER + 4096,
    TARGET_MAX = H1_TARGET_MAX + 1,
    GREETING_MAX = 256,
};

/* --- Events to wait for --- */

static unsigned client_wants(const struct exchange *x)
{
    unsigned want = queue_left(&x->down) > 0 ? LOOP_WRITE : 0;
    bool reads = x->in.n < EXCHANGE_READ_MAX;

    if (x->state == EXCHANGE_RUNNING && !x->request.body.ended)
        reads = !x->request.lost && queue_left(&x->up) == 0;
    return x->client_ended || !reads ? want : want | LOOP_READ;
}

/* Also reads from an idle upstream, to notice its close, and so that unsolicited bytes are not
 * taken for the answer to the next request. */
static unsigned upstream_wants(const struct exchange *x)
{
    unsigned want = queue_left(&x->up) > 0 && !x->request.waits ? LOOP_WRITE : 0;

    if (x->state == EXCHANGE_RUNNING && (x->answer.done || queue_left(&x->down) > 0))
        return want;
    return want | LOOP_READ;
}

static bool want_fd_events(struct loop_fd *s, unsigned what)
{
    return s->want == what || loop_fd_want(s, what, NULL) >= 0;
}

void exchange_settle(struct exchange *x)
{
    if (x->state == EXCHANGE_ENDED)
        return;
    if (x->in.n == 0)
        buf_done(&x->in);
    if (!want_fd_events(&x->client, client_wants(x)) ||
        (x->upstream_fd >= 0 && !want_fd_events(&x->upstream, upstream_wants(x))))
        exchange_abort(x, "error");
}

/* --- Time --- */

static void on_exchange_timer(struct loop_timer *t);

void exchange_wait(struct exchange *x, int64_t ns)
{
    int64_t now = clock_mono();

    x->box->counters.last_ns = now;
    x->deadline = now + ns;
    /* A timer that fires early restarts itself; most requests end earlier and never move it. */
    if (loop_timer_started(&x->timer) && x->timer.deadline <= x->deadline)
        return;
    loop_timer_stop(&x->timer);
    loop_timer_start(x->box->egress->loop, &x->timer, x->deadline, on_exchange_timer, NULL);
}

void exchange_moved(struct exchange *x)
{
    bool theirs = exchange_sent(x) && queue_left(&x->down) == 0;

    exchange_wait(x, theirs && !x->client_ended ? EGRESS_ANSWER_NS : EGRESS_STALL_NS);
}

static void refuse_late(struct exchange *x, int status, const char *text)
{
    exchange_refuse_as(x, status, "timeout", text, "timeout");
}

static void time_out(struct exchange *x)
{
    switch (x->state) {
    case EXCHANGE_IDLE:
        if (x->in.n > 0)
            refuse_late(x, 408, "timeout while receiving the request head");
        else
            exchange_end(x, "idle");
        return;
    case EXCHANGE_DECIDING:
    case EXCHANGE_DIALLING:
        refuse_late(x, 504, "the destination could not be reached in time");
        return;
    case EXCHANGE_RUNNING:
        if (x->answer.begun)
            exchange_abort(x, "timeout");
        else if (!x->request.body.ended && queue_left(&x->up) == 0 && !x->request.lost)
            refuse_late(x, 408, "timeout while receiving the rest of the request");
        else
            refuse_late(x, 504, "the destination did not answer in time");
        return;
    case EXCHANGE_LINGERING:
    case EXCHANGE_ENDED:
        exchange_end(x, "timeout");
        return;
    }
}

static void on_exchange_timer(struct loop_timer *t)
{
    struct exchange *x = container_of(t, struct exchange, timer);

    if (clock_mono() < x->deadline)
        loop_timer_start(t->loop, t, x->deadline, on_exchange_timer, NULL);
    else
        time_out(x);
    exchange_settle(x);
}

/* --- The client's socket --- */

/* Discards input until the client has read the answer: closing earlier would reset the
 * connection. */
static void drain_lingering_bytes(struct exchange *x)
{
    char scrap[4096];
    ssize_t n = recv(x->client_fd, scrap, sizeof(scrap), MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    x->client_ended = n <= 0;
    x->thrown += n > 0 ? (size_t)n : 0;
    if (n < 0 || x->thrown > EXCHANGE_LINGER_BYTES ||
        (x->client_ended && queue_left(&x->down) == 0))
        exchange_end(x, "closed");
}

static void read_client(struct exchange *x)
{
    static char room[EXCHANGE_READ_MAX];
    ssize_t n;

    if (x->state == EXCHANGE_LINGERING) {
        drain_lingering_bytes(x);
        return;
    }
    n = recv(x->client_fd, room, x->in.max - x->in.n, MSG_DONTWAIT);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR)
            exchange_abort(x, "client reset");
        return;
    }
    buf_add(&x->in, (struct str){ room, (size_t)n });
    x->client_ended = n == 0;
    if (x->state == EXCHANGE_IDLE)
        exchange_next(x);
    else if (x->state == EXCHANGE_RUNNING && !x->request.body.ended)
        exchange_take(x);
}

static void on_exchange_client(struct loop_fd *s, unsigned events)
{
    struct exchange *x = container_of(s, struct exchange, client);
    bool readable = s->want & LOOP_READ && events & (LOOP_READ | LOOP_HUP | LOOP_ERROR);

    if (s->want & LOOP_WRITE && events & (LOOP_WRITE | LOOP_HUP | LOOP_ERROR))
        exchange_deliver(x);
    if (readable && x->state != EXCHANGE_ENDED)
        read_client(x);
    exchange_settle(x);
}

/* --- The end --- */

static void on_exchange_free(struct loop_later *s)
{
    struct exchange *x = container_of(s, struct exchange, later);

    lease_free(x->lease);
    free(x);
}

void exchange_drop_upstream(struct exchange *x, bool reset, const char *how)
{
    if (x->upstream_fd >= 0) {
        loop_fd_stop_to_close(&x->upstream);
        if (reset)
            refuse_reset(take_fd(&x->upstream_fd));
        drop_fd(&x->upstream_fd);
        queue_done(&x->up);
        buf_done(&x->back);
    }
    lease_close(x->lease, x->bytes_out, x->bytes_in, how);
}

static void forget_buffers(struct exchange *x)
{
    buf_done(&x->in);
    buf_done(&x->back);
    buf_done(&x->greeting);
    buf_done(&x->request.target);
    queue_done(&x->up);
    queue_done(&x->down);
}

void exchange_end(struct exchange *x, const char *how)
{
    if (x->state == EXCHANGE_ENDED)
        return;
    x->state = EXCHANGE_ENDED;
    exchange_cancel(x);
    exchange_drop_upstream(x, false, how);
    loop_fd_stop_to_close(&x->client);
    loop_timer_stop(&x->timer);
    drop_fd(&x->client_fd);
    egress_open_leave(x->box, &x->open);
    forget_buffers(x);
    loop_later(x->box->egress->loop, &x->later, on_exchange_free, NULL);
}

void exchange_hand_over(struct exchange *x)
{
    AUTO(buf_done) struct buf in = x->in;
    struct egress_box *b = x->box;
    relay_tunnel_fn *tunnel = x->tunnel;
    struct address from = x->intent.client;
    uint16_t port = x->intent.client_port;
    int fd;

    x->in = (struct buf){ 0 };
    loop_fd_stop(&x->client); /* before its next owner watches it */
    fd = take_fd(&x->client_fd);
    exchange_end(x, "closed");
    tunnel(b, fd, &from, port, buf_str(&in));
}

void exchange_abort(struct exchange *x, const char *how)
{
    struct linger now = { .l_onoff = 1 };

    if (x->state == EXCHANGE_ENDED)
        return;
    setsockopt(x->client_fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    exchange_drop_upstream(x, true, how);
    exchange_end(x, how);
}

void exchange_linger(struct exchange *x, const char *how)
{
    exchange_cancel(x);
    exchange_drop_upstream(x, !exchange_sent(x), how);
    buf_done(&x->in);
    x->state = EXCHANGE_LINGERING;
    exchange_wait(x, EXCHANGE_LINGER_NS);
    exchange_deliver(x);
}

bool exchange_set_refusal(struct exchange_refusal *no, int status, const char *code,
                          const char *text, const char *next)
{
    *no = (struct exchange_refusal){ .status = status, .why.code = code };
    snprintf(no->why.text, sizeof(no->why.text), "%s", text);
    snprintf(no->why.next, sizeof(no->why.next), "%s", next);
    return false;
}

void exchange_refuse(struct exchange *x, const struct exchange_refusal *no, const char *how)
{
    char words[REFUSE_MAX];
    const struct exchange_request *q = &x->request;
    size_t n = refuse_render(no->status, &x->intent, x->lease ? &x->lease->decision : NULL,
                             &no->why, str_from(q->method_text), q->path, words, sizeof(words));

    buf_add(&x->down.bytes, (struct str){ words, n });
    exchange_linger(x, how);
}

void exchange_refuse_as(struct exchange *x, int status, const char *code, const char *text,
                        const char *how)
{
    struct exchange_refusal no;

    exchange_set_refusal(&no, status, code, text, "");
    exchange_refuse(x, &no, how);
}

int exchange_add_piece(struct buf *out, bool chunked, struct str piece)
{
    char line[BODY_CHUNK_LINE_MAX];
    int r = chunked ? buf_add(out, body_chunk_line(line, piece.n)) : 0;

    if (r >= 0)
        r = buf_add(out, piece);
    return r >= 0 && chunked ? buf_add(out, BODY_CHUNK_AFTER) : r;
}

/* --- A new policy, and the end of the box --- */

/* Keeps open connections that the new policy allows; decides pending ones anew. */
static void on_exchange_reconsider(struct egress_open *o)
{
    struct exchange *x = container_of(o, struct exchange, open);
    bool is_open = x->state == EXCHANGE_RUNNING || (x->state == EXCHANGE_IDLE && x->aimed);

    if (x->state == EXCHANGE_LINGERING || x->state == EXCHANGE_ENDED)
        return;
    if (is_open && x->lease && !exchange_reconsider(x)) {
        exchange_abort(x, "policy changed");
    } else if (x->state == EXCHANGE_IDLE && x->aimed) {
        exchange_drop_upstream(x, false, "policy changed");
    } else if (x->state != EXCHANGE_RUNNING) {
        bool waits = x->state != EXCHANGE_IDLE;

        exchange_cancel(x);
        exchange_forget(x);
        if (waits)
            exchange_next(x);
    }
    exchange_settle(x);
}

static void on_exchange_close(struct egress_open *o, const char *how)
{
    exchange_abort(container_of(o, struct exchange, open), how);
}

/* --- The beginning --- */

struct exchange *exchange_new(struct egress_box *b, int client, struct str read,
                              exchange_target_fn *set_target)
{
    struct exchange *x = new0(sizeof(*x));

    *x = (struct exchange){ .box = b,
                            .open = { .reconsider = on_exchange_reconsider,
                                      .close = on_exchange_close },
                            .client_fd = client,
                            .upstream_fd = -1,
                            .set_target = set_target,
                            .in = BUF_INIT(EXCHANGE_READ_MAX),
                            .back = BUF_INIT(EXCHANGE_READ_MAX),
                            .greeting = BUF_INIT(GREETING_MAX),
                            .request.target = BUF_INIT(TARGET_MAX),
                            .up.bytes = BUF_INIT(OUT_MAX),
                            .down.bytes = BUF_INIT(OUT_MAX) };
    body_start(&x->request.body, H1_EMPTY, 0);
    if (buf_add(&x->in, read) < 0 || loop_fd_start(b->egress->loop, &x->client, client, LOOP_READ,
                                                   on_exchange_client, NULL) < 0) {
        forget_buffers(x);
        close(client);
        free(x);
        return NULL;
    }
    egress_open_join(b, &x->open);
    exchange_wait(x, EGRESS_KEEP_NS);
    return x;
}
