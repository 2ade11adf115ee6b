/* SPDX-License-Identifier: Apache-2.0 */
/* The policy decision point: a pure function of its input, without side effects.
 *
 * Checks are made in the order of trust_check_names[]; the first check that decides ends the
 * evaluation. A call that no check refuses is allowed. */
#ifndef TRUST_DECIDE_H
#define TRUST_DECIDE_H

#include "trust/bundle.h"
#include "trust/capabilities.h"

/* Behaviour if no bundle can be loaded: the built-in one, deny all, or allow all. */
enum trust_failure { FAILURE_STATIC, FAILURE_CLOSED, FAILURE_OPEN, FAILURE_COUNT_ };
extern const char *const trust_failure_names[FAILURE_COUNT_ + 1];

enum trust_check {
    CHECK_BUNDLE,       /* a bundle is loaded, and its mode is not `off` */
    CHECK_RULE,         /* the tool has a rule */
    CHECK_CAPABILITIES, /* the declared ones are valid; they select the terms */
    CHECK_ROLE,
    CHECK_ARGS,
    CHECK_RATE,
    CHECK_LIMITS,
    CHECK_APPROVAL,
    CHECK_COUNT_, /* no check decided: allow */
};
extern const char *const trust_check_names[CHECK_COUNT_ + 1];

/* Current usage of a peer. */
struct trust_usage {
    int64_t made;     /* sandboxes created within the last hour */
    int64_t lived_ns; /* lifetime of all its sandboxes within the last day */
    int64_t alive;
};

/* A direct or indirect maker of the caller's token. */
struct trust_ancestor {
    const struct token_terms *terms;
    enum role role;
    struct trust_usage usage; /* of the token and its descendants; only for tools that create */
    int64_t rate_ns;          /* shared rate state of the token and its descendants */
};

struct trust_case {
    const struct trust_bundle *bundle; /* NULL: none could be loaded, `failure` applies */
    enum trust_failure failure;
    struct str tool;
    const struct json *args;                  /* NULL: {} */
    const struct trust_capabilities *sandbox; /* target sandbox; NULL: none */
    enum role role;
    const char *client; /* kind of client; "": unknown */
    int64_t now_ns;     /* monotonic clock */
    int64_t rate_ns;    /* `rate_ns` of the last decision for this peer and tool; 0: none */
    struct trust_usage usage;
    unsigned makes;                  /* number of sandboxes to create; 0: one */
    bool granted;                    /* a master's grant covers the call */
    const struct token_terms *terms; /* of the peer's token; NULL: none */
    struct trust_ancestor above[TOKEN_GENERATIONS_MAX];
    size_t n_above;
    /* Capabilities of the new sandbox or network; NULL: those that the arguments declare. */
    const struct trust_capabilities *declares;
    /* A master approved this network for this sandbox and peer, or the token has it
     * pre-approved. */
    bool network_approved;
};

struct trust_decision {
    struct verdict verdict;                       /* without ids */
    enum trust_check check;                       /* the check that decided */
    int64_t rate_ns;                              /* rate state for the next decision */
    int64_t above_rate_ns[TOKEN_GENERATIONS_MAX]; /* the same for the makers */
    const struct trust_rule *rule;                /* borrowed from the bundle; NULL: none */
    const struct trust_when *when;
    const struct trust_terms *terms;
    bool used_grant;
};

void trust_decide(const struct trust_case *c, struct trust_decision *ret);

#endif
