/* Text on its way to a client that may be slow: what the connection does not take at once waits
 * here, up to a ceiling. */
#ifndef MCP_PIPE_H
#define MCP_PIPE_H

#include "base/buf.h"
#include "http/server.h"

struct mcp_pipe {
    struct http_exchange *x; /* NULL: nobody is there */
    struct buf pending;
    size_t taken; /* of pending */
    bool waits;   /* for the connection to take more */
};

void mcp_pipe_init(struct mcp_pipe *p, struct http_exchange *x);
void mcp_pipe_done(struct mcp_pipe *p);

/* Both: 0; 1: it is enough for now, until http's on_drain and mcp_pipe_drain() == 0; -1: it is too
 * much, and the connection was cut: x is NULL. */
int mcp_pipe_add(struct mcp_pipe *p, struct str text);
int mcp_pipe_drain(struct mcp_pipe *p);
/* Ends the answer when all of it is taken. True: that was now, x is NULL. */
bool mcp_pipe_end(struct mcp_pipe *p);

#endif
