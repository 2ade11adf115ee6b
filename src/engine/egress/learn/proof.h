/* SPDX-License-Identifier: Apache-2.0 */
/* Proves a proposal before it is answered. The text is read by the checker of `egress check`, and
 * each decision of the log is made again by the code of `egress explain`: what is proposed passes,
 * what is left out does not. */
#ifndef ENGINE_EGRESS_LEARN_PROOF_H
#define ENGINE_EGRESS_LEARN_PROOF_H

#include "engine/egress/learn/proposal.h"

/* -ERR_BUG names the first decision that comes out otherwise. */
int learn_prove(const struct learn_proposal *p, const struct learn_choices *c, struct err *e);

#endif
