/* SPDX-License-Identifier: Apache-2.0 */
/* Validates a policy: rules that the table of fields cannot express, contradictory fields, and
 * endpoints that disagree about one connection. */
#ifndef DOMAIN_POLICY_EGRESS_CHECK_H
#define DOMAIN_POLICY_EGRESS_CHECK_H

#include "base/err.h"
#include "domain/policy/egress_policy.h"

/* The document of the policy, for line numbers in messages. */
struct egress_places {
    const struct json *document; /* NULL: none */
    /* name of the list that has the endpoints of the only entry, "network.egress"; NULL: they are
     * in network_policies, as in a file */
    const char *list;
};

/* Checks the policy and brings it into canonical form: hosts in lower case, ports sorted in one
 * list, matchers parsed, notes written. -ERR_INVALID with a message such as "line 12:
 * network_policies.web.endpoints[0].host: …". Features that are not enforced yet are checked like
 * the others, and then refused with -ERR_UNSUPPORTED. Takes near-linear time; -ERR_TOO_BIG if
 * wildcards overlap so often that it would not. */
int egress_check(struct egress_policy *p, struct egress_places places, struct arena *a,
                 struct err *e);

/* Rejects a checked policy with an entry whose `until` has passed, which would allow nothing: for a
 * policy that is being set. One that is in force keeps such entries. */
int egress_check_times(const struct egress_policy *p, int64_t now, struct err *e);

#endif
