/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens: secrets that authenticate as an owner, limited to verbs and labels. The store has only
 * their hashes; all valid tokens are in memory, found by hash, and the latest of the ended ones.
 *
 * An owner has at most TOKENS_PER_OWNER of the TOKENS_MAX valid tokens, counted from the request
 * on, and a family of tokens makes at most seven eighths of these; a part is reserved for
 * administrators. A token that was made with a token expires no later than that one, and is revoked
 * with it. */
#ifndef CONTROL_OWNER_TOKENS_H
#define CONTROL_OWNER_TOKENS_H

#include "control/owner/caller.h"
#include "domain/store/store.h"
#include "lib/loop/loop.h"

enum { TOKEN_SECRET_MAX = 64, TOKENS_MAX = 10000, TOKENS_PER_OWNER = 2500 };

struct control;
struct tokens;

/* Blocks: before the loop runs. */
int tokens_open(struct control *c, struct tokens **ret, struct err *e);
void tokens_close(struct tokens *t); /* NULL is fine; pending operations end without a callback */

/* By its secret; valid during this turn of the loop; NULL if it is unknown, expired or revoked. */
const struct token_record *tokens_find(struct tokens *t, struct str secret);

/* The same by id. */
const struct token_record *tokens_by_id(struct tokens *t, struct str id);

/* The family of a token, also of an ended one; the token's own id if it is unknown. */
const char *tokens_family(struct tokens *t, const char *id);

/* Notified once, from the loop, of every token that was revoked or has expired. */
struct token_watcher {
    void (*ended)(struct token_watcher *w, const struct token_record *r);
    struct link link_;
};
void tokens_watch(struct tokens *t, struct token_watcher *w);
void token_watcher_stop(struct token_watcher *w); /* harmless if it watches nothing */

struct token_ending;

struct token_op {
    /* In for create: name, owner, maker, actor, verbs, labels, gateway, expires_ns (0: never; at
     * most the maker's). Out: all members; the labels are borrowed from the request (create) or
     * from the token, during this turn of the loop (revoke). */
    struct token_record record;
    bool e2b;                      /* its secret has the format of an E2B key: "e2b_…" */
    char secret[TOKEN_SECRET_MAX]; /* out of create: "sbt_…", returned once: wipe it */
    void (*done)(struct token_op *op, int r, const struct err *e);
    struct store_txn txn_;
    struct tokens *tokens_;
    struct stored_token *token_;
    struct event_record event_;
    struct loop_later later_;
    struct link link_;
    struct buf detail_;
    struct token_ending *ends_; /* of a revocation */
    size_t n_ends_;
    int r_;
    struct err err_;
};
/* They cannot be cancelled: the owner stays until done. */
void tokens_create(struct tokens *t, const struct actor *who, struct token_op *op);
/* Revokes the token record.id, if the caller sees it; idempotent. The token, and all that were made
 * with it, are invalid when this returns, and their revocation is on disk when done is called: all
 * or none. */
void tokens_revoke(struct tokens *t, const struct caller *who, struct token_op *op);
/* All tokens that are not revoked, in the order of their creation. */
void tokens_each(struct tokens *t, void (*each)(void *user, const struct token_record *r),
                 void *user);

#endif
