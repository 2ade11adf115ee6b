/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/limit_text.h"

#include <stdio.h>

#include "base/units.h"

const char *limit_text_oom(const struct backend_end *end, char ret[static LIMIT_TEXT_MAX])
{
    char size[24];

    units_show_bytes(end->memory_limit, size);
    if (end->memory_limit)
        snprintf(ret, LIMIT_TEXT_MAX, "out of memory (limit %s)", size);
    else
        snprintf(ret, LIMIT_TEXT_MAX, "out of memory");
    return ret;
}

const char *limit_text_disk(const struct backend_end *end, char ret[static LIMIT_TEXT_MAX])
{
    char size[24];

    units_show_bytes(end->disk_limit, size);
    ret[0] = '\0';
    if (end->disk_limit)
        snprintf(ret, LIMIT_TEXT_MAX, " (the sandbox's disk limit is %s)", size);
    return ret;
}
