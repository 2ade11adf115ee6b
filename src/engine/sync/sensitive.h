/* SPDX-License-Identifier: Apache-2.0 */
/* Detects names that programs of the host execute or interpret by themselves: a hook, a setting
 * that names a program, the start-up file of a shell, instructions of an agent. A sandbox that
 * could write them would control the host. Names that begin with a dot are held back unless they
 * are known to be harmless. */
#ifndef ENGINE_SYNC_SENSITIVE_H
#define ENGINE_SYNC_SENSITIVE_H

#include <stdbool.h>

#include "base/str.h"
#include "engine/sync/place.h"

/* Whether a directory beneath the synced one ("": that itself) has a name, on the host or in the
 * stream so far. */
typedef bool sensitive_has_fn(const void *ctx, struct str dir, const char *name);

struct sensitive_view {
    const struct sync_place *place;
    sensitive_has_fn *has; /* NULL: nothing is known of other names */
    const void *ctx;
};

/* The reason why a file or link at this path (in the form of lib/tar/path.h) must be held back;
 * NULL if it may pass. Directories may pass, because only their contents are executed, unless
 * sensitive_place() is true. */
const char *sensitive_reason(const struct sensitive_view *v, struct str path);

/* Whether programs interpret a directory at this place as a whole (~/.ssh, ~/bin, a git directory),
 * so that directories in it are checked by their names, too. */
bool sensitive_place(const struct sync_place *place);

#endif
