/* SPDX-License-Identifier: Apache-2.0 */
/* One client connection that speaks HTTP/1.1, and its requests one after the other: the common part
 * of relay_http() and relay_forward().
 *
 * A request is parsed strictly, assigned to a destination, decided, judged and recorded before a
 * byte of it goes upstream. Then request and answer are transferred at the same time, each with
 * back-pressure. Pipelined requests wait until the current one is complete. Malformed input from
 * either side ends the connection.
 *
 *     IDLE ──► DECIDING ──► DIALLING ──► RUNNING ──► IDLE
 *       └──────────┴────────────┴──────────┴──► LINGERING ──► ENDED
 *
 * An upstream connection is reused for the same authority and generation after a complete exchange,
 * and only by this client. Each connection has its own lease, so one that is dialled again is
 * decided again. A new policy applies at once: a running exchange that it does not allow is reset,
 * and a pending one is decided anew.
 *
 * egress_judge() judges every request. If requests are inspected, fields that override the method
 * or path, and offers of h2c, are removed (rewrite.h). A `_method` in a body is not seen: with a
 * server that honours it, a client that may POST can use every method. CONNECT is refused in
 * tunnels and captured connections.
 *
 * Private to relays. Files: exchange.c (sockets, time, end), setup.c (decision, dialling),
 * request.c (client → upstream), answer.c (upstream → client). */
#ifndef ENGINE_EGRESS_RELAYS_EXCHANGE_H
#define ENGINE_EGRESS_RELAYS_EXCHANGE_H

#include "engine/egress/lease.h"
#include "engine/egress/relays/queue.h"
#include "engine/egress/relays/relays.h"
#include "lib/http/body.h"
#include "lib/loop/fd.h"
#include "lib/loop/timer.h"

enum exchange_state {
    EXCHANGE_IDLE,     /* waits for a request, or for the rest of its head */
    EXCHANGE_DECIDING, /* the head stays at the front of `in` in this and the next state */
    EXCHANGE_DIALLING,
    EXCHANGE_RUNNING,   /* transfers the request and its answer */
    EXCHANGE_LINGERING, /* sends the final answer; discards further input */
    EXCHANGE_ENDED,     /* freed at the end of the batch */
};

enum {
    EXCHANGE_INTERIM_MAX = 32,         /* 1xx responses before an answer */
    EXCHANGE_LINGER_BYTES = 256 << 10, /* discarded before the connection is closed */
    EXCHANGE_READ_MAX = EGRESS_READ_MAX,
};
#define EXCHANGE_LINGER_NS (5 * NS_PER_S)

/* A refusal: the HTTP status and the reason. */
struct exchange_refusal {
    int status;
    struct egress_reason why;
};

struct exchange;
/* Checks whether the relay accepts the request, and sets its destination in x->intent with
 * exchange_aim(). On a refusal, fills *no and returns false. */
typedef bool exchange_target_fn(struct exchange *x, const struct h1_request *q,
                                struct exchange_refusal *no);

struct exchange_request {
    bool judged;          /* allowed under the current decision */
    bool waits;           /* not sent before the end of the turn, when it is recorded */
    uint64_t ticket;      /* of the audit record */
    bool keep_alive, old; /* old: HTTP/1.0 */
    bool lost;            /* upstream does not accept the rest of it */
    bool upgrades;        /* it requests another protocol */
    enum h1_method method;
    char method_text[H1_METHOD_MAX + 1];
    struct buf target;      /* storage of … */
    struct str path, query; /* … these, unchanged */
    struct body body;
};

struct exchange_answer {
    bool received; /* a byte of it was received */
    bool begun;    /* its final head was sent to the client */
    bool done;
    bool chunked, until_close; /* framing towards the client */
    bool close;                /* the answer announces the end of the connection */
    bool reusable;             /* upstream can be reused afterwards */
    unsigned interim;
    struct h1_scan scan;
    struct body body;
};

struct exchange_setup;

struct exchange {
    struct egress_box *box;
    struct egress_open open;
    exchange_target_fn *set_target;
    bool aimed;              /* the intent is fixed: a tunnel, or a captured connection */
    relay_tunnel_fn *tunnel; /* takes over a CONNECT; NULL: CONNECT is refused */
    enum exchange_state state;

    struct egress_intent intent;
    struct lease *lease;          /* NULL: the intent is not decided */
    struct exchange_setup *setup; /* exists while deciding and dialling */

    int client_fd, upstream_fd; /* upstream_fd -1: none */
    struct loop_fd client, upstream;
    struct buf in;   /* received from the client, not yet consumed */
    struct buf back; /* received from upstream: the head of an answer */
    struct queue up, down;
    struct buf greeting; /* sent once upstream is connected */
    bool client_ended;   /* the client has closed its sending side */
    struct h1_scan scan; /* of the head in `in` */

    struct exchange_request request;
    struct exchange_answer answer;

    bool reading;                 /* a part of a head was received */
    bool used;                    /* upstream has served an exchange */
    bool outdated;                /* dialled under an older policy: not reused */
    uint64_t bytes_out, bytes_in; /* on the current upstream */

    size_t thrown;    /* bytes discarded while lingering */
    int64_t deadline; /* the timer may fire earlier, and checks again */
    struct loop_timer timer;
    struct loop_later kept, later;
};

/* --- exchange.c --- */

/* Takes over the socket. Returns NULL, with the socket closed, on failure. The caller then calls
 * exchange_next(). */
struct exchange *exchange_new(struct egress_box *b, int client, struct str read,
                              exchange_target_fn *set_target);
/* Waits for the events that the state needs: the last call of every callback. */
void exchange_settle(struct exchange *x);
void exchange_wait(struct exchange *x, int64_t ns); /* sets the deadline */
/* Extends the deadline of a running exchange, according to the side that is waited for. */
void exchange_moved(struct exchange *x);

/* closes both sockets; `how` is for the audit */
void exchange_end(struct exchange *x, const char *how);
/* resets both, so that neither looks complete */
void exchange_abort(struct exchange *x, const char *how);
/* closes after the client has read the queue */
void exchange_linger(struct exchange *x, const char *how);
/* Sends a denial as the last answer of the connection. */
void exchange_refuse(struct exchange *x, const struct exchange_refusal *no, const char *how);
/* The same with texts of ours. */
void exchange_refuse_as(struct exchange *x, int status, const char *code, const char *text,
                        const char *how);
/* Appends a piece of a body, as a chunk if `chunked`. */
int exchange_add_piece(struct buf *out, bool chunked, struct str piece);
/* Ends the exchange; the client's socket and the unconsumed input go to x->tunnel. */
void exchange_hand_over(struct exchange *x);
void exchange_drop_upstream(struct exchange *x, bool reset, const char *how);

/* --- setup.c --- */

void exchange_decide(struct exchange *x); /* drops an earlier lease first */
void exchange_dial(struct exchange *x);
void exchange_cancel(struct exchange *x); /* stops deciding, dialling, or a waiting request */
void exchange_forget(struct exchange *x); /* drops the lease and its upstream */
/* Whether there is a lease of the current policy, connected or yet to be dialled. */
bool exchange_has_lease(const struct exchange *x);
/* The lease's decision, or an empty one. */
const struct egress_decision *exchange_decision(const struct exchange *x);
/* Sets the intent's host and port. If they differ from before, drops the lease and the upstream. */
void exchange_aim(struct exchange *x, const struct host *h, uint16_t port);
/* Whether the current policy allows the running exchange, which then continues under it. */
bool exchange_reconsider(struct exchange *x);
bool exchange_inspected(const struct egress_match *m);

/* --- request.c --- */

void exchange_next(struct exchange *x);       /* processes the buffered input */
void exchange_take(struct exchange *x);       /* reads more of the body from `in` */
void exchange_push(struct exchange *x);       /* sends upstream */
bool exchange_sent(const struct exchange *x); /* the whole request has been sent */
struct egress_action exchange_action(const struct exchange *x); /* the request, to judge it */

/* --- answer.c --- */

void exchange_read_upstream(struct exchange *x); /* upstream can be read */
void exchange_deliver(struct exchange *x);       /* sends to the client; ends a complete exchange */

/* Sets a refusal with texts of ours; `next` may be empty. Returns false, so that a check can return
 * its result. */
bool exchange_set_refusal(struct exchange_refusal *no, int status, const char *code,
                          const char *text, const char *next);

#endif
