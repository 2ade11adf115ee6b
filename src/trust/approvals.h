/* SPDX-License-Identifier: Apache-2.0 */
/* Quarantine: tool calls that wait for a master's decision.
 *
 * A held call is stored with its arguments and the version of the policy that held it. It runs
 * once, with those arguments, when a master approves it. The state `running` is stored before it
 * runs, so that a daemon that crashes then marks it `interrupted` after the restart and does not
 * run it again. Requesters cannot approve their own calls, and a call is never approved under
 * another policy version than the one that held it. */
#ifndef TRUST_APPROVALS_H
#define TRUST_APPROVALS_H

#include "trust/trust.h"

enum {
    APPROVALS_MAX = 10000, /* waiting calls of all peers */
    APPROVALS_PER_OWNER = APPROVALS_MAX / 4,
    /* of arguments in total, all loaded at a start; a quarter per owner */
    APPROVALS_BYTES = 64 << 20,
    APPROVALS_OWN_BYTES = 8 << 20,  /* of arguments per token or user */
    APPROVALS_DAY_BYTES = 64 << 20, /* of arguments per owner and day: decided calls are kept */
    APPROVAL_ARGS_MAX = 1 << 20,    /* bytes of JSON */
    APPROVAL_RESULT_MAX = 1 << 20,
    APPROVAL_REQUEST_MAX = 16 << 10, /* bytes of a request line */
    APPROVAL_LABELS_MAX = 256 << 10,
    GRANTS_MAX = 10000,
    GRANTS_PER_OWNER = GRANTS_MAX / 4,
};

/* The master who decides. */
struct trust_master {
    struct actor actor;
    char owner[OWNER_MAX];
    enum role role;
    bool by_token; /* a master token: may also decide calls of its own owner */
    bool admin;    /* an administrator's token: may also decide calls of its own token family */
    bool self;     /* a user on a terminal confirmed to decide on their own request … */
    const char *not_self; /* … which this connection cannot: why; NULL: it can */
};

struct approval_op {
    /* in */
    char id[ID_MAX];
    struct trust_master master;
    const char *reason; /* reason of a rejection, and for the audit record; may be NULL */
    /* For approvals: also grants further calls of the same tool on the same sandbox for this long,
     * at most grant_uses times (0: unlimited). 0: no grant. */
    int64_t grant_ns;
    uint32_t grant_uses;
    void (*done)(struct approval_op *op, int r, const struct err *e);
    /* out */
    char audit_id[ID_MAX]; /* audit id if the decision was refused; otherwise "" */
    /* private */
    struct trust *trust_;
    struct grant_record grant_;
    struct link link_;
    struct loop_later later_;
    int r_;
    struct err err_;
};
/* Completes when the decision is stored; an approved call runs afterwards. -ERR_NOT_FOUND;
 * -ERR_DENIED: this master may not decide it; -ERR_CONFLICT: it is already decided, or the policy
 * has changed. Cannot be cancelled. */
void approvals_approve(struct trust *t, struct approval_op *op);
void approvals_reject(struct trust *t, struct approval_op *op);

/* An open call; borrowed for the current turn of the loop. NULL: not open; the store may have it as
 * decided. */
const struct approval_record *approvals_find(struct trust *t, struct str id);

/* Notified of every state change of a held call, after it is stored. */
struct approval_waiter {
    char id[ID_MAX]; /* "": of all calls, also of new ones */
    void (*changed)(struct approval_waiter *w, const struct approval_record *r);
    struct link link_;
};
void approvals_wait(struct trust *t, struct approval_waiter *w);
void approval_waiter_stop(struct approval_waiter *w);

/* Writes a held call as JSON; `args` includes its arguments and result. */
extern const struct json_shape approval_answer;
void approval_write(struct json_writer *w, const struct approval_record *r, bool args);

#endif
