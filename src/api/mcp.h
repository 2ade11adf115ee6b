/* The interface for models: MCP on /mcp, and its tools. The files about it share this.
 *
 * A client sees and touches the sandboxes that were made by it, and nothing else: they carry its
 * key as a label, and everything else looks as if it were not there. When a session ends, its
 * sandboxes go; a stateless client's live as long as their time. */
#ifndef API_MCP_H
#define API_MCP_H

#include "api/inside.h"
#include "mcp/request.h"

#define MCP_LABEL "mcp/peer"

enum { MCP_PROVIDER_MAX = 64, MCP_FILE_MAX = 8 << 20, MCP_OUTPUT_MAX = 1 << 20 };
enum {
    MCP_IN_MAX = 32 << 20
}; /* bytes of a message that we take, whatever the configuration says */

/* Who a session's requests are from. */
struct mcp_client {
    struct control *control; /* which outlives it, unlike the interface */
    struct caller caller;    /* its labels end with the key's */
    struct json_pair *labels;
    struct arena arena;
    bool bound;                      /* the key is among them */
    char provider[MCP_PROVIDER_MAX]; /* that it prefers; "": any */
    struct list boxes;               /* struct mcp_box: that were made in this session */
};

struct mcp_box {
    struct link link;
    char id[ID_MAX];
};

static inline struct mcp_client *mcp_client_of(const struct mcp_request *r)
{
    return r->session->user;
}

/* Who asks, within what its session may see. */
const struct caller *mcp_caller(struct mcp_session *s);
/* It was made by this session, and ends with it. */
void mcp_remember(struct mcp_session *s, const char *id);
void mcp_forget(struct mcp_session *s, const char *id);

/* The live sandbox of that id, referenced; NULL: the tool was failed, with what to do next. */
struct sandbox *mcp_sandbox(struct mcp_request *r, const char *id);

/* Arguments by the tool's own table: false, and it was failed. */
bool mcp_arguments(struct mcp_request *r, const struct json *v, void *out);

/* Whether a call may be made: the one place that decides. */
void mcp_authorize(struct mcp_request *r, const struct mcp_tool *t, const struct json *arguments,
                   struct mcp_verdict *ret);

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
enum { MCP_TOOL_COUNT = 7, MCP_TEMPLATE_COUNT = 4, MCP_PROMPT_COUNT = 1 };
extern const struct mcp_tool mcp_tools[MCP_TOOL_COUNT];

/* A file as a resource: answers the request. */
void mcp_read_file(struct mcp_request *r, struct sandbox *s, const char *path, struct str uri);

/* mcp_resources.c */
extern const struct mcp_template mcp_templates[MCP_TEMPLATE_COUNT];
void mcp_list_sandboxes(struct mcp_request *r, struct str cursor);
void mcp_read_resource(struct mcp_request *r, struct str uri);
bool mcp_watchable(struct mcp_session *s, struct str uri);
void mcp_event(struct event_subscriber *sub, const struct event_record *v);

/* mcp_prompt.c */
extern const struct mcp_prompt mcp_prompts[MCP_PROMPT_COUNT];
void mcp_complete_argument(struct mcp_request *r, struct str about, struct str argument,
                           struct str value);

extern const struct mcp_offer mcp_offer;

#endif
