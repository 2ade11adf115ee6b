/* SPDX-License-Identifier: Apache-2.0 */
/* The workspace that the person who starts a session grants to it: a copy of a directory of the
 * host in a sandbox of that person.
 *
 *     unused ── first call that needs it ─► making ─► ready     (or an existing one of that name:
 *                                            └─ resuming ─┘      resumed if it is paused)
 *
 * The sandbox is no sandbox of the peer: it outlives the session if it holds changes that were not
 * brought back, also if the client or the daemon dies. The peer alone sees it besides its own
 * (`also` of struct caller). The client names neither the directory nor the options. */
#ifndef EDGE_TOOLS_WORKSPACE_H
#define EDGE_TOOLS_WORKSPACE_H

#include "edge/tools/tools.h"

/* The header field of the session's first request: a create request as JSON. The directory comes
 * along with the request (lib/ipc/handover.h). */
#define MCP_WORKSPACE_FIELD "Sandboxer-Workspace"

/* Reads the grant of a request that begins a session, into m->workspace. False: the call is
 * answered with an error. */
bool mcp_workspace_read(struct call *c, struct mcp_client *m);
void mcp_workspace_free(struct mcp_workspace *w); /* NULL is fine */

/* For the call of a tool: fills in the sandbox of the workspace if the call names none, and makes
 * or resumes it if necessary. Then calls `go`, now or later, or fails the call. */
void mcp_workspace_fill(struct mcp_request *r, void (*go)(struct mcp_request *r));

/* Whether it is the sandbox of the peer's workspace. */
bool mcp_workspace_is(const struct mcp_client *m, const char *id);
/* The live sandbox of the peer's workspace, referenced, or NULL. */
struct sandbox *mcp_workspace_sandbox(const struct mcp_client *m);

/* The session has ended: destroys the sandbox if it has no changes that the host lacks, else stops
 * it, unless another session uses it. */
void mcp_workspace_leave(struct mcp_client *m);

/* The tools of such sessions. */
void mcp_tool_diff(struct mcp_request *r, const struct json *v);
void mcp_tool_sync(struct mcp_request *r, const struct json *v);

#endif
