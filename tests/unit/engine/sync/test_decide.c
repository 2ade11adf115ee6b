/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sync/decide.h"

#include "harness/tap.h"

/* Pairs that exist: with a record there is no "new", and without one nothing but. */
static bool possible(enum host_state host, enum box_state box)
{
    bool unrecorded = host == HOST_NONE || host == HOST_NEW;

    return unrecorded == (box == BOX_NEW);
}

TEST(every_possible_pair_has_a_step)
{
    for (int h = 0; h < HOST_STATE_COUNT_; h++)
        for (int b = 0; b < BOX_STATE_COUNT_; b++) {
            const struct decision *d = sync_decide((enum host_state)h, (enum box_state)b);

            CHECK((d->step != STEP_NEVER_) == possible((enum host_state)h, (enum box_state)b));
        }
}

TEST(what_the_host_changed_is_only_touched_by_force)
{
    static const enum host_state changed[] = { HOST_NEW, HOST_CHANGED, HOST_GONE };

    for (int i = 0; i < 3; i++)
        for (int b = 0; b < BOX_STATE_COUNT_; b++) {
            const struct decision *d = sync_decide(changed[i], (enum box_state)b);

            CHECK(d->step != STEP_CREATE && d->step != STEP_REPLACE && d->step != STEP_DELETE);
            if (d->step == STEP_CONFLICT)
                CHECK(d->forced != STEP_CONFLICT && d->reason[0]);
        }
}

TEST(what_the_sandbox_did_not_change_changes_nothing)
{
    for (int h = HOST_SAME; h < HOST_STATE_COUNT_; h++)
        CHECK(sync_decide((enum host_state)h, BOX_SAME)->step == STEP_NOTHING);
}
