/* SPDX-License-Identifier: Apache-2.0 */
/* The share of this machine that the sandboxes of one owner may use together. */
#ifndef CONTROL_OWNER_OWNER_SHARE_H
#define CONTROL_OWNER_OWNER_SHARE_H

#include "backends/backend.h"
#include "domain/model/actor.h"
#include "lib/quota/quota.h"

struct control;

/* The account that a record is charged to, and its part of that account.
 *
 * A record is charged to its owner, and to a part of the owner's budgets for the family of the
 * token that made it. Administrators make tokens for many clients: each family of an
 * administrator's tokens is an account of its own, with the budgets and control groups of one
 * owner. Records that an administrator makes on the unix socket are exempt. */
struct account {
    char name[OWNER_MAX]; /* the owner, or "family:tok_…" */
    struct str part;      /* the family's part of an owner's account; empty: none */
    bool exempt;
};

/* Reads the size of this machine. */
void owner_share_open(struct control *c);

/* family: "" if no token made the record. The part borrows it. */
struct account account_of(const struct control *c, const char *owner, const char *family);
bool account_is(const struct account *a, const struct account *other);
/* The quota holder, which borrows from the account. */
struct quota_who account_holder(const struct account *a);

/* A file name for the account: readable characters, and a digest that is unique to it. */
void owner_share_key(const char *account, char ret[BACKEND_OWNER_MAX]);

/* owner_is_administrator() (domain/model/owner.h) of this daemon. */
bool control_is_administrator(const struct control *c, const char *owner);

/* The share of an account (limits.owner), by its name; exempt accounts have no limits. */
void owner_share_of(const struct control *c, const char *account, struct backend_owner *ret);

#endif
