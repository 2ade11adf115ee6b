/* What a server offers: tools, resources, prompts. The protocol is the same whatever it is, so the
 * engine gets one of these and knows nothing of sandboxes. Everything here is constant. */
#ifndef MCP_OFFER_H
#define MCP_OFFER_H

#include "base/id.h"
#include "json/bind.h"

struct mcp_request;
struct mcp_session;

/* What a client may be told of a tool before it is called. */
enum mcp_hints {
    MCP_READ_ONLY = 1 << 0,
    MCP_DESTRUCTIVE = 1 << 1,
    MCP_IDEMPOTENT = 1 << 2,
    MCP_OPEN_WORLD = 1 << 3,   /* reaches beyond this machine */
    MCP_MAY_BE_TASK = 1 << 4,  /* may take long: a task for clients that know them */
    MCP_MUST_BE_TASK = 1 << 5, /* cannot be had otherwise */
    MCP_NO_HINTS = 1 << 6,
};

struct mcp_tool {
    const char *name, *title, *description;
    uint64_t hints;                  /* enum mcp_hints */
    const struct json_field *fields; /* of its arguments */
    size_t field_count;
    const struct json_field *out_fields; /* of its structured result; NULL: it has none */
    size_t out_field_count;
    void (*schema)(struct json_writer *w); /* of its arguments, where a table cannot say it */
    /* The arguments are an object, bound and checked by the tool. Answers by request.h; may be
     * called again for the same request when an input that it needed has come. */
    void (*call)(struct mcp_request *r, const struct json *arguments);
};

struct mcp_argument {
    const char *name, *description;
    bool required;
};

struct mcp_prompt {
    const char *name, *title, *description;
    const struct mcp_argument *arguments; /* ended by a row without a name; NULL: none */
    void (*get)(struct mcp_request *r, const struct json *arguments);
};

struct mcp_template {
    const char *uri, *name, *title, *description, *type;
};

/* What may be done with a call of a tool. The codes are the protocol errors'. */
enum mcp_verdict_kind {
    MCP_ALLOW = 0,
    MCP_DENY = -32000,
    MCP_RATE_LIMIT = -32001,
    MCP_REQUIRE_APPROVAL = -32002,
};

struct mcp_verdict {
    enum mcp_verdict_kind kind;
    char reason[400];        /* and what to do next */
    char request_id[ID_MAX]; /* of MCP_REQUIRE_APPROVAL: what a master approves; else "" */
    char audit_id[ID_MAX];   /* under which it is on record, or "" */
    bool granted;            /* of MCP_ALLOW: a master said yes to its like in advance */
};

/* How far a message is trusted, in the offer's own numbers. */
struct mcp_trust {
    bool less; /* than its session: these count; or they do not */
    unsigned role;
    uint64_t verbs;
};

/* Something that a client was not given, for the record. */
struct mcp_refusal {
    struct str tool; /* or what else it named; empty: nothing */
    int code;        /* of the protocol; 0: a tool said no */
    const char *reason;
    char audit_id[ID_MAX]; /* out: under which it is on record, or "" */
};

struct mcp_offer {
    const char *name, *title, *version, *instructions;
    const struct mcp_tool *tools;
    size_t n_tools;
    const struct mcp_prompt *prompts;
    size_t n_prompts;
    const struct mcp_template *templates;
    size_t n_templates;
    bool lists_change; /* tools and prompts may, while a client is there */
    /* Makes the session's client known before its first request that needs it; `client` is what it
     * calls itself. Ends with mcp_met(), now or later. NULL: everybody is. */
    void (*meet)(struct mcp_session *s, struct str client);
    /* Whether the call of r->tool with r->arguments may be made: mcp_decided() says it, now or
     * later, once. While it is waited for, r->on_cancel is the asker's. NULL: every call. */
    void (*authorize)(struct mcp_request *r);
    /* How far who asks now is trusted, whom `user` stands for, in a session that the same peer
     * began. NULL: as who began it. */
    struct mcp_trust (*trust)(const struct mcp_session *s, const void *user);
    /* Something is under way in the session, or a stream of it is open; or nothing any more. May be
     * NULL. */
    void (*in_use)(struct mcp_session *s, bool yes);
    /* For the record. `user` is the transport's word on who it is. May be NULL. */
    void (*refused)(void *user, struct mcp_refusal *x);
    /* A page of resources: a result whose `resources` are mcp_page_resource() each. */
    void (*list)(struct mcp_request *r, struct str cursor);
    /* mcp_read_text() and so on, or mcp_fail_uri(). */
    void (*read)(struct mcp_request *r, struct str uri);
    /* Whether it may be watched: mcp_watched(), mcp_watched_by(), mcp_not_watched() or mcp_refuse()
     * says it, now or later, once. */
    void (*watch)(struct mcp_request *r, struct str uri);
    /* Values for an argument: mcp_offer_value() for each, then mcp_completed(); or mcp_refuse(). */
    void (*complete)(struct mcp_request *r, struct str name, struct str argument, struct str value);
    /* Whom sessions of this user, and what is kept of them, count for; NULL: their peer. */
    const char *(*holder)(void *user);
    /* The part of the holder that they count in, "" for none; may be NULL. */
    const char *(*family)(void *user);
    void (*session_ended)(struct mcp_session *s); /* nobody can ask in it any more; may be NULL */
};

#endif
