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

void ending_limit(uint64_t limit, char out[static ENDING_LIMIT_MAX])
{
    char size[24];

    units_show_bytes(limit, size);
    out[0] = '\0';
    if (limit)
        snprintf(out, ENDING_LIMIT_MAX, " (limit %s)", size);
}

void ending_memory(const struct ending_memory *m, bool quiet)
{
    char limit[ENDING_LIMIT_MAX];

    if (!m->kills || (quiet && !m->killed))
        return;
    ending_limit(m->limit, limit);
    if (m->killed)
        cli_report("killed: out of memory%s", limit);
    else
        cli_report("note: %u process%s killed: out of memory%s", m->kills,
                   m->kills == 1 ? " was" : "es were", limit);
}
