/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sync/link.h"

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
