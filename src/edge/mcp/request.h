/* One request of a client on its way: for those who answer it.
 *
 *     struct json_writer *w = mcp_result(r);
 *
 *     json_key(w, STR("tools")); …
 *     mcp_reply(r);
 *
 * or mcp_fail(). Answering a request that was cancelled or answered does nothing, so nobody has to
 * look. Whoever goes on later holds a reference. */
#ifndef MCP_REQUEST_H
#define MCP_REQUEST_H

#include "mcp/session.h"

enum { MCP_INPUTS_MAX = 8, MCP_STATE_MAX = 1 << 10 };

struct mcp_method;
struct mcp_task;
struct mcp_wishes;

struct mcp_input {
    const char *key;    /* static */
    const char *method; /* that asks for it */
    struct buf params;  /* JSON */
    const struct json *response;
};

struct mcp_request {
    struct mcp_session *session;
    struct mcp_out *out; /* NULL: nobody hears */
    struct link in_session, in_out;
    unsigned refs;
    struct rpc_frame *frame;
    const struct rpc_message *m;
    const struct mcp_method *method;
    struct arena arena;
    enum mcp_version version; /* that it is asked under */
    struct mcp_trust trust;
    unsigned can; /* what the client can do */
    enum mcp_level level;
    const struct json *meta;  /* params._meta; NULL */
    const struct json *token; /* of its progress; NULL: nobody wants to know */
    bool answered, cancelled;
    bool streams;          /* lasts as long as somebody listens */
    bool waits;            /* for its client to be known */
    bool judged;           /* a verdict was told, and is on record */
    char audit_id[ID_MAX]; /* of the verdict that let it pass, or under which it was refused; or ""
                            */
    bool granted;          /* by a master, in advance */
    const struct mcp_tool *tool;
    const struct json *arguments;
    struct loop_timer long_after;
    struct mcp_task *task;     /* that it has become; NULL: none */
    struct mcp_wishes *wishes; /* of one that listens: what is asked about; NULL: nothing */
    struct mcp_input inputs[MCP_INPUTS_MAX];
    size_t n_inputs;
    const struct json *responses; /* of inputs that the client sent with it */
    char note[MCP_STATE_MAX];     /* of the handler, kept by the client meanwhile */
    struct buf text;
    size_t result_at; /* where its result begins; 0: it is an error */
    struct json_writer w;
    struct buf values; /* of a completion, each with its NUL */
    size_t n_values;
    uint64_t told;                            /* progress so far, of handlers that count steps */
    void *state;                              /* the handler's own */
    void (*on_cancel)(struct mcp_request *r); /* nobody wants it any more: stop */
    void (*on_drain)(struct mcp_request *r);  /* the client takes more */
    void (*on_end)(struct mcp_request *r);    /* just before it is freed */
    struct loop_later later;
};

#define MCP_AUDIT_ID "sandboxer/audit_id" /* in _meta of a result */

struct mcp_request *mcp_request_ref(struct mcp_request *r);
void mcp_request_unref(struct mcp_request *r);
static inline bool mcp_over(const struct mcp_request *r)
{
    return r->answered || r->cancelled;
}

/* --- answers --- */

/* The result's object, begun: members may be added, mcp_reply() ends it. */
struct json_writer *mcp_result(struct mcp_request *r);
/* The same for lists and what is read: says how long it stays true. */
struct json_writer *mcp_result_for(struct mcp_request *r, int64_t ttl_ms);
void mcp_reply(struct mcp_request *r);
void mcp_fail(struct mcp_request *r, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
typedef void mcp_write_fn(struct json_writer *w, const void *what);
/* With data, whose value is written by the function. */
void mcp_fail_with(struct mcp_request *r, int code, const char *message, mcp_write_fn *data,
                   const void *what);

/* The offer's word on a call that it was asked about. */
void mcp_decided(struct mcp_request *r, const struct mcp_verdict *v);
/* A no to what is no call of a tool; of one that listens, to the resource that it is about. */
void mcp_refuse(struct mcp_request *r, const struct mcp_verdict *v);

/* --- of a tool --- */

/* A result that the model sees as text and the program as data; both are the same. */
void mcp_tool_reply(struct mcp_request *r, mcp_write_fn *structured, const void *what);
/* What went wrong and what to do next: for the model. */
void mcp_tool_fail(struct mcp_request *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Answers with a task, if the client knows them, and goes on: true. */
bool mcp_task_begin(struct mcp_request *r);

/* --- before the answer --- */

/* 0; 1 if the client has enough: on_drain tells. Without a token it does nothing. */
int mcp_progress(struct mcp_request *r, uint64_t progress, uint64_t total, struct str message,
                 mcp_write_fn *meta, const void *what);
void mcp_log(struct mcp_request *r, enum mcp_level level, const char *logger, struct str text);

/* --- what the client has to say --- */

/* The answer to an input, if it has come; NULL: it is asked for when the handler returns, which
 * must not have answered then, and the handler is called again with it. `params` is JSON. */
const struct json *mcp_input(struct mcp_request *r, const char *key, const char *method,
                             struct str params);
/* Whether the client can be asked for it. */
bool mcp_can_ask(const struct mcp_request *r, const char *method);

/* --- lists --- */

/* A page of something: from where, or -1 after failing for a cursor that is none of ours. */
int64_t mcp_cursor(struct mcp_request *r);
void mcp_next_cursor(struct json_writer *w, int64_t at);

void mcp_page_resource(struct json_writer *w, struct str uri, const char *name,
                       const char *description, const char *type);
void mcp_read_text(struct mcp_request *r, struct str uri, const char *type, struct str text);
void mcp_read_bytes(struct mcp_request *r, struct str uri, const char *type, struct str data);
void mcp_fail_uri(struct mcp_request *r, struct str uri, const char *why);
void mcp_prompt_text(struct mcp_request *r, const char *description, struct str text);
void mcp_offer_value(struct mcp_request *r, struct str value);
void mcp_completed(struct mcp_request *r);
/* The resource that the offer was asked about may be watched, if it is there. */
void mcp_watched(struct mcp_request *r, bool there);
/* It is, and tells of its changes itself. */
void mcp_watched_by(struct mcp_request *r, struct mcp_source *x);
void mcp_not_watched(struct mcp_request *r, const char *why);

#endif
