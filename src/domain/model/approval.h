/* SPDX-License-Identifier: Apache-2.0 */
/* States of a call that needs a master's approval. */
#ifndef DOMAIN_MODEL_APPROVAL_H
#define DOMAIN_MODEL_APPROVAL_H

#include <stdbool.h>

/* Stored as numbers: append new states at the end. The first three are open. */
enum approval_state {
    APPROVAL_PENDING,     /* waits for a master */
    APPROVAL_APPROVED,    /* … was approved, is about to run */
    APPROVAL_RUNNING,     /* stored before it runs, so that it never runs twice */
    APPROVAL_DONE,        /* ran; the record has the result */
    APPROVAL_REJECTED,    /* by a master */
    APPROVAL_EXPIRED,     /* was not decided in time */
    APPROVAL_INVALID,     /* the policy has changed since, or its peer has ended */
    APPROVAL_INTERRUPTED, /* the daemon ended while it ran: its effect is unknown */
    APPROVAL_STATE_COUNT_,
};

extern const char *const approval_state_names[APPROVAL_STATE_COUNT_ + 1];

static inline bool approval_is_open(enum approval_state s)
{
    return s <= APPROVAL_RUNNING;
}

bool approval_may(enum approval_state from, enum approval_state to);

#endif
