/* Tokens: secrets that stand for an owner, within verbs and labels. The store has their hashes
 * only; all that are good are in memory, found by hash, and the latest of those that have ended.
 *
 * An owner has at most TOKENS_PER_OWNER of TOKENS_MAX that are good, counted from the request on,
 * and a family of tokens makes at most seven eighths of these; a part is reserved for
 * administrators. A token that was made with a token has no more time than
 * that one, and is revoked with it. */
#ifndef CONTROL_TOKENS_H
#define CONTROL_TOKENS_H

#include "control/control.h"

enum { TOKEN_SECRET_MAX = 64, TOKENS_MAX = 10000, TOKENS_PER_OWNER = 2500 };

struct tokens;

int tokens_open(struct control *c, struct tokens **ret,
                struct err *e);      /* blocks: before the loop runs */
void tokens_close(struct tokens *t); /* NULL is fine; operations under way end without a word */

/* Of a secret: good as long as the loop's turn; NULL if it is unknown, expired or revoked. */
const struct token_record *tokens_find(struct tokens *t, struct str secret);

/* The same by id. */
const struct token_record *tokens_by_id(struct tokens *t, struct str id);

/* The family of a token, also of one that has ended; the token itself where it is not known. */
const char *tokens_family(struct tokens *t, const char *id);

/* Hears of every token that was revoked or has expired, once, from the loop. */
struct token_watcher {
    void (*ended)(struct token_watcher *w, const struct token_record *r);
    struct link link_;
};
void tokens_watch(struct tokens *t, struct token_watcher *w);
void token_watcher_stop(struct token_watcher *w); /* harmless if it watches nothing */

struct token_ending;

struct token_op {
    struct token_record
        record; /* in for create: name, owner, maker, actor, verbs, labels, gateway, expires_ns
                   (0: never; at most the maker's);
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
    struct token_ending *ends_; /* of a revocation */
    size_t n_ends_;
    int r_;
    struct err err_;
};
/* They cannot be cancelled: the owner stays until done. */
void tokens_create(struct tokens *t, const struct actor *who, struct token_op *op);
/* record.id says which, of those that the caller sees. Revoking twice is fine. The token, and all
 * that were made with it, are good for nothing any more when this returns, and their revocation is
 * on disk when done is called: of all or of none. */
void tokens_revoke(struct tokens *t, const struct caller *who, struct token_op *op);
/* Those that are not revoked, in the order they were made. */
void tokens_each(struct tokens *t, void (*each)(void *user, const struct token_record *r),
                 void *user);

#endif
