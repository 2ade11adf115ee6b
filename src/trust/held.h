/* Held calls in memory. Private to the module. */
#ifndef TRUST_HELD_H
#define TRUST_HELD_H

#include "trust/inside.h"

enum { ARGS_MEMORY = 16 << 20, ARGS_DEPTH = 64 }; /* of a held call, when they are read again */

struct held {
    struct trust *trust;
    struct approval_record record; /* as it is on disk */
    struct arena arena;            /* its arguments */
    struct index_entry entry;
    struct link link;
    struct loop_timer expiry;
    struct identity *counted; /* whose memory its arguments take; NULL: nobody's */
    char actor[OWNER_MAX];    /* that asked; "": its peer is gone */
    struct quota_hold owned, owned_bytes;
    bool moving; /* to another state: on its way to disk */
};

/* approvals.c */
struct held *held_new(struct trust *t, const struct approval_record *r, const struct account *a);
void held_free(struct held *h); /* one that was not added */
/* Its arguments are that one's, until it is freed. */
void held_count(struct held *h, struct identity *d);
void held_add(struct held *h);
void held_watch(struct held *h); /* until its time is over */
void held_run(struct held *h);
void held_done(struct held *h, bool failed, struct str result);
bool held_is_current(const struct held *h); /* the policy is still the one that held it */
struct trust_write *held_write(struct held *h, const struct approval_record *r,
                               const struct actor *who);

/* A move from one state to another: `next` may be edited before it is submitted. */
typedef void move_fn(struct held *h, void *user, int r, const struct err *e);
struct move {
    struct held *held;
    struct approval_record next;
    move_fn *done;
    void *user;
};
struct move *move_new(struct held *h, enum approval_state to, const char *reason, move_fn *done,
                      void *user);
void move_submit(struct move *m, const struct actor *who, struct trust_write *w);

/* hold.c: keeps a call that the policy does not let pass alone; op->write_ is to be committed, and
 * then *ret to be added. */
int hold(struct trust_op *op, const struct trust_decision *d, struct held **ret, struct err *e);
/* The sandbox that a call names, or "". */
void question_sandbox(const struct trust_question *q, char ret[static ID_MAX]);

/* calls.c */
void held_call(struct held *h); /* its state is `running` on disk */
void calls_close(struct trust *t);

/* grants.c */
int grants_open(struct trust *t, struct err *e); /* blocks */
void grants_close(struct trust *t);
/* For one more of this owner, when those that are good for nothing any more are gone. */
bool grants_have_room(struct trust *t, const char *owner);
/* Puts what the approval grants beside into the same change; it is good from grant_stored() on. */
int grant_put(const struct held *h, struct approval_op *op, struct trust_write *w, struct err *e);
void grant_stored(struct trust *t, const struct grant_record *r, bool is_stored);
void grants_peer_ended(struct peer *p);
/* A grant for such a call that is good now; NULL. */
struct grant *grant_find(struct trust *t, const struct trust_question *q);
/* One use less, with the change w. */
void grant_use(struct trust *t, struct grant *g, struct trust_write *w);

#endif
