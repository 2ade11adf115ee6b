/* How many events each owner may cause.
 *
 * Events are kept up to limits.events_keep, the oldest go first: whoever causes many pushes out
 * those of others. So an owner may cause limits.events_per_owner in a day, a quarter of all unless
 * it is configured, and each family of its tokens seven eighths of that. An owner beyond that
 * cannot start anything that is recorded; what ends or removes something is always recorded.
 * Administrators on the unix socket have no limit; a family of their tokens has an owner's. */
#ifndef CONTROL_EVENT_SHARE_H
#define CONTROL_EVENT_SHARE_H

#include <stdbool.h>

#include "base/err.h"
#include "model/record.h"

struct control;

/* Counts what the store has of the last day. When the store is open; blocks. */
int event_share_open(struct control *c, struct err *e);
void event_share_close(struct control *c);

/* The event was recorded. It counts as its owner's, and as that of the family whose token caused it
 * or made its sandbox. */
void event_share_count(struct control *c, const struct event_record *v);

/* Before something is begun that is recorded: -ERR_QUOTA. who: that asks; NULL: its family does not
 * matter. */
int event_share_check(const struct control *c, const char *owner, const struct actor *who,
                      struct err *e);

#endif
