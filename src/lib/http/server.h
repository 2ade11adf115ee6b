/* SPDX-License-Identifier: Apache-2.0 */
/* An HTTP/1.1 server on the loop.
 *
 * The server calls `on_request` when a request's head is complete. From then on there is an
 * exchange, which lasts until the handler has answered it; answering later is normal. The handler
 *
 *   - takes the body: http_collect() for all of it at once, http_stream() for pieces as they come;
 *     or ignores it, then it is read and dropped;
 *   - answers: http_respond() with everything at once, or http_begin(), http_write()…, http_end();
 *     or http_upgrade() and then talks bytes in both directions;
 *   - or gives up: http_fail().
 *
 * After http_respond(), http_end(), http_fail() or on_gone the exchange must not be used. Callbacks
 * come from the loop or from inside on_request's caller, never from inside a function the handler
 * calls. A handler may answer from any callback.
 *
 * One exchange at a time on a connection: the next request is looked at when the answer is
 * finished. A client that half-closes or vanishes is gone, even while nothing is read from it.
 *
 * A connection without a request holds no buffers. A slow, silent or hostile client costs its own
 * connection, and every connection counts against a caller's share (lib/quota/quota.h): the user of
 * a unix socket, the owner that http_bill() names once a request is authenticated, and until then
 * the address of a TCP client, which has few. At a limit, the connection of the same caller that
 * has been idle longest is closed in favour of a new one. Idle is a connection without a request,
 * and one whose request is answered though its body is still to come. A TCP client's request that
 * has arrived is read first: it may be a caller's. */
#ifndef LIB_HTTP_SERVER_H
#define LIB_HTTP_SERVER_H

#include <sys/socket.h>

#include "lib/quota/quota.h"
#include "lib/http/h1.h"
#include "lib/loop/loop.h"

enum {
    HTTP_QUEUE_SOFT = 64 << 10, /* queued output from which http_write() asks to wait */
    HTTP_QUEUE_HARD = 1 << 20,  /* queued output that http_write() never passes */
    HTTP_DRAIN_MAX = 64 << 10,  /* bytes of an unwanted body that are read to keep a connection */
    HTTP_FDS_MAX = 8,           /* descriptors in one http_write_fds() */
};
#define HTTP_RESPONSE_MAX ((size_t)64 << 20) /* a body given to http_respond() */

struct http_server;
struct http_exchange;
struct http_peer;

typedef void http_exchange_fn(struct http_exchange *x);

struct http_config {
    http_exchange_fn *on_request; /* required */
    void *user;                   /* http_user() */
    struct h1_limits limits;      /* zeroed members: H1_LIMITS */

    unsigned connections; /* of callers, at once; 0: 10,000 */
    unsigned reserve;     /* of these, for privileged callers */
    unsigned per_caller;  /* of these, of one caller; 0: no limit */
    unsigned per_token;   /* … with one token; 0: as per_caller */
    unsigned strangers;   /* TCP connections of unauthenticated clients, in addition; 0: 1,000 */
    unsigned per_address; /* of these, from one address; 0: no limit */
    unsigned exchanges;   /* at once, beyond it 503; 0: 1,000 */
    struct quota_limits buffered; /* bytes of collected bodies and of answers not taken yet */
    /* Whether a peer, known by its credentials alone, is privileged. NULL: no peer is. */
    bool (*privileged)(void *user, const struct http_peer *p);

    /* Nanoseconds; 0: the default. */
    int64_t head_ns; /* from a request's first byte to its head's last: 10 s, then 408 */
    int64_t body_ns; /* all of a collected body; between two pieces of a streamed one: 60 s, 408 */
    uint64_t body_rate; /* bytes a second that a streamed body brings, on average over body_ns: 1024
                           at least, then 408 */
    int64_t idle_ns;    /* between requests, and before the first: 75 s, then closed */
    int64_t write_ns;   /* without the client taking a byte of what is queued: 30 s, then cut */
    int64_t linger_ns;  /* after the last answer, for the client to close first: 2 s */
};

int http_server_new(struct loop *l, const struct http_config *c, struct http_server **ret,
                    struct err *e);

/* Serves a listening socket, unix or TCP; any number of them. The descriptor becomes the server's,
 * also on failure. */
int http_server_listen(struct http_server *s, int fd, struct err *e);
/* Serves one connected socket, in the same way. */
int http_server_adopt(struct http_server *s, int fd, struct err *e);
/* The same for a connection behind a TLS terminator: the client is at the other end of `net`, a TCP
 * socket that stays the caller's, and counts as a TCP client, not as a local user. Bytes that are
 * in fd already are read at once. Not from inside a handler. */
int http_server_adopt_for(struct http_server *s, int fd, int net, struct err *e);

/* Stops accepting, closes what waits, lets exchanges finish until the deadline (clock_mono()), cuts
 * what is left and then calls on_stopped once, from the loop. Answers from now on close their
 * connection. */
typedef void http_stopped_fn(struct http_server *s, void *user);
void http_server_stop(struct http_server *s, int64_t deadline, http_stopped_fn *on_stopped);

/* Cuts everything at once (on_gone is called) and frees. Not from inside a callback of the server's
 * exchanges. */
void http_server_free(struct http_server *s);

struct http_stats {
    unsigned connections, exchanges; /* now */
    uint64_t requests, refused;      /* ever; refused: answered by the server itself */
    uint64_t evicted, accept_paused; /* ever */
    uint64_t turned_away;  /* ever: connections for which their caller, or all, had no room */
    uint64_t out_of_bytes; /* ever: requests and answers that `buffered` had no room for */
    uint64_t strangers, buffered; /* now: unauthenticated connections; bytes */
};
void http_server_stats(const struct http_server *s, struct http_stats *ret);

/* The peer of a connection. */
struct http_peer {
    bool is_unix;
    struct ucred cred;                     /* of a unix peer, when it connected; pid 0: unknown */
    struct sockaddr_storage remote, local; /* of a TCP connection */
    bool is_tls;                           /* behind a TLS terminator */
};

const struct h1_request *http_request(const struct http_exchange *x); /* valid as long as x */
const struct http_peer *http_peer(const struct http_exchange *x);
struct loop *http_loop(const struct http_exchange *x);
void *http_user(const struct http_exchange *x); /* the configuration's */
/* The connection of a unix peer, for a caller that queries the kernel for its credentials;
 * borrowed; -1 for other peers. */
int http_connection_fd(const struct http_exchange *x);
/* The descriptor that came with the request, of a unix peer; borrowed until the exchange ends; -1:
 * none. Only the first one is kept. */
int http_received_fd(const struct http_exchange *x);

/* Counts the exchange's connection as this caller's from now on. -ERR_QUOTA or -ERR_BUSY if the
 * caller has no room for another one: the connection stays what it was and closes after the answer.
 * Before the body is asked for. */
int http_bill(struct http_exchange *x, const struct quota_who *who, struct err *e);
/* Counts bytes of the request that the handler keeps as long as the exchange. -ERR_BUSY or
 * -ERR_QUOTA if the caller has no room for them. */
int http_keep(struct http_exchange *x, size_t n, struct err *e);

/* The handler's own state of an exchange. */
void http_set_state(struct http_exchange *x, void *state);
void *http_state(const struct http_exchange *x);

/* Ends all connections that count as this part of a caller (a token) after it has lost its
 * permission: a request that was not answered gets this status, an answer under way is cut, and
 * on_gone is called, as for a client that left; connections without a request are closed. An
 * exchange with an on_ended is left to that. Costs as much as the part has connections. From the
 * loop, not from inside a handler. */
void http_end_part(struct http_server *s, struct str part, int status, struct str why);
/* Called by http_end_part() instead: it ends the exchange in the words of its protocol, at once, or
 * finishes an answer that says no more than its caller may know. */
void http_on_ended(struct http_exchange *x, http_exchange_fn *on_ended);

/* Called once if the exchange ends without the handler's doing: the client left, was too slow, its
 * caller lost its permission, or the server stops. The exchange must not be used afterwards. */
void http_on_gone(struct http_exchange *x, http_exchange_fn *on_gone);

/* --- The request's body. One of the two, once, before answering. --- */

/* Reads the whole body and calls `done` with it. A body above max is answered with 413 by the
 * server, and on_gone is called. The slice is valid as long as the exchange. */
typedef void http_body_fn(struct http_exchange *x, struct str body);
void http_collect(struct http_exchange *x, size_t max, http_body_fn *done);

/* Calls `piece` for every piece as it comes, and with an empty slice at the end. A body that is
 * malformed or late is answered with 400 or 408 if nothing was answered yet, else cut; on_gone is
 * called in both cases. */
void http_stream(struct http_exchange *x, http_body_fn *piece);
void http_body_pause(struct http_exchange *x); /* no pieces until resumed */
void http_body_resume(struct http_exchange *x);
/* Replaces body_ns for this exchange; 0: waits without end (a terminal's input). */
void http_body_patience(struct http_exchange *x, int64_t ns);
void http_body_any_rate(struct http_exchange *x); /* body_rate does not count for it */

/* --- The answer. Status 200 to 599. Fields are checked: -ERR_INVALID for what would not be one
 * line of a head, or for names that the connection writes itself (Content-Length, Connection,
 * Transfer-Encoding, Date); nothing is sent then. --- */

/* One more field of the answer's head, for every kind of answer; the last call counts. Both strings
 * are borrowed until the answer. */
void http_also(struct http_exchange *x, struct h1_field field);

/* Everything at once: copied where the client does not take it at once. -ERR_TOO_BIG above
 * HTTP_RESPONSE_MAX. */
int http_respond(struct http_exchange *x, int status, const struct h1_field *fields, size_t n,
                 struct str body, struct err *e);

/* A head of its own before the answer's, for news of how far it is: 102 with these fields. A client
 * that speaks HTTP/1.0 or has not taken what is queued is spared. */
int http_interim(struct http_exchange *x, const struct h1_field *fields, size_t n, struct err *e);

/* In pieces. length is what will be written, or HTTP_UNKNOWN: then it is chunked, or ends with the
 * connection for HTTP/1.0. */
#define HTTP_UNKNOWN (-1)
int http_begin(struct http_exchange *x, int status, const struct h1_field *fields, size_t n,
               int64_t length, struct err *e);

/* Returns 0, or 1 if more than HTTP_QUEUE_SOFT is queued: the bytes were taken, and on_drain is
 * called when the handler can continue. -ERR_BUSY if they would exceed HTTP_QUEUE_HARD: nothing was
 * taken. A client that has left is no error here: on_gone follows. The body of an answer to HEAD is
 * dropped. */
int http_write(struct http_exchange *x, struct str data, struct err *e);
/* The same with the data in up to two parts. */
int http_write_parts(struct http_exchange *x, const struct str *data, size_t n, struct err *e);
void http_on_drain(struct http_exchange *x, http_exchange_fn *on_drain);

/* The same with descriptors that arrive with the first of these bytes (at least one): unix sockets
 * only, -ERR_UNSUPPORTED elsewhere. They are duplicated; the caller's stay the caller's. */
int http_write_fds(struct http_exchange *x, struct str data, const int *fds, size_t n,
                   struct err *e);

size_t http_queued(const struct http_exchange *x);

/* Ends the answer. If less was written than promised the connection is cut. */
void http_end(struct http_exchange *x);

/* Gives up: an error answer if nothing was sent yet, else the connection is cut, so that the client
 * sees a truncated body. `why` is shown to the client. */
void http_fail(struct http_exchange *x, int status, struct str why);

/* Closes the connection without an answer, even if a part of it was sent. */
void http_cut(struct http_exchange *x);

/* Sends what is queued and closes in good order, without the last chunk: for a stream whose source
 * is gone, where a reset could overtake data or be taken for a failure of the network. A client
 * still sees that the body is incomplete; where it could not (no chunks), this is http_cut(). */
void http_drop(struct http_exchange *x);

/* 101 with these fields and `Connection: upgrade`; from then on http_write() sends bytes as they
 * are, `piece` receives the input, http_body_pause/resume work, and http_end() closes in good
 * order. A body of the request must have been read before. With CONNECT the answer is 200. The
 * server itself sends nothing afterwards, and has no timeouts but write_ns. */
int http_upgrade(struct http_exchange *x, const struct h1_field *fields, size_t n,
                 http_body_fn *piece, struct err *e);

#endif
