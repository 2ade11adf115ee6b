/* SPDX-License-Identifier: Apache-2.0 */
/* Peers: sessions of clients that call tools, and tokens.
 *
 * Every token without administrator rights is implicitly a peer: it sees what the token sees, is
 * not stored, and exists as long as the token.
 *
 * A session is registered by an authenticated caller (by socket credentials or token) and never has
 * more rights than that caller: it acts for the same owner, and sees only the sandboxes that it
 * created, which carry its id as a label. It is ended by its client, by a watchdog when the client
 * is silent, or by an administrator. Its sandboxes are destroyed with it, also if the daemon
 * crashes in between. */
#ifndef TRUST_PEERS_H
#define TRUST_PEERS_H

#include "lib/crypto/encode.h"
#include "lib/map/map.h"
#include "trust/decide.h"
#include "trust/trust.h"

/* The label with the peer's id on its sandboxes. */
#define PEER_LABEL LABEL_PEER

enum {
    PEERS_MAX = 4096,
    PEERS_PER_OWNER_MAX = 512,
    PEER_TOKEN_MAX = 64,
};

/* The sandbox with the workspace that the person who began the session granted to it: of that
 * person, not of the peer, which sees it. */
struct peer_workspace {
    char sandbox[ID_MAX]; /* "": none */
    bool network;         /* the person may approve networks, and thereby approved its own */
};

struct peer {
    struct peer_record record;
    unsigned refs;
    struct peer_workspace workspace;
    bool is_token;       /* the implicit peer of a token; has the token's id */
    bool left;           /* the client left; it may return within the grace period */
    struct trust *trust; /* NULL: closed */

    /* private to the module */
    struct map_entry entry_, token_entry_;
    char token_key_[CRYPTO_SHA256_HEX]; /* hash of its token; a session's only */
    struct link link_;
    struct loop_timer watchdog_;
    int64_t seen_mono_;
    int64_t expires_ns_;              /* expiry of its token, wall clock; 0: never */
    unsigned attached_;               /* number of peer_attach() */
    struct arena arena_;              /* labels of its token */
    struct json_pair labels_[1];      /* label of its sandboxes */
    struct trust_identity *identity_; /* the token or user */
    unsigned reserved_;               /* allowed creates that are not stored yet */
    int64_t reserved_by_;             /* deadline for storing them */
    struct list uses_;                /* struct peer_use: its living sandboxes */
    bool used_;                       /* it created a sandbox */
    size_t pending_;                  /* its calls that wait for a master */
    struct audit_meter audit_;        /* for verdicts */
    struct audit_meter mistakes_;     /* for other refusals */
    struct peer_release *release_;
    struct list watches_; /* struct peer_watch */
};

struct peer *peer_ref(struct peer *p);
void peer_unref(struct peer *p); /* NULL is fine */

/* How a returning client is recognized. */
enum peer_way {
    PEER_BY_TOKEN, /* by a token that is generated and returned once */
    /* by a secret of the client: registering with it again returns the same peer */
    PEER_BY_SECRET,
    PEER_BY_CALLER,  /* by the caller: one peer per caller and role */
    PEER_BY_SESSION, /* not at all: it ends at the latest with the daemon */
};

/* A registration; the fields come from the authenticated request. */
struct peer_op {
    /* in */
    enum peer_way way;
    struct str secret;           /* of PEER_BY_SECRET */
    const struct caller *caller; /* the registering caller */
    int64_t uid;                 /* peer uid of the socket; -1: unknown */
    enum role role;
    const char *client; /* the client's name for itself; truncated and made printable */
    void (*done)(struct peer_op *op, int r, const struct err *e);
    /* out */
    struct peer *peer;          /* referenced for the caller */
    char token[PEER_TOKEN_MAX]; /* of PEER_BY_TOKEN: "sbp_…", returned only here; wipe it */
    /* private */
    struct trust *trust_;
    struct link link_;
    struct loop_later later_;
    int r_;
    struct err err_;
};
/* Cannot be cancelled: `op` must stay valid until done. */
void peers_register(struct trust *t, struct peer_op *op);

/* The implicit peer of a token; NULL: the token is expired, revoked or unknown. Not referenced. */
struct peer *peers_of_token(struct trust *t, struct str id);

/* A peer that has not ended, or NULL. Not referenced. peers_by_id() also finds the implicit peers
 * of tokens. */
struct peer *peers_by_token(struct trust *t, struct str token);
struct peer *peers_by_id(struct trust *t, struct str id);
/* Calls `each` for all sessions, in order of registration. */
void peers_each(struct trust *t, void (*each)(void *user, struct peer *p), void *user);

/* Notes activity: a heartbeat, or any call. */
void peer_seen(struct peer *p);
/* Marks the peer as active while an operation runs, such as a program: the watchdog does not end
 * it. */
void peer_attach(struct peer *p);
void peer_detach(struct peer *p); /* also notes activity */
/* The client disconnected: the peer ends unless it is seen again within the grace period. */
void peer_leave(struct peer *p);
/* Ends a session: it is unusable when this returns, and permanently once that is stored; then
 * `done` is called, unless it is NULL, and its sandboxes are destroyed. Does nothing, and does not
 * call `done`, for ended peers and for the implicit peers of tokens. */
typedef void peer_ended_fn(void *user, int r, const struct err *e);
void peer_end(struct peer *p, const struct actor *who, const char *reason, peer_ended_fn *done,
              void *user);

/* Notified once, when the peer ends. */
struct peer_watch {
    void (*ended)(struct peer_watch *w);
    struct link link_;
};
void peer_watch(struct peer *p, struct peer_watch *w);
void peer_watch_stop(struct peer_watch *w); /* also before peer_watch() */

/* The caller that the peer acts as; borrowed from the peer. */
void peer_caller(const struct peer *p, struct caller *ret);

/* Calls `each` for its living sandboxes. */
void peer_each_sandbox(struct peer *p, void (*each)(void *user, const char *id), void *user);
/* The number of its living sandboxes, including allowed creates. */
int64_t peer_alive(struct peer *p);
/* The usage that limits apply to: of the token or user behind the peer, including other and
 * released peers. */
struct trust_usage peer_usage(struct peer *p, int64_t wall_ns);

#endif
