/* Running what a master has approved: once, with the arguments that it was asked with, as the peer
 * that asked. */
#ifndef API_APPROVED_H
#define API_APPROVED_H

#include "api/inside.h"
#include "trust/approvals.h"
#include "trust/peers.h"

/* For trust_set_runner(); its user is the api. */
void approved_run(void *user, struct trust_call *c);
/* What whoever asked may now, without what the peer may not: a token that is gone, or good for
 * less, counts as it is. False: it is gone. Labels are borrowed for the loop's turn. */
bool approved_caller(struct api *a, const struct trust_call *c, struct caller *ret);
/* It did not run, or is not known to have. */
void approved_fail(struct trust_call *c, const char *why);

#endif
