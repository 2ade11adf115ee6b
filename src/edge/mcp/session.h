/* A client as the engine sees it, and the ways its messages come and go.
 *
 * A transport makes sessions, reads frames (rpc.h) and hands each message to mcp_take() together
 * with the `out` that hears everything about it: what a request sends before its answer, and the
 * answer. Of a line transport there is one for all; of HTTP, one for each POST. A request that has
 * lost its out goes on, unless the transport cancels it.
 *
 * Sessions and requests are counted; both are freed from the loop. */
#ifndef MCP_SESSION_H
#define MCP_SESSION_H

#include "base/id.h"
#include "loop/timer.h"
#include "mcp/offer.h"
#include "mcp/rpc.h"
#include "mcp/version.h"

enum {
    MCP_SESSIONS_MAX = 4096,
    MCP_SESSIONS_PEER_MAX = 1024, /* of one peer, and of one holder (offer.h); a family has less */
    MCP_REQUESTS_MAX = 128,       /* of one session under way */
    MCP_WATCHES_MAX = 256,        /* resources that one session watches */
    MCP_URI_MAX = 4352,
    MCP_RESULT_MAX = 4608 << 10, /* structured, of a tool: the loop serves nobody else meanwhile */
    MCP_MESSAGE_MAX = 14 << 20,  /* that we send: it is there twice, once as a text in a text */
    MCP_PEER_MAX = 64,
};

enum mcp_level {
    MCP_DEBUG,
    MCP_INFO,
    MCP_NOTICE,
    MCP_WARNING,
    MCP_ERROR,
    MCP_CRITICAL,
    MCP_ALERT,
    MCP_EMERGENCY,
    MCP_SILENT,
};
extern const char *const mcp_level_names[];

/* What a client said it can do. */
enum mcp_can {
    MCP_CAN_SAMPLE = 1 << 0,
    MCP_CAN_ELICIT = 1 << 1,
    MCP_CAN_ROOTS = 1 << 2,
    MCP_CAN_TASKS = 1 << 3,
};

struct mcp_out;
struct mcp_out_ops {
    /* A message that is no answer: 0; 1 if the client has enough for now, mcp_out_drained() tells;
     * or it is gone. */
    int (*send)(struct mcp_out *o, struct str message);
    /* The answer to the request with the id, which then lets go of the out; empty: it gets none.
     * `status` is what HTTP says if that is all. */
    void (*answer)(struct mcp_out *o, const struct json *id, struct str message, int status);
};
struct mcp_out {
    const struct mcp_out_ops *ops;
    struct mcp_trust trust; /* of what came with it */
    struct list requests;   /* struct mcp_request: that it hears of */
};
void mcp_out_drained(struct mcp_out *o);
/* Nobody hears any more; with `cancel`, nobody wants it any more either. */
void mcp_out_gone(struct mcp_out *o, bool cancel);

struct mcp_server {
    struct loop *loop;
    const struct mcp_offer *offer;
    void *user; /* the offer's */
    struct list sessions;
    struct list tasks;
    size_t n_sessions, n_tasks;
    unsigned char key[32]; /* of what a client keeps for us */
};
int mcp_server_init(struct mcp_server *s, struct loop *l, const struct mcp_offer *offer, void *user,
                    struct err *e);
void mcp_server_done(struct mcp_server *s); /* ends every session */

struct mcp_session {
    struct mcp_server *server; /* which may be gone once it is ended … */
    struct loop *loop;         /* … unlike these */
    const struct mcp_offer *offer;
    struct link link;
    unsigned refs;
    bool ended, stateless;
    bool meeting, met;       /* the client is being made known, and is */
    bool deleted;            /* its client has said that it is over */
    bool approved;           /* it is nobody's: what it calls was allowed before */
    unsigned users;          /* requests under way and open streams */
    char key[MCP_PEER_MAX];  /* what its tasks are found by: `peer`, or what the offer says */
    char id[ID_MAX];         /* "mcp_…" */
    char peer[MCP_PEER_MAX]; /* whose: a stateless client's is known by this alone */
    char holder[MCP_PEER_MAX], family[MCP_PEER_MAX]; /* whom it counts for (offer.h) */
    enum mcp_version version;
    unsigned can;
    enum mcp_level level; /* from which messages are sent */
    struct list requests; /* struct mcp_request: under way */
    struct list asks;     /* struct mcp_ask: what the client was asked */
    struct list watches;  /* struct mcp_watch */
    uint64_t unwatched;   /* how often one of them ended */
    uint64_t asked;
    struct mcp_out *back; /* for what belongs to no request; NULL: nobody listens */
    void *user;           /* the transport's word on who it is: for the offer */
    void (*free_user)(void *user);
    void *transport;
    void (*on_end)(struct mcp_session *s); /* of the transport; may be NULL */
    struct loop_later later;
};

/* -ERR_BUSY: there are too many; one without a peer ("") is always possible. `user` is the
 * session's from now on, also on failure. */
int mcp_session_new(struct mcp_server *server, const char *peer, void *user,
                    void (*free_user)(void *user), struct mcp_session **ret, struct err *e);
struct mcp_session *mcp_session_ref(struct mcp_session *s);
void mcp_session_unref(struct mcp_session *s);
/* Cancels what is under way and tells the offer. Once. */
void mcp_session_end(struct mcp_session *s);
/* A live session by its id; NULL. */
struct mcp_session *mcp_session_find(struct mcp_server *server, struct str id);

/* The client of the session is known, or cannot be: its requests go on, or fail. */
void mcp_met(struct mcp_session *s, int r, const struct err *e);
/* Something uses the session, or does not any more. */
void mcp_session_hold(struct mcp_session *s);
void mcp_session_release(struct mcp_session *s);
/* For the record; `user` is a session's, or what would have become one's. */
void mcp_refused(const struct mcp_server *server, void *user, struct mcp_refusal *x);

/* Message i of the frame. The out gets exactly one answer for a request, none for the others. */
void mcp_take(struct mcp_session *s, struct mcp_out *o, struct rpc_frame *f, size_t i);

/* What it says in params._meta, as the stateless revision has it; p == NULL: nothing. */
struct str mcp_meta_version(const struct rpc_message *m);

/* --- for owners of what is offered --- */

/* A message of the log, to whoever listens to what belongs to no request. */
void mcp_session_log(struct mcp_session *s, enum mcp_level level, const char *logger,
                     void (*data)(struct json_writer *w, const void *what), const void *what);

/* What tells of the changes of one resource, where no event does: made by the offer with
 * mcp_watched_by(), and the engine's from then on. */
struct mcp_source {
    void (*end)(struct mcp_source *x);  /* nobody watches it any more; may be called from inside
                                           mcp_source_changed() */
    void (*poke)(struct mcp_source *x); /* mcp_resource_changed() was called for it; may be NULL */
    struct mcp_watch *watch_;           /* NULL: nobody watches yet */
    bool changed_;                      /* … but should know by then */
};
/* Is told at once, but not more than once a second; the last change is told in any case. */
void mcp_source_changed(struct mcp_source *x);

/* To whoever watches the resource. */
void mcp_resource_changed(struct mcp_server *s, struct str uri);
enum mcp_list { MCP_TOOLS, MCP_PROMPTS, MCP_RESOURCES };
void mcp_list_changed(struct mcp_server *s, enum mcp_list which);

#endif
