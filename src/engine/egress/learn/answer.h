/* SPDX-License-Identifier: Apache-2.0 */
/* A proposal as JSON: the policy's text, and lists of what it has and what it has not. */
#ifndef ENGINE_EGRESS_LEARN_ANSWER_H
#define ENGINE_EGRESS_LEARN_ANSWER_H

#include "engine/egress/learn/proposal.h"

int learn_answer_write(const struct learn_proposal *p, const struct learn_choices *c,
                       struct buf *out, struct err *e);

#endif
