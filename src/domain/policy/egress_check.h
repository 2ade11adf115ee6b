/* Whether a policy can be kept: what the table of fields cannot say, what does not go together, and
 * endpoints that would disagree on one connection. */
#ifndef POLICY_EGRESS_CHECK_H
#define POLICY_EGRESS_CHECK_H

#include "base/err.h"
#include "policy/egress_policy.h"

/* Where the policy was written, for messages with a line. */
struct egress_places {
    const struct json *document; /* NULL: nowhere */
    const char *list; /* the endpoints of the one entry stand in this list, "network.egress"; NULL:
                         in network_policies, as a file has them */
};

/* Checks the policy and brings it into its one form: hosts in lower case, ports sorted in one list,
 * matchers read, notes written. -ERR_INVALID and a message such as "line 12:
 * network_policies.web.endpoints[0].host: …". What nothing enforces yet is valid or not like the
 * rest, and then refused: -ERR_UNSUPPORTED. Takes near-linear time; where wildcards overlap so
 * often that it would not, -ERR_TOO_BIG. */
int egress_check(struct egress_policy *p, struct egress_places places, struct arena *a,
                 struct err *e);

/* "10.1.0.0/16", "2001:db8::/32", "192.0.2.7", and not a range that nobody may be granted. NULL, or
 * what is wrong. */
const char *egress_address_flaw(struct str s);

#endif
