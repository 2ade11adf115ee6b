/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ending.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/units.h"
#include "cli/verb.h"

void ending_timed_out(int64_t timeout_ns)
{
    if (timeout_ns)
        cli_report("timed out after %lld ms", (long long)(timeout_ns / NS_PER_MS));
    else
        cli_report("timed out");
}

void ending_memory(const struct ending_memory *m, bool quiet)
{
    char size[24] = "", limit[40] = "";

    if (!m->kills || (quiet && !m->killed))
        return;
    if (m->limit) {
        units_show_bytes(m->limit, size);
        snprintf(limit, sizeof limit, " (limit %s)", size);
    }
    if (m->killed)
        cli_report("killed: out of memory%s", limit);
    else
        cli_report("note: %u process%s killed: out of memory%s", m->kills,
                   m->kills == 1 ? " was" : "es were", limit);
}
