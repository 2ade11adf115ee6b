/* SPDX-License-Identifier: Apache-2.0 */
/* Decides before a tool runs whether this peer may call it, with these arguments, now.
 *
 *     op->ask = (struct trust_question){ .tool = name, .args = args, .peer = peer, … };
 *     op->done = on_verdict;
 *     trust_request(t, op);
 *
 * Every interface that serves tool calls requests a verdict here and enforces it: runs the call, or
 * answers with the verdict's code, reason and ids. A call that needs a master's approval is stored
 * with its arguments before the verdict is delivered; when it is approved, `run` of the
 * trust_runner is called with them, once. Everything runs on the loop's thread. */
#ifndef TRUST_TRUST_H
#define TRUST_TRUST_H

#include "control/control.h"
#include "domain/model/role.h"
#include "trust/capabilities.h"
#include "trust/verdict.h"

struct trust;
struct peer; /* trust/peers.h */

/* Rate state of stored refusals, and the number of refusals that were not stored since the last. */
struct audit_meter {
    int64_t until_ns;
    uint64_t unrecorded;
};

struct trust_setup {
    struct control *control;
    struct tokens *tokens; /* tokens of peers; NULL: none */
    const char *bundle;    /* file; NULL: the built-in one; borrowed until trust_close() */
    unsigned failure;      /* enum trust_failure: applies if the file cannot be loaded */
    unsigned mode;         /* enum trust_mode + 1: overrides the bundle's mode; 0: does not */
    bool self_approval;    /* as in the configuration */
    bool serves_tenants;   /* other users can reach the daemon: no self approval is offered */
    int64_t silence_ns;    /* silence after which a peer ends */
    int64_t grace_ns;      /* grace period for a client to return */
};

/* Loads the bundle and restores peers and held calls of earlier daemon runs. Blocks: call before
 * the loop runs, after control_open(). */
int trust_open(const struct trust_setup *s, struct trust **ret, struct err *e);
/* Call before control closes; NULL is fine. Pending operations end without a callback. */
void trust_close(struct trust *t);

/* Reloads the bundle. On failure the last valid one stays in force. Returns 1 if it changed; then
 * calls that wait under the old one become invalid. */
int trust_reload(struct trust *t, struct err *e);

/* Whether no call is held, is being decided or runs. */
bool trust_is_idle(struct trust *t);

struct trust_policy;
const struct trust_policy *trust_current(const struct trust *t); /* trust/policy.h */

/* --- verdicts --- */

struct trust_question {
    struct str tool;         /* "sandbox_exec" */
    const struct json *args; /* the tool's arguments, an object; NULL: {} */
    /* Capabilities of the call's sandbox; NULL: none, or the call creates one (then its arguments
     * declare them). */
    const struct trust_capabilities *sandbox;
    /* Capabilities of the new sandbox or network, derived from the whole request; NULL: those that
     * the arguments declare. */
    const struct trust_capabilities *declares;
    struct peer *peer;
    enum role role;          /* of the current caller; the lower of it and the peer's applies */
    unsigned makes;          /* number of sandboxes to create; 0: one */
    struct str request;      /* HTTP request: "POST /v1/…"; empty: a tool call */
    const struct json *held; /* stored for a held call instead of args; NULL: args */
    const char *not_held;    /* why the call cannot be held; NULL: it can */
};

struct trust_op {
    /* in; borrowed until done */
    struct trust_question ask;
    /* Never called inside trust_request(). r < 0: no verdict, or it could not be stored: treat as a
     * refusal. */
    void (*done)(struct trust_op *op, int r, const struct err *e);
    /* out */
    struct verdict verdict;
    /* private */
    struct trust *trust_;
    struct link link_;
    struct loop_later later_;
    struct trust_write *write_;
    struct verdict_recording *recording_;
    int r_;
    struct err err_;
};
void trust_request(struct trust *t, struct trust_op *op);
/* Whether such a call would be held now; consumes nothing. */
bool trust_would_hold(struct trust *t, const struct trust_question *q);
/* Whether such a call would be allowed now; consumes nothing. */
bool trust_would_allow(struct trust *t, const struct trust_question *q);
/* Whether the policy has rules on a sandbox's file access. */
bool trust_checks_filesystem(const struct trust *t);
/* Cancels the callback. Pending records are still stored. */
void trust_op_cancel(struct trust_op *op);

/* A refusal outside the policy, for the audit record. */
struct trust_refusal {
    const char *type;  /* type of the event */
    struct peer *peer; /* NULL: unknown */
    const char *owner; /* "": unknown */
    const struct actor *actor;
    struct str tool; /* tool or other object; may be empty */
    int code;        /* JSON-RPC code, or 0 */
    const char *reason;
    const char *audit; /* audit id in the answer; NULL: none */
};
/* Stores the refusal as an event; above the rate limit of a peer, refusals are only counted. */
void trust_refused(struct trust *t, const struct trust_refusal *x);

/* --- approved calls --- */

/* An approved call, to be run now with its original arguments. */
struct trust_call {
    char request_id[ID_MAX];
    char tool[64];
    const struct json *args;     /* on the call's arena, until done; the same below */
    struct str request;          /* the HTTP request, with args; empty: a tool call */
    const struct caller *caller; /* the caller to run it as: sees what the peer sees */
    char peer[ID_MAX];
    /* private */
    struct arena arena_;
    struct trust *trust_;
    struct peer *peer_; /* referenced */
    struct caller caller_;
    struct link link_;
};

struct trust_runner {
    /* Runs the call and completes it with trust_call_done(), now or later. */
    void (*run)(void *user, struct trust_call *c);
    void *user;
};
void trust_set_runner(struct trust *t, const struct trust_runner *r);
/* Completes a call with its JSON result; `failed`: the result is an error. Frees the call. */
void trust_call_done(struct trust_call *c, bool failed, struct str result);

#endif
