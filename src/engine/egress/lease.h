/* One lease per dial: all that an upstream connection may take and all that is on record of it.
 *
 *     authorize.h ──► DECIDED ──► READY ──► OPEN ──► CLOSED
 *
 * A lease holds one decision with the addresses of one lookup, which the sandbox's budget paid for;
 * it takes one use of a rule with `uses`, and it has one Open and one Close in the audit record,
 * both with the uid of its decision. dial.h connects with a lease that it opens, and with no other;
 * a connection that is dialled again needs another lease. A new policy is asked about a lease that
 * is open (authorize_again()) and leaves its uid as it is.
 *
 * Names leave a worker in lease_look_up() alone: by proxy, captured, or asked for by DNS. */
#ifndef EGRESS_LEASE_H
#define EGRESS_LEASE_H

#include "egress/audit.h"
#include "egress/authorize.h"

enum lease_state {
    LEASE_DECIDED, /* or not yet; nothing is taken */
    LEASE_READY,   /* its use is taken, its Open is written before the turn is over */
    LEASE_OPEN,    /* on record: it is dialled, or stands */
    LEASE_CLOSED,
};

struct lease {
    struct egress_box *box;
    struct egress_intent intent;
    struct egress_decision decision;
    enum lease_state state;
    int64_t opened; /* CLOCK_MONOTONIC ns */

    bool looking_; /* its lookup runs, and asks servers */
    struct audit_open open_;
};

/* Numbers the decision, which denies. */
struct lease *lease_new(struct egress_box *b, const struct egress_intent *i);
/* One that is open is closed. NULL is fine. */
void lease_free(struct lease *l);

/* Puts the denial on record that is in decision.why and .status. Returns false, so that a step can
 * end with it. */
bool lease_deny(struct lease *l);
/* The same with a reason of our own. */
bool lease_refuse(struct lease *l, int status, const char *code, const char *next, const char *fmt,
                  ...) __attribute__((format(printf, 5, 6)));

/* The same where the audit record does not take it. */
bool lease_refuse_unrecorded(struct lease *l);

/* Looks the intent's name up. A lookup that asks servers costs one of the sandbox's lookups and is
 * on record before it leaves. False: it may not, and the denial is on record. `done` calls
 * lease_found() first. */
bool lease_look_up(struct lease *l, struct dns_lookup *k, dns_lookup_fn *done);
void lease_found(struct lease *l);
/* Whether the sandbox may have one more lookup now. */
bool lease_lookup_left(const struct egress_box *b);

/* Takes the use of a lease that is decided, and has its Open written with the other lines of this
 * turn: for who opens it later in the same turn. False: there is no use left; the denial is on
 * record. */
bool lease_prepare(struct lease *l);
/* The same, and its Open comes before whatever is recorded next. True for one that is open. */
bool lease_announce(struct lease *l);
/* Just before it is dialled: whether it may be, since its decision is the current policy's and it
 * is on record. Prepares it, if nobody did. False: the denial is on record. */
bool lease_open(struct lease *l);
/* It is over, whether it was dialled or not. Only the first call counts; one whose Open is not on
 * record has no Close. NULL is fine. */
void lease_close(struct lease *l, uint64_t bytes_out, uint64_t bytes_in, const char *how);

#endif
