/* Tokens: secrets that stand for an owner, within verbs and labels. The store has their hashes
 * only; all of them are in memory, found by hash. */
#ifndef CONTROL_TOKENS_H
#define CONTROL_TOKENS_H

#include "control/control.h"

enum { TOKEN_SECRET_MAX = 64, TOKENS_MAX = 10000 };

struct tokens;

int tokens_open(struct control *c, struct tokens **ret,
                struct err *e);      /* blocks: before the loop runs */
void tokens_close(struct tokens *t); /* NULL is fine; operations under way end without a word */

/* Of a secret: good as long as the loop's turn; NULL if it is unknown, expired or revoked. */
const struct token_record *tokens_find(struct tokens *t, struct str secret);

/* The same by id. */
const struct token_record *tokens_by_id(struct tokens *t, struct str id);

struct token_op {
    struct token_record
        record; /* in for create: name, owner, actor, verbs, labels, gateway, expires_ns (0: never);
                   out: all of it, the labels borrowed as they came in (create) or from the token,
                   as long as the loop's turn (revoke) */
    bool e2b;   /* its secret is to look like a key of E2B: "e2b_…" */
    char secret[TOKEN_SECRET_MAX]; /* out of create: "sbt_…", told this once: wipe it */
    void (*done)(struct token_op *op, int r, const struct err *e);
    struct store_txn txn_;
    struct tokens *tokens_;
    struct token *token_;
    struct event_record event_;
    struct loop_later later_;
    struct link link_;
    struct buf detail_;
    int r_;
    struct err err_;
};
/* They cannot be cancelled: the owner stays until done. */
void tokens_create(struct tokens *t, const struct actor *who, struct token_op *op);
/* record.id says which; of the owner's, or anybody's if owner is "". Again and again is fine. It is
 * good for nothing any more when this returns, and on disk when done is called. */
void tokens_revoke(struct tokens *t, const struct actor *who, struct token_op *op);
/* Those that are not revoked, in the order they were made. */
void tokens_each(struct tokens *t, void (*each)(void *user, const struct token_record *r),
                 void *user);

#endif
