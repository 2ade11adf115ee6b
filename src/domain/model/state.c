/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/model/state.h"

#define TO(s) (1u << SANDBOX_##s)

static const unsigned may[SANDBOX_STATE_COUNT_] = {
    [SANDBOX_REQUESTED] = TO(PROVISIONING) | TO(FAILED) | TO(DESTROYING),
    [SANDBOX_PROVISIONING] = TO(READY) | TO(FAILED) | TO(DESTROYING),
    [SANDBOX_READY] = TO(ACTIVE) | TO(PAUSED) | TO(EXPIRED) | TO(FAILED) | TO(DESTROYING),
    [SANDBOX_ACTIVE] = TO(READY) | TO(PAUSED) | TO(EXPIRED) | TO(FAILED) | TO(DESTROYING),
    [SANDBOX_PAUSED] = TO(READY) | TO(EXPIRED) | TO(FAILED) | TO(DESTROYING),
    [SANDBOX_EXPIRED] = TO(DESTROYING),
    [SANDBOX_FAILED] = TO(DESTROYING),
    [SANDBOX_DESTROYING] = TO(DESTROYED) | TO(FAILED),
};

const char *const sandbox_state_names[SANDBOX_STATE_COUNT_ + 1] = {
    [SANDBOX_REQUESTED] = "requested", [SANDBOX_PROVISIONING] = "provisioning",
    [SANDBOX_READY] = "ready",         [SANDBOX_ACTIVE] = "active",
    [SANDBOX_PAUSED] = "paused",       [SANDBOX_EXPIRED] = "expired",
    [SANDBOX_FAILED] = "failed",       [SANDBOX_DESTROYING] = "destroying",
    [SANDBOX_DESTROYED] = "destroyed",
};

bool sandbox_state_may(enum sandbox_state from, enum sandbox_state to)
{
    return from < SANDBOX_STATE_COUNT_ && to < SANDBOX_STATE_COUNT_ && (may[from] >> to & 1);
}

bool sandbox_state_find(struct str name, enum sandbox_state *ret)
{
    for (unsigned i = 0; i < SANDBOX_STATE_COUNT_; i++)
        if (str_eq(name, str_from(sandbox_state_names[i]))) {
            *ret = (enum sandbox_state)i;
            return true;
        }
    return false;
}
