/* Streams and sessions of Streamable HTTP, for the files about it. */
#ifndef MCP_WEB_INSIDE_H
#define MCP_WEB_INSIDE_H

#include "mcp/inside.h"
#include "mcp/pipe.h"
#include "mcp/web.h"

enum { WEB_ERROR_MAX = 8 << 10 };
enum { WEB_NO_SESSION = -32001, WEB_BAD_SESSION = -32000 };

/* A session of the older revisions. */
struct web_session;

/* One stream of messages to a client: a POST's, or the one that belongs to no request. */
struct web_stream {
    struct mcp_out out;
    struct mcp_web *web;
    struct link link; /* in the web's list, while somebody is there */
    struct mcp_session *session;
    struct web_session *kept; /* NULL: stateless, nothing is kept */
    struct link in_session;   /* in the session's list */
    struct mcp_pipe pipe;     /* its exchange */
    uint64_t number, seq;
    size_t open;  /* requests without an answer */
    bool begun;   /* the event stream is */
    bool closing; /* … and ends when all is taken */
    bool batch;
    struct loop_timer beat;
    struct loop_later later;
};

struct web_session {
    struct mcp_session *session;
    struct mcp_web *web;
    struct mcp_replay replay;
    struct list streams;     /* struct web_stream: that are not over */
    struct web_stream *back; /* for what belongs to no request */
    uint64_t numbers;
    int64_t used;
    struct loop_timer idle;
    struct loop_later later;
};

/* --- web_stream.c --- */
struct web_stream *web_stream_new(struct mcp_web *web, struct mcp_session *s,
                                  struct web_session *kept, struct http_exchange *x);
/* Begins the event stream on its exchange: false, and it has none any more, if that failed. */
bool web_stream_begin(struct web_stream *t);
/* Another exchange goes on where the last one was lost. */
void web_stream_resume(struct web_stream *t, struct http_exchange *x, uint64_t seq);
/* The same from its beginning, for the one that belongs to no request. */
void web_stream_listen(struct web_stream *t, struct http_exchange *x);
void web_stream_hang_up(struct web_stream *t);
/* Cuts its exchange off, and waits for another. */
void web_stream_detach(struct web_stream *t);
void web_stream_free(struct web_stream *t); /* later; what is under way goes on unheard */

/* --- web_session.c --- */
int web_session_new(struct mcp_web *web, struct mcp_who who, struct web_session **ret,
                    struct err *e);
/* The live one that the request names and whose peer asks; NULL. */
struct web_session *web_session_of(struct mcp_web *web, struct http_exchange *x, const char *peer);
void web_session_touch(struct web_session *k);
void web_session_end(struct web_session *k);

/* A JSON-RPC error as an answer; message is for the client. */
void web_refuse(struct http_exchange *x, int status, int code, struct str id, const char *message);

#endif
