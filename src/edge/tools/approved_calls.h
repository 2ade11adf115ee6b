/* SPDX-License-Identifier: Apache-2.0 */
/* Held calls: runs them after their approval, and reports results of tools to the client that made
 * the call. */
#ifndef EDGE_TOOLS_APPROVED_CALLS_H
#define EDGE_TOOLS_APPROVED_CALLS_H

#include "edge/core/replay.h"
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

/* Runs a call that a master has approved: once, with its original arguments, as the peer that
 * requested it. The runner for trust_set_runner(); `user` is the api. */
void approved_run(void *user, struct trust_call *c);

#endif
