/* What a worker gives up once everything it needs is open: it reads what anybody sends, and what it
 * can still do after that is talk to the network and write to what it was given. */
#ifndef EGRESS_FENCE_H
#define EGRESS_FENCE_H

#include <stdbool.h>

#include "base/err.h"

struct fence {
    /* A file below this directory (a descriptor; -1: none) can still be opened for reading: the
     * policy of a worker that stands alone, which is read again. */
    int readable;
    /* A file below this directory (the same) can still be made, and opened for writing: the audit
     * record of a worker that stands alone, which is moved away now and then. */
    int appendable;
};

/* As many descriptors as are allowed, no core dumps, not to be traced by its own user, no new
 * privileges, no capabilities, no files (Landlock, where the kernel has it), and only the system
 * calls of fence_calls.h; others do not exist (ENOSYS). There is no way back. */
int fence_enter(const struct fence *f, struct err *e);

#endif
