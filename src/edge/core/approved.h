/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a call that a master has approved: once, with its original arguments, as the peer that
 * requested it. */
#ifndef EDGE_CORE_APPROVED_H
#define EDGE_CORE_APPROVED_H

#include "edge/core/internal.h"
#include "trust/approvals.h"
#include "trust/peers.h"

/* The runner for trust_set_runner(); `user` is the api. */
void approved_run(void *user, struct trust_call *c);
/* The rights that the requester has now: the token's current rights, narrowed to the peer's. False
 * if the token no longer exists. The labels are borrowed for the current turn of the loop. */
bool approved_caller(struct api *a, const struct trust_call *c, struct caller *ret);
/* Reports that the call failed, or that its outcome is unknown. */
void approved_fail(struct trust_call *c, const char *why);

#endif
