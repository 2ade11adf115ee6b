/* SPDX-License-Identifier: Apache-2.0 */
/* Output queue of a client that may be slow: holds bytes that the connection has not accepted yet,
 * up to a limit. */
#ifndef EDGE_MCP_PIPE_H
#define EDGE_MCP_PIPE_H

#include "base/buf.h"
#include "lib/http/server.h"

struct mcp_pipe {
    struct http_exchange *x; /* NULL: not connected */
    struct buf pending;
    size_t taken; /* bytes of pending that are sent */
    bool waits;   /* for the connection's on_drain */
};

void mcp_pipe_init(struct mcp_pipe *p, struct http_exchange *x);
void mcp_pipe_done(struct mcp_pipe *p);

/* Both return 0; 1 if the queue is full and the caller should wait until http's on_drain and
 * mcp_pipe_drain() == 0; or -1 if the connection failed or the queue overflowed: x is then NULL. */
int mcp_pipe_add(struct mcp_pipe *p, struct str text);
int mcp_pipe_drain(struct mcp_pipe *p);
/* Ends the response if all bytes are sent. True if x is now NULL. */
bool mcp_pipe_end(struct mcp_pipe *p);

#endif
