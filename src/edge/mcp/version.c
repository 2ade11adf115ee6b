/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/mcp/version.h"

const char *const mcp_version_names[] = {
    [MCP_NONE] = "",
    [MCP_2024_11_05] = "2024-11-05",
    [MCP_2025_03_26] = "2025-03-26",
    [MCP_2025_06_18] = "2025-06-18",
    [MCP_2025_11_25] = "2025-11-25",
    [MCP_2026_07_28] = "2026-07-28",
};

enum mcp_version mcp_version_of(struct str name)
{
    enum mcp_version v = MCP_VERSION_COUNT_ - 1;

    while (v > MCP_NONE && !str_eq(name, str_from(mcp_version_names[v])))
        v--;
    return v;
}
