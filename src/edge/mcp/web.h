/* SPDX-License-Identifier: Apache-2.0 */
/* Streamable HTTP: one path, POST, GET and DELETE.
 *
 * A POST is answered with JSON if the answer is the only message, else with an event stream. In the
 * revisions with sessions a client that loses a stream can resume it (GET, Last-Event-ID), and its
 * requests continue meanwhile; in the stateless revision a lost connection cancels its request.
 *
 * The caller authenticates clients: `peer` names an authenticated one. */
#ifndef EDGE_MCP_WEB_H
#define EDGE_MCP_WEB_H

#include "lib/http/server.h"
#include "edge/mcp/replay.h"
#include "edge/mcp/session.h"

struct mcp_who {
    const char *peer;
    void *user; /* owned by mcp_web_serve() */
    void (*free_user)(void *user);
};

struct mcp_web {
    struct mcp_server *server;
    size_t max;          /* bytes of a message */
    int64_t silence_ns;  /* idle time after which a session ends */
    struct list streams; /* struct web_stream: connected */
    struct replay_room room;
};

/* Takes ownership of the exchange. */
void mcp_web_serve(struct mcp_web *w, struct http_exchange *x, struct mcp_who who);
/* Closes the connections of all streams. */
void mcp_web_close(struct mcp_web *w);

#endif
