/* Newline-delimited messages on one connection: what `sandboxer mcp` is the other end of.
 *
 * The connection is the session: when it ends, so does everything that was asked on it. Whoever
 * wants the answers says MCP_LINE_END, and the connection is closed behind them. */
#ifndef MCP_LINE_H
#define MCP_LINE_H

#include "http/server.h"
#include "mcp/session.h"

#define MCP_LINE_PROTOCOL "sandboxer-mcp"
/* A notification: nothing more will be said, and what was asked is still to be answered. */
#define MCP_LINE_END "notifications/sandboxer/end"

/* Whether the request asks for it. */
bool mcp_line_wanted(const struct http_exchange *x);

/* Takes the exchange over; `user` as in mcp_session_new(). Messages have at most max bytes. */
void mcp_line_accept(struct mcp_server *server, struct http_exchange *x, const char *peer,
                     void *user, void (*free_user)(void *user), size_t max);

#endif
