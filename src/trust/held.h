/* SPDX-License-Identifier: Apache-2.0 */
/* Held calls in memory; private to the module. */
#ifndef TRUST_HELD_H
#define TRUST_HELD_H

#include "trust/internal.h"

enum { ARGS_MEMORY = 16 << 20, ARGS_DEPTH = 64 }; /* limits for parsing held arguments */

struct held_call {
    struct trust *trust;
    struct approval_record record; /* as stored */
    struct arena arena;            /* memory of its arguments */
    struct map_entry entry;
    struct link link;
    struct loop_timer expiry;
    struct trust_identity *counted; /* identity charged for the arguments; NULL: none */
    char actor[OWNER_MAX];          /* requester; "": unknown peer */
    struct quota_hold owned, owned_bytes;
    bool moving; /* a state change is being stored */
};

/* approvals.c */
struct held_call *held_new(struct trust *t, const struct approval_record *r,
                           const struct account *a);
void held_free(struct held_call *h); /* before held_add() */
/* Charges the memory of the arguments to the identity until the call is freed. */
void held_count(struct held_call *h, struct trust_identity *d);
void held_add(struct held_call *h);
void held_watch(struct held_call *h); /* starts the expiry timer */
void held_run(struct held_call *h);
void held_done(struct held_call *h, bool failed, struct str result);
struct trust_write *held_write(struct held_call *h, const struct approval_record *r,
                               const struct actor *who);

/* hold.c: holds a call that needs approval. The caller must commit op->write_ and then add *ret. */
int trust_hold_call(struct trust_op *op, const struct trust_decision *d, struct held_call **ret,
                    struct err *e);
/* The sandbox id in the arguments, or "". */
void question_sandbox(const struct trust_question *q, char ret[static ID_MAX]);

/* calls.c */
void held_start_call(struct held_call *h); /* after the state `running` is stored */
void calls_close(struct trust *t);

/* grants.c */
int grants_open(struct trust *t, struct err *e); /* blocks */
void grants_close(struct trust *t);
/* Whether another grant fits into the account of the call's peer, not counting invalid ones. */
bool grants_have_room_for(const struct held_call *h);
/* Adds the grant of an approval to its transaction; valid after grant_stored(). */
int grant_add_to_write(const struct held_call *h, struct approval_op *op, struct trust_write *w,
                       struct err *e);
void grant_stored(struct trust *t, const struct grant_record *r, bool is_stored);
void grants_peer_ended(struct peer *p);
/* The valid grant for such a call, or NULL. */
struct call_grant *grant_find(struct trust *t, const struct trust_question *q);
/* Consumes one use, in transaction w. */
void grant_use(struct trust *t, struct call_grant *g, struct trust_write *w);

#endif
