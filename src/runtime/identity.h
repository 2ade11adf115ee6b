/* Who a sandbox's users are outside: its range of ids, and the user namespace that maps it. */
#ifndef RUNTIME_IDENTITY_H
#define RUNTIME_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct identity {
    uint32_t first; /* the id outside that is 0 inside; for a plain caller, its one id */
    int range_lock; /* holds the range as long as anybody has it open; -1 without ranges */
    int userns;     /* the namespace, to be entered last */
};

/* As root: takes a free range of 65,536 ids and makes its user namespace. As a plain caller, who is
 * already root of its own outer namespace: maps that one identity to uid:gid, with at most `pids`
 * processes (0: no limit), since RLIMIT_NPROC is the one limit such a namespace can have. */
int identity_make(bool is_root, uint32_t uid, uint32_t gid, uint32_t pids, struct identity *ret,
                  struct err *e);
void identity_done(struct identity *i);

/* Makes a plain caller root of a new user and mount namespace that holds only itself. */
int identity_become_outer_root(struct err *e);

#endif
