/* SPDX-License-Identifier: Apache-2.0 */
/* Private declarations of the engine, for the files of this module. */
#ifndef EDGE_MCP_INTERNAL_H
#define EDGE_MCP_INTERNAL_H

#include "edge/mcp/request.h"

#define MCP_TASKS     "io.modelcontextprotocol/tasks"
#define MCP_MS_STATIC (INT64_C(3600) * 1000) /* cache time of constant lists */
#define MCP_MS_NOW    INT64_C(0)

enum {
    MCP_BAD_HEADER = -32020,
    MCP_NO_CAPABILITY = -32021,
    MCP_BAD_VERSION = -32022,
    MCP_NO_RESOURCE = -32002, /* revisions with sessions; later ones use RPC_INVALID_PARAMS */
};

enum mcp_era { MCP_OLD = 1 << 0, MCP_NEW = 1 << 1, MCP_BOTH = MCP_OLD | MCP_NEW };

enum mcp_when {
    MCP_EARLY = 1 << 0, /* allowed before `initialize` */
    MCP_KNOWN = 1 << 1, /* requires an identified client (offer.meet) */
};

struct mcp_method {
    const char *name;
    void (*handle)(struct mcp_request *r);
    unsigned eras; /* enum mcp_era */
    unsigned when; /* enum mcp_when */
};
const struct mcp_method *mcp_method_find(struct str name, enum mcp_version v);

/* Handle a notification, and a response to a request of ours. */
void mcp_notified(struct mcp_session *s, const struct rpc_message *m);
void mcp_answered(struct mcp_session *s, const struct rpc_message *m);

/* Members of params, or of an object; NULL, or an empty string with p == NULL, if the member is
 * absent or has another type (mcp_param() accepts any type). */
const struct json *mcp_param(const struct mcp_request *r, const char *name);
struct str mcp_param_str(const struct mcp_request *r, const char *name);
const struct json *mcp_object(const struct json *v, const char *name);
unsigned mcp_read_can(const struct json *capabilities);
void mcp_write_str(struct json_writer *w, const char *key, const char *value);

/* Reads the version, capabilities and log level that a stateless client sends with each request.
 * Returns 0, or -1 after it has failed the request. */
int mcp_read_meta(struct mcp_request *r);
void mcp_write_extensions(struct json_writer *w); /* the member that names tasks */
void mcp_write_server(struct json_writer *w, const struct mcp_offer *o);
void mcp_write_capabilities(struct json_writer *w, const struct mcp_offer *o, enum mcp_version v);

/* Sends a complete message on the request's out. Returns 0 if the request has lost its out. */
int mcp_send(struct mcp_request *r, struct str text);
void mcp_request_cancel(struct mcp_request *r);
/* The session's oldest request that waits for its client to be identified, or NULL. */
struct mcp_request *mcp_request_waiting(struct mcp_session *s);
void mcp_request_continue(struct mcp_request *r, int met, const struct err *e);
/* Sends r->text, the complete answer, to the out, or stores it in the request's task. */
void mcp_deliver(struct mcp_request *r, int status);

/* --- tools.c --- */
void mcp_tools_list(struct mcp_request *r);
void mcp_tools_call(struct mcp_request *r);
void mcp_write_verdict(struct json_writer *w, const struct mcp_verdict *v); /* members */
void mcp_run_handler(struct mcp_request *r);             /* again, when all inputs have arrived */
const char *mcp_param_name(const struct mcp_request *r); /* name or URI in params, or "" */

/* --- resources.c --- */
void mcp_resources_list(struct mcp_request *r);
void mcp_resources_read(struct mcp_request *r);
void mcp_resources_templates(struct mcp_request *r);
void mcp_resources_subscribe(struct mcp_request *r);
/* Subscribes the session to the request's URI. x: the source of its changes, or NULL. */
void mcp_subscribed(struct mcp_request *r, struct mcp_source *x);
void mcp_resources_unsubscribe(struct mcp_request *r);

/* --- prompts.c --- */
void mcp_prompts_list(struct mcp_request *r);
void mcp_prompts_get(struct mcp_request *r);
void mcp_complete(struct mcp_request *r);

/* --- listen.c: watches of resources and lists, in both eras --- */
struct mcp_watch {
    struct link link;
    struct mcp_session *session;
    struct mcp_source *source;    /* of its changes; NULL: mcp_resource_changed() */
    struct loop_timer quiet;      /* runs after a notification of its source … */
    bool again;                   /* … the resource has changed since */
    struct mcp_request *listener; /* a stateless client's stream; NULL: the session's */
    unsigned lists;               /* bits of enum mcp_list */
    char uri[];                   /* "": watches lists only */
};
void mcp_listen(struct mcp_request *r);
void mcp_query_watch(struct mcp_request *r, struct str uri); /* asks the offer */
/* True if the request is subscriptions/listen: the refused resource is then reported in its
 * acknowledgement. */
bool mcp_wish_refuse(struct mcp_request *r, const struct mcp_verdict *v);
/* Fails with ERR_QUOTA beyond MCP_WATCHES_MAX; the caller then still owns the source. */
int mcp_watch_add(struct mcp_session *s, struct mcp_request *listener, struct str uri,
                  unsigned lists, struct mcp_source *x, struct err *e);
void mcp_watch_remove(struct mcp_session *s, struct str uri);
void mcp_watches_done(struct mcp_session *s);
void mcp_wishes_done(struct mcp_request *r); /* ends granted sources that have no watch */

/* --- inputs.c: inputs that a handler needs from the client --- */
struct mcp_input_request {
    struct link link;
    uint64_t id;
    size_t input;
    struct mcp_request *request;
};
/* Reads the inputs that a stateless client sent with the request. Returns 0, or -1 after it has
 * failed the request. */
int mcp_inputs_read(struct mcp_request *r);
/* Called after the handler returned: asks the client for the missing inputs, if any. */
void mcp_inputs_request(struct mcp_request *r);
void mcp_inputs_drop(struct mcp_request *r); /* forgets the questions that are open */
void mcp_inputs_done(struct mcp_request *r);
void mcp_write_inputs(struct json_writer *w, const struct mcp_request *r); /* the missing ones */
bool mcp_input_take(struct mcp_request *r, size_t n, const struct json *response);

/* --- task.c --- */
void mcp_task_deliver(struct mcp_request *r);
/* Fails the request because the client did not announce the tasks capability. */
void mcp_task_missing(struct mcp_request *r, const char *why);
/* Sets the request's task to input_required; tasks/get then lists the missing inputs. */
void mcp_task_wait(struct mcp_request *r);
void mcp_task_get(struct mcp_request *r);
void mcp_task_update(struct mcp_request *r);
void mcp_task_cancel(struct mcp_request *r);
void mcp_tasks_done(struct mcp_server *s);

#endif
