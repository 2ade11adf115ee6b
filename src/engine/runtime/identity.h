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

/* What the launcher has to give. */
enum identity_supply {
    IDENTITY_RANGES, /* root of the machine: a range of 65,536 ids for each sandbox */
    IDENTITY_MANY,   /* a plain caller with subordinate ids: one such range, shared by its sandboxes
                      */
    IDENTITY_ONE,    /* a plain caller: itself */
};

struct identity_want {
    uint32_t uid, gid; /* IDENTITY_ONE: which number it has inside */
    uint32_t pids; /* IDENTITY_MANY: process limit (0: none): RLIMIT_NPROC is the one limit that a
                      user namespace can have. Who has one id needs none: a program's own limit
                      counts all processes of that id in its namespace. */
};

/* Takes ids; quick. */
int identity_take(enum identity_supply supply, struct identity *ret, struct err *e);
/* Makes the user namespace that maps them; on failure the ids are still the caller's. */
int identity_map(enum identity_supply supply, const struct identity_want *want, struct identity *i,
                 struct err *e);
void identity_done(struct identity *i);

/* idmap_become_root(), and what that has to give. */
int identity_become_outer_root(enum identity_supply *ret, struct err *e);

#endif
