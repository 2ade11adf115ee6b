/* The one authorization step: an intent becomes one decision, in a lease (lease.h).
 *
 * In order: the destination itself (metadata services, control-plane ports, our own addresses), who
 * asks (only if a rule needs it), the policy, resolution (exactly one lookup; a literal address or
 * pinned addresses need none), the addresses. The first no ends it. A denial is on the audit record
 * before `done` is called; an allow is when the lease is opened. Failure to evaluate denies. A
 * policy that changes meanwhile gives a denial with the code "stale_policy", never a mixed
 * decision. */
#ifndef EGRESS_AUTHORIZE_H
#define EGRESS_AUTHORIZE_H

#include "egress/egress.h"

enum egress_adapter { EGRESS_BY_CONNECT, EGRESS_BY_FORWARD, EGRESS_BY_TRANSPARENT, EGRESS_BY_DNS };
const char *egress_adapter_name(enum egress_adapter a); /* "connect", … */

enum { EGRESS_PINNED_MAX = 16, EGRESS_ANCESTORS_MAX = 16, EGRESS_PATH_MAX = 256 };

/* Evidence of who holds the client's socket, from the kernel and PID 1, never from argv. */
struct egress_who {
    bool known;
    int32_t pid;
    uint32_t uid;
    char binary[EGRESS_PATH_MAX];       /* resolved by inode; "(deleted)" ones are not known */
    char hash[65];                      /* SHA-256 of it in hex; empty: not taken */
    char (*ancestors)[EGRESS_PATH_MAX]; /* the nearest first; from malloc(), the decision's: most
                                           decisions have none, and tunnels are many */
    size_t n_ancestors;                 /* at most EGRESS_ANCESTORS_MAX */
};

struct egress_intent {
    enum egress_adapter adapter;
    struct host host;
    uint16_t port;
    struct address client; /* where the program's socket is, inside */
    uint16_t client_port;
    struct address dialled; /* EGRESS_BY_TRANSPARENT: where the program thinks it is connected to */
    /* What policy DNS resolved and pinned for the synthetic address that was dialled: dial these
     * and nothing else. n_pinned 0: resolve. */
    struct address pinned[EGRESS_PINNED_MAX];
    size_t n_pinned;
};

struct egress_decision {
    enum egress_verdict verdict;      /* EGRESS_AUDITED passes */
    uint64_t id;                      /* in the audit record */
    struct egress_snapshot *snapshot; /* what decided; a reference of the decision's */
    uint64_t generation;
    struct egress_match match;
    struct egress_reason why;
    int status; /* an HTTP answer's, if denied: 403, or 502/504 where resolution failed */
    struct egress_who who;
    struct address addresses[EGRESS_PINNED_MAX]; /* checked: dial these, in this order */
    size_t n;
};

/* Lets go of the snapshot and the ancestors. Harmless on a zeroed one. */
void egress_decision_done(struct egress_decision *d);
/* Whether the box still has the policy that decided, and what it decided by has not ended. Asked
 * before every upstream write. */
bool egress_decision_current(const struct egress_decision *d, const struct egress_box *b);

struct lease;
struct authorization;
typedef void authorization_fn(struct authorization *a);

/* Embedded in whoever waits; zeroed before. `done` fires once, from the loop, never from inside
 * authorize_start(); `lease` then has the decision. The owner takes it, or authorize_cancel() frees
 * it. */
struct authorization {
    struct egress_box *box;
    struct lease *lease;

    authorization_fn *done_;
    bool running_;
    struct dns_lookup lookup_;
    struct loop_later later_;
    void *who_; /* a running question of egress_who_ops */
};

void authorize_start(struct authorization *a, struct egress_box *b, const struct egress_intent *i,
                     authorization_fn *done);
/* `done` is not called any more; what was decided so far is let go of. Harmless on a zeroed one. */
void authorize_cancel(struct authorization *a);

/* Asks the box's policy about a lease that an earlier one allowed: the intent, the program and, of
 * the decision's addresses, the n from `first` on (what is dialled). If all of it is allowed still,
 * and inspected as before, the lease has the new decision under its old uid, and the answer is
 * true. Otherwise the decision stays what it was but for `why`, the denial is on record, and what
 * is open must end. */
bool authorize_again(struct lease *l, size_t first, size_t n);

/* One request under a lease: egress_request() and its audit record, of which nothing may go
 * upstream until audit_kept() has said yes to the ticket. The Open of a lease that is not open yet
 * comes first. */
enum egress_verdict authorize_request(struct lease *l, const struct egress_http *q,
                                      struct egress_reason *why, uint64_t *ret_ticket);

/* Who finds out who asks: implemented by the worker (through its control plane and PID 1). */
struct egress_who_ops {
    /* Answers by calling authorize_known(a, who) once, at once or later; then sets a->who_. */
    void (*ask)(struct authorization *a);
    void (*cancel)(struct authorization *a);
};
void authorize_known(struct authorization *a, const struct egress_who *who);

#endif
