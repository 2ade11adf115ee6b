/* SPDX-License-Identifier: Apache-2.0 */
/* Replays an HTTP request that a master has approved.
 *
 * The request takes the normal path, over a socket pair of the daemon with itself, so that exactly
 * the approved request runs. It is authenticated by a one-time ticket that is valid on such a
 * connection alone. */
#ifndef EDGE_CORE_REPLAY_H
#define EDGE_CORE_REPLAY_H

#include "edge/core/internal.h"
#include "trust/approvals.h"
#include "trust/peers.h"

enum { REPLAY_BODY_MAX = 512 << 10 }; /* limit of a non-JSON body that can be held */

/* The rights that the requester of an approved call has now: the token's current rights, narrowed
 * to the peer's. False if the token no longer exists. The labels are borrowed for the current turn
 * of the loop. */
bool approved_caller(struct api *a, const struct trust_call *c, struct caller *ret);
/* Reports that an approved call failed, or that its outcome is unknown. */
void approved_fail(struct trust_call *c, const char *why);

/* Reports the answer with trust_call_done(): JSON as it is, other bytes as {content, encoding}. */
void replay_run(struct api *a, struct trust_call *c, struct peer *p);
/* Authenticates a replayed request. REPLAY_KNOWN: the caller is set and no verdict is needed;
 * REPLAY_REFUSED: the call is answered. */
enum replay_answer { REPLAY_NONE, REPLAY_KNOWN, REPLAY_REFUSED };
enum replay_answer replay_identify(struct call *c);
/* Reports all pending replays as interrupted. */
void replays_close(struct api *a);

/* Converts a streamed body to members for the held arguments. False: too long. */
bool replay_hold_body(struct call *c, struct json ret[static 2]);

#endif
