/* SPDX-License-Identifier: Apache-2.0 */
/* Server, connection and exchange from the inside. Private to http.
 *
 * A connection is OPEN (with or without an exchange), CLOSING (sending its last bytes), LINGERING
 * (our side is shut; further input is dropped, so that no reset overtakes the last answer) or DEAD
 * (freed at the end of the batch). The functions that a handler calls only record; the connection
 * advances in connection_run(), which is never on the stack twice. */
#ifndef LIB_HTTP_CONNECTION_H
#define LIB_HTTP_CONNECTION_H

#include "lib/http/body.h"
#include "lib/http/output.h"
#include "lib/http/server.h"
#include "lib/loop/fd.h"
#include "lib/loop/timer.h"

enum {
    READ_MAX = 64 << 10,
    BUFFERED_FREE = 16 << 10, /* bytes of a connection that are not worth counting */
};

/* Connections of one kind, which share one quota. */
struct connection_places {
    struct quota quota;
    struct list idle; /* struct http_connection, longest first */
};

struct http_server {
    struct loop *loop;
    struct http_config config;
    struct list listeners;
    struct list connections;
    struct connection_places callers,
        strangers; /* authenticated, or by the kernel's word; and others */
    struct quota buffered;
    unsigned n_connections, n_exchanges;
    struct http_stats stats;
    struct loop_timer accept_again, stop_timer;
    struct loop_later stopped;
    http_stopped_fn *on_stopped;
    bool stopping, paused;
    int64_t date_s; /* the second that `date` shows */
    char date[32];
    struct h1_request parsed;
    char input[READ_MAX]; /* shared: unconsumed input is copied to its connection */
};

enum connection_state {
    CONNECTION_OPEN,
    CONNECTION_CLOSING,
    CONNECTION_LINGERING,
    CONNECTION_DEAD
};

struct http_connection {
    struct http_server *server;
    enum connection_state state;
    struct loop_fd socket;
    struct loop_timer timer;
    struct loop_later kick, bury;
    struct link link;
    struct link idle, idle_share, idle_parts[QUOTA_PARTS_MAX]; /* in its places, share, parts */
    struct link of_part; /* of all that count in its first part, its token's */
    struct quota_hold place, buffered;
    int fd;
    int received; /* a descriptor that came with the input of a unix peer; -1: none */
    struct http_peer peer;
    int64_t read_deadline, write_deadline; /* 0: none */
    struct h1_scan scan;
    struct buf in; /* input that was not used up */
    struct http_output out;
    struct http_exchange *x;
    bool running; /* connection_run() is on the stack */
    bool broken;  /* to be cut as soon as no handler is on the stack */
};

enum body_mode { BODY_UNDECIDED, BODY_COLLECT, BODY_STREAM, BODY_RAW };

struct http_exchange {
    struct http_connection *c;
    struct h1_request request;
    void *state;
    http_exchange_fn *on_gone, *on_drain, *on_ended;

    struct body body;
    enum body_mode mode;
    http_body_fn *on_body;
    struct buf collected;
    uint64_t drained;
    int64_t patience;
    int64_t rate_by;   /* when a streamed body is too slow; 0: never */
    int64_t rate_left; /* … while it is paused */
    bool any_rate;
    size_t kept; /* http_keep() */
    bool paused, body_told, continue_due;

    bool begun, answered; /* the answer's head was made; its end was */
    bool chunked, no_body, close, wants_drain;
    int64_t promised;     /* bytes still to be written, or HTTP_UNKNOWN */
    struct h1_field also; /* http_also(); name.n == 0: none */

    char head[]; /* the request's head: `request` points here */
};

/* Takes over fd, which is non-blocking, and, unless it fails, the place. */
int connection_open(struct http_server *s, int fd, const struct http_peer *peer,
                    struct quota_hold *place, struct http_connection **ret, struct err *e);
/* Reads what has come already, if it waits for a request; a handler may run and it may end. Not
 * from inside a handler. */
void connection_check(struct http_connection *c);
/* A piece of a streamed body: how long the next may take. */
void exchange_piece_came(struct http_exchange *x, size_t n);
/* Counts what it keeps in memory. False: its caller has no room for that. */
bool connection_account(struct http_connection *c);
/* Ends the connection now and notifies its handler. Not from inside a handler. */
void connection_cut(struct http_connection *c);
/* Lets it move on at the end of the batch. */
void connection_kick(struct http_connection *c);
/* Sends what is queued and the parts. */
void connection_send(struct http_connection *c, const struct str *parts, size_t n);

/* A head, in `out`. length: HTTP_UNKNOWN for none to be written. */
struct answer_head {
    int status;
    const struct h1_field *fields;
    size_t n;
    struct h1_field also; /* name.n == 0: none */
    int64_t length;
    bool chunked, close, upgrade;
};
int answer_write_head(struct http_server *s, const struct answer_head *h, struct buf *out,
                      struct err *e);
/* The server's own error answer, as application/problem+json; the connection closes after it. */
void answer_error(struct http_server *s, int status, struct str why, bool with_body,
                  struct buf *out);

void server_connection_closed(struct http_server *s);
/* Ends the longest idle connection without a pending request in its socket, unauthenticated clients
 * first. False if none was found within the bounded search. Not from inside a handler. */
bool server_evict(struct http_server *s);
/* A place for a connection of this caller, taken from an idle connection if necessary. For
 * unauthenticated clients not from inside a handler: pending requests in their sockets are read
 * first. */
int server_take_place(struct http_server *s, struct connection_places *p,
                      const struct quota_who *who, struct quota_hold *ret, struct err *e);

#endif
