/* SPDX-License-Identifier: Apache-2.0 */
/* Newline-delimited messages on one connection; `sandboxer mcp` is the other end.
 *
 * The connection is the session: its end cancels the requests under way. A client that wants their
 * answers sends MCP_LINE_END first; the connection is closed after the last one. */
#ifndef EDGE_MCP_LINE_H
#define EDGE_MCP_LINE_H

#include "lib/http/server.h"
#include "edge/mcp/session.h"

#define MCP_LINE_PROTOCOL "sandboxer-mcp"
/* A notification: the client will send no other message, and waits for the open answers. */
#define MCP_LINE_END "notifications/sandboxer/end"

/* Whether the request asks for an upgrade to this protocol. */
bool mcp_line_wanted(const struct http_exchange *x);

/* Takes the exchange over; `user` as in mcp_session_new(). Messages have at most max bytes. */
void mcp_line_accept(struct mcp_server *server, const struct mcp_offer *offer,
                     struct http_exchange *x, const char *peer, void *user,
                     void (*free_user)(void *user), size_t max);

#endif
