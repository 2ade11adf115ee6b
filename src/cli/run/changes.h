/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the files that a program changed in its sandbox: sandboxer-seal reads the writable layer
 * before the program starts, keeps running, and reads the layer again when the program has
 * ended. */
#ifndef CLI_RUN_CHANGES_H
#define CLI_RUN_CHANGES_H

#include <sys/types.h>

#include "base/buf.h"

struct run_changes {
    pid_t pid; /* 0: not begun */
    int to, from, complaint;
};

#define CHANGES_NONE                                                                               \
    {                                                                                              \
        .to = -1, .from = -1, .complaint = -1                                                      \
    }

/* `layer` and `userns` come with LAUNCH_CREATED; `lower` is the root directory below the sandbox's
 * overlays; `layered`: the sandbox's root is an overlay itself. All descriptors are borrowed. The
 * layer has been read when this returns. */
int changes_begin(struct run_changes *c, int layer, int lower, bool layered, int userns,
                  struct err *e);

/* An array of what changed since, as JSON. */
int changes_end(struct run_changes *c, struct buf *out, struct err *e);

void changes_done(struct run_changes *c);

#endif
