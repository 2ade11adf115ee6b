/* SPDX-License-Identifier: Apache-2.0 */
/* The one authorization step: turns an intent into one decision, in a lease (lease.h).
 *
 * Checks in this order: the destination itself (metadata services, control-plane ports, addresses
 * of this machine), the identity of the client (only if a rule needs it, or for the record of a
 * denial), the policy, resolution
 * (exactly one lookup; none for a literal address or pinned addresses), the addresses. The first
 * denial ends the sequence. A denial is recorded before `done` is called, an allow when the lease
 * is opened. A failure to evaluate denies. If the policy changes meanwhile, the result is a denial
 * with the code "stale_policy", never a mixed decision. */
#ifndef ENGINE_EGRESS_AUTHORIZE_H
#define ENGINE_EGRESS_AUTHORIZE_H

#include "engine/egress/egress.h"

enum egress_adapter { EGRESS_BY_CONNECT, EGRESS_BY_FORWARD, EGRESS_BY_TRANSPARENT, EGRESS_BY_DNS };
const char *egress_adapter_name(enum egress_adapter a); /* "connect", … */

enum { EGRESS_PINNED_MAX = 16, EGRESS_ANCESTORS_MAX = 16, EGRESS_PATH_MAX = 256 };

/* Evidence about the process that holds the client's socket, from the kernel and PID 1, never from
 * argv. */
struct egress_who {
    bool known;
    int32_t pid;
    uint32_t uid;
    char binary[EGRESS_PATH_MAX]; /* resolved by inode; unknown if "(deleted)" */
    char hash[65];                /* SHA-256 in hex; empty: not computed */
    /* the nearest first; allocated with malloc() and owned by the decision: few decisions have any,
     * and tunnels are many */
    char (*ancestors)[EGRESS_PATH_MAX];
    size_t n_ancestors; /* at most EGRESS_ANCESTORS_MAX */
};

struct egress_intent {
    enum egress_adapter adapter;
    struct host host;
    uint16_t port;
    struct address client; /* address of the program's socket inside */
    uint16_t client_port;
    struct address dialled; /* EGRESS_BY_TRANSPARENT: the address that the program dialled */
    /* The addresses that policy DNS resolved and pinned for the synthetic address that was dialled:
     * dial only these. n_pinned 0: resolve. */
    struct address pinned[EGRESS_PINNED_MAX];
    size_t n_pinned;
};

struct egress_decision {
    enum egress_verdict verdict;      /* EGRESS_AUDITED allows */
    uint64_t id;                      /* in the audit record */
    struct egress_snapshot *snapshot; /* the policy that decided; counted reference */
    uint64_t generation;
    struct egress_match match;
    struct egress_reason why;
    int status; /* HTTP status of a denial: 403, or 502/504 if resolution failed */
    struct egress_who who;
    struct address addresses[EGRESS_PINNED_MAX]; /* checked: dial these, in this order */
    size_t n;
};

/* Releases the snapshot and the ancestors. Accepts a zeroed decision. */
void egress_decision_done(struct egress_decision *d);
/* Whether the box still has the policy that decided, and the entry that allowed has not expired.
 * Checked before every upstream write. */
bool egress_decision_current(const struct egress_decision *d, const struct egress_box *b);

struct lease;
struct authorization;
typedef void authorization_fn(struct authorization *a);

/* Embedded in its owner; zeroed before use. `done` is called once, from the loop, never from inside
 * authorize_start(); then `lease` has the decision. The owner takes the lease, or
 * authorize_cancel() frees it. */
struct authorization {
    struct egress_box *box;
    struct lease *lease;

    authorization_fn *done_;
    struct dns_lookup lookup_;
    struct loop_later later_;
    void *who_;       /* a running query of egress_who_ops */
    bool asked_;      /* the program was asked for … */
    bool attributes_; /* … for the record of a denial, which waits for it */
};

void authorize_start(struct authorization *a, struct egress_box *b, const struct egress_intent *i,
                     authorization_fn *done);
/* Stops the authorization and frees the lease; `done` is not called. Accepts a zeroed one. */
void authorize_cancel(struct authorization *a);

/* Checks a lease that an earlier policy allowed against the box's current policy: the intent, the
 * program, and n of the decision's addresses, beginning with `first` (those that are dialled).
 * Returns true if all of it is still allowed and inspected as before; the lease then has the new
 * decision under its old uid. Otherwise records the denial and returns false; the decision is
 * unchanged except for `why`, and the caller must close the connection. */
bool authorize_again(struct lease *l, size_t first, size_t n);

/* Judges one request under a lease with egress_judge(), and records it. Nothing of the request
 * may go upstream before audit_kept() has returned true for the ticket. If the lease is not open
 * yet, its Open is recorded first. */
enum egress_verdict authorize_request(struct lease *l, const struct egress_action *q,
                                      struct egress_reason *why, uint64_t *ret_ticket);

/* Finds out which process holds the client's socket. Implemented by the worker, which asks its
 * control plane and PID 1. */
struct egress_who_ops {
    /* Calls authorize_known(a, who) once, at once or later; if later, sets a->who_. */
    void (*request)(struct authorization *a);
    void (*cancel)(struct authorization *a);
};
void authorize_known(struct authorization *a, const struct egress_who *who);

#endif
