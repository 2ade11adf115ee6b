/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sync/decide.h"

#define BOTH(forced, reason) STEP_CONFLICT, STEP_##forced, reason
#define ONE(step)            STEP_##step, STEP_##step, ""

static const struct decision decisions[HOST_STATE_COUNT_][BOX_STATE_COUNT_] = {
    [HOST_NONE][BOX_NEW] = { ONE(CREATE) },
    [HOST_NEW][BOX_NEW] = { BOTH(REPLACE, "both sides made it, differently") },

    [HOST_SAME][BOX_SAME] = { ONE(NOTHING) },
    [HOST_SAME][BOX_CHANGED] = { ONE(REPLACE) },
    [HOST_SAME][BOX_GONE] = { ONE(DELETE) },

    [HOST_CHANGED][BOX_SAME] = { ONE(NOTHING) },
    [HOST_CHANGED][BOX_CHANGED] = { BOTH(REPLACE, "both sides changed it") },
    [HOST_CHANGED][BOX_GONE] = { BOTH(DELETE, "deleted inside, changed on the host") },

    [HOST_GONE][BOX_SAME] = { ONE(NOTHING) },
    [HOST_GONE][BOX_CHANGED] = { BOTH(CREATE, "changed inside, deleted on the host") },
    [HOST_GONE][BOX_GONE] = { ONE(FORGET) },
};

const struct decision *sync_decide(enum host_state host, enum box_state box)
{
    return &decisions[host][box];
}

bool link_leads_out(struct str target, unsigned depth)
{
    bool down = false;

    if (target.n == 0 || target.p[0] == '/')
        return true;
    while (target.n > 0) {
        struct str name;

        target = str_cut(target, '/', &name);
        if (name.n == 0 || str_eq(name, STR(".")))
            continue;
        if (!str_eq(name, STR(".."))) {
            down = true;
            continue;
        }
        if (down || depth == 0)
            return true;
        depth--;
    }
    return false;
}
