/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a sandbox, and the table of transitions that every change of state is checked
 * against. */
#ifndef DOMAIN_MODEL_STATE_H
#define DOMAIN_MODEL_STATE_H

#include <stdbool.h>

#include "base/str.h"

enum sandbox_state {
    SANDBOX_REQUESTED,
    SANDBOX_PROVISIONING,
    SANDBOX_READY,  /* its readiness probe has succeeded */
    SANDBOX_ACTIVE, /* processes run */
    SANDBOX_PAUSED,
    SANDBOX_EXPIRED,
    SANDBOX_FAILED,
    SANDBOX_DESTROYING,
    SANDBOX_DESTROYED, /* final */
    SANDBOX_STATE_COUNT_,
};

extern const char *const sandbox_state_names[SANDBOX_STATE_COUNT_ + 1]; /* ended by NULL */

bool sandbox_state_may(enum sandbox_state from, enum sandbox_state to);
bool sandbox_state_find(struct str name, enum sandbox_state *ret);

/* Ready or active: programs can be started. */
static inline bool sandbox_state_usable(enum sandbox_state s)
{
    return s == SANDBOX_READY || s == SANDBOX_ACTIVE;
}

#endif
