/* How far an egress policy reaches: for whoever decides whether it is approved. */
#ifndef CONTROL_REACH_H
#define CONTROL_REACH_H

#include "control/policy_text.h"

/* Whether anything passes at all. The policy is parsed once, and the answer kept. NULL: no. */
bool policy_lets_out(struct policy_text *t);

/* Whether everything that passes is within an approval: "" is nothing, "public" every destination
 * that is no address of this machine, a private network or another special range, and anything else
 * a list of HOST[:PORT] separated by blanks, where "*.example.org" is every name below and an
 * address is a public one. */
bool policy_within(struct policy_text *t, struct str approved);

/* A list as above, or one of its words, that can be an approval. */
int approval_check(struct str approved, struct err *e);

#endif
