/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sync/sync.h"

static const char *const action_names[SYNC_ACTION_COUNT_] = {
    [SYNC_CREATED] = "created",         [SYNC_REPLACED] = "replaced", [SYNC_DELETED] = "deleted",
    [SYNC_OVERWRITTEN] = "overwritten", [SYNC_CONFLICT] = "conflict", [SYNC_KEPT] = "kept",
    [SYNC_SENSITIVE] = "sensitive",     [SYNC_REFUSED] = "refused",   [SYNC_FAILED] = "failed",
    [SYNC_SKIPPED] = "skipped",         [SYNC_UNSTABLE] = "unstable",
};

const char *sync_action_name(enum sync_action action)
{
    return action_names[action];
}
