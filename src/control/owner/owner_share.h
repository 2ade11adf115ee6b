/* What one owner's sandboxes may use of this machine, all together. */
#ifndef CONTROL_OWNER_SHARE_H
#define CONTROL_OWNER_SHARE_H

#include "extensions/extension.h"
#include "model/actor.h"
#include "quota/quota.h"

struct control;

/* The account that a record counts in, and its part of that account.
 *
 * A record counts for its owner, and in a part of the owner's budgets for the family of the token
 * that made it. Administrators make tokens for many clients: each family of an administrator's
 * tokens is an account of its own, with the budgets and control groups of one owner. What an
 * administrator makes on the unix socket is exempt. */
struct account {
    char name[OWNER_MAX]; /* the owner, or "family:tok_…" */
    struct str part;      /* the family's part of an owner's account; empty: none */
    bool exempt;
};

/* Reads how large this machine is. */
void owner_share_open(struct control *c);

/* family: "" where no token made the record. The part points to it. */
struct account account_of(const struct control *c, const char *owner, const char *family);
bool account_is(const struct account *a, const struct account *other);
/* The holder of shares. It points to the account. */
struct quota_who account_holder(const struct account *a);

/* A name for the account that any file system takes: readable characters, and a digest that no
 * other account has. */
void owner_share_key(const char *account, char ret[EXT_OWNER_MAX]);

/* owner_is_administrator() (model/owner.h) of this daemon. */
bool control_is_administrator(const struct control *c, const char *owner);

/* The share of an account (limits.owner), by its name; exempt accounts have no limits. */
void owner_share_of(const struct control *c, const char *account, struct ext_owner *ret);

#endif
