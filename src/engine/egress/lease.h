/* SPDX-License-Identifier: Apache-2.0 */
/* One lease per dial: everything that an upstream connection consumes, and its audit record.
 *
 *     authorize.h ──► DECIDED ──► READY ──► OPEN ──► CLOSED
 *
 * A lease holds one decision with the addresses of one lookup, which was charged to the sandbox's
 * budget; it takes one use of a rule with `uses`, and it has one Open and one Close in the audit
 * record, both with the uid of its decision. dial.h opens the lease that it connects with; a
 * connection that is dialled again needs another lease. A new policy is applied to an open lease
 * with authorize_again(), which keeps the uid.
 *
 * lease_look_up() is the only place where a worker sends names to resolvers: for proxy requests,
 * captured connections and policy DNS. */
#ifndef ENGINE_EGRESS_LEASE_H
#define ENGINE_EGRESS_LEASE_H

#include "engine/egress/audit.h"
#include "engine/egress/authorize.h"

enum lease_state {
    LEASE_DECIDED, /* or not decided yet; nothing is consumed */
    LEASE_READY,   /* its use is taken, its Open is written in this turn */
    LEASE_OPEN,    /* recorded; being dialled, or connected */
    LEASE_CLOSED,
};

struct lease {
    struct egress_box *box;
    struct egress_intent intent;
    struct egress_decision decision;
    enum lease_state state;
    int64_t opened; /* CLOCK_MONOTONIC ns */

    bool looking_; /* its lookup is running and queries servers */
    struct audit_open open_;
};

/* Assigns the decision's id; the decision denies. */
struct lease *lease_new(struct egress_box *b, const struct egress_intent *i);
/* Closes an open lease. Accepts NULL. */
void lease_free(struct lease *l);

/* Records the denial in decision.why and .status. Returns false, so that a step can return its
 * result. */
bool lease_deny(struct lease *l);
/* The same with a reason that no rule gave. */
bool lease_refuse(struct lease *l, int status, const char *code, const char *next, const char *fmt,
                  ...) __attribute__((format(printf, 5, 6)));

/* The same for an event that the audit record did not take. */
bool lease_refuse_unrecorded(struct lease *l);

/* Looks up the intent's name. A lookup that queries servers is charged to the sandbox's budget and
 * recorded before it is sent. Returns false if it is not allowed; the denial is recorded. `done`
 * must call lease_found() first. */
bool lease_look_up(struct lease *l, struct dns_lookup *k, dns_lookup_fn *done);
void lease_found(struct lease *l);
/* Whether the sandbox's budget allows one more lookup now. */
bool lease_lookup_left(const struct egress_box *b);

/* Takes the use of a decided lease, and has its Open written with the other lines of this turn, for
 * callers that open it later in the same turn. Returns false if no use is left; the denial is
 * recorded. */
bool lease_prepare(struct lease *l);
/* Like lease_prepare(), but writes the Open before the next record. True for an open lease. */
bool lease_announce(struct lease *l);
/* Opens the lease just before it is dialled: checks that its decision is current and its Open is
 * recorded. Prepares it, if needed. Returns false if it may not be dialled; the denial is
 * recorded. */
bool lease_open(struct lease *l);
/* Ends the lease, whether it was dialled or not. Only the first call counts; a lease whose Open is
 * not recorded gets no Close. Accepts NULL. */
void lease_close(struct lease *l, uint64_t bytes_out, uint64_t bytes_in, const char *how);

#endif
