/* SPDX-License-Identifier: Apache-2.0 */
/* Structures and functions shared by the files of this module. */
#ifndef TRUST_INTERNAL_H
#define TRUST_INTERNAL_H

#include "control/owner/owner_share.h"
#include "lib/json/writer.h"
#include "lib/loop/timer.h"
#include "lib/quota/quota.h"
#include "lib/quota/rate.h"
#include "trust/approvals.h"
#include "trust/peers.h"
#include "trust/policy.h"

enum { RESERVED_S = 60, USED_HOURS = 26 };

struct trust_write;

struct trust {
    struct control *control;
    struct tokens *tokens;
    struct loop *loop;
    struct store *store;
    struct trust_policy policy;
    bool self_approval, serves_tenants;
    int64_t silence_ns, grace_ns;
    struct trust_runner runner; /* .run == NULL: not set yet */
    struct event_subscriber events;

    struct loop_timer minutes; /* fires when the minutes of an identity may be used up */
    int64_t minutes_due;       /* its deadline, clock_mono() */

    struct list peers; /* struct peer, in order of registration */
    size_t n_peers;
    struct list token_peers; /* struct peer: the peers that tokens are */
    struct map peer_ids;
    struct map peer_tokens; /* sessions that have not ended, by hash of their token */
    struct map identities;  /* struct trust_identity, by name */
    struct map uses;        /* struct peer_use, by sandbox */
    struct list kept;       /* struct released_peer: still counted */
    struct list endings;    /* struct peer_ending */
    struct list fresh;      /* struct new_sandbox */
    struct list peer_ops;   /* pending */
    struct list asks;       /* pending struct trust_op */

    struct map held_ids;
    struct list held; /* struct held_call, oldest first */
    size_t held_bytes;
    struct quota held_owned, held_owned_bytes; /* by owner and token family */
    struct rate held_rate, family_held_rate;   /* bytes per day: by owner; by token family */
    struct list held_ops;
    struct list waiters;
    struct list calls; /* running struct trust_call */
    struct list grants;
    struct map grant_keys;
    struct list writes;             /* pending struct trust_write */
    size_t n_grants, grants_coming; /* in memory; being stored */
    struct audit_meter strangers;   /* refusals of callers that are not peers */
};

/* The total lifetime of sandboxes that ended within one hour of the wall clock. */
struct used_hour {
    int64_t hour, lived_ns;
};

/* The account of a peer and its token family. Valid for the current turn of the loop. */
struct account peer_account(const struct trust *t, const struct peer_record *r);

/* The token or user behind peers, by actor id: the holder of rates and limits. */
struct trust_identity {
    struct map_entry entry;
    char name[OWNER_MAX];
    struct map rates;  /* struct peer_rate */
    size_t held_bytes; /* of its held calls */
    bool is_token;
    struct token_terms terms; /* of a token; strings on the arena */
    struct arena arena;
    enum role role;               /* of a token */
    struct trust_identity *maker; /* maker of the token, whose limits apply too; or NULL */
    struct list made;             /* tokens that it made and that were used */
    struct link of_maker;
    unsigned roles; /* bits of enum role: roles of peers that created sandboxes */

    /* uses.c: sandboxes created within the last hour, and older living ones; both oldest first */
    struct list recent, older;
    int64_t n_recent, alive;
    int64_t ended_ns;      /* lifetime of the ended ones in `recent` */
    int64_t alive_from_us; /* sum of the start times of living sandboxes, relative to met_ns */
    int64_t met_ns;
    struct used_hour hours[USED_HOURS];
    unsigned reserved;   /* allowed creates that are not stored yet */
    int64_t reserved_by; /* deadline for storing them */
};

/* The call rate of a tool, over the identity's peers and the tokens that it made. */
struct peer_rate {
    struct map_entry entry;
    int64_t rate_ns;
    char tool[RECORD_TOOL_MAX];
};

/* A sandbox that a peer created. */
struct peer_use {
    struct map_entry entry;
    struct link link;    /* in a list of the identity */
    struct link of_peer; /* in the list of its peer, while both exist */
    struct trust *trust;
    struct trust_identity *identity;
    struct peer *peer;      /* NULL: released */
    int64_t from_ns, to_ns; /* wall clock; to_ns 0: alive */
    bool is_recent;         /* in the identity's `recent` */
    char sandbox[ID_MAX];
};

/* --- peers.c --- */
int peers_open(struct trust *t, struct err *e); /* blocks */
void peers_detach_ops(struct trust *t);         /* detaches pending operations */
void peers_close(struct trust *t);
void peer_drop(struct peer *p); /* removes it from all lists and drops the reference */
/* Ends the peers of a revoked token. */
void peers_event(struct trust *t, const struct event_record *v);

/* --- identities.c --- */
struct trust_identity *identity_of(struct trust *t, const char *name); /* created on first use */
void identities_close(struct trust *t);
/* The call rate of the identity and its descendants for a tool that has a rule; created on first
 * use. */
struct peer_rate *identity_rate(struct trust_identity *d, const char *tool);

/* --- uses.c --- */
/* Loads the sandboxes of a peer from the store; p is NULL if it was released. Blocks. */
int uses_load(struct trust *t, const struct peer_record *r, struct peer *p, struct err *e);
/* The same for sandboxes that a token created without a session. */
int uses_load_token(struct trust *t, const char *id, const char *owner, struct err *e);
/* The same for a peer released in an earlier daemon run: its usage counts for the rest of its day.
 * Blocks. */
int uses_keep(struct trust *t, const struct peer_record *r, struct err *e);
/* Releases a peer: its record stays as long as its usage counts. In transaction w, which also
 * removes records whose day is over. */
void uses_release(struct peer *p, struct trust_write *w);
void uses_event(struct trust *t, const struct event_record *v);
void uses_leave(struct peer *p); /* detaches the peer; its usage stays */
void uses_forget(struct trust_identity *d);
void uses_close(struct trust *t);
/* Whether the record is only kept for its usage. */
static inline bool released_before(const struct peer_record *r)
{
    return r->ended_ns && !r->seen_ns;
}
void uses_reserve(struct peer *p, unsigned n); /* charges allowed creates */

/* --- trust.c --- */
struct trust_case;
/* Adds the makers of the peer's token, whose limits apply too. */
void case_add_makers(struct trust_case *c, const struct peer *p);
/* Adds the usage of the peer and of those makers, for a tool that creates. */
void case_add_usage(struct trust_case *c, struct peer *p);

/* The usage of the identity and its descendants, including allowed creates that are not stored
 * yet. */
struct trust_usage family_usage(struct trust_identity *d, int64_t now);

/* --- minutes.c --- */
void minutes_check(struct trust *t);                           /* after a policy change */
void minutes_watch(struct trust *t, struct trust_identity *d); /* after a sandbox was created */
void minutes_close(struct trust *t);

/* --- release.c --- */
void release_start(struct peer *p);
void release_cancel(struct peer *p);

/* --- record_change.c --- */

/* A transaction with its event. */
typedef void trust_write_fn(void *user, int r, const struct err *e);
struct trust_write {
    struct store_txn txn; /* filled by the caller */
    struct event_record event;
    struct buf detail;
    struct json_writer json; /* open object: the event's detail */
    struct trust *trust;     /* NULL: closed */
    trust_write_fn *done;    /* NULL: none */
    void *user;
    struct link link;
};
struct trust_write *trust_write_new(struct trust *t, const char *type, const char *owner,
                                    const struct actor *who, const char *reason);
void trust_write_detail(struct trust_write *w, const char *key, const char *value);
/* Commits and takes ownership. When it is stored the event is published, then `done` is called. */
void trust_write_commit(struct trust_write *w, trust_write_fn *done, void *user);
/* Detaches pending transactions, which still complete; their callbacks get an error now. Call
 * before anything is freed. */
void trust_writes_close(struct trust *t);

/* --- refusals.c --- */

/* Whether this refusal is stored as an event: limited by rate, so that refused callers cannot fill
 * the disk, and by the event quota of owner and token. */
bool audit_may(const struct trust *t, const char *owner, const struct actor *who,
               struct audit_meter *m);
/* Adds the number of refusals since the last event that were not stored. */
void audit_write(struct audit_meter *m, struct trust_write *w);

/* --- approvals.c --- */
int approvals_open(struct trust *t, struct err *e); /* blocks */
void approvals_detach_ops(struct trust *t);
void approvals_close(struct trust *t);
void approvals_policy_changed(struct trust *t);
void approvals_peer_ended(struct peer *p);

#endif
