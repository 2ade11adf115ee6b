/* The protocol's revisions that we speak, oldest first. The last is stateless: every request says
 * what it needs; the others begin with `initialize`. */
#ifndef MCP_VERSION_H
#define MCP_VERSION_H

#include <stdbool.h>

#include "base/str.h"

enum mcp_version {
    MCP_NONE, /* not negotiated */
    MCP_2024_11_05,
    MCP_2025_03_26,
    MCP_2025_06_18,
    MCP_2025_11_25,
    MCP_2026_07_28,
    MCP_VERSION_COUNT_,
    MCP_LAST_OLD = MCP_2025_11_25,
};

/* What the protocol's own members of _meta begin with. */
#define MCP_META "io.modelcontextprotocol/"

extern const char *const mcp_version_names[MCP_VERSION_COUNT_];

/* MCP_NONE: it is none of ours. */
enum mcp_version mcp_version_of(struct str name);

static inline bool mcp_is_new(enum mcp_version v)
{
    return v >= MCP_2026_07_28;
}

/* JSON-RPC's batches were part of two revisions and taken back; `initialize` is never in one. */
static inline bool mcp_has_batches(enum mcp_version v)
{
    return v != MCP_NONE && v <= MCP_2025_03_26;
}

/* A stream's first event is an id alone, so that it can be resumed from its beginning. */
static inline bool mcp_has_priming(enum mcp_version v)
{
    return v == MCP_2025_11_25;
}

#endif
