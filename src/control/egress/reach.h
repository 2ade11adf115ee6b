/* SPDX-License-Identifier: Apache-2.0 */
/* The reach of an egress policy, for approval decisions. */
#ifndef CONTROL_EGRESS_REACH_H
#define CONTROL_EGRESS_REACH_H

#include "control/egress/policy_text.h"

/* Whether the policy allows anything. It is parsed once, and the answer is cached. NULL: no. */
bool policy_lets_out(struct policy_text *t);

/* Whether everything that the policy allows is within an approval: "" approves nothing; "public"
 * every destination except addresses of this machine, private networks and other special ranges;
 * anything else is a list of HOST[:PORT] separated by blanks, where "*.example.org" covers every
 * name below and an address must be public. */
bool policy_within(struct policy_text *t, struct str approved);

/* Checks a list as above, or one word of it, for use as an approval. */
int approval_check(struct str approved, struct err *e);

#endif
