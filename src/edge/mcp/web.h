/* Streamable HTTP: one path, POST, GET and DELETE.
 *
 * A POST is answered with JSON if its answer is all there is to say, else with an event stream. In
 * the revisions with sessions a client that loses a stream can go on with it (GET, Last-Event-ID),
 * and what it asked for goes on meanwhile; in the stateless one, whoever leaves wants nothing any
 * more.
 *
 * Who may ask at all is decided before: `peer` names a client that was recognised. */
#ifndef MCP_WEB_H
#define MCP_WEB_H

#include "http/server.h"
#include "mcp/replay.h"
#include "mcp/session.h"

struct mcp_who {
    const char *peer;
    void *user; /* becomes the web's with the call */
    void (*free_user)(void *user);
};

struct mcp_web {
    struct mcp_server *server;
    size_t max;          /* bytes of a message */
    int64_t silence_ns;  /* after which a session ends that nothing is heard of */
    struct list streams; /* struct web_stream: with a client */
    struct replay_room room;
};

/* Takes the exchange over. */
void mcp_web_serve(struct mcp_web *w, struct http_exchange *x, struct mcp_who who);
/* Hangs up on everybody who only listens. */
void mcp_web_close(struct mcp_web *w);

#endif
