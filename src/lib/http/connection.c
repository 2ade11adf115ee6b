/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/connection.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/own.h"

static const char no_bytes[] =
    "too many bytes of this caller's requests and answers are in memory "
    "(limits.buffered_bytes_per_owner, limits.buffered_bytes); try again";

static void on_connection_timer(struct loop_timer *t);
static void on_kick(struct loop_later *s);
static void connection_run(struct http_connection *c, struct str *in);

/* --- What it counts as --- */

static struct quota_who holder_of(const struct quota_hold *h)
{
    struct quota_who who = { .key = str_from(h->share->key), .privileged = h->privileged };

    for (size_t i = 0; i < QUOTA_PARTS_MAX; i++)
        who.parts[i] = str_from(h->parts[i] ? h->parts[i]->key : "");
    return who;
}

bool connection_account(struct http_connection *c)
{
    struct quota_hold *h = &c->buffered;
    uint64_t n = output_queued(&c->out) + (c->x ? c->x->collected.n + c->x->kept : 0);
    struct quota_who who;
    int r = 0;

    n = n > BUFFERED_FREE && c->state != CONNECTION_DEAD ? n : 0;
    if (n == 0) {
        quota_drop(h);
    } else if (n < h->n) {
        quota_shrink(h, h->n - n);
    } else if (n > h->n && h->share) {
        r = quota_grow(h, n - h->n, NULL);
    } else if (n > h->n) {
        who = holder_of(&c->place);
        r = quota_take(&c->server->buffered, &who, n, h, NULL);
    }
    if (r < 0)
        c->server->stats.out_of_bytes++;
    return r >= 0;
}

/* Whether the connection can be evicted: it waits for a request, or its request is answered and
 * only an unwanted body is to come. Output that an unauthenticated client has not read does not
 * count. */
static bool is_connection_idle(const struct http_connection *c)
{
    bool stranger = c->place.share->quota == &c->server->strangers.quota;

    if (c->state != CONNECTION_OPEN)
        return stranger || c->state == CONNECTION_LINGERING;
    return (!c->x || c->x->answered) && (stranger || output_queued(&c->out) == 0);
}

static void leave_idle(struct http_connection *c)
{
    link_leave(&c->idle);
    link_leave(&c->idle_share);
    for (size_t i = 0; i < QUOTA_PARTS_MAX; i++)
        link_leave(&c->idle_parts[i]);
}

static void join_idle(struct http_connection *c)
{
    struct http_server *s = c->server;
    bool stranger = c->place.share->quota == &s->strangers.quota;

    list_append(stranger ? &s->strangers.idle : &s->callers.idle, &c->idle);
    list_append(&c->place.share->idle, &c->idle_share);
    for (size_t i = 0; i < QUOTA_PARTS_MAX; i++)
        if (c->place.parts[i])
            list_append(&c->place.parts[i]->idle, &c->idle_parts[i]);
}

int http_bill(struct http_exchange *x, const struct quota_who *who, struct err *e)
{
    struct http_connection *c = x->c;
    struct http_server *s = c->server;
    struct quota_hold place = { 0 };
    uint64_t buffered = c->buffered.n;
    int r;

    if (quota_is_of(&c->place, &s->callers.quota, who))
        return 0;
    r = server_take_place(s, &s->callers, who, &place, e);
    if (r < 0) {
        x->request.head.keep_alive = false;
        return r;
    }
    leave_idle(c);
    link_leave(&c->of_part);
    quota_drop(&c->place);
    c->place = place;
    if (place.parts[0])
        list_append(&place.parts[0]->all, &c->of_part);
    if (buffered) {
        quota_drop(&c->buffered);
        quota_charge(&s->buffered, who, buffered, &c->buffered);
    }
    return 0;
}

int http_keep(struct http_exchange *x, size_t n, struct err *e)
{
    x->kept += n;
    if (connection_account(x->c))
        return 0;
    x->kept -= n;
    return err_set(e, ERR_BUSY, "%s", no_bytes);
}

/* --- The end --- */

static void exchange_free(struct http_connection *c)
{
    struct http_exchange *x = take_ptr(c->x);

    if (!x)
        return;
    drop_fd(&c->received); /* it was for this request */
    buf_done(&x->collected);
    free(x);
    c->server->n_exchanges--;
    connection_account(c);
}

/* The handler hears of it unless it has finished itself. */
static void exchange_lost(struct http_connection *c)
{
    struct http_exchange *x = c->x;

    if (!x || x->answered)
        return;
    x->answered = true;
    if (x->on_gone)
        x->on_gone(x);
}

static void on_free_connection(struct loop_later *s)
{
    free(container_of(s, struct http_connection, bury));
}

static void connection_close(struct http_connection *c)
{
    struct http_server *s = c->server;

    if (c->state == CONNECTION_DEAD)
        return;
    c->state = CONNECTION_DEAD;
    loop_fd_stop(&c->socket);
    loop_timer_stop(&c->timer);
    loop_later_stop(&c->kick);
    drop_fd(&c->fd);
    drop_fd(&c->received);
    exchange_free(c);
    buf_done(&c->in);
    output_done(&c->out);
    link_leave(&c->link);
    leave_idle(c);
    link_leave(&c->of_part);
    quota_drop(&c->place);
    quota_drop(&c->buffered);
    loop_later(s->loop, &c->bury, on_free_connection, NULL);
    server_connection_closed(s);
}

void connection_cut(struct http_connection *c)
{
    struct linger reset = { .l_onoff = 1 };

    if (c->state == CONNECTION_DEAD)
        return;
    exchange_lost(c);
    /* The client of a body that ends with the connection must see that this is not its end. */
    if (!c->peer.is_unix && c->x && c->x->begun)
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    connection_close(c);
}

/* --- What is waited for, and how long --- */

static unsigned wanted_events(const struct http_connection *c)
{
    const struct http_exchange *x = c->x;
    unsigned want = LOOP_HALF;

    if (c->state == CONNECTION_CLOSING)
        return LOOP_WRITE;
    if (c->state == CONNECTION_LINGERING)
        return LOOP_READ;
    if (!x || (!x->body.ended && !x->paused && (x->mode != BODY_UNDECIDED || x->answered)))
        want = LOOP_READ;
    return output_queued(&c->out) > 0 ? want | LOOP_WRITE : want;
}

/* The timer is only moved forward: one that is early looks again. So a busy connection does not
 * touch it with every request. */
static void arm_timer(struct http_connection *c)
{
    int64_t deadline = c->read_deadline;

    if (deadline == 0 || (c->write_deadline && c->write_deadline < deadline))
        deadline = c->write_deadline;
    if (deadline == 0)
        return;
    if (loop_timer_started(&c->timer)) {
        if (c->timer.deadline <= deadline)
            return;
        loop_timer_stop(&c->timer);
    }
    loop_timer_start(c->server->loop, &c->timer, deadline, on_connection_timer, NULL);
}

static void wait_for_input(struct http_connection *c, int64_t ns)
{
    c->read_deadline = ns > 0 ? clock_mono() + ns : 0;
}

static void connection_watch(struct http_connection *c)
{
    bool idle;

    if (c->state == CONNECTION_DEAD)
        return;
    if (output_queued(&c->out) == 0)
        c->write_deadline = 0;
    else if (c->write_deadline == 0)
        c->write_deadline = clock_mono() + c->server->config.write_ns;
    if (loop_fd_want(&c->socket, wanted_events(c), NULL) < 0) {
        connection_cut(c);
        return;
    }
    idle = is_connection_idle(c);
    if (idle && !link_joined(&c->idle))
        join_idle(c);
    else if (!idle)
        leave_idle(c);
    arm_timer(c);
}

/* --- Output --- */

static void flush_connection(struct http_connection *c, const struct str *parts, size_t n)
{
    int64_t sent = output_send(&c->out, c->fd, parts, n, NULL);

    if (sent < 0)
        c->broken = true;
    if (sent > 0)
        c->write_deadline = 0; /* progress: counted anew */
    if (!connection_account(c))
        c->broken = true;
}

void connection_send(struct http_connection *c, const struct str *parts, size_t n)
{
    flush_connection(c, parts, n);
    if (c->broken || !c->running)
        connection_kick(c);
}

void connection_kick(struct http_connection *c)
{
    if (c->state != CONNECTION_DEAD)
        loop_later(c->server->loop, &c->kick, on_kick, NULL); /* pending already is as good */
}

/* Our side is finished: sends the queued output, then waits for the client to close. */
static void connection_shut(struct http_connection *c)
{
    if (c->state == CONNECTION_DEAD)
        return;
    exchange_free(c);
    buf_done(&c->in);
    c->read_deadline = 0;
    c->state = CONNECTION_CLOSING;
    if (output_queued(&c->out) > 0)
        return;
    c->state = CONNECTION_LINGERING;
    if (shutdown(c->fd, SHUT_WR) < 0) {
        connection_close(c);
        return;
    }
    wait_for_input(c, c->server->config.linger_ns);
}

/* The server's own answer to what a client did. */
static void refuse_request(struct http_connection *c, int status, struct str why)
{
    AUTO(buf_done) struct buf out = BUF_INIT(H1_HEAD_MAX);
    struct http_exchange *x = c->x;
    bool is_head = x && x->request.method == H1_HEAD;
    struct str part;

    c->server->stats.refused++;
    if (x && x->begun) {
        connection_cut(c);
        return;
    }
    exchange_lost(c);
    if (x) {
        buf_done(&x->collected);
        x->kept = 0;
    }
    answer_error(c->server, status, why, !is_head, &out);
    part = buf_str(&out);
    flush_connection(c, &part, 1);
    if (c->broken)
        connection_close(c);
    else
        connection_shut(c);
}

/* The caller has lost its permission to use the connection. */
static void end_connection(struct http_connection *c, int status, struct str why)
{
    struct http_exchange *x = c->x;

    if (c->state != CONNECTION_OPEN)
        return;
    if (x)
        x->close = true; /* with the answer, if there is one */
    if (!x)
        connection_close(c);
    else if (!x->answered && x->on_ended)
        x->on_ended(x);
    else if (!x->answered)
        refuse_request(c, status, why);
    connection_watch(c);
}

void http_end_part(struct http_server *s, struct str part, int status, struct str why)
{
    struct quota_share *share = quota_find(&s->callers.quota, part);
    struct list ending = { 0 };

    /* The share goes with the last of them. */
    for (struct link *m; share && (m = list_take(&share->all));)
        list_append(&ending, m);
    for (struct link *m; (m = list_take(&ending));)
        end_connection(container_of(m, struct http_connection, of_part), status, why);
}

/* --- Requests --- */

static struct http_exchange *exchange_new(struct http_connection *c, const char *head, size_t n)
{
    struct http_server *s = c->server;
    struct http_exchange *x = malloc(sizeof(*x) + n);

    if (!x)
        abort();
    memset(x, 0, offsetof(struct http_exchange, request));
    memset((char *)x + offsetof(struct http_exchange, state), 0,
           sizeof(*x) - offsetof(struct http_exchange, state));
    x->c = c;
    x->request = s->parsed;
    memcpy(x->head, head, n);
    h1_move_request(&x->request, head, x->head);
    body_start(&x->body, x->request.head.framing, x->request.head.length);
    x->body_told = x->body.ended;
    x->continue_due = x->request.expects_continue;
    x->patience = s->config.body_ns;
    x->no_body = x->request.method == H1_HEAD;
    return x;
}

/* The next request's head: true if there is now an exchange. */
static bool take_request_head(struct http_connection *c, struct str *in)
{
    struct http_server *s = c->server;
    bool fresh = c->scan.seen_ == 0;
    struct err e;
    int status = 0, n;

    if (in->n == 0)
        return false;
    n = h1_parse_request(&c->scan, *in, &s->config.limits, &s->parsed, &status, &e);
    if (n < 0) {
        refuse_request(c, status, str_from(e.msg));
        return false;
    }
    if (n == 0) {
        if (fresh)
            wait_for_input(c, s->config.head_ns);
        return false;
    }
    c->scan = (struct h1_scan){ 0 };
    c->read_deadline = 0;
    leave_idle(c);
    s->stats.requests++;
    c->x = exchange_new(c, in->p, (size_t)n);
    s->n_exchanges++;
    *in = (struct str){ in->p + n, in->n - (size_t)n };
    if (s->n_exchanges > s->config.exchanges) {
        refuse_request(c, 503, STR("too many requests at once; try again"));
        return false;
    }
    s->config.on_request(c->x);
    return true;
}

/* The exchange is over: true if the connection continues with the next request. */
static bool next_exchange(struct http_connection *c)
{
    struct http_server *s = c->server;

    if (output_queued(&c->out) > 0)
        return false; /* a client that does not read gets nothing more to do */
    if (c->x->close) {
        connection_shut(c);
        return false;
    }
    exchange_free(c);
    if (s->stopping) { /* its stop came after the answer's head */
        connection_shut(c);
        return false;
    }
    wait_for_input(c, s->config.idle_ns);
    return true;
}

/* --- Bodies --- */

static void refuse_size(struct http_connection *c)
{
    char why[80];

    snprintf(why, sizeof why, "the body is larger than %zu bytes, the most of this request",
             c->x->collected.max);
    refuse_request(c, 413, str_from(why));
}

static bool promises_too_much(const struct http_exchange *x)
{
    return x->mode == BODY_COLLECT && !x->answered && x->body.framing == H1_LENGTH &&
           x->body.left > x->collected.max - x->collected.n;
}

static void take_body_piece(struct http_exchange *x, struct str data)
{
    struct http_connection *c = x->c;

    if (x->answered) {
        x->drained += data.n;
        if (x->drained > HTTP_DRAIN_MAX)
            x->close = true;
        return;
    }
    if (x->mode == BODY_COLLECT) {
        if (buf_add(&x->collected, data) < 0)
            refuse_size(c);
        else if (!connection_account(c))
            refuse_request(c, 503, str_from(no_bytes));
        return;
    }
    exchange_piece_came(x, data.n);
    x->on_body(x, data);
}

/* True if something happened. */
static bool take_request_body(struct http_connection *c, struct str *in)
{
    struct http_exchange *x = c->x;
    struct str data;
    struct err e;
    int r;

    if (x->body_told || x->paused || (x->mode == BODY_UNDECIDED && !x->answered))
        return false;
    if (promises_too_much(x)) {
        refuse_size(c);
        return true;
    }
    r = body_next(&x->body, in, &data, &e);
    if (r < 0) {
        if (x->answered)
            x->close = true;
        else
            refuse_request(c, 400, str_from(e.msg));
        return true;
    }
    if (r == BODY_DATA)
        take_body_piece(x, data);
    if (r == BODY_END) {
        c->read_deadline = 0;
        x->body_told = true;
        if (!x->answered)
            x->on_body(x, x->mode == BODY_COLLECT ? buf_str(&x->collected) : STR(""));
    }
    return r != BODY_MORE;
}

static bool step_connection(struct http_connection *c, struct str *in)
{
    if (c->state != CONNECTION_OPEN)
        return false;
    if (c->broken) {
        connection_cut(c);
        return false;
    }
    if (!c->x)
        return take_request_head(c, in);
    if (c->x->answered && (c->x->body.ended || c->x->close))
        return next_exchange(c);
    return take_request_body(c, in);
}

/* Goes as far as the input goes. */
static void connection_run(struct http_connection *c, struct str *in)
{
    c->running = true;
    while (step_connection(c, in))
        ;
    c->running = false;
    connection_watch(c);
}

/* The same with what was left over before, and keeping what is left over now. */
static void run_with(struct http_connection *c, struct str fresh)
{
    struct str in = fresh;

    if (c->in.n > 0) {
        buf_add(&c->in, fresh); /* its ceiling is above what is read before it is used up */
        in = buf_str(&c->in);
    }
    bool kept = c->in.n > 0;

    connection_run(c, &in);
    if (c->state != CONNECTION_OPEN)
        return;
    if (kept)
        buf_drop(&c->in, c->in.n - in.n);
    else if (in.n > 0)
        buf_add(&c->in, in);
    if (c->in.n == 0)
        buf_done(&c->in);
}

static void notify_drained(struct http_connection *c)
{
    struct http_exchange *x = c->x;

    if (!x || x->answered || !x->wants_drain || output_queued(&c->out) > HTTP_QUEUE_SOFT / 2)
        return;
    x->wants_drain = false;
    if (x->on_drain)
        x->on_drain(x);
}

static void on_kick(struct loop_later *s)
{
    struct http_connection *c = container_of(s, struct http_connection, kick);

    if (!c->broken && output_queued(&c->out) > 0)
        flush_connection(c, NULL, 0);
    if (c->state == CONNECTION_OPEN && !c->broken)
        notify_drained(c); /* with an empty queue the socket is not watched and reports no event */
    if (c->state == CONNECTION_OPEN)
        run_with(c, (struct str){ "", 0 });
    else if (c->broken)
        connection_close(c);
}

/* --- Events --- */

static void on_connection_writable(struct http_connection *c)
{
    flush_connection(c, NULL, 0);
    if (c->broken) {
        connection_cut(c);
    } else if (c->state == CONNECTION_CLOSING) {
        if (output_queued(&c->out) == 0)
            connection_shut(c);
        connection_watch(c);
    } else {
        notify_drained(c);
        run_with(c, (struct str){ "", 0 });
    }
}

/* Keeps the first descriptor of a request. The kernel closes what there is no room for. */
static void keep_received(struct http_connection *c, struct msghdr *m)
{
    const struct cmsghdr *h = CMSG_FIRSTHDR(m);
    int fd;

    if (!h || h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS ||
        h->cmsg_len < CMSG_LEN(sizeof fd))
        return;
    memcpy(&fd, CMSG_DATA(h), sizeof fd);
    if (c->received < 0)
        c->received = fd;
    else
        close(fd);
}

static ssize_t read_input(struct http_connection *c, char *input)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = { input, READ_MAX };
    struct msghdr m = { .msg_iov = &part,
                        .msg_iovlen = 1,
                        .msg_control = control.bytes,
                        .msg_controllen = CMSG_LEN(sizeof(int)) };
    ssize_t n;

    if (!c->peer.is_unix)
        return read(c->fd, input, READ_MAX);
    n = recvmsg(c->fd, &m, MSG_CMSG_CLOEXEC);
    if (n >= 0)
        keep_received(c, &m);
    return n;
}

static void on_connection_readable(struct http_connection *c)
{
    char *input = c->server->input;
    ssize_t n = read_input(c, input);

    if (n > 0)
        run_with(c, (struct str){ input, (size_t)n });
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        connection_cut(c);
}

void connection_check(struct http_connection *c)
{
    if (c->state == CONNECTION_OPEN && !c->x)
        on_connection_readable(c);
}

static void on_connection_socket(struct loop_fd *s, unsigned events)
{
    struct http_connection *c = container_of(s, struct http_connection, socket);

    if (c->state == CONNECTION_LINGERING) {
        ssize_t n = read(c->fd, c->server->input, sizeof(c->server->input));

        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            connection_close(c);
        return;
    }
    if (events & LOOP_WRITE)
        on_connection_writable(c);
    if (c->state != CONNECTION_OPEN)
        return;
    if (events & LOOP_READ && c->socket.want & LOOP_READ)
        on_connection_readable(c);
    else if (events & (LOOP_HALF | LOOP_HUP | LOOP_ERROR))
        connection_cut(c);
}

static void on_connection_timer(struct loop_timer *t)
{
    struct http_connection *c = container_of(t, struct http_connection, timer);
    int64_t now = clock_mono();

    if (c->write_deadline && now >= c->write_deadline) {
        connection_cut(c);
    } else if (c->read_deadline && now >= c->read_deadline) {
        c->read_deadline = 0;
        if (c->state != CONNECTION_OPEN || (!c->x && c->in.n == 0))
            connection_close(c);
        else if (c->x && c->x->answered)
            connection_shut(c);
        else
            refuse_request(c, 408, STR("the request did not arrive in time"));
    }
    connection_watch(c);
}

int connection_open(struct http_server *s, int fd, const struct http_peer *peer,
                    struct quota_hold *place, struct http_connection **ret, struct err *e)
{
    struct http_connection *c = new0(sizeof(*c));
    int r;

    c->server = s;
    c->fd = fd;
    c->received = -1;
    c->peer = *peer;
    buf_init(&c->in, s->config.limits.head + READ_MAX);
    output_init(&c->out);
    r = loop_fd_start(s->loop, &c->socket, fd, LOOP_READ, on_connection_socket, e);
    if (r < 0) {
        free(c);
        return r;
    }
    list_append(&s->connections, &c->link);
    c->place = *place;
    *place = (struct quota_hold){ 0 };
    join_idle(c);
    s->n_connections++;
    wait_for_input(c, s->config.idle_ns);
    arm_timer(c);
    *ret = c;
    return 0;
}
