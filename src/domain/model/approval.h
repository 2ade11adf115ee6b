/* What becomes of a call that waits for a master. */
#ifndef MODEL_APPROVAL_H
#define MODEL_APPROVAL_H

#include <stdbool.h>

/* Kept as numbers in the store: new ones go behind the old. The first three are under way. */
enum approval_state {
    APPROVAL_PENDING,     /* waits for a master */
    APPROVAL_APPROVED,    /* … and got one: is about to run */
    APPROVAL_RUNNING,     /* on disk before it runs, so that it never does twice */
    APPROVAL_DONE,        /* ran; the result says how */
    APPROVAL_REJECTED,    /* a master said no */
    APPROVAL_EXPIRED,     /* nobody said anything in time */
    APPROVAL_INVALID,     /* the policy has changed since, or its peer is gone */
    APPROVAL_INTERRUPTED, /* the daemon ended while it ran: whether it had an effect is not known */
    APPROVAL_STATE_COUNT_,
};

extern const char *const approval_state_names[APPROVAL_STATE_COUNT_ + 1];

static inline bool approval_is_open(enum approval_state s)
{
    return s <= APPROVAL_RUNNING;
}

bool approval_may(enum approval_state from, enum approval_state to);

#endif
