/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/model/approval.h"

#include <stddef.h>

#include "base/own.h"

#define TO(s) (1u << APPROVAL_##s)
static const unsigned may[APPROVAL_STATE_COUNT_] = {
    [APPROVAL_PENDING] = TO(APPROVED) | TO(REJECTED) | TO(EXPIRED) | TO(INVALID),
    [APPROVAL_APPROVED] = TO(RUNNING) | TO(INVALID),
    [APPROVAL_RUNNING] = TO(DONE) | TO(INTERRUPTED),
};

const char *const approval_state_names[] = { "pending", "approved",    "running",
                                             "done",    "rejected",    "expired",
                                             "invalid", "interrupted", NULL };

bool approval_may(enum approval_state from, enum approval_state to)
{
    return may[from] >> to & 1;
}
