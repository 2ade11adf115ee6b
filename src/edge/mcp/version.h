/* SPDX-License-Identifier: Apache-2.0 */
/* The supported revisions of the protocol, oldest first. The last is stateless: every request
 * carries the client's version and capabilities. The others begin with `initialize`. */
#ifndef EDGE_MCP_VERSION_H
#define EDGE_MCP_VERSION_H

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

/* Prefix of the protocol's own members of _meta. */
#define MCP_META "io.modelcontextprotocol/"

extern const char *const mcp_version_names[MCP_VERSION_COUNT_];

/* MCP_NONE: not supported. */
enum mcp_version mcp_version_of(struct str name);

static inline bool mcp_is_new(enum mcp_version v)
{
    return v >= MCP_2026_07_28;
}

/* Only the two oldest revisions have JSON-RPC batches; `initialize` is never in a batch. */
static inline bool mcp_has_batches(enum mcp_version v)
{
    return v != MCP_NONE && v <= MCP_2025_03_26;
}

/* A stream's first event has an id and no data, so that the stream can be resumed from its
 * beginning. */
static inline bool mcp_has_priming(enum mcp_version v)
{
    return v == MCP_2025_11_25;
}

#endif
