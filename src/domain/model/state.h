/* The states of a sandbox and the moves between them: one table, asked at every move. */
#ifndef MODEL_STATE_H
#define MODEL_STATE_H

#include <stdbool.h>

#include "base/str.h"

enum sandbox_state {
    SANDBOX_REQUESTED,
    SANDBOX_PROVISIONING,
    SANDBOX_READY,  /* a probe inside has answered */
    SANDBOX_ACTIVE, /* something runs */
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
