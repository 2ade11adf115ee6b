/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/client.h"

#include <errno.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/own.h"
#include "lib/http/accept.h"

enum { PIECE = 64 << 10, HEADS_SKIPPED_MAX = 16 /* 1xx before the final response */ };

void http_client_init(struct http_client *c, int fd, int64_t patience)
{
    *c = (struct http_client){ .fd = fd, .patience = patience, .reusable = true };
    buf_init(&c->in_, H1_HEAD_MAX + PIECE);
    buf_init(&c->head_, H1_HEAD_MAX);
}

void http_client_done(struct http_client *c)
{
    buf_done(&c->in_);
    buf_done(&c->head_);
    frame_reader_done(&c->frames_);
    while (c->fds_n_ > 0)
        close(c->fds_[--c->fds_n_]);
}

/* --- Bytes in and out --- */

/* Waits for `events` and returns the ready ones. */
static int await_client_events(struct http_client *c, short events, struct err *e)
{
    int64_t deadline = c->patience > 0 ? clock_mono() + c->patience : 0;
    struct pollfd p = { .fd = c->fd, .events = events };
    int r;

    do
        r = poll(&p, 1, clock_poll_ms(deadline));
    while (r < 0 && errno == EINTR);
    if (r < 0)
        return err_sys(e, "waiting for the server");
    if (r == 0)
        return err_set(e, ERR_TIMEOUT, "the server was silent for %lld s",
                       (long long)(c->patience / NS_PER_S));
    return p.revents;
}

static struct str pending_input(const struct http_client *c)
{
    struct str all = buf_str(&c->in_);

    return (struct str){ all.p + c->at_, all.n - c->at_ };
}

static void take_pending(struct http_client *c, size_t left)
{
    c->at_ = c->in_.n - left;
}

/* Keeps descriptors that came along; more than there is room for are closed. A message has one list
 * of them. */
static void keep_fds(struct http_client *c, struct msghdr *m)
{
    struct cmsghdr *h = CMSG_FIRSTHDR(m);
    size_t n;

    if (!h || h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
        return;
    n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; i++) {
        int fd;

        memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(int));
        if (c->fds_n_ < HTTP_CLIENT_FDS_MAX)
            c->fds_[c->fds_n_++] = fd;
        else
            close(fd);
    }
}

static ssize_t receive_once(struct http_client *c, char *to, struct err *e)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(HTTP_CLIENT_FDS_MAX * sizeof(int))];
    } control;
    struct iovec v = { to, PIECE };
    struct msghdr m = { .msg_iov = &v,
                        .msg_iovlen = 1,
                        .msg_control = control.bytes,
                        .msg_controllen = sizeof(control) };
    ssize_t n = recvmsg(c->fd, &m, MSG_CMSG_CLOEXEC);

    if (n < 0)
        return err_sys(e, "reading from the server");
    keep_fds(c, &m);
    return n;
}

/* More input behind what is pending: bytes received, 0 at the end of the stream. */
static ssize_t receive_input(struct http_client *c, struct err *e)
{
    char *to;
    ssize_t n;
    int r;

    buf_drop(&c->in_, c->at_);
    c->at_ = 0;
    r = buf_room(&c->in_, PIECE, &to);
    if (r < 0)
        return err_set(e, ERR_TOO_BIG, "the server sent more than %zu bytes that were not read yet",
                       c->in_.max);
    do {
        r = await_client_events(c, POLLIN, e);
        if (r < 0)
            return r;
        n = receive_once(c, to, e);
    } while (n < 0 && (errno == EINTR || errno == EAGAIN));
    if (n > 0)
        buf_grew(&c->in_, (size_t)n);
    return n;
}

/* As send(), with a descriptor; NULL: without. */
static ssize_t send_with(int sock, struct str s, const int *fd)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = { 0 };
    struct iovec part;
    struct msghdr m = { .msg_iov = &part,
                        .msg_iovlen = 1,
                        .msg_control = control.room,
                        .msg_controllen = sizeof(control.room) };

    if (!fd)
        return send(sock, s.p, s.n, MSG_NOSIGNAL | MSG_DONTWAIT);
    memcpy(&part.iov_base, &s.p, sizeof(s.p)); /* sendmsg() does not write to it */
    part.iov_len = s.n;
    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    control.head.cmsg_len = CMSG_LEN(sizeof(*fd));
    memcpy(CMSG_DATA(&control.head), fd, sizeof(*fd));
    return sendmsg(sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* 1: everything was sent; 0: the server has begun to answer, or closed, before that. The descriptor
 * goes with the first bytes. */
static int send_request_bytes(struct http_client *c, struct str s, const int *fd, struct err *e)
{
    while (s.n > 0) {
        int ready = await_client_events(c, POLLOUT | POLLIN, e);
        ssize_t n;

        if (ready < 0)
            return ready;
        if (!(ready & POLLOUT))
            return 0;
        n = send_with(c->fd, s, fd);
        if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
            return 0; /* its last words may still be there to read */
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return err_sys(e, "sending to the server");
        if (n > 0) {
            s = (struct str){ s.p + n, s.n - (size_t)n };
            fd = NULL;
        }
    }
    return 1;
}

/* --- Requests --- */

static int add_request_field(struct buf *out, struct str name, struct str value, struct err *e)
{
    if (!h1_is_token(name) || !h1_is_value(value))
        return err_set(e, ERR_INVALID, "a header field of the request is not one line of a head");
    if ((buf_add(out, name) | buf_add(out, STR(": ")) | buf_add(out, value) |
         buf_add(out, STR("\r\n"))) < 0)
        return err_set(e, ERR_TOO_BIG, "the request's head is longer than %d bytes", H1_HEAD_MAX);
    return 0;
}

static int make_request_head(struct buf *out, const struct http_client_request *q, struct err *e)
{
    char length[24];
    int r;

    if (!h1_is_token(q->method) || q->target.n == 0 || !h1_is_value(q->target) ||
        memchr(q->target.p, ' ', q->target.n))
        return err_set(e, ERR_INVALID, "the request's method or target is malformed");
    if (buf_addf(out, STR_FMT " " STR_FMT " HTTP/1.1\r\n", STR_ARG(q->method), STR_ARG(q->target)) <
        0)
        return err_set(e, ERR_TOO_BIG, "the request's target is longer than %zu bytes", out->max);
    r = add_request_field(out, STR("Host"), q->host.n > 0 ? q->host : STR("localhost"), e);
    if (r >= 0)
        r = add_request_field(out, STR("User-Agent"), STR("sandboxer/" SANDBOXER_VERSION), e);
    for (size_t i = 0; r >= 0 && i < q->n; i++)
        r = add_request_field(out, q->fields[i].name, q->fields[i].value, e);
    snprintf(length, sizeof(length), "%zu", q->body.n);
    if (r >= 0 && q->more)
        r = add_request_field(out, STR("Transfer-Encoding"), STR("chunked"), e);
    else if (r >= 0 &&
             (q->body.n > 0 || str_eq(q->method, STR("POST")) || str_eq(q->method, STR("PUT"))))
        r = add_request_field(out, STR("Content-Length"), str_from(length), e);
    if (r >= 0 && buf_add(out, STR("\r\n")) < 0)
        r = err_set(e, ERR_TOO_BIG, "the request's head is longer than %d bytes", H1_HEAD_MAX);
    return r;
}

static int send_chunks(struct http_client *c, const struct http_client_request *q, struct err *e)
{
    enum { SPACE = 32 << 10 };
    AUTO(buf_done) struct buf chunk = BUF_INIT(SPACE + 64);
    AUTO_FREE char *data = malloc(SPACE);
    char line[BODY_CHUNK_LINE_MAX];
    int n, r;

    if (!data)
        abort();
    do {
        n = q->more(q->user, data, SPACE, e);
        if (n < 0)
            return n; /* without a last chunk the server sees that it was cut off */
        buf_clear(&chunk);
        if (n > 0) {
            buf_add(&chunk, body_chunk_line(line, (size_t)n));
            buf_add(&chunk, (struct str){ data, (size_t)n });
        }
        buf_add(&chunk, n > 0 ? BODY_CHUNK_AFTER : BODY_LAST_CHUNK);
        r = send_request_bytes(c, buf_str(&chunk), NULL, e);
    } while (r > 0 && n > 0);
    return r;
}

int http_client_send(struct http_client *c, const struct http_client_request *q, struct err *e)
{
    AUTO(buf_done) struct buf head = BUF_INIT(H1_HEAD_MAX);
    int r;

    if (!c->reusable)
        return err_set(e, ERR_CONFLICT, "the connection cannot carry another request");
    r = make_request_head(&head, q, e);
    if (r < 0)
        return r;
    c->reusable = false;
    c->upgrade_ = false;
    for (size_t i = 0; i < q->n; i++)
        c->upgrade_ |= h1_same(q->fields[i].name, STR("Upgrade"));
    c->asked_ = h1_method_of(q->method);
    r = send_request_bytes(c, buf_str(&head), q->fd, e);
    if (r > 0)
        r = q->more ? send_chunks(c, q, e) : send_request_bytes(c, q->body, NULL, e);
    c->sent_all_ = r > 0;
    return r < 0 ? r : 0;
}

/* --- Responses --- */

/* One head, copied to where it stays. */
static int read_response_head(struct http_client *c, struct err *e)
{
    const struct h1_limits limits = H1_LIMITS;
    struct h1_scan scan = { 0 };

    for (;;) {
        int n = h1_parse_response(&scan, pending_input(c), &limits, c->asked_, &c->response_, e);
        ssize_t got;

        if (n < 0)
            return err_wrap(e, n, "the server's answer");
        if (n > 0) {
            struct h1_scan again = { 0 };

            buf_clear(&c->head_);
            buf_add(&c->head_, (struct str){ pending_input(c).p, (size_t)n });
            c->at_ += (size_t)n;
            return h1_parse_response(&again, buf_str(&c->head_), &limits, c->asked_, &c->response_,
                                     e);
        }
        got = receive_input(c, e);
        if (got < 0)
            return (int)got;
        if (got == 0)
            return err_set(e, ERR_UPSTREAM, "the server closed the connection without an answer");
    }
}

static int final_head(struct http_client *c, bool upgrade, struct err *e)
{
    for (unsigned i = 0; i < HEADS_SKIPPED_MAX || c->interim; i++) {
        int r = read_response_head(c, e);

        if (r < 0)
            return r;
        if (c->response_.status == 101 && !upgrade)
            return err_set(e, ERR_UPSTREAM, "the server switched protocols unasked");
        if (c->response_.status >= 200 || c->response_.status == 101)
            return 0;
        if (c->interim)
            c->interim(c->interim_user, &c->response_);
    }
    return err_set(e, ERR_UPSTREAM, "the server sent more than %d heads before its answer",
                   HEADS_SKIPPED_MAX);
}

static void is_body_finished(struct http_client *c)
{
    c->reusable = c->response_.head.keep_alive && c->sent_all_ &&
                  c->body_.framing != H1_UNTIL_CLOSE && pending_input(c).n == 0;
}

static void start_body(struct http_client *c)
{
    body_start(&c->body_, c->response_.status == 101 ? H1_UNTIL_CLOSE : c->response_.head.framing,
               c->response_.head.length);
    if (c->body_.ended)
        is_body_finished(c);
}

int http_client_head(struct http_client *c, const struct h1_response **ret, struct err *e)
{
    int r = final_head(c, c->upgrade_, e);

    if (r < 0)
        return r;
    start_body(c);
    *ret = &c->response_;
    return 0;
}

static bool is_input_there(const struct http_client *c)
{
    struct pollfd p = { .fd = c->fd, .events = POLLIN };

    return poll(&p, 1, 0) != 0;
}

static int next_body_piece(struct http_client *c, bool waits, struct str *ret, struct err *e)
{
    for (;;) {
        struct str in = pending_input(c);
        int r = body_next(&c->body_, &in, ret, e);
        ssize_t got;

        take_pending(c, in.n);
        if (r == BODY_END)
            is_body_finished(c);
        if (r != BODY_MORE)
            return r < 0 ? r : r == BODY_DATA;
        if (!waits && !is_input_there(c))
            return err_set(e, ERR_BUSY, "the server has sent no more yet");
        got = receive_input(c, e);
        if (got < 0)
            return (int)got;
        if (got == 0)
            return body_finish(&c->body_, e);
    }
}

int http_client_read(struct http_client *c, struct str *ret, struct err *e)
{
    return next_body_piece(c, true, ret, e);
}

int http_client_try(struct http_client *c, struct str *ret, struct err *e)
{
    return next_body_piece(c, false, ret, e);
}

int http_client_await_fds(struct http_client *c, struct err *e)
{
    while (c->fds_n_ == 0 && pending_input(c).n == 0) {
        ssize_t got = receive_input(c, e);

        if (got < 0)
            return (int)got;
        if (got == 0)
            return err_set(e, ERR_UPSTREAM, "the server closed the connection");
    }
    return 0;
}

size_t http_client_take_fds(struct http_client *c, int *fds, size_t cap)
{
    size_t n = c->fds_n_ < cap ? c->fds_n_ : cap;

    memcpy(fds, c->fds_, n * sizeof(*fds));
    memmove(c->fds_, c->fds_ + n, (c->fds_n_ - n) * sizeof(*fds));
    c->fds_n_ -= n;
    return n;
}

bool http_client_pending(const struct http_client *c)
{
    return pending_input(c).n > 0;
}

/* --- WebSocket --- */

static int random_bytes(unsigned char *out, size_t n, struct err *e)
{
    return getrandom(out, n, 0) == (ssize_t)n ? 0 : err_sys(e, "asking for random numbers");
}

static int send_upgrade(struct http_client *c, const struct http_client_request *q, const char *key,
                        struct err *e)
{
    enum { OURS = 4, ALL = 32 };
    struct h1_field fields[ALL] = {
        { STR("Connection"), STR("Upgrade") },
        { STR("Upgrade"), STR("websocket") },
        { STR("Sec-WebSocket-Version"), STR("13") },
        { STR("Sec-WebSocket-Key"), str_from(key) },
    };
    struct http_client_request all = *q;

    if (q->n > ALL - OURS || q->more || q->body.n > 0)
        return err_set(e, ERR_BUG, "a WebSocket request has no body and at most %d fields",
                       ALL - OURS);
    if (q->n > 0)
        memcpy(fields + OURS, q->fields, q->n * sizeof(*fields));
    all.method = STR("GET");
    all.fields = fields;
    all.n = q->n + OURS;
    return http_client_send(c, &all, e);
}

int http_client_websocket(struct http_client *c, const struct http_client_request *q,
                          size_t max_message, const struct h1_response **ret, struct err *e)
{
    char key[ACCEPT_KEY_LENGTH + 1], accept[ACCEPT_LENGTH + 1];
    unsigned char nonce[16];
    int r = random_bytes(nonce, sizeof(nonce), e);

    if (r < 0)
        return r;
    accept_make_key(nonce, key);
    r = send_upgrade(c, q, key, e);
    if (r < 0)
        return r;
    r = final_head(c, true, e);
    if (r < 0)
        return r;
    *ret = &c->response_;
    if (c->response_.status != 101) {
        start_body(c);
        return err_set(e, ERR_DENIED, "the server answered %d instead of a WebSocket",
                       c->response_.status);
    }
    accept_for_key(str_from(key), accept);
    if (!c->response_.head.upgrade || !h1_same(c->response_.head.proto, STR("websocket")) ||
        !str_eq(h1_value(&c->response_.head, STR("sec-websocket-accept")), str_from(accept)))
        return err_set(e, ERR_UPSTREAM, "the server switched to something that is no WebSocket");
    frame_reader_init(&c->frames_, false, max_message);
    return 0;
}

int http_client_ws_send(struct http_client *c, enum frame_op op, struct str data, struct err *e)
{
    AUTO(buf_done) struct buf out = BUF_INIT(data.n + FRAME_HEAD_MAX);
    unsigned char head[FRAME_HEAD_MAX], mask[4];
    size_t n;
    int r = random_bytes(mask, sizeof(mask), e);

    if (r < 0)
        return r;
    n = frame_head(head, op, true, data.n, mask);
    buf_add(&out, (struct str){ (const char *)head, n });
    buf_add(&out, data);
    frame_mask(out.p + n, data.n, mask, 0);
    for (struct str s = buf_str(&out); s.n > 0;) {
        ssize_t sent;

        r = await_client_events(c, POLLOUT,
                                e); /* unlike an answer to a request, input is no reason to stop */
        if (r < 0)
            return r;
        sent = send(c->fd, s.p, s.n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return err_sys(e, "sending to the server");
        if (sent > 0)
            s = (struct str){ s.p + sent, s.n - (size_t)sent };
    }
    return 0;
}

/* 1: for the caller; 0: dealt with. */
static int answer_control(struct http_client *c, const struct frame_message *m, struct err *e)
{
    char payload[FRAME_CONTROL_MAX];

    if (m->op == FRAME_PING)
        return http_client_ws_send(c, FRAME_PONG, m->data, e);
    if (m->op == FRAME_CLOSE) {
        size_t n = frame_close(payload, m->code, (struct str){ 0 });

        http_client_ws_send(c, FRAME_CLOSE, (struct str){ payload, n }, NULL); /* out of courtesy */
    }
    return m->op != FRAME_PONG;
}

int http_client_ws_read(struct http_client *c, struct frame_message *ret, struct err *e)
{
    for (;;) {
        struct str in = pending_input(c);
        int r = frame_read(&c->frames_, &in, ret, e);
        ssize_t got;

        take_pending(c, in.n);
        if (r < 0)
            return r;
        if (r > 0) {
            r = answer_control(c, ret, e);
            if (r != 0)
                return r < 0 ? r : ret->op != FRAME_CLOSE;
            continue;
        }
        got = receive_input(c, e);
        if (got < 0)
            return (int)got;
        if (got == 0)
            return err_set(e, ERR_UPSTREAM, "the server vanished without closing the WebSocket");
    }
}
