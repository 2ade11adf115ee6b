/* Who changed what since both sides agreed, and what follows from it. */
#ifndef MIRROR_DECIDE_H
#define MIRROR_DECIDE_H

#include "base/err.h"

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
    STEP_FORGET, /* gone on both sides: out of the manifest */
};

/* What to do; and, where that is a conflict, what the sandbox would have if it wins. A name that is
 * the same on both sides is none of this table's business: there is nothing to do. */
struct decision {
    enum step step, forced;
    const char *reason; /* of a conflict */
};
const struct decision *mirror_decide(enum host_state host, enum box_state box);

#endif
