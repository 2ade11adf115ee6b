/* The one question before a tool runs: may this peer call it, like this, now?
 *
 *     op->ask = (struct trust_question){ .tool = name, .args = args, .peer = peer, … };
 *     op->done = on_verdict;
 *     trust_ask(t, op);
 *
 * Whoever serves calls of tools asks here and nowhere else, then does what the verdict says: runs
 * the call, or answers with the verdict's code, reason and ids. A call that has to wait for a
 * master is on disk with its arguments before the verdict is told; when it is approved, `run` of
 * the trust_runner is called with them, once. Everything happens on the loop's thread. */
#ifndef TRUST_TRUST_H
#define TRUST_TRUST_H

#include "control/control.h"
#include "model/role.h"
#include "trust/capabilities.h"
#include "trust/verdict.h"

struct trust;
struct peer; /* trust/peers.h */

/* How many refusals were put on record one by one, as rates are kept; and how many since were not.
 */
struct audit_meter {
    int64_t until_ns;
    uint64_t unrecorded;
};

struct trust_setup {
    struct control *control;
    struct tokens *tokens; /* that peers come with; NULL: with none */
    const char *bundle;    /* file; NULL: the built-in one. Borrowed, as long as it is open */
    unsigned failure;      /* enum trust_failure: what holds if it cannot be loaded */
    unsigned mode;         /* enum trust_mode + 1, instead of the bundle's; 0: as that says */
    bool self_approval;    /* as in the configuration */
    int64_t silence_ns;    /* that ends a peer */
    int64_t grace_ns;      /* for one whose client left to come back */
};

/* Loads the bundle and takes up peers and held calls of an earlier life. Blocks: before the loop
 * runs, after control_open(). */
int trust_open(const struct trust_setup *s, struct trust **ret, struct err *e);
/* Before the control plane; NULL is fine. Operations under way end without a word. */
void trust_close(struct trust *t);

/* Reads the bundle again: all of it is in force, or the last good one still is. 1 if it is another
 * one, and then what waits for a master under the old one is invalid. */
int trust_reload(struct trust *t, struct err *e);

struct trust_policy;
const struct trust_policy *trust_current(const struct trust *t); /* trust/policy.h */

/* --- Asking. --- */

struct trust_question {
    struct str tool;         /* "sandbox_exec" */
    const struct json *args; /* an object: the tool's arguments; NULL: {} */
    /* What the sandbox that the call is about has declared; NULL: it is about none, or makes one
     * (then its arguments say so). */
    const struct trust_capabilities *sandbox;
    /* What a new sandbox, or the new network of one, would have, as it was worked out from the
     * whole request; NULL: what the arguments say. */
    const struct trust_capabilities *declares;
    struct peer *peer;
    enum role role;          /* of who asks now; the peer's counts where that is less */
    unsigned makes;          /* sandboxes, of a tool that creates; 0: one */
    struct str request;      /* of HTTP: "POST /v1/…"; empty: it is the tool that is called */
    const struct json *held; /* what is kept of a call that waits, instead of args; NULL: those */
    const char *not_held;    /* why a master could not be shown all of it; NULL: that is possible */
};

struct trust_op {
    /* in; borrowed until done */
    struct trust_question ask;
    /* Never from inside trust_ask(). r < 0: it could not be decided or recorded, which is a no. */
    void (*done)(struct trust_op *op, int r, const struct err *e);
    /* out */
    struct verdict verdict;
    /* private */
    struct trust *trust_;
    struct link link_;
    struct loop_later later_;
    struct trust_write *write_;
    struct recording *recording_;
    int r_;
    struct err err_;
};
void trust_ask(struct trust *t, struct trust_op *op);
/* Whether a call like that would wait for a master, as things are: nothing is used up. */
bool trust_would_hold(struct trust *t, const struct trust_question *q);
/* Whether it would be allowed at once, in the same way. */
bool trust_would_allow(struct trust *t, const struct trust_question *q);
/* Whether the policy looks at what a sandbox may write. */
bool trust_asks_filesystem(const struct trust *t);
/* The owner goes: nothing is told any more. What was to be recorded is recorded. */
void trust_op_cancel(struct trust_op *op);

/* A refusal that no policy decided, for the record. */
struct trust_refusal {
    const char *type;  /* of the event */
    struct peer *peer; /* NULL: none is known */
    const char *owner; /* "": not known either */
    const struct actor *actor;
    struct str tool; /* or what else it is about; may be empty */
    int code;        /* of JSON-RPC, or 0 */
    const char *reason;
    const char *audit; /* id that the caller was told; NULL: none */
};
/* Becomes an event; of those who are refused again and again, only some are, and the others are
 * counted. */
void trust_refused(struct trust *t, const struct trust_refusal *x);

/* --- Running what was approved. --- */

/* One approved call, to be run now with the arguments it was asked with. */
struct trust_call {
    char request_id[ID_MAX];
    char tool[64];
    const struct json *args;     /* on the call's own arena, until done; the same below */
    struct str request;          /* that it was, with args; empty: a call of the tool */
    const struct caller *caller; /* as whom: sees what the peer sees */
    char peer[ID_MAX];
    /* private */
    struct arena arena_;
    struct trust *trust_;
    struct peer *peer_; /* referenced */
    struct caller caller_;
    struct link link_;
};

struct trust_runner {
    /* Runs the call and tells with trust_call_done(), now or later. */
    void (*run)(void *user, struct trust_call *c);
    void *user;
};
void trust_set_runner(struct trust *t, const struct trust_runner *r);
/* The result: JSON, what the tool answered. `failed`: it is an error. The call is freed. */
void trust_call_done(struct trust_call *c, bool failed, struct str result);

#endif
