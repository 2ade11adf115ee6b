/* What one owner's sandboxes may use of this machine, all together. */
#ifndef CONTROL_OWNER_SHARE_H
#define CONTROL_OWNER_SHARE_H

#include "extensions/extension.h"

struct control;

/* Reads how large this machine is. */
void owner_share_open(struct control *c);

/* A name for the owner that any file system takes: readable characters, and a digest that no other
 * owner has. */
void owner_share_key(const char *owner, char ret[EXT_OWNER_MAX]);

/* The part of the owner's budgets that a record counts in: that of its token's family. Empty where
 * there is none: made by a user, or an administrator's. */
struct str owner_share_part(const struct control *c, const char *owner, const char *family);

/* owner_is_administrator() (model/owner.h) of this daemon. */
bool control_is_administrator(const struct control *c, const char *owner);

/* The owner's share (limits.owner); administrators have no limits. */
void owner_share_of(const struct control *c, const char *owner, struct ext_owner *ret);

#endif
