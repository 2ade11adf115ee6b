/* SPDX-License-Identifier: Apache-2.0 */
/* The egress ceiling of a caller: the intersection of what the configuration, the profile and the
 * caller's token allow (domain/policy/egress_ceiling.h).
 *
 * The configuration binds every caller but administrators. The profile's `network.most` and a
 * token's `egress` bind all callers. Endpoints of a profile are written by an administrator and are
 * within every ceiling but `none`. The store keeps only the author of a policy: after a start, the
 * ceiling is computed again from the current configuration. */
#ifndef CONTROL_EGRESS_CEILING_H
#define CONTROL_EGRESS_CEILING_H

#include "control/owner/caller.h"
#include "control/egress/policy_text.h"

struct control;

enum { CEILING_ARENA_MAX = 8 << 20 }; /* size of an arena for one ceiling */

/* The reach, and its source as a text in buf. */
enum egress_reach ceiling_reach(const struct control *c, const struct policy_author *who,
                                const struct profile *p, char buf[static EGRESS_FROM_MAX]);

/* p NULL: the profile is unknown. *ret is on the arena. */
int ceiling_make(const struct control *c, const struct policy_author *who, const struct profile *p,
                 struct arena *a, struct policy_bounds *ret, struct err *e);

struct policy_author ceiling_author(const struct caller *who);

/* For a policy that `who` wants to set on a profile, by its name. */
int control_ceiling(const struct control *c, const struct caller *who, const char *profile,
                    struct arena *a, struct policy_bounds *ret, struct err *e);

/* The author from the store. For a row without one (of an earlier version): an administrator, if
 * the sandbox's owner is one. */
struct policy_author ceiling_stored_author(const struct control *c, const char *owner, int admin,
                                           unsigned most);

#endif
