/* Quarantine: calls that wait for a master.
 *
 * A held call is on disk with its arguments and the version of the policy that held it. It runs
 * once, with those arguments, when a master approves it; `running` is on disk before it runs, so
 * that a daemon that dies then finds it and says `interrupted`, and does not run it again. Nobody
 * approves what they asked for themselves, and nothing is approved under another policy than it was
 * held by. */
#ifndef TRUST_APPROVALS_H
#define TRUST_APPROVALS_H

#include "trust/trust.h"

enum {
    APPROVALS_MAX = 10000, /* that wait, of all peers */
    APPROVALS_PER_OWNER = APPROVALS_MAX / 4,
    APPROVALS_BYTES = 64 << 20,     /* of their arguments: a start reads them all; a quarter for one
                                     * owner */
    APPROVALS_OWN_BYTES = 8 << 20,  /* … of one token's or user's */
    APPROVALS_DAY_BYTES = 64 << 20, /* that one owner may bring in a day: decided ones are kept */
    APPROVAL_ARGS_MAX = 1 << 20,    /* bytes of JSON */
    APPROVAL_RESULT_MAX = 1 << 20,
    APPROVAL_REQUEST_MAX = 16 << 10, /* bytes of a method and target */
    APPROVAL_LABELS_MAX = 256 << 10,
    GRANTS_MAX = 10000,
    GRANTS_PER_OWNER = GRANTS_MAX / 4,
};

/* Who decides. */
struct trust_master {
    struct actor actor;
    char owner[OWNER_MAX];
    enum role role;
    bool by_token; /* that is a master's: good also for what its owner asked for … */
    bool admin;    /* … and an administrator's: for what its own family asked for, too */
    bool self;     /* a user on a terminal says so, knowing that the request is their own */
};

struct approval_op {
    /* in */
    char id[ID_MAX];
    struct trust_master master;
    const char *reason; /* of a rejection, and for the record; may be NULL */
    /* Approving only: the same tool on the same sandbox passes for so long, so often (0: as often
     * as it likes). 0: this one call alone. */
    int64_t grant_ns;
    uint32_t grant_uses;
    void (*done)(struct approval_op *op, int r, const struct err *e);
    /* out */
    char audit_id[ID_MAX]; /* of a refusal, under which it is on record; else "" */
    /* private */
    struct trust *trust_;
    struct grant_record grant_;
    struct link link_;
    struct loop_later later_;
    int r_;
    struct err err_;
};
/* Done when it is on disk; the call itself runs then. -ERR_NOT_FOUND; -ERR_DENIED: not by this one;
 * -ERR_CONFLICT: it does not wait any more, or the policy has changed. They cannot be cancelled. */
void approvals_approve(struct trust *t, struct approval_op *op);
void approvals_reject(struct trust *t, struct approval_op *op);

/* One that is under way; borrowed for the loop's turn. NULL: the store may have it, if it is
 * decided.
 */
const struct approval_record *approvals_find(struct trust *t, struct str id);

/* Hears of every change of a held call, when it is on disk. */
struct approval_waiter {
    char id[ID_MAX];
    void (*changed)(struct approval_waiter *w, const struct approval_record *r);
    struct link link_;
};
void approvals_wait(struct trust *t, struct approval_waiter *w);
void approval_waiter_stop(struct approval_waiter *w);

/* As JSON: what people and clients see; the arguments and the result only where they are asked for.
 */
void approval_write(struct json_writer *w, const struct approval_record *r, bool args);

#endif
