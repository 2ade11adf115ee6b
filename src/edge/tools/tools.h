/* The interface for models: MCP on /mcp, and its tools. The files about it share this.
 *
 * A client is a peer (trust/peers.h): it sees and touches the sandboxes that were made by it, and
 * nothing else, and the policy for tools is asked before it is served. */
#ifndef API_MCP_H
#define API_MCP_H

#include "api/inside.h"
#include "control/owner_share.h"
#include "mcp/request.h"
#include "trust/peers.h"

enum {
    MCP_PROVIDER_MAX = 64,
    MCP_SECRET_MAX = 128,
    MCP_FILE_MAX = 8 << 20, /* that is written */
    MCP_READ_MAX = 2 << 20, /* and read: what is told holds everybody else up */
    MCP_DENSE_MIN = 64 << 10,
    MCP_OUTPUT_MAX = 1 << 20,
    MCP_KEPT_MAX = 64 << 10
};
/* Bytes of a message that we take, whatever the configuration says: a file that is written, as
 * base64. While it is read nobody else is served. */
enum { MCP_IN_MAX = 12 << 20 };

/* Who a session's requests are from (mcp_client.c). */
struct mcp_client {
    struct api *api;         /* as long as the session is not ended */
    struct control *control; /* which outlives it */
    struct caller caller;    /* a model: administers nothing; within its peer, once that is known */
    struct account account;  /* that its sessions count in */
    struct arena arena;      /* of its labels */
    struct peer *peer;       /* referenced; NULL: not met yet */
    struct peer_watch watch;
    struct mcp_session *session; /* while that is watched */
    bool attached;
    size_t files_watched;
    int64_t uid; /* of the socket's other end; -1: not known */
    enum role role;
    char provider[MCP_PROVIDER_MAX]; /* that it prefers; "": any */
    char secret[MCP_SECRET_MAX];     /* that it comes back with; "": it does not */
};

static inline struct mcp_client *mcp_client_of(const struct mcp_request *r)
{
    return r->session->user;
}

struct mcp_client *mcp_client_new(struct api *a, const struct caller *who);
struct mcp_client *mcp_client_of_call(const struct call *c);
void mcp_client_free(void *user);
/* It acts as the peer, and sees what that sees. */
void mcp_client_bind(struct mcp_client *m, struct peer *p);
void mcp_client_meet(struct mcp_session *s, struct str client);
struct mcp_trust mcp_client_trust(const struct mcp_session *s, const void *user);
void mcp_client_in_use(struct mcp_session *s, bool yes);
void mcp_client_left(struct mcp_session *s);
void mcp_client_refused(void *user, struct mcp_refusal *x);

/* Who asks, within what its session may see. */
const struct caller *mcp_caller(struct mcp_session *s);

/* The live sandbox of that id, referenced; NULL: the tool was failed, with what to do next. */
struct sandbox *mcp_sandbox(struct mcp_request *r, const char *id);
void mcp_fail_no_sandbox(struct mcp_request *r, struct str id);

/* Arguments by the tool's own table: false, and it was failed. */
bool mcp_arguments(struct mcp_request *r, const struct json *v, void *out);

/* Whether the request's own trust is good for the tool; if not, it is denied and on record. */
bool mcp_may_call(struct mcp_request *r, const char *tool);
/* Whether the caller's token is good for the tool; if not, *ret says so. */
bool mcp_token_allows(const struct caller *who, const char *tool, struct mcp_verdict *ret);
/* Tells a no that the policy itself did not say, with an id under which it is on record. */
void mcp_deny(struct mcp_request *r, const char *tool, struct mcp_verdict *v);
/* Whether a call may be made: the one place that asks. */
void mcp_authorize(struct mcp_request *r);
/* The same for what is had without a tool, as if that one showed it. */
struct mcp_equal {
    const char *tool;
    const struct json *args;           /* NULL: none */
    bool can_wait;                     /* the call of the tool, made later, is the same thing */
    void (*go)(struct mcp_request *r); /* if it may */
};
void mcp_authorize_as(struct mcp_request *r, const struct mcp_equal *x);

/* An error of the control plane as the model should hear it. */
void mcp_fail_err(struct mcp_request *r, const char *doing, const struct err *e);

/* The tools, each in a file of its own kind. */
void mcp_tool_create(struct mcp_request *r, const struct json *v);
void mcp_tool_list(struct mcp_request *r, const struct json *v);
void mcp_tool_destroy(struct mcp_request *r, const struct json *v);
void mcp_tool_exec(struct mcp_request *r, const struct json *v);
void mcp_tool_install(struct mcp_request *r, const struct json *v);
void mcp_tool_read(struct mcp_request *r, const struct json *v);
void mcp_tool_write(struct mcp_request *r, const struct json *v);
enum { MCP_TOOL_COUNT = 7, MCP_TEMPLATE_COUNT = 6, MCP_PROMPT_COUNT = 1 };
extern const struct mcp_tool mcp_tools[MCP_TOOL_COUNT];

/* Whether it can be told as text: UTF-8, and, if it is long, not such that JSON makes more than
 * twice as much of it. */
bool mcp_is_text(struct str s);

/* A file as a resource: answers the request. */
void mcp_read_file(struct mcp_request *r, struct sandbox *s, const char *path, struct str uri);

/* A pattern of the policy would have to know where ".." leads. */
bool mcp_path_has_dots(const char *path);

/* What its background processes wrote. */
void mcp_read_logs(struct mcp_request *r, struct sandbox *s, struct str uri);

/* mcp_resources.c */
extern const struct mcp_template mcp_templates[MCP_TEMPLATE_COUNT];
void mcp_list_sandboxes(struct mcp_request *r, struct str cursor);
void mcp_read_resource(struct mcp_request *r, struct str uri);
void mcp_watch_resource(struct mcp_request *r, struct str uri);
void mcp_event(struct event_subscriber *sub, const struct event_record *v);

/* mcp_prompt.c */
extern const struct mcp_prompt mcp_prompts[MCP_PROMPT_COUNT];
void mcp_complete_argument(struct mcp_request *r, struct str about, struct str argument,
                           struct str value);

extern const struct mcp_offer mcp_offer;

#endif
