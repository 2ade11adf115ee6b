/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/guard_rows.h"

#include <string.h>

#include "edge/core/route.h"

const struct guard_row *guard_row_find(const struct guard_row *rows, const struct route *r)
{
    for (; rows && rows->path; rows++)
        if (rows->method == r->method && strcmp(rows->path, r->path) == 0)
            return rows;
    return NULL;
}

bool guard_row_starts_programs(const struct guard_row *row)
{
    static const char *const tools[] = { "sandbox_exec", "sandbox_run", "image_build" };

    for (size_t i = 0; row && row->tool && i < COUNT_OF(tools); i++)
        if (strcmp(row->tool, tools[i]) == 0)
            return true;
    return row && (row->flags & GUARD_LAUNCHES);
}
