/* SPDX-License-Identifier: Apache-2.0 */
/* Limits the events that each owner may cause.
 *
 * The store keeps limits.events_keep events and removes the oldest, so an owner with many events
 * would push out those of others. Therefore an owner may cause limits.events_per_owner a day
 * (default: a quarter of all), and each family of its tokens seven eighths of that. Beyond that, an
 * owner cannot start anything that is recorded; ends and removals are always recorded.
 * Administrators on the unix socket have no limit; each family of their tokens has the limit of an
 * owner. */
#ifndef CONTROL_OWNER_EVENT_SHARE_H
#define CONTROL_OWNER_EVENT_SHARE_H

#include <stdbool.h>

#include "base/err.h"
#include "domain/model/record.h"

struct control;

/* Counts the events of the last day in the store, after it is open; blocks. */
int event_share_open(struct control *c, struct err *e);
void event_share_close(struct control *c);

/* Counts a recorded event for its owner, and for the family whose token caused it or made its
 * sandbox. */
void event_share_count(struct control *c, const struct event_record *v);

/* The family of tokens that the events of this actor count for; "": it is no token. NULL: none. */
const char *event_share_family(const struct control *c, const struct actor *who);

/* Called before something starts that is recorded: -ERR_QUOTA. who: the caller; NULL: its family
 * does not matter. */
int event_share_check(const struct control *c, const char *owner, const struct actor *who,
                      struct err *e);
/* The same for what the daemon does by itself for a family: "": none. */
int event_share_check_family(const struct control *c, const char *owner, const char *family,
                             struct err *e);

#endif
