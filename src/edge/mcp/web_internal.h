/* SPDX-License-Identifier: Apache-2.0 */
/* Private declarations of Streamable HTTP: its streams and sessions. */
#ifndef EDGE_MCP_WEB_INTERNAL_H
#define EDGE_MCP_WEB_INTERNAL_H

#include "edge/mcp/internal.h"
#include "edge/mcp/pipe.h"
#include "edge/mcp/web.h"

enum { WEB_ERROR_MAX = 8 << 10 };
enum { WEB_NO_SESSION = -32001, WEB_BAD_SESSION = -32000 };

/* A session of the older revisions. */
struct web_session;

/* A stream of messages to a client: of a POST, or the session's stream for messages that belong to
 * no request. */
struct web_stream {
    struct mcp_out out;
    struct mcp_web *web;
    struct link link; /* in the web's list, while connected */
    struct mcp_session *session;
    struct web_session *kept; /* NULL: stateless, no replay */
    struct link in_session;   /* in the session's list */
    struct mcp_pipe pipe;     /* its exchange */
    uint64_t number, seq;
    size_t open;  /* requests without an answer */
    bool begun;   /* the event stream has begun */
    bool closing; /* … and ends when all bytes are sent */
    bool batch;
    struct loop_timer beat;
    struct loop_later later;
};

struct web_session {
    struct mcp_session *session;
    struct mcp_web *web;
    struct mcp_replay replay;
    struct list streams;     /* struct web_stream: until freed */
    struct web_stream *back; /* for messages that belong to no request */
    uint64_t numbers;
    int64_t used;
    struct loop_timer idle;
    struct loop_later later;
};

/* --- web_stream.c --- */
struct web_stream *web_stream_new(struct mcp_web *web, struct mcp_session *s,
                                  struct web_session *kept, struct http_exchange *x);
/* Continues the stream on another exchange, from the message after seq. */
void web_stream_resume(struct web_stream *t, struct http_exchange *x, uint64_t seq);
/* Connects the session's own stream (web_session.back) to an exchange, without replay. */
void web_stream_listen(struct web_stream *t, struct http_exchange *x);
void web_stream_hang_up(struct web_stream *t);
/* Closes its exchange; the stream remains, for another one. */
void web_stream_detach(struct web_stream *t);
/* From the loop. Requests of a session continue without an out; those of a stateless client are
 * cancelled. */
void web_stream_free(struct web_stream *t);

/* --- web_session.c --- */
int web_session_new(struct mcp_web *web, struct mcp_who who, struct web_session **ret,
                    struct err *e);
/* The live session that Mcp-Session-Id names, if it belongs to `peer`; else NULL. */
struct web_session *web_session_of(struct mcp_web *web, struct http_exchange *x, const char *peer);
void web_session_touch(struct web_session *k);
void web_session_end(struct web_session *k);

/* Responds with a JSON-RPC error; `id` is JSON, or empty. */
void web_refuse(struct http_exchange *x, int status, int code, struct str id, const char *message);

#endif
