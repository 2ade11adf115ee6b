/* What a program changed in its sandbox: sandboxer-seal reads the writable layer before it starts,
 * stays, and reads it again when it is over. */
#ifndef CLI_CHANGES_H
#define CLI_CHANGES_H

#include <sys/types.h>

#include "base/buf.h"

struct changes {
    pid_t pid; /* 0: not begun */
    int to, from, complaint;
};

#define CHANGES_NONE                                                                               \
    {                                                                                              \
        .to = -1, .from = -1, .complaint = -1                                                      \
    }

/* layer and userns as they come with LAUNCH_CREATED; lower is the root directory that the sandbox's
 * overlays stand on; `layered`: its root is one of them. All are borrowed. The layer has been read
 * when this returns. */
int changes_begin(struct changes *c, int layer, int lower, bool layered, int userns, struct err *e);

/* An array of what changed since, as JSON. */
int changes_end(struct changes *c, struct buf *out, struct err *e);

void changes_done(struct changes *c);

#endif
