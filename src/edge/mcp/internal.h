/* The engine's inside, for the files of this module. */
#ifndef MCP_INSIDE_H
#define MCP_INSIDE_H

#include "mcp/request.h"

#define MCP_TASKS     "io.modelcontextprotocol/tasks"
#define MCP_MS_STATIC (INT64_C(3600) * 1000) /* what only another version of us changes */
#define MCP_MS_NOW    INT64_C(0)

enum {
    MCP_BAD_HEADER = -32020,
    MCP_NO_CAPABILITY = -32021,
    MCP_BAD_VERSION = -32022,
    MCP_NO_RESOURCE = -32002, /* of the revisions with sessions; later it is RPC_INVALID_PARAMS */
};

enum mcp_era { MCP_OLD = 1 << 0, MCP_NEW = 1 << 1, MCP_BOTH = MCP_OLD | MCP_NEW };

enum mcp_when {
    MCP_EARLY = 1 << 0, /* also before `initialize` */
    MCP_KNOWN = 1 << 1, /* needs to know who asks */
};

struct mcp_method {
    const char *name;
    void (*handle)(struct mcp_request *r);
    unsigned eras; /* enum mcp_era */
    unsigned when; /* enum mcp_when */
};
const struct mcp_method *mcp_method_find(struct str name, enum mcp_version v);

/* Of a message that has no answer. */
void mcp_notified(struct mcp_session *s, const struct rpc_message *m);
void mcp_answered(struct mcp_session *s, const struct rpc_message *m);

/* Members of params; NULL or an empty string with p == NULL where there is none of that type. */
const struct json *mcp_param(const struct mcp_request *r, const char *name);
struct str mcp_param_str(const struct mcp_request *r, const char *name);
const struct json *mcp_object(const struct json *v, const char *name);
struct str mcp_text(const struct json *v, const char *name);
unsigned mcp_read_can(const struct json *capabilities);
void mcp_put(struct json_writer *w, const char *key, const char *value);

/* What a request's client says of itself in every request: 0, or it was failed. */
int mcp_read_meta(struct mcp_request *r);
void mcp_put_server(struct json_writer *w, const struct mcp_offer *o);
void mcp_put_capabilities(struct json_writer *w, const struct mcp_offer *o, enum mcp_version v);

/* Sends text that is a whole message, on the request's out. */
int mcp_send(struct mcp_request *r, struct str text);
void mcp_request_cancel(struct mcp_request *r);
/* The oldest of the session that waits for its client to be known; NULL: none. */
struct mcp_request *mcp_request_waiting(struct mcp_session *s);
void mcp_request_go_on(struct mcp_request *r, int met, const struct err *e);
/* The answer is there as text: to whoever waits for it. */
void mcp_deliver(struct mcp_request *r, int status);

/* --- tools.c --- */
void mcp_tools_list(struct mcp_request *r);
void mcp_tools_call(struct mcp_request *r);
void mcp_put_verdict(struct json_writer *w, const struct mcp_verdict *v); /* members */
void mcp_run_handler(struct mcp_request *r);       /* again, when its inputs are there */
const char *mcp_word(const struct mcp_request *r); /* what it is about: a tool, a prompt, a URI */

/* --- resources.c --- */
void mcp_resources_list(struct mcp_request *r);
void mcp_resources_read(struct mcp_request *r);
void mcp_resources_templates(struct mcp_request *r);
void mcp_resources_subscribe(struct mcp_request *r);
/* To what was asked about; x: what tells of it, or NULL. */
void mcp_subscribed(struct mcp_request *r, struct mcp_source *x);
void mcp_resources_unsubscribe(struct mcp_request *r);

/* --- prompts.c --- */
void mcp_prompts_list(struct mcp_request *r);
void mcp_prompts_get(struct mcp_request *r);
void mcp_complete(struct mcp_request *r);

/* --- listen.c: who watches, in both eras --- */
struct mcp_watch {
    struct link link;
    struct mcp_session *session;
    struct mcp_source *source;    /* that tells of it; NULL: mcp_resource_changed() does */
    struct loop_timer quiet;      /* after something of its source was told … */
    bool again;                   /* … and has changed since */
    struct mcp_request *listener; /* of a stateless client: its stream; NULL: the session's */
    unsigned lists;               /* bits of enum mcp_list */
    char uri[];                   /* "": of lists only */
};
void mcp_listen(struct mcp_request *r);
/* True: the no was to one of the resources that it wants to hear of, and is told with the others.
 */
bool mcp_wish_refused(struct mcp_request *r, const struct mcp_verdict *v);
/* On failure the source stays the caller's. */
int mcp_watch_add(struct mcp_session *s, struct mcp_request *listener, struct str uri,
                  unsigned lists, struct mcp_source *x, struct err *e);
void mcp_watch_remove(struct mcp_session *s, struct str uri);
void mcp_watches_done(struct mcp_session *s);
void mcp_wishes_done(struct mcp_request *r); /* what it was granted and has not begun to watch */

/* --- inputs.c: what a handler needs of the client --- */
struct mcp_ask {
    struct link link;
    uint64_t id;
    size_t input;
    struct mcp_request *request;
};
/* Of a stateless client: what it sent with the request. 0, or it was failed. */
int mcp_inputs_read(struct mcp_request *r);
/* The handler returned: asks for what it needs, if it needs anything. */
void mcp_inputs_ask(struct mcp_request *r);
void mcp_inputs_drop(struct mcp_request *r); /* nobody waits for them any more */
void mcp_inputs_done(struct mcp_request *r);
void mcp_put_inputs(struct json_writer *w, const struct mcp_request *r); /* that are missing */
bool mcp_input_take(struct mcp_request *r, size_t n, const struct json *response);

/* --- task.c --- */
void mcp_task_deliver(struct mcp_request *r);
/* Fails it: the client did not say that it knows tasks. */
void mcp_task_missing(struct mcp_request *r, const char *why);
/* What it needs of the client is on record. */
void mcp_task_wait(struct mcp_request *r);
void mcp_task_get(struct mcp_request *r);
void mcp_task_update(struct mcp_request *r);
void mcp_task_cancel(struct mcp_request *r);
void mcp_tasks_done(struct mcp_server *s);

#endif
