/* SPDX-License-Identifier: Apache-2.0 */
/* MCP on /mcp and its tools: the API for models.
 *
 * A client is a peer (trust/peers.h): it can see and use only the sandboxes that it made, and the
 * tool policy authorizes each request. */
#ifndef EDGE_TOOLS_TOOLS_H
#define EDGE_TOOLS_TOOLS_H

#include "edge/core/internal.h"
#include "edge/core/pagination.h"
#include "control/owner/owner_share.h"
#include "edge/mcp/request.h"
#include "trust/peers.h"

enum {
    MCP_PROVIDER_MAX = 64,
    MCP_SECRET_MAX = 128,
    MCP_FILE_MAX = 8 << 20, /* written by a tool */
    MCP_READ_MAX = 2 << 20, /* read by a tool: sending it blocks the loop */
    MCP_DENSE_MIN = 64 << 10,
    MCP_OUTPUT_MAX = 1 << 20,
    MCP_KEPT_MAX = 64 << 10
};
/* Maximum size of a received message regardless of the configuration: a written file as base64.
 * Parsing it blocks the loop. */
enum { MCP_IN_MAX = 12 << 20 };

/* "calls": a checkpoint is taken before each call that can change files. Tokens cannot ask for it,
 * since it uses their owner's budget for snapshots without asking the policy. */
#define CHECKPOINT_HEADER "Sandboxer-Checkpoint"

/* The client of a session (client.c). */
struct mcp_client {
    struct api *api;         /* valid until the session ends */
    struct control *control; /* outlives the session */
    struct caller
        caller; /* without administrator rights; restricted to its peer after registration */
    struct account account; /* charged for its sessions */
    struct arena arena;     /* holds its labels */
    struct peer *peer;      /* referenced; NULL: not registered yet */
    struct peer_watch watch;
    struct mcp_session *session;     /* while the peer is watched */
    struct mcp_workspace *workspace; /* that the session was granted (workspace.h); NULL: none */
    bool attached;
    bool checkpoints; /* one before each call that can change files */
    size_t files_watched;
    int64_t uid; /* of a local client; -1: unknown */
    enum role role;
    char provider[MCP_PROVIDER_MAX]; /* preferred provider, or "" */
    char secret[MCP_SECRET_MAX];     /* for reconnecting, or "" */
};

static inline struct mcp_client *mcp_client_of(const struct mcp_request *r)
{
    return r->session->user;
}

struct mcp_client *mcp_client_new(struct api *a, const struct caller *who);
struct mcp_client *mcp_client_of_call(const struct call *c);
void mcp_client_free(void *user);
/* Makes the client act as the peer, and restricts it to the peer's sandboxes. */
void mcp_client_bind(struct mcp_client *m, struct peer *p);
void mcp_client_meet(struct mcp_session *s, struct str client);
struct mcp_trust mcp_client_trust(const struct mcp_session *s, const void *user);
void mcp_client_in_use(struct mcp_session *s, bool yes);
void mcp_client_left(struct mcp_session *s);
void mcp_client_refused(void *user, struct mcp_refusal *x);

/* The session's caller. */
const struct caller *mcp_caller(struct mcp_session *s);

/* The live sandbox with this id, referenced. NULL if not found: the tool then fails, now or later,
 * with advice. The id must live as long as the request. */
struct sandbox *mcp_sandbox(struct mcp_request *r, const char *id);
/* Fails the tool, with the time and reason of the sandbox's end if it existed. */
void mcp_fail_no_sandbox(struct mcp_request *r, struct str id);

/* A page of the client's sandboxes, one row more if others follow. The first member of a state. */
struct mcp_box_query {
    struct store_query query;
    struct mcp_request *request; /* referenced until the query is done */
};
void mcp_query_done(void *query); /* on_end of a state that begins with a struct store_query */
/* Continues behind a cursor of sandbox_page_cursor(); empty: from the start. False: it is invalid. */
bool mcp_box_query_after(struct mcp_box_query *b, struct str cursor);
int mcp_box_query_start(struct mcp_box_query *b, struct mcp_request *r, size_t limit,
                        store_answer_fn *done, struct err *e);

/* Binds the arguments by the tool's table. Returns false after it has failed the tool. */
bool mcp_arguments(struct mcp_request *r, const struct json *v, void *out);

/* Whether the request's trust suffices for the tool; if not, denies the request with an audit
 * record. */
bool mcp_may_call(struct mcp_request *r, const char *tool);
/* Whether the caller's token allows the tool; if not, *ret is the denial. */
bool mcp_token_allows(const struct caller *who, const char *tool, struct mcp_verdict *ret);
/* Denies a request for a reason outside the policy, with an audit record. */
void mcp_deny(struct mcp_request *r, const char *tool, struct mcp_verdict *v);
/* Authorizes a tool call (offer.authorize). */
void mcp_authorize(struct mcp_request *r);
/* Authorizes a request that is not a tool call like an equivalent tool call. */
struct mcp_equal {
    const char *tool;
    const struct json *args; /* or NULL */
    bool can_wait;           /* it can be held: running the tool call later has the same effect */
    void (*go)(struct mcp_request *r); /* called if it is allowed */
};
void mcp_authorize_as(struct mcp_request *r, const struct mcp_equal *x);

/* Fails the tool with an error of the control plane and advice for the model. */
void mcp_fail_err(struct mcp_request *r, const char *doing, const struct err *e);

/* The implementations of the tools. */
void mcp_tool_create(struct mcp_request *r, const struct json *v);
void mcp_tool_list(struct mcp_request *r, const struct json *v);
void mcp_tool_destroy(struct mcp_request *r, const struct json *v);
void mcp_tool_exec(struct mcp_request *r, const struct json *v);
void mcp_tool_install(struct mcp_request *r, const struct json *v);
void mcp_tool_read(struct mcp_request *r, const struct json *v);
void mcp_tool_write(struct mcp_request *r, const struct json *v);

/* The same for clients with checkpoints: one is taken first (checkpoint.c). */
void mcp_undoable_exec(struct mcp_request *r, const struct json *v);
void mcp_undoable_install(struct mcp_request *r, const struct json *v);
void mcp_undoable_write(struct mcp_request *r, const struct json *v);

/* The last ones are of sessions with a workspace. */
enum { MCP_TOOL_COUNT = 9, MCP_PLAIN_TOOL_COUNT = 7, MCP_TEMPLATE_COUNT = 6, MCP_PROMPT_COUNT = 1 };
extern const struct mcp_tool mcp_tools[MCP_TOOL_COUNT];

/* Whether the bytes can be sent as text: valid UTF-8 and, if long, at most twice as long in
 * JSON. */
bool mcp_is_text(struct str s);

/* Answers the request with a file as a resource. */
void mcp_read_file(struct mcp_request *r, struct sandbox *s, const char *path, struct str uri);

/* Whether the path contains "..", which patterns of the policy cannot resolve. */
bool mcp_path_has_dots(const char *path);

/* Answers the request with the output of background processes. */
void mcp_read_logs(struct mcp_request *r, struct sandbox *s, struct str uri);

/* resources.c */
extern const struct mcp_template mcp_templates[MCP_TEMPLATE_COUNT];
void mcp_list_sandboxes(struct mcp_request *r, struct str cursor);
void mcp_read_resource(struct mcp_request *r, struct str uri);
void mcp_watch_resource(struct mcp_request *r, struct str uri);
void mcp_event(struct event_subscriber *sub, const struct event_record *v);

/* prompt.c */
extern const struct mcp_prompt mcp_prompts[MCP_PROMPT_COUNT];
void mcp_complete_argument(struct mcp_request *r, struct str about, struct str argument,
                           struct str value);

extern const struct mcp_offer mcp_offer, mcp_workspace_offer;

#endif
