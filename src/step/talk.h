/* One call of one tool of an MCP server, as its client: what to send, and what is understood of
 * what comes back. How both travel is for others.
 *
 * It begins with `initialize`; a server that does not know it is asked in the way of the revision
 * that has no beginning. Every byte of the server's is hostile. */
#ifndef STEP_TALK_H
#define STEP_TALK_H

#include "base/buf.h"
#include "json/value.h"
#include "mcp/version.h"

enum { STEP_MESSAGE_MAX = 4 << 20 }; /* bytes of one message of the server's */

enum talk_stage { TALK_HELLO, TALK_CALL, TALK_DONE };

struct talk {
    const char *tool;
    const struct json *question; /* the tool's arguments: an object */
    enum talk_stage stage;
    enum mcp_version version;
    struct buf *answer; /* JSON: complete when the stage is TALK_DONE */
};

/* Both append messages to send to `out`, each a line. */
int talk_begin(struct talk *t, struct buf *out, struct err *e);
/* One message came, or a batch. A message that answers nothing of ours is left alone. */
int talk_hear(struct talk *t, struct str text, struct buf *out, struct err *e);

/* The next data of a stream of server-sent events, of which *rest is what is left: false if there
 * is none. Lines of data that belong together are put together in `out`. */
bool talk_next_event(struct str *rest, struct buf *out);

#endif
