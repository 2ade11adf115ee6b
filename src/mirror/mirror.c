#include "mirror/mirror.h"

static const char *const action_names[MIRROR_ACTION_COUNT_] = {
    [MIRROR_CREATED] = "created",     [MIRROR_REPLACED] = "replaced",
    [MIRROR_DELETED] = "deleted",     [MIRROR_OVERWRITTEN] = "overwritten",
    [MIRROR_CONFLICT] = "conflict",   [MIRROR_KEPT] = "kept",
    [MIRROR_SENSITIVE] = "sensitive", [MIRROR_REFUSED] = "refused",
    [MIRROR_FAILED] = "failed",       [MIRROR_SKIPPED] = "skipped",
    [MIRROR_UNSTABLE] = "unstable",
};

const char *mirror_action_name(enum mirror_action action)
{
    return action_names[action];
}
