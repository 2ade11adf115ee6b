/* SPDX-License-Identifier: Apache-2.0 */
/* One call of a tool of an MCP server, as its client: the messages to send, and the interpretation
 * of the answers, independent of the transport.
 *
 * It begins with `initialize`; if the server rejects that, the revision without a handshake is
 * used. All input from the server is untrusted. */
#ifndef EDGE_HOOKS_TOOL_CALL_H
#define EDGE_HOOKS_TOOL_CALL_H

#include "base/buf.h"
#include "lib/json/value.h"
#include "edge/mcp/version.h"

enum { STEP_MESSAGE_MAX = 4 << 20 }; /* bytes of a message from the server */

enum tool_call_stage { TOOL_CALL_HELLO, TOOL_CALL_SENT, TOOL_CALL_DONE };

struct tool_call {
    const char *tool;
    const struct json *question; /* the tool's arguments: an object */
    enum tool_call_stage stage;
    enum mcp_version version;
    struct buf *answer; /* JSON: complete when the stage is TOOL_CALL_DONE */
};

/* Both append messages for the server to `out`, one per line. */
int tool_call_begin(struct tool_call *t, struct buf *out, struct err *e);
/* Handles a message or batch from the server. Ignores answers to other requests. */
int tool_call_receive(struct tool_call *t, struct str text, struct buf *out, struct err *e);

/* The data of the next server-sent event in *rest, which is advanced: false at the end. The data
 * lines of one event are joined in `out`. */
bool tool_call_next_event(struct str *rest, struct buf *out);

#endif
