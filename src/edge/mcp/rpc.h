/* SPDX-License-Identifier: Apache-2.0 */
/* JSON-RPC 2.0 frames as MCP has them: single messages and, in old revisions, batches.
 *
 * Strict where two readings could differ: an id is a string or a whole number, a request's params
 * are an object, a response has a result or an error and not both. Unknown members are ignored,
 * because later revisions add some. */
#ifndef EDGE_MCP_RPC_H
#define EDGE_MCP_RPC_H

#include "base/arena.h"
#include "base/err.h"
#include "lib/json/value.h"
#include "lib/json/writer.h"

enum {
    RPC_DEPTH_MAX = 48,
    RPC_BATCH_MAX = 64,
    RPC_ID_MAX = 256,     /* bytes of an id that is a string */
    RPC_METHOD_MAX = 128, /* bytes of a method's name */
};

enum rpc_code {
    RPC_PARSE_ERROR = -32700,
    RPC_INVALID_REQUEST = -32600,
    RPC_NO_METHOD = -32601,
    RPC_INVALID_PARAMS = -32602,
    RPC_INTERNAL = -32603,
};

enum rpc_kind { RPC_REQUEST, RPC_NOTIFICATION, RPC_RESPONSE };

struct rpc_message {
    enum rpc_kind kind;
    const struct json *id; /* of a request or response; NULL: an error without an id */
    struct str method;
    const struct json *params;         /* an object, or NULL */
    const struct json *result, *error; /* of a response: one of them */
};

/* A message, or a batch of messages. */
struct rpc_frame {
    unsigned refs;
    struct arena arena;
    bool batch;
    size_t n, requests; /* messages; requests among them */
    struct rpc_message messages[RPC_BATCH_MAX];
};

/* Parses text into a frame with one reference. On failure sets *ret_code to the error code for the
 * sender, and appends the message's id as JSON to ret_id if it is known. */
int rpc_read(struct str text, size_t max, struct rpc_frame **ret, enum rpc_code *ret_code,
             struct buf *ret_id, struct err *e);
struct rpc_frame *rpc_frame_ref(struct rpc_frame *f);
void rpc_frame_unref(struct rpc_frame *f);

bool rpc_same_id(const struct json *a, const struct json *b);
void rpc_write_id(struct buf *out, const struct json *id); /* as JSON; NULL: nothing */

/* Each begins a message, such as {"jsonrpc":"2.0","id":…,"result": and the caller writes the value
 * and calls json_end_object(). */
void rpc_begin_result(struct json_writer *w, const struct json *id);
void rpc_begin_notification(struct json_writer *w, const char *method);
void rpc_begin_request(struct json_writer *w, uint64_t id, const char *method);
/* Begins the error's object; the caller may add `data` and calls json_end_object() twice. A NULL id
 * is left out. */
void rpc_begin_error(struct json_writer *w, const struct json *id, int code, struct str message);

/* Writes a complete error message; `id` is JSON, or empty. */
int rpc_write_error(struct buf *out, struct str id, int code, const char *message);

#endif
