/* SPDX-License-Identifier: Apache-2.0 */
/* A client's request, as its handler sees it. A handler answers with
 *
 *     struct json_writer *w = mcp_result(r);
 *
 *     json_key(w, STR("tools")); …
 *     mcp_reply(r);
 *
 * or mcp_fail(). Answering a request that is cancelled or answered does nothing, so handlers need
 * no check. A handler that continues later must hold a reference. */
#ifndef EDGE_MCP_REQUEST_H
#define EDGE_MCP_REQUEST_H

#include "edge/mcp/session.h"

enum { MCP_INPUTS_MAX = 8, MCP_STATE_MAX = 1 << 10 };

struct mcp_method;
struct mcp_task;
struct mcp_wishes;

struct mcp_input {
    const char *key;    /* static */
    const char *method; /* of the request to the client */
    struct buf params;  /* JSON */
    const struct json *response;
};

struct mcp_request {
    struct mcp_session *session;
    struct mcp_out *out; /* NULL: lost, messages are dropped */
    struct link in_session, in_out;
    unsigned refs;
    struct rpc_frame *frame;
    const struct rpc_message *m;
    const struct mcp_method *method;
    struct arena arena;
    enum mcp_version version; /* of the protocol */
    struct mcp_trust trust;
    unsigned can; /* enum mcp_can */
    enum mcp_level level;
    const struct json *meta;  /* params._meta, or NULL */
    const struct json *token; /* progressToken; NULL: no progress wanted */
    bool answered, cancelled;
    bool streams;          /* lasts as long as its out */
    bool waits;            /* for its client to be identified */
    bool judged;           /* it has an audit record */
    char audit_id[ID_MAX]; /* of the audit record of its verdict, or "" */
    bool granted;          /* by a master, in advance */
    const struct mcp_tool *tool;
    const struct json *arguments;
    struct loop_timer long_after;
    struct mcp_task *task;     /* that it has become, or NULL */
    struct mcp_wishes *wishes; /* of subscriptions/listen, or NULL */
    struct mcp_input inputs[MCP_INPUTS_MAX];
    size_t n_inputs;
    const struct json *responses; /* to inputs, sent with the request */
    char note[MCP_STATE_MAX];     /* of the handler; a client keeps it in requestState */
    struct buf text;
    size_t result_at; /* offset of the result in text; 0: an error */
    struct json_writer w;
    struct buf values; /* of a completion, each ended by NUL */
    size_t n_values;
    uint64_t told;                            /* progress so far, of handlers that count */
    void *state;                              /* the handler's own: mcp_state(), or its own */
    struct mcp_owned_ *owned_;                /* its states, newest first */
    void (*on_cancel)(struct mcp_request *r); /* cancelled: stop */
    void (*on_drain)(struct mcp_request *r);  /* the out accepts more, or is lost */
    void (*on_end)(struct mcp_request *r);    /* just before it is freed */
    struct loop_later later;
};

#define MCP_AUDIT_ID "sandboxer/audit_id" /* in _meta of a result */

struct mcp_request *mcp_request_ref(struct mcp_request *r);
void mcp_request_unref(struct mcp_request *r);
/* Allocates a zeroed state of the handler and makes it r->state. It lives as long as the request;
 * on_end, which may be NULL, then releases what the state owns. */
void *mcp_state(struct mcp_request *r, size_t size, void (*on_end)(void *state))
    __attribute__((returns_nonnull));
static inline bool mcp_is_finished(const struct mcp_request *r)
{
    return r->answered || r->cancelled;
}

/* --- answers --- */

/* Begins the result's object. The caller adds members; mcp_reply() ends and sends it. */
struct json_writer *mcp_result(struct mcp_request *r);
/* Like mcp_result(), for lists and contents that clients may cache for ttl_ms; 0: not at all. */
struct json_writer *mcp_result_for(struct mcp_request *r, int64_t ttl_ms);
void mcp_reply(struct mcp_request *r);
void mcp_fail(struct mcp_request *r, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
typedef void mcp_write_fn(struct json_writer *w, const void *what);
/* `data` writes the error's data, or is NULL. */
void mcp_fail_with(struct mcp_request *r, int code, const char *message, mcp_write_fn *data,
                   const void *what);

/* The offer's decision on a call (offer.authorize). */
void mcp_decided(struct mcp_request *r, const struct mcp_verdict *v);
/* Refuses a request that is not a tool call; of subscriptions/listen, only the resource that is
 * being decided. */
void mcp_refuse(struct mcp_request *r, const struct mcp_verdict *v);

/* --- of a tool --- */

/* Answers with the same JSON as text, for the model, and as structured content. */
void mcp_tool_reply(struct mcp_request *r, mcp_write_fn *structured, const void *what);
/* Answers with an error result for the model: it should say what failed and what to do next. */
void mcp_tool_fail(struct mcp_request *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Answers with a task; the call continues in the background. False, without an answer, if the
 * client does not know tasks or there are too many. */
bool mcp_task_begin(struct mcp_request *r);

/* --- before the answer --- */

/* Sends progress if the client asked for it. Returns 0; 1 if the client is slow and the caller
 * should wait for on_drain; or negative if the client is gone. */
int mcp_progress(struct mcp_request *r, uint64_t progress, uint64_t total, struct str message,
                 mcp_write_fn *meta, const void *what);
void mcp_log(struct mcp_request *r, enum mcp_level level, const char *logger, struct str text);

/* --- inputs from the client --- */

/* The client's response to an input. NULL if it has not arrived: the handler must then return
 * without an answer; the engine asks the client and calls the handler again. `params` is JSON. */
const struct json *mcp_input(struct mcp_request *r, const char *key, const char *method,
                             struct str params);
/* Whether the client supports the method. */
bool mcp_client_supports(const struct mcp_request *r, const char *method);

/* --- reading --- */

/* The string member of an object, which may be NULL; p == NULL: it has none. */
struct str mcp_text(const struct json *v, const char *name);

/* --- lists --- */

/* The offset in the request's cursor, 0 without one; or -1 after it has failed the request because
 * of an invalid cursor. */
int64_t mcp_cursor(struct mcp_request *r);
void mcp_next_cursor(struct json_writer *w, int64_t at);

void mcp_page_resource(struct json_writer *w, struct str uri, const char *name,
                       const char *description, const char *type);
void mcp_read_text(struct mcp_request *r, struct str uri, const char *type, struct str text);
void mcp_read_json(struct mcp_request *r, struct str uri, mcp_write_fn *write, const void *what);
void mcp_read_bytes(struct mcp_request *r, struct str uri, const char *type, struct str data);
void mcp_fail_uri(struct mcp_request *r, struct str uri, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void mcp_fail_no_resource(struct mcp_request *r, struct str uri);
void mcp_prompt_text(struct mcp_request *r, const char *description, struct str text);
void mcp_offer_value(struct mcp_request *r, struct str value);
void mcp_completed(struct mcp_request *r);
/* Answers of offer.watch: the resource may be watched if it exists; … */
void mcp_watched(struct mcp_request *r, bool there);
/* … may be watched, and x reports its changes; … */
void mcp_watched_by(struct mcp_request *r, struct mcp_source *x);
/* … cannot be watched. */
void mcp_not_watched(struct mcp_request *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
