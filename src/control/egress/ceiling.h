/* The egress ceiling of a caller: the intersection of what the configuration, the profile and the
 * caller's token allow (policy/egress_ceiling.h).
 *
 * The configuration binds every caller but administrators. The profile's `network.most` and a
 * token's `egress` bind everybody. Endpoints of a profile are the work of an administrator and
 * within every ceiling but `none`. Of a policy that is stored, only its author is kept: the ceiling
 * is made again from the configuration that holds when the daemon starts. */
#ifndef CONTROL_CEILING_H
#define CONTROL_CEILING_H

#include "control/caller.h"
#include "control/policy_text.h"

struct control;
struct sandbox;

enum { CEILING_ARENA_MAX = 8 << 20 }; /* what to give an arena for one */

/* The reach, and what sets it; buf is room for the text. */
enum egress_reach ceiling_reach(const struct control *c, const struct policy_author *who,
                                const struct profile *p, char buf[static EGRESS_FROM_MAX]);

/* p NULL: no profile is known. *ret lies on the arena. */
int ceiling_make(const struct control *c, const struct policy_author *who, const struct profile *p,
                 struct arena *a, struct policy_bounds *ret, struct err *e);

struct policy_author ceiling_author(const struct caller *who);

/* For a policy that `who` wants to set: of a profile by its name; of a sandbox. */
int control_ceiling(const struct control *c, const struct caller *who, const char *profile,
                    struct arena *a, struct policy_bounds *ret, struct err *e);
int sandbox_ceiling(const struct sandbox *s, const struct caller *who, struct arena *a,
                    struct policy_bounds *ret, struct err *e);

/* The author that the store has; for a row from before authors were kept, an administrator if the
 * sandbox is an administrator's. */
struct policy_author ceiling_stored_author(const struct control *c, const char *owner, int admin,
                                           unsigned most);

#endif
