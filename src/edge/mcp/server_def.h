/* SPDX-License-Identifier: Apache-2.0 */
/* The offer of a server: its tools, resources and prompts, and its policy, as a table of constants.
 * A transport may give a session another offer of the same server. The engine implements the protocol only and knows nothing of sandboxes. */
#ifndef EDGE_MCP_SERVER_DEF_H
#define EDGE_MCP_SERVER_DEF_H

#include "base/id.h"
#include "lib/json/bind.h"

struct mcp_request;
struct mcp_session;

/* Hints about a tool: the tool annotations of the protocol, and its use of tasks. */
enum mcp_hints {
    MCP_READ_ONLY = 1 << 0,
    MCP_DESTRUCTIVE = 1 << 1,
    MCP_IDEMPOTENT = 1 << 2,
    MCP_OPEN_WORLD = 1 << 3,   /* reaches beyond this machine */
    MCP_MAY_BE_TASK = 1 << 4,  /* may take long: a task for clients with tasks */
    MCP_MUST_BE_TASK = 1 << 5, /* requires a client with tasks */
    MCP_NO_HINTS = 1 << 6,
    MCP_NO_PRESET = 1 << 7, /* its caller names the argument that others have a preset for */
};

struct mcp_tool {
    const char *name, *title, *description;
    uint64_t hints;                  /* enum mcp_hints */
    const struct json_field *fields; /* of its arguments */
    size_t field_count;
    const struct json_shape *result;       /* its structured result, or NULL */
    void (*schema)(struct json_writer *w); /* of its arguments, instead of `fields` */
    /* The arguments are an object; the tool binds and checks its members. Answers with the
     * functions of request.h; is called again for the same request when its inputs have arrived. */
    void (*call)(struct mcp_request *r, const struct json *arguments);
};

struct mcp_argument {
    const char *name, *description;
    bool required;
};

struct mcp_prompt {
    const char *name, *title, *description;
    const struct mcp_argument *arguments; /* ended by a row without a name; or NULL */
    void (*get)(struct mcp_request *r, const struct json *arguments);
};

struct mcp_template {
    const char *uri, *name, *title, *description, *type;
};

/* The decision on a tool call. The values are JSON-RPC error codes. */
enum mcp_verdict_kind {
    MCP_ALLOW = 0,
    MCP_DENY = -32000,
    MCP_RATE_LIMIT = -32001,
    MCP_REQUIRE_APPROVAL = -32002,
};

struct mcp_verdict {
    enum mcp_verdict_kind kind;
    char reason[400];        /* and what to do next */
    char request_id[ID_MAX]; /* of MCP_REQUIRE_APPROVAL: for a master to approve; else "" */
    char audit_id[ID_MAX];   /* of its audit record, or "" */
    bool granted;            /* of MCP_ALLOW: a master granted such calls in advance */
};

/* The trust in a message; role and verbs are the offer's own values. */
struct mcp_trust {
    bool less; /* than in its session: role and verbs apply; else they are unused */
    unsigned role;
    uint64_t verbs;
};

/* A refusal, for the audit log. */
struct mcp_refusal {
    struct str tool; /* or prompt or URI; may be empty */
    int code;        /* JSON-RPC error code; 0: an error result of a tool */
    const char *reason;
    char audit_id[ID_MAX]; /* out: of the audit record, or "" */
};

struct mcp_offer {
    const char *name, *title, *version, *instructions;
    const struct mcp_tool *tools;
    size_t n_tools;
    /* The argument that authorize() fills in where a call lacks it, and its description; or NULL. */
    const char *preset, *preset_doc;
    const struct mcp_prompt *prompts;
    size_t n_prompts;
    const struct mcp_template *templates;
    size_t n_templates;
    bool lists_change; /* tools and prompts may change during a session */
    /* Identifies the session's client before its first request with MCP_KNOWN; `client` is the name
     * in its clientInfo. Calls mcp_met(), now or later. NULL: identification is not necessary. */
    void (*meet)(struct mcp_session *s, struct str client);
    /* Decides on the call of r->tool with r->arguments: calls mcp_decided() once, now or later, and
     * may use r->on_cancel until then. NULL: every call is allowed. */
    void (*authorize)(struct mcp_request *r);
    /* The trust in a message that `user` sent in a session of the same peer. NULL: as in the
     * session. */
    struct mcp_trust (*trust)(const struct mcp_session *s, const void *user);
    /* Called when the session's first request starts or stream opens, and when the last one has
     * ended. May be NULL. */
    void (*in_use)(struct mcp_session *s, bool yes);
    /* Logs a refusal; `user` identifies the client, as in mcp_session_new(). May be NULL. */
    void (*refused)(void *user, struct mcp_refusal *x);
    /* A page of resources: a result whose `resources` are mcp_page_resource() each. */
    void (*list)(struct mcp_request *r, struct str cursor);
    /* mcp_read_text() and so on, or mcp_fail_uri(). */
    void (*read)(struct mcp_request *r, struct str uri);
    /* Decides whether the client may watch the resource: calls one of mcp_watched(),
     * mcp_watched_by(), mcp_not_watched() and mcp_refuse() once, now or later. */
    void (*watch)(struct mcp_request *r, struct str uri);
    /* Values for an argument: mcp_offer_value() for each, then mcp_completed(); or mcp_refuse(). */
    void (*complete)(struct mcp_request *r, struct str name, struct str argument, struct str value);
    /* The holder whose quota is charged for sessions of this user and for their replay memory;
     * NULL: their peer. */
    const char *(*holder)(void *user);
    /* The family of tokens within the holder that is charged as well, or ""; may be NULL. */
    const char *(*family)(void *user);
    void (*session_ended)(struct mcp_session *s); /* its requests are cancelled; may be NULL */
};

#endif
