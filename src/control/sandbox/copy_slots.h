/* SPDX-License-Identifier: Apache-2.0 */
/* Slots for the processes that copy workspaces (workspace.h): how many run at once, in total and
 * per owner, and the queue for them (lib/quota/turns.h).
 *
 * A slot belongs to the process, not to the copy: a process that hangs in a file system keeps its
 * slot until it exits, also after the copy was abandoned. So the supervisor never has more
 * processes than slots. */
#ifndef CONTROL_SANDBOX_COPY_SLOTS_H
#define CONTROL_SANDBOX_COPY_SLOTS_H

#include "control/owner/owner_share.h"
#include "lib/loop/fd.h"
#include "lib/quota/turns.h"

enum { COPY_WAITS_FACTOR = 16 }; /* waiting copies of an owner, for each slot of its share */

struct copy_slots {
    struct turns turns;
    struct quota stuck; /* slots of abandoned copies */
};

struct copy_slot {
    struct control *control;
    struct turn turn;
    struct quota_hold stuck;
    struct loop_fd source;
    int report; /* of an abandoned copy; -1: none */
    void *user;
};

void copy_slots_open(struct control *c);
void copy_slots_close(struct control *c);

/* Whether the account may queue one more copy now. */
int copy_slots_check(struct control *c, const struct account *a, struct err *e);

/* `start` is called from the loop when the slot's turn comes. -ERR_QUOTA: too many copies of the
 * account are waiting; not returned with `must`. */
int copy_slot_new(struct control *c, const struct account *a, bool must, turn_fn *start, void *user,
                  struct copy_slot **ret, struct err *e);
/* Whether all copies that it waits for were abandoned. */
bool copy_slot_hangs(const struct copy_slot *s);
/* The process has exited, or was not started; s may be NULL. */
void copy_slot_free(struct copy_slot *s);
/* The copy was abandoned: the slot frees itself when the process closes its end of the report. */
void copy_slot_abandon(struct copy_slot *s, int report);

#endif
