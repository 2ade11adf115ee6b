/* SPDX-License-Identifier: Apache-2.0 */
/* Explains which decision a policy would make, and why, for its authors. */
#ifndef DOMAIN_POLICY_EGRESS_EXPLAIN_H
#define DOMAIN_POLICY_EGRESS_EXPLAIN_H

#include "base/buf.h"
#include "lib/json/bind.h"
#include "lib/net/host.h"
#include "domain/policy/egress.h"

/* A question in the users' format; NULL: not given. */
struct egress_question {
    const char *to;            /* HOST[:PORT], required */
    const char *method, *path; /* of a request; the path includes the query */
    const char *upgrade;       /* the protocol that the request upgrades to */
    const char *binary;        /* path of the program */
};

enum { EGRESS_QUESTION_PORT = 443 }; /* if `to` has no port */

/* The parsed question; optional members are zero. */
struct egress_explain_input {
    struct egress_connect_query query;
    const struct address *addresses; /* addresses that the name would resolve to */
    size_t n_addresses;
    struct egress_action action;
    struct host host_; /* set by egress_explain_read() */
};

/* Borrows from q, and from *ret itself, which must not be moved. -ERR_INVALID: `to` is not a
 * destination. Accepts any method and path, so that they can be judged. */
int egress_explain_read(const struct egress_question *q, struct egress_explain_input *ret,
                        struct err *e);

enum egress_stage { EGRESS_STAGE_CONNECT, EGRESS_STAGE_ADDRESSES, EGRESS_STAGE_REQUEST };

struct egress_explanation {
    enum egress_verdict verdict;
    enum egress_stage stage; /* the stage that decided: the first that denies, or the last */
    struct egress_reason why;
    struct egress_match match;            /* borrows from the snapshot, as why.rule does */
    const struct egress_ceiling *ceiling; /* NULL: none */
    bool request_judged; /* false: the connection is not inspected, or there is no request */
    /* inputs that the answer depends on and that were not given; may be empty */
    char unknown[160];
};

/* Makes the same queries as a relay, in the same order. The explanation includes the ceiling of the
 * snapshot. */
void egress_explain(const struct egress_snapshot *s, const struct egress_explain_input *trial,
                    struct egress_explanation *ret);

void egress_explain_json(const struct egress_explanation *x, struct json_writer *w);
extern const struct json_shape egress_explanation_answer; /* describes that JSON */

#endif
