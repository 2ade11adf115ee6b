/* SPDX-License-Identifier: Apache-2.0 */
/* Held tool calls: runs them after their approval, and reports their results to the client that
 * made them. */
#ifndef EDGE_TOOLS_APPROVED_CALLS_H
#define EDGE_TOOLS_APPROVED_CALLS_H

#include "edge/core/approved.h"
#include "edge/tools/tools.h"

/* Members of _meta in tools/call: requests the result of a held call instead of a new call, and the
 * number of seconds to wait for it. */
#define MCP_REQUEST_ID "sandboxer/request_id"
#define MCP_WAIT_S     "sandboxer/wait_s"

/* True if the request is about a held call; it will then be answered. */
bool mcp_approval_asked(struct mcp_request *r);

/* The resource approval://ID. */
bool mcp_approval_watchable(struct mcp_session *s, struct str id);
void mcp_approval_read(struct mcp_request *r, struct str uri, struct str id);
/* Handles a state change of a held call: notifies its watchers, and at its end the sessions of its
 * peer. */
void mcp_approval_event(struct api *a, const struct event_record *v);

/* Runs an approved tool call, like approved_run(). */
void mcp_run_approved(struct api *a, struct trust_call *c, struct peer *p,
                      const struct caller *who);

#endif
