/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of a sandbox on the host: its range of ids, and the user namespace that maps it. */
#ifndef ENGINE_RUNTIME_IDENTITY_H
#define ENGINE_RUNTIME_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct sandbox_identity {
    uint32_t first; /* the host id of the sandbox's root; for a plain user, its one id */
    int range_lock; /* holds the range while a process has it open; -1 without ranges */
    int userns;     /* the namespace, entered last */
};

/* The ids that the launcher can give to sandboxes. */
enum identity_supply {
    IDENTITY_RANGES, /* the machine's root: a range of 65,536 ids for each sandbox */
    IDENTITY_MANY,   /* a plain user with subordinate ids: one such range, shared by its
                        sandboxes */
    IDENTITY_ONE,    /* a plain user: its own id */
};

struct identity_want {
    uint32_t uid, gid; /* IDENTITY_ONE: the numbers inside */
    uint32_t pids; /* IDENTITY_MANY: process limit (0: none): RLIMIT_NPROC is the only limit of a
                      user namespace. With a single id it is not needed: a program's own limit
                      counts all processes of that id in its namespace. */
};

/* Reserves ids; fast. */
int identity_take(enum identity_supply supply, struct sandbox_identity *ret, struct err *e);
/* Makes the user namespace that maps the ids; on failure they stay reserved. */
int identity_map(enum identity_supply supply, const struct identity_want *want,
                 struct sandbox_identity *i, struct err *e);
/* Makes a user namespace for mounts of a client's files: of all owners on disk it maps one user and
 * one group, to ids inside. IDENTITY_RANGES only. */
int identity_map_client(const struct sandbox_identity *i, const uint32_t disk[2],
                        const uint32_t inside[2], int *ret, struct err *e);
void identity_done(struct sandbox_identity *i);

/* Calls idmap_become_root() and reports the available ids. */
int identity_become_outer_root(enum identity_supply *ret, struct err *e);

#endif
