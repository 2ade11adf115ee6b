/* Peers: sessions of clients that call tools, and tokens.
 *
 * Every token that is not an administrator's is a peer without registering, its own: it sees what
 * the token sees, is not on disk, and lasts as long as the token.
 *
 * A peer is registered by somebody whom the edge knows (by the socket's credentials or a token),
 * and never gets more than that: it acts for the same owner, and sees only the sandboxes that it
 * made, which carry its id as a label. It is ended by itself, by a watchdog when nothing is heard
 * of it, or by an administrator; its sandboxes end with it, also when the daemon dies in between.
 */
#ifndef TRUST_PEERS_H
#define TRUST_PEERS_H

#include "control/index.h"
#include "trust/decide.h"
#include "trust/trust.h"

/* The label that binds a sandbox to its peer. */
#define PEER_LABEL LABEL_PEER

enum {
    PEERS_MAX = 4096,
    PEERS_PER_OWNER_MAX = 512,
    PEER_TOKEN_MAX = 64,
};

struct peer {
    struct peer_record record;
    unsigned refs;
    bool is_token;       /* a token's own; its id is the token's */
    bool left;           /* the client is gone; it may come back within the grace period */
    struct trust *trust; /* NULL: closed */

    /* private to the module */
    struct index_entry entry_;
    struct peer *next_; /* in its bucket, by hash of the token */
    struct link link_;
    struct loop_timer watchdog_;
    int64_t seen_mono_;
    int64_t expires_ns_;          /* its token does, by the wall's clock; 0: never */
    unsigned attached_;           /* that hold it */
    struct arena arena_;          /* its token's labels */
    struct json_pair labels_[1];  /* of its sandboxes */
    struct identity *identity_;   /* who stands behind it */
    unsigned reserved_;           /* creates that were allowed and are not on disk yet … */
    int64_t reserved_by_;         /* … and until when that is waited for */
    struct list uses_;            /* struct peer_use: sandboxes of it that live */
    bool used_;                   /* it has made one */
    size_t pending_;              /* calls of it that wait for a master */
    struct audit_meter audit_;    /* of verdicts */
    struct audit_meter mistakes_; /* of what was refused for another reason */
    struct peer_release *release_;
    struct list watches_; /* struct peer_watch */
};

struct peer *peer_ref(struct peer *p);
void peer_unref(struct peer *p); /* NULL is fine */

/* How the client shows later that it is the same. */
enum peer_way {
    PEER_BY_TOKEN,   /* by a token that is made now and told once */
    PEER_BY_SECRET,  /* by one that it has chosen: whoever registers with it again is the same */
    PEER_BY_CALLER,  /* by who registers it: a caller has one, in each role */
    PEER_BY_SESSION, /* not at all: it ends with the daemon, at the latest */
};

/* Who is registered, by the edge's own knowledge. */
struct peer_op {
    /* in */
    enum peer_way way;
    struct str secret;           /* of PEER_BY_SECRET */
    const struct caller *caller; /* who registers it */
    int64_t uid;                 /* of the socket's other end; -1: not known */
    enum role role;
    const char *client; /* what the client calls itself; cut and made printable */
    void (*done)(struct peer_op *op, int r, const struct err *e);
    /* out */
    struct peer *peer;          /* referenced for the owner */
    char token[PEER_TOKEN_MAX]; /* of PEER_BY_TOKEN: "sbp_…", told this once: wipe it */
    /* private */
    struct trust *trust_;
    struct link link_;
    struct loop_later later_;
    int r_;
    struct err err_;
};
/* It cannot be cancelled: the owner stays until done. */
void peers_register(struct trust *t, struct peer_op *op);

/* The token's own peer; NULL: the token is expired, revoked or unknown. Not referenced. */
struct peer *peers_of_token(struct trust *t, struct str id);

/* A peer that lives; NULL if there is none. Not referenced. By id it may be a token's own. */
struct peer *peers_by_token(struct trust *t, struct str token);
struct peer *peers_by_id(struct trust *t, struct str id);
/* Sessions, in the order they came. */
void peers_each(struct trust *t, void (*each)(void *user, struct peer *p), void *user);

/* A sign of life: a heartbeat, or any call. */
void peer_seen(struct peer *p);
/* Something of it is under way, such as a program that runs for an hour: as long as one is held, it
 * is not silent. */
void peer_attach(struct peer *p);
void peer_detach(struct peer *p); /* a sign of life, too */
/* The client is gone without a word: it has the grace period to be seen again. */
void peer_leave(struct peer *p);
/* Ends it now: it is good for nothing any more when this returns, and for ever when that is on
 * disk, which done is told of unless it is NULL; its sandboxes are destroyed then. Nothing for one
 * that has ended. */
typedef void peer_ended_fn(void *user, int r, const struct err *e);
void peer_end(struct peer *p, const struct actor *who, const char *reason, peer_ended_fn *done,
              void *user);

/* Hears of its end, once, when it is good for nothing any more. */
struct peer_watch {
    void (*ended)(struct peer_watch *w);
    struct link link_;
};
void peer_watch(struct peer *p, struct peer_watch *w);
void peer_watch_stop(struct peer_watch *w); /* also of one that was never started */

/* As whom it acts; borrowed from the peer. */
void peer_caller(const struct peer *p, struct caller *ret);

/* Those of its sandboxes that live. */
void peer_each_sandbox(struct peer *p, void (*each)(void *user, const char *id), void *user);
/* How many of its own do, with those that were allowed and are on their way. */
int64_t peer_alive(struct peer *p);
/* What limits count: of the token or user behind it, also by other peers and by those that are
 * gone.
 */
struct trust_usage peer_usage(struct peer *p, int64_t wall_ns);

#endif
