/* One client connection that speaks HTTP/1.1 and the requests on it, one after the other: what
 * relay_http() and relay_forward() have in common.
 *
 * A request is read strictly, placed (whose is it?), decided, judged and put on record before a
 * byte of it goes upstream; then it and its answer flow at the same time, each no faster than its
 * reader takes it. What is pipelined behind it waits unread or unparsed until it is over. Whatever
 * cannot be understood, from either side, ends the connection.
 *
 *     IDLE ──► DECIDING ──► DIALLING ──► RUNNING ──► IDLE
 *       └──────────┴────────────┴──────────┴──► LINGERING ──► ENDED
 *
 * An upstream connection is used again for the same authority and generation after a complete
 * exchange, and by this client only. One that is dialled again is decided again: each has a lease.
 * A new policy is asked at once: what is under way goes on if it
 * allows it and is reset if not, what is about to start is decided anew.
 *
 * egress_request() judges every request. Where requests are inspected, fields that name another
 * method or path are left out (rewrite.h), and an offer of h2c. A `_method` in a body is not seen:
 * a server that heeds it lets whoever may POST do all the rest. CONNECT is refused in tunnels and
 * captured connections.
 *
 * Private to relays. Files: exchange.c (sockets, time, the end), setup.c (decision, dialling),
 * request.c (client → upstream), answer.c (upstream → client). */
#ifndef EGRESS_RELAYS_EXCHANGE_H
#define EGRESS_RELAYS_EXCHANGE_H

#include "egress/lease.h"
#include "egress/relays/queue.h"
#include "egress/relays/relays.h"
#include "http/body.h"
#include "loop/fd.h"
#include "loop/timer.h"

enum exchange_state {
    EXCHANGE_IDLE,     /* for a request, or for the rest of its head */
    EXCHANGE_DECIDING, /* its head is at the front of `in` in this state and the next */
    EXCHANGE_DIALLING,
    EXCHANGE_RUNNING,   /* the request goes up, its answer comes down */
    EXCHANGE_LINGERING, /* our last words go down; what still comes is thrown away */
    EXCHANGE_ENDED,     /* freed when the batch is over */
};

enum {
    EXCHANGE_INTERIM_MAX = 32,         /* 1xx before an answer */
    EXCHANGE_LINGER_BYTES = 256 << 10, /* thrown away before a connection is closed on them */
    EXCHANGE_READ_MAX = EGRESS_READ_MAX,
};
#define EXCHANGE_LINGER_NS (5 * NS_PER_S)

/* A refusal: what is answered, and why. */
struct exchange_no {
    int status;
    struct egress_reason why;
};

struct exchange;
/* Whether this relay takes the request, and where it is meant to go: sets x->intent by way of
 * exchange_aim(), or fills *no and returns false. */
typedef bool exchange_place_fn(struct exchange *x, const struct h1_request *q,
                               struct exchange_no *no);

struct exchange_request {
    bool judged;          /* allowed, under the current decision */
    bool waits;           /* nothing of it is sent before the turn is over and it is on record */
    uint64_t ticket;      /* of the audit record */
    bool keep_alive, old; /* old: HTTP/1.0 */
    bool lost;            /* upstream takes no more of it */
    bool upgrades;        /* it asks for another protocol */
    enum h1_method method;
    char method_text[H1_METHOD_MAX + 1];
    struct buf target;      /* holds … */
    struct str path, query; /* … these, as they came and are sent */
    struct body body;
};

struct exchange_answer {
    bool heard; /* a byte of it has come */
    bool begun; /* its final head went down */
    bool done;
    bool chunked, until_close; /* how it goes down */
    bool close;                /* the client was told that nothing follows */
    bool reusable;             /* upstream may be, after it */
    unsigned interim;
    struct h1_scan scan;
    struct body body;
};

struct exchange_setup;

struct exchange {
    struct egress_box *box;
    struct egress_open open;
    exchange_place_fn *place;
    bool aimed; /* the intent is one for good: a tunnel's, or a captured connection's */
    relay_tunnel_fn *tunnel; /* takes a CONNECT; NULL: there can be none */
    enum exchange_state state;

    struct egress_intent intent;
    struct lease *lease;          /* NULL: the intent is not decided */
    struct exchange_setup *setup; /* while deciding and dialling */

    int client_fd, upstream_fd; /* upstream_fd -1: none */
    struct loop_fd client, upstream;
    struct buf in;   /* from the client, not yet taken */
    struct buf back; /* from upstream: an answer's head in pieces */
    struct queue up, down;
    struct buf greeting; /* to be sent once upstream stands */
    bool client_ended;   /* it will send no more */
    struct h1_scan scan; /* of the head in `in` */

    struct exchange_request request;
    struct exchange_answer answer;

    bool reading;  /* a head has begun to come */
    bool used;     /* upstream has carried an exchange */
    bool outdated; /* it was dialled under an older policy: not for another request */
    size_t at;     /* of the decision's addresses, the one in use */
    uint64_t bytes_out, bytes_in; /* over the current upstream */

    size_t thrown;    /* bytes, while lingering */
    int64_t deadline; /* the timer may come earlier and looks again */
    struct loop_timer timer;
    struct loop_later kept, later;
};

/* --- exchange.c --- */

/* Takes the socket over; NULL, and the socket is closed, if that cannot be. The caller goes on with
 * exchange_next(). */
struct exchange *exchange_new(struct egress_box *b, int client, struct str read,
                              exchange_place_fn *place);
/* Wants of the sockets what the state wants: the last thing every callback does. */
void exchange_settle(struct exchange *x);
void exchange_wait(struct exchange *x, int64_t ns); /* from now on, at most that long */
/* Patience while a request and its answer are on their way, by who is waited for. */
void exchange_moved(struct exchange *x);

void exchange_end(struct exchange *x, const char *how);    /* closes both; `how` is for the audit */
void exchange_abort(struct exchange *x, const char *how);  /* resets both: neither may look whole */
void exchange_linger(struct exchange *x, const char *how); /* closes once what is queued is read */
/* The answer is a denial, and the connection's last. */
void exchange_refuse(struct exchange *x, const struct exchange_no *no, const char *how);
/* Ends; the client's socket and all that was read and not taken go to x->tunnel. */
void exchange_hand_over(struct exchange *x);
void exchange_drop_upstream(struct exchange *x, bool reset, const char *how);

/* --- setup.c --- */

void exchange_decide(struct exchange *x);
void exchange_dial(struct exchange *x);
void exchange_cancel(struct exchange *x); /* whichever is running, and a request that waits */
void exchange_forget(struct exchange *x); /* the lease, and what was reached by it */
/* Whether there is a lease that the policy in force gave, to be dialled or already there. */
bool exchange_has_lease(const struct exchange *x);
/* The lease's, or one that says nothing. */
const struct egress_decision *exchange_decision(const struct exchange *x);
/* The new intent's host and port. Another than before: nothing of the old one is used. */
void exchange_aim(struct exchange *x, const struct host *h, uint16_t port);
/* Whether what is under way is allowed by the policy that is now in force; then it goes on under
 * it. */
bool exchange_reconsider(struct exchange *x);
bool exchange_inspected(const struct egress_match *m);

/* --- request.c --- */

void exchange_next(struct exchange *x);       /* whatever is possible with what is there */
void exchange_take(struct exchange *x);       /* more of the request's body is in `in` */
void exchange_push(struct exchange *x);       /* sends upstream */
bool exchange_sent(const struct exchange *x); /* the whole request is gone */
struct egress_http exchange_http(const struct exchange *x); /* the request, to be judged */

/* --- answer.c --- */

void exchange_hear(struct exchange *x);    /* upstream can be read */
void exchange_deliver(struct exchange *x); /* sends to the client, and ends what is complete */

/* Fills in our own words; `next` may be empty. Returns false, so that a check can end with it. */
bool exchange_say_no(struct exchange_no *no, int status, const char *code, const char *text,
                     const char *next);

#endif
