/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/model/approval.h"

#include "base/own.h"
#include "harness/tap.h"

/* The complete table of transitions; all others are rejected. */
TEST(only_these_moves_are_made)
{
    static const enum approval_state moves[][2] = {
        { APPROVAL_PENDING, APPROVAL_APPROVED }, { APPROVAL_PENDING, APPROVAL_REJECTED },
        { APPROVAL_PENDING, APPROVAL_EXPIRED },  { APPROVAL_PENDING, APPROVAL_INVALID },
        { APPROVAL_APPROVED, APPROVAL_RUNNING }, { APPROVAL_APPROVED, APPROVAL_INVALID },
        { APPROVAL_RUNNING, APPROVAL_DONE },     { APPROVAL_RUNNING, APPROVAL_INTERRUPTED },
    };

    for (unsigned from = 0; from < APPROVAL_STATE_COUNT_; from++)
        for (unsigned to = 0; to < APPROVAL_STATE_COUNT_; to++) {
            bool listed = false;

            for (size_t i = 0; i < COUNT_OF(moves); i++)
                listed |= moves[i][0] == from && moves[i][1] == to;
            if (approval_may((enum approval_state)from, (enum approval_state)to) != listed)
                FAIL("%s to %s should %sbe allowed", approval_state_names[from],
                     approval_state_names[to], listed ? "" : "not ");
        }
}

TEST(what_is_decided_is_not_open)
{
    for (unsigned s = 0; s < APPROVAL_STATE_COUNT_; s++)
        CHECK(approval_is_open((enum approval_state)s) == (s <= APPROVAL_RUNNING));
}
