/* The decision point: a pure function. Everything it looks at is given to it, it changes nothing,
 * and the same question gets the same answer.
 *
 * Checks are made in the order of trust_check_names[]; the first that refuses decides. A call that
 * none refuses is allowed. */
#ifndef TRUST_DECIDE_H
#define TRUST_DECIDE_H

#include "trust/bundle.h"
#include "trust/capabilities.h"

/* Without any bundle: the one that is built in, nothing, or everything. */
enum trust_failure { FAILURE_STATIC, FAILURE_CLOSED, FAILURE_OPEN, FAILURE_COUNT_ };
extern const char *const trust_failure_names[FAILURE_COUNT_ + 1];

enum trust_check {
    CHECK_BUNDLE,       /* there is one, and its mode is not `off` */
    CHECK_RULE,         /* the tool has one */
    CHECK_CAPABILITIES, /* those declared are within bounds; they choose the terms */
    CHECK_ROLE,
    CHECK_ARGS,
    CHECK_RATE,
    CHECK_LIMITS,
    CHECK_APPROVAL,
    CHECK_COUNT_, /* none of them decided: allow */
};
extern const char *const trust_check_names[CHECK_COUNT_ + 1];

/* What a peer has used up so far. */
struct trust_usage {
    int64_t made;     /* sandboxes within the last hour */
    int64_t lived_ns; /* of all its sandboxes, within the last day */
    int64_t alive;
};

/* A token that made the one that asks, directly or not. */
struct trust_above {
    const struct token_terms *terms;
    enum role role;
    struct trust_usage usage; /* of it and of all that were made with it */
};

struct trust_case {
    const struct trust_bundle
        *bundle; /* NULL: none could be loaded, and `failure` says what then */
    enum trust_failure failure;
    struct str tool;
    const struct json *args;                  /* NULL: {} */
    const struct trust_capabilities *sandbox; /* that it is about; NULL: none */
    enum role role;
    const char *client; /* kind of it; "": not known */
    int64_t now_ns;     /* a clock that does not go back */
    int64_t rate_ns;    /* `rate_ns` of the peer's last decision on this tool; 0: none */
    struct trust_usage usage;
    unsigned makes;                  /* sandboxes, of a tool that creates; 0: one */
    bool granted;                    /* a master has said yes to such a call in advance */
    const struct token_terms *terms; /* of the token behind the peer; NULL: none */
    struct trust_above above[TOKEN_GENERATIONS_MAX];
    size_t n_above;
    /* What a new sandbox, or its new network, would have; NULL: what the arguments declare. */
    const struct trust_capabilities *declares;
    /* The network of the case is one that a master approved for this sandbox and peer, or that the
     * token has approved. */
    bool network_approved;
};

struct trust_decision {
    struct verdict verdict;        /* without its ids */
    enum trust_check check;        /* that decided */
    int64_t rate_ns;               /* to be kept for the next one */
    const struct trust_rule *rule; /* borrowed from the bundle; NULL: none */
    const struct trust_when *when;
    const struct trust_terms *terms;
    bool used_grant;
};

void trust_decide(const struct trust_case *c, struct trust_decision *ret);

#endif
