/* SPDX-License-Identifier: Apache-2.0 */
/* Slots for the supervisor's processes that open a workspace's directory, to grant it or to check
 * its grant: how many run at once, in total and per owner, and the queue for them
 * (lib/quota/turns.h).
 *
 * A directory can hang in its file system, which a user may have made. So a slot belongs to the
 * process: one that the supervisor has given up, and that cannot be killed, keeps its slot until
 * its file system answers. */
#ifndef CONTROL_SANDBOX_GRANT_SLOTS_H
#define CONTROL_SANDBOX_GRANT_SLOTS_H

#include "control/owner/owner_share.h"
#include "control/plane/supervisor.h"
#include "lib/quota/turns.h"

enum { GRANT_WAITS_FACTOR = 16 }; /* waiting grants of an owner, for each slot of its share */

struct grant_slots {
    struct turns turns;
    struct list all; /* struct grant_slot */
};

void grant_slots_open(struct control *c);
void grant_slots_close(struct control *c);

/* Whether the account may queue one more grant now. */
int grant_slots_check(struct control *c, const struct account *a, struct err *e);

/* Passes a grant to the supervisor when the account's turn comes; `q->done` gets the answer, or
 * -ERR_QUOTA after `workspaces.patience`. The texts and descriptors of `g` are copied. -ERR_QUOTA:
 * too many grants of the account wait; not returned with `must`. */
int grant_slots_ask(struct control *c, const struct account *a, bool must,
                    const struct control_grant *g, struct control_request *q, struct err *e);

#endif
