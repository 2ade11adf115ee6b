/* SPDX-License-Identifier: Apache-2.0 */
/* Watches of resources that change without an event. Each function answers the request, with
 * mcp_watched_by() on success. */
#ifndef EDGE_TOOLS_WATCH_H
#define EDGE_TOOLS_WATCH_H

#include "edge/tools/tools.h"

enum { MCP_FILES_WATCHED_MAX = 16 }; /* per session: each runs a process in its sandbox */

/* Watches a file, or a directory with its entries. */
void mcp_watch_file(struct mcp_request *r, struct sandbox *s, const char *path);
/* Watches the output of background processes. */
void mcp_watch_logs(struct mcp_request *r, const char *sandbox);

#endif
