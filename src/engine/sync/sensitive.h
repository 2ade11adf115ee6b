/* Names that programs of the host execute or obey by themselves: a hook, a setting that names a
 * program, the start-up file of a shell, instructions of an agent. A sandbox that could write them
 * would control the host. Names that begin with a dot are held unless they are known to be
 * harmless. */
#ifndef MIRROR_SENSITIVE_H
#define MIRROR_SENSITIVE_H

#include <stdbool.h>

#include "base/str.h"
#include "mirror/place.h"

/* Whether a directory beneath the mirrored one ("": that itself) has a name, on the host or in the
 * stream so far. */
typedef bool sensitive_has_fn(const void *ctx, struct str dir, const char *name);

struct sensitive_view {
    const struct mirror_place *place;
    sensitive_has_fn *has; /* NULL: nothing is known of other names */
    const void *ctx;
};

/* Why a file or link at this path (in the form of tree/path.h) must be held back; NULL if it may
 * pass. Directories may pass, because only their contents are executed, unless sensitive_place()
 * says otherwise. */
const char *sensitive_reason(const struct sensitive_view *v, struct str path);

/* Whether programs obey a directory at this place as such (~/.ssh, ~/bin, a git directory), so that
 * directories in it are judged by their names, too. */
bool sensitive_place(const struct mirror_place *place);

#endif
