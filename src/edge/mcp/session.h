/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: a client as the engine sees it, and its interface to the transports.
 *
 * A transport makes sessions, reads frames (rpc.h) and passes each message to mcp_take() together
 * with the `out` that receives the notifications and the answer of a request. The line transport
 * has one out per connection, HTTP has one per POST. A request that has lost its out continues
 * unless the transport cancels it.
 *
 * Sessions and requests are reference-counted; both are freed from the loop. */
#ifndef EDGE_MCP_SESSION_H
#define EDGE_MCP_SESSION_H

#include "base/id.h"
#include "lib/loop/timer.h"
#include "edge/mcp/server_def.h"
#include "edge/mcp/rpc.h"
#include "edge/mcp/version.h"

enum {
    MCP_SESSIONS_MAX = 4096,
    MCP_SESSIONS_PEER_MAX = 1024, /* per peer and per holder (server_def.h); less per family */
    MCP_REQUESTS_MAX = 128,       /* under way per session */
    MCP_WATCHES_MAX = 256,        /* watches per session */
    MCP_URI_MAX = 4352,
    MCP_RESULT_MAX = 4608 << 10, /* structured result of a tool: writing it blocks the loop */
    MCP_MESSAGE_MAX = 14 << 20,  /* sent message: it has the result twice, once as quoted text */
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

/* Capabilities that a client announced. */
enum mcp_can {
    MCP_CAN_SAMPLE = 1 << 0,
    MCP_CAN_ELICIT = 1 << 1,
    MCP_CAN_ROOTS = 1 << 2,
    MCP_CAN_TASKS = 1 << 3,
};

struct mcp_out;
struct mcp_out_ops {
    /* Sends a message that is not an answer. Returns 0; 1 if the client is slow, until
     * mcp_out_drained() is called; or negative if the client is gone. */
    int (*send)(struct mcp_out *o, struct str message);
    /* Sends the answer to the request `id`, which no longer uses the out. Empty: the request was
     * cancelled and has no answer. `status` is the HTTP status if the answer is the whole
     * response. */
    void (*answer)(struct mcp_out *o, const struct json *id, struct str message, int status);
};
struct mcp_out {
    const struct mcp_out_ops *ops;
    struct mcp_trust trust; /* in the messages that use it */
    struct list requests;   /* struct mcp_request: that use it */
};
void mcp_out_drained(struct mcp_out *o);
/* Detaches all requests from the out. Cancels them if `cancel` is set, and streams always. */
void mcp_out_gone(struct mcp_out *o, bool cancel);

struct mcp_server {
    struct loop *loop;
    const struct mcp_offer *offer;
    void *user; /* for the offer */
    struct list sessions;
    struct list tasks;
    size_t n_sessions, n_tasks;
    unsigned char key[32]; /* signs requestState */
};
int mcp_server_init(struct mcp_server *s, struct loop *l, const struct mcp_offer *offer, void *user,
                    struct err *e);
void mcp_server_done(struct mcp_server *s); /* ends every session */

struct mcp_session {
    struct mcp_server *server; /* may be freed once the session has ended … */
    struct loop *loop;         /* … unlike these */
    const struct mcp_offer *offer;
    struct link link;
    unsigned refs;
    bool ended, stateless;
    bool meeting, met;       /* the client is being identified, and is identified */
    bool deleted;            /* ended by its client, with DELETE */
    bool approved;           /* has no client: its call was approved before (job.h) */
    unsigned users;          /* requests under way and open streams */
    char key[MCP_PEER_MAX];  /* owner of its tasks: `peer`, unless the offer changes it */
    char id[ID_MAX];         /* "mcp_…" */
    char peer[MCP_PEER_MAX]; /* the client; the only identity of a stateless client */
    char holder[MCP_PEER_MAX], family[MCP_PEER_MAX]; /* charged for it (server_def.h) */
    enum mcp_version version;
    unsigned can;
    enum mcp_level level; /* lowest level that is sent */
    struct list requests; /* struct mcp_request: under way */
    struct list asks;     /* struct mcp_input_request: open requests to the client */
    struct list watches;  /* struct mcp_watch */
    uint64_t unwatched;   /* number of watches that ended */
    uint64_t asked;
    struct mcp_out *back; /* for messages that belong to no request, or NULL */
    void *user;           /* identifies the client to the offer */
    void (*free_user)(void *user);
    void *transport;
    void (*on_end)(struct mcp_session *s); /* of the transport; may be NULL */
    struct loop_later later;
};

/* -ERR_BUSY: too many sessions; one without a peer ("") is always possible. Takes ownership of
 * `user`, also on failure. */
int mcp_session_new(struct mcp_server *server, const char *peer, void *user,
                    void (*free_user)(void *user), struct mcp_session **ret, struct err *e);
struct mcp_session *mcp_session_ref(struct mcp_session *s);
void mcp_session_unref(struct mcp_session *s);
/* Cancels the session's requests and notifies the transport and the offer. Repeated calls do
 * nothing. */
void mcp_session_end(struct mcp_session *s);
/* A live session with this id that is not stateless, or NULL. */
struct mcp_session *mcp_session_find(struct mcp_server *server, struct str id);

/* The result of offer.meet: waiting requests continue, or fail with `e` if r < 0. */
void mcp_met(struct mcp_session *s, int r, const struct err *e);
/* Count users of the session: requests and open streams. */
void mcp_session_hold(struct mcp_session *s);
void mcp_session_release(struct mcp_session *s);
/* Logs a refusal; `user` is as in mcp_session_new(), with or without a session. */
void mcp_refused(const struct mcp_server *server, void *user, struct mcp_refusal *x);

/* Handles message i of the frame. The out gets exactly one answer if it is a request, else none. */
void mcp_take(struct mcp_session *s, struct mcp_out *o, struct rpc_frame *f, size_t i);

/* The protocol version in params._meta (stateless revision); p == NULL if absent. */
struct str mcp_meta_version(const struct rpc_message *m);

/* --- for implementations of the offer --- */

/* Sends a log message on s->back, if there is one. */
void mcp_session_log(struct mcp_session *s, enum mcp_level level, const char *logger,
                     void (*data)(struct json_writer *w, const void *what), const void *what);

/* A source of changes of one resource. The offer passes it to mcp_watched_by(), and the engine owns
 * it from then on. */
struct mcp_source {
    void (*end)(struct mcp_source *x);  /* the watch ended: free it; may be called from inside
                                           mcp_source_changed() */
    void (*poke)(struct mcp_source *x); /* mcp_resource_changed() was called for it; may be NULL */
    struct mcp_watch *watch_;           /* NULL: not watched yet */
    bool changed_;                      /* has changed at least once */
};
/* Notifies the client at once, but at most once a second. The last change is always notified. */
void mcp_source_changed(struct mcp_source *x);

/* Notifies all watches of the resource. */
void mcp_resource_changed(struct mcp_server *s, struct str uri);
enum mcp_list { MCP_TOOLS, MCP_PROMPTS, MCP_RESOURCES };
void mcp_list_changed(struct mcp_server *s, enum mcp_list which);

#endif
