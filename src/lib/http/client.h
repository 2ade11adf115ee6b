/* SPDX-License-Identifier: Apache-2.0 */
/* A blocking HTTP/1.1 client over one connected stream socket, unix or TCP: libc only, no loop.
 *
 *     http_client_init(&c, fd, patience);
 *     r = http_client_send(&c, &request, e);
 *     r = http_client_head(&c, &response, e);
 *     while ((r = http_client_read(&c, &piece, e)) > 0)
 *         …
 *
 * A body that ends too early is an error (-ERR_UPSTREAM), never an end. If the connection can be
 * used again, so can the client. */
#ifndef LIB_HTTP_CLIENT_H
#define LIB_HTTP_CLIENT_H

#include "lib/http/body.h"
#include "lib/http/frame.h"
#include "lib/http/h1.h"

enum { HTTP_CLIENT_FDS_MAX = 8 };

/* Hears of heads that come before the answer's. */
typedef void http_client_interim_fn(void *user, const struct h1_response *head);

struct http_client {
    int fd;           /* the caller's */
    int64_t patience; /* nanoseconds that one wait for the peer may last; 0: without end */
    bool reusable;    /* after a complete exchange: another may follow */
    http_client_interim_fn *interim; /* NULL unless set after the init; then any number may come */
    void *interim_user;
    struct buf in_;   /* received and not yet consumed */
    size_t at_;       /* how much of in_ was taken */
    struct buf head_; /* the response's head: its slices point here */
    struct h1_response response_;
    enum h1_method asked_;
    struct body body_;
    bool upgrade_; /* the request asked for another protocol */
    bool sent_all_;
    struct frame_reader frames_;
    int fds_[HTTP_CLIENT_FDS_MAX];
    size_t fds_n_;
};

void http_client_init(struct http_client *c, int fd, int64_t patience);
void http_client_done(struct http_client *c); /* closes descriptors not taken; not c->fd */

/* More of a request's body: returns bytes written to out, 0 at the end, or an error. */
typedef int http_client_more_fn(void *user, char *out, size_t cap, struct err *e);

struct http_client_request {
    struct str method, target;
    struct str host; /* empty: "localhost" */
    const struct h1_field *fields;
    size_t n;
    struct str body;           /* with Content-Length, unless `more` is given */
    const int *fd;             /* goes along, over a unix socket; NULL: none */
    http_client_more_fn *more; /* sent in chunks */
    void *user;
};

/* Sends the request. If the server answers before it has taken the whole body, sending stops and
 * that is no error: read the answer. */
int http_client_send(struct http_client *c, const struct http_client_request *q, struct err *e);

/* The final response's head; 1xx responses before it are skipped, or passed to `interim`. 101 is
 * final if the request asked for an upgrade, else an error; the bytes after it are read like a
 * body, up to the end of the stream. Valid until the next request. */
int http_client_head(struct http_client *c, const struct h1_response **ret, struct err *e);

/* The next piece of the body, valid until the next call: 1, or 0 at the end. */
int http_client_read(struct http_client *c, struct str *ret, struct err *e);

/* The same without waiting, for those who poll c->fd: -ERR_BUSY until a piece is there. */
int http_client_try(struct http_client *c, struct str *ret, struct err *e);

/* Waits until descriptors have come, or a byte behind the head: they come with the first one. */
int http_client_await_fds(struct http_client *c, struct err *e);

/* Takes the descriptors that came so far with the response's bytes, oldest first; returns how many.
 * They are the caller's. */
size_t http_client_take_fds(struct http_client *c, int *fds, size_t cap);

/* Asks for a WebSocket and checks the answer. On -ERR_DENIED the server answered otherwise: *ret is
 * its head, and the body can be read. */
int http_client_websocket(struct http_client *c, const struct http_client_request *q,
                          size_t max_message, const struct h1_response **ret, struct err *e);
int http_client_ws_send(struct http_client *c, enum frame_op op, struct str data, struct err *e);
/* The next message: 1, or 0 after the peer closed (ret holds its code). Pings are answered. */
int http_client_ws_read(struct http_client *c, struct frame_message *ret, struct err *e);
/* Whether a message may be there without waiting for the peer, for those who poll c->fd. */
bool http_client_pending(const struct http_client *c);

#endif
