/* The module's inside, for its own files. */
#ifndef TRUST_INSIDE_H
#define TRUST_INSIDE_H

#include "control/owner_share.h"
#include "json/writer.h"
#include "loop/timer.h"
#include "quota/quota.h"
#include "quota/rate.h"
#include "trust/approvals.h"
#include "trust/peers.h"
#include "trust/policy.h"

enum { PEER_BUCKETS = 1024, RESERVED_S = 60, USED_HOURS = 26 };

struct trust_write;

struct trust {
    struct control *control;
    struct tokens *tokens;
    struct loop *loop;
    struct store *store;
    struct trust_policy policy;
    bool self_approval;
    int64_t silence_ns, grace_ns;
    struct trust_runner runner; /* without a `run` there is none yet */
    struct event_subscriber events;

    struct loop_timer minutes; /* until the next identity's are used up … */
    int64_t minutes_due;       /* … by the clock that does not go back */

    struct list peers; /* struct peer, in the order they came */
    size_t n_peers;
    struct list token_peers; /* struct peer: tokens' own */
    struct index peer_ids;
    struct peer *buckets[PEER_BUCKETS];
    struct index identities; /* struct identity, by name */
    struct index uses;       /* struct peer_use, by sandbox */
    struct list kept;        /* struct kept_peer: released, and still counted */
    struct list endings;     /* struct peer_ending */
    struct list fresh;       /* sandboxes that are new */
    struct list peer_ops;    /* under way */
    struct list asks;        /* struct trust_op under way */

    struct index held_ids;
    struct list held; /* struct held: calls that wait, oldest first */
    size_t n_held, held_bytes;
    struct quota held_owned, held_owned_bytes; /* by owner and family of tokens */
    struct rate held_rate, family_held_rate;   /* bytes in a day, by owner, and by family */
    struct list held_ops;
    struct list waiters;
    struct list calls; /* struct trust_call that run */
    struct list grants;
    struct index grant_keys;
    struct list writes;             /* struct trust_write under way */
    size_t n_grants, grants_coming; /* in memory; on their way to disk */
    struct audit_meter strangers;   /* refusals of those who are no peers */
};

/* The time that sandboxes lived which ended in one hour of the wall clock. */
struct used_hour {
    int64_t hour, lived_ns;
};

/* The account that a peer counts in, by its token's family. As long as the loop's turn. */
struct account peer_account(const struct trust *t, const struct peer_record *r);

/* The token or user behind peers, by the actor's id: rates and limits are theirs. */
struct identity {
    struct index_entry entry;
    char name[OWNER_MAX];
    struct index rates; /* struct peer_rate */
    size_t held_bytes;  /* of its calls that wait for a master */
    bool is_token;
    struct token_terms terms; /* of a token, its texts on the arena */
    struct arena arena;
    enum role role; /* of a token */
    struct identity
        *maker;       /* of a token: that made it, and whose limits hold for it, too; or NULL */
    struct list made; /* those that it made and that came */
    struct link of_maker;
    unsigned roles; /* bits of enum role: of the peers that have made sandboxes */

    /* uses.c: sandboxes made within the last hour, and those that are older and alive; both oldest
     * first */
    struct list recent, older;
    int64_t n_recent, alive;
    int64_t ended_ns;      /* that those of `recent` lived which have ended */
    int64_t alive_from_us; /* sum of the starts of those that live, relative to met_ns */
    int64_t met_ns;
    struct used_hour hours[USED_HOURS];
    unsigned reserved;   /* creates that were allowed and are not on disk yet … */
    int64_t reserved_by; /* … and until when that is waited for */
};

/* How often its peers called a tool. */
struct peer_rate {
    struct index_entry entry;
    int64_t rate_ns;
    char tool[RECORD_TOOL_MAX];
};

/* A sandbox that a peer had. */
struct peer_use {
    struct index_entry entry;
    struct link link;    /* of the identity's */
    struct link of_peer; /* in the list of its peer, while both live */
    struct trust *trust;
    struct identity *identity;
    struct peer *peer;      /* NULL: it is gone */
    int64_t from_ns, to_ns; /* wall clock; to_ns 0: it lives */
    bool is_recent;         /* in the identity's first list */
    char sandbox[ID_MAX];
};

/* --- peers.c --- */
int peers_open(struct trust *t, struct err *e); /* blocks */
void peers_silence(struct trust *t);            /* operations under way tell nothing any more */
void peers_close(struct trust *t);
void peer_drop(struct peer *p); /* from all lists; its reference goes */
/* Peers end with the token that they came with. */
void peers_event(struct trust *t, const struct event_record *v);

/* --- identities.c --- */
struct identity *identity_of(struct trust *t, const char *name); /* made on first use */
void identities_close(struct trust *t);
/* Its rate for a tool that has a rule; made on first use. */
struct peer_rate *peer_rate(struct peer *p, const char *tool);

/* --- uses.c --- */
/* What the store has of a peer; p is NULL if that is gone. Blocks. */
int uses_load(struct trust *t, const struct peer_record *r, struct peer *p, struct err *e);
/* The same of what a token made without a session. */
int uses_load_token(struct trust *t, const char *id, const char *owner, struct err *e);
/* Of one that was released in an earlier life: it counts for the rest of its day. Blocks. */
int uses_keep(struct trust *t, const struct peer_record *r, struct err *e);
/* It is released: its record stays as long as what it used counts. With the change w, in which
 * those go whose day is over. */
void uses_release(struct peer *p, struct trust_write *w);
void uses_event(struct trust *t, const struct event_record *v);
void uses_leave(struct peer *p); /* it goes; what it used stays */
void uses_forget(struct identity *d);
void uses_close(struct trust *t);
/* Whether a record is only kept for that. */
static inline bool released_before(const struct peer_record *r)
{
    return r->ended_ns && !r->seen_ns;
}
void uses_reserve(struct peer *p, unsigned n); /* creates were allowed */

/* --- trust.c --- */
struct trust_case;
/* The tokens that made the one behind the peer, whose limits hold for it. */
void case_add_makers(struct trust_case *c, const struct peer *p);

/* Of it and of all that were made with it, with those that were asked for and are not there yet. */
struct trust_usage family_usage(struct identity *d, int64_t now);
/* Of all its peers; those that were asked for and are not there yet are not in it. */
struct trust_usage identity_usage(struct identity *d, int64_t now);

/* --- minutes.c --- */
void minutes_look(struct trust *t);                      /* the policy is another one */
void minutes_watch(struct trust *t, struct identity *d); /* it has one more sandbox */
void minutes_close(struct trust *t);

/* --- release.c --- */
void release_start(struct peer *p);
void release_cancel(struct peer *p);

/* --- write.c --- */

/* A change on its way to disk, with the event that tells of it. */
typedef void trust_write_fn(void *user, int r, const struct err *e);
struct trust_write {
    struct store_txn txn; /* to be filled */
    struct event_record event;
    struct buf detail;
    struct json_writer json; /* in an object that is the event's detail */
    struct trust *trust;     /* NULL: closed meanwhile */
    trust_write_fn *done;    /* NULL: nobody wants to know */
    void *user;
    struct link link;
};
struct trust_write *write_new(struct trust *t, const char *type, const char *owner,
                              const struct actor *who, const char *reason);
void write_detail(struct trust_write *w, const char *key, const char *value);
/* Gives it away. When it is on disk the event is told, then done is called. */
void write_commit(struct trust_write *w, trust_write_fn *done, void *user);
/* They go on; who waits is told that nobody will know. Before anything else is freed. */
void writes_close(struct trust *t);

/* --- refusals.c --- */

/* Whether this refusal gets a row of its own: nobody can fill the disk by asking. No refusal of an
 * owner or token that has caused as many events as it may does. */
bool audit_may(const struct trust *t, const char *owner, const struct actor *who,
               struct audit_meter *m);
/* Says how many got none since the last. */
void audit_write(struct audit_meter *m, struct trust_write *w);

/* --- approvals.c --- */
int approvals_open(struct trust *t, struct err *e); /* blocks */
void approvals_silence(struct trust *t);
void approvals_close(struct trust *t);
void approvals_policy_moved(struct trust *t);
void approvals_peer_ended(struct peer *p);

#endif
