/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/approvals as server-sent events: each state change of a held call that the caller may
 * see, as it is stored, also that of new calls. There is no past in it: a client that has connected
 * reads the list, and reads it again after a gap. */
#ifndef EDGE_REST_APPROVAL_STREAM_H
#define EDGE_REST_APPROVAL_STREAM_H

#include "edge/core/internal.h"
#include "trust/approvals.h"

/* Whether the caller may see a call. */
typedef bool approval_sees_fn(const struct call *c, const struct approval_record *r);

void approval_stream_begin(struct call *c, approval_sees_fn *sees);

#endif
