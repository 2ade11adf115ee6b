/* SPDX-License-Identifier: Apache-2.0 */
/* The decision table of a sync: compares both sides with their last common state. */
#ifndef ENGINE_SYNC_DECIDE_H
#define ENGINE_SYNC_DECIDE_H

#include <stdbool.h>

#include "base/str.h"

/* A name on the host, compared with the manifest. */
enum host_state {
    HOST_NONE,    /* in neither */
    HOST_NEW,     /* not in the manifest, but there */
    HOST_SAME,    /* as the manifest has it */
    HOST_CHANGED, /* there, but different */
    HOST_GONE,    /* in the manifest only */
    HOST_STATE_COUNT_,
};

/* A name in the sandbox's stream, compared with the manifest. */
enum box_state { BOX_NEW, BOX_SAME, BOX_CHANGED, BOX_GONE, BOX_STATE_COUNT_ };

enum step {
    STEP_NEVER_, /* no such pair of states */
    STEP_NOTHING,
    STEP_CREATE,
    STEP_REPLACE,
    STEP_DELETE,
    STEP_CONFLICT,
    STEP_FORGET, /* removed on both sides: removed from the manifest */
};

/* The step; and, for a conflict, the step if the sandbox wins. Names that are equal on both sides
 * are not looked up: there is nothing to do. */
struct decision {
    enum step step, forced;
    const char *reason; /* of a conflict */
};
const struct decision *sync_decide(enum host_state host, enum box_state box);

/* Classifies targets of symbolic links. */

/* Whether a link that is `depth` directories beneath the top may lead out of the tree: its target
 * is absolute, has more leading ".." than that, or has ".." after a name (which may be a link
 * itself, so the result of ".." is unknown). */
bool link_leads_out(struct str target, unsigned depth);

#endif
