/* SPDX-License-Identifier: Apache-2.0 */
/* Turns: work that waits for a place in a quota instead of being refused.
 *
 * A turn that joins gets a place as soon as the quota has one for its caller, and holds it until it
 * leaves. Callers are served in rotation, and so are the parts of one caller (families of tokens);
 * within a part, the first to join is the first to start. Privileged callers have a rotation of
 * their own, which alternates with the other one, and the reserve. A caller or a part at its limit
 * is considered again when one of its own turns leaves: joining, leaving and starting cost O(1),
 * independent of the number that wait.
 *
 * Those that wait are counted in a quota, too, so that a caller cannot queue without end.
 *
 * A turn is a member of its user: zeroed it neither waits nor holds a place. It is not moved. */
#ifndef LIB_QUOTA_TURNS_H
#define LIB_QUOTA_TURNS_H

#include "lib/loop/loop.h"
#include "lib/quota/quota.h"

enum { TURNS_RINGS = 2 }; /* callers with a share, and privileged ones */

struct turns {
    struct loop *loop;
    struct quota running, waiting;
    struct list rings_[TURNS_RINGS]; /* struct turns_caller: those that are not at their share */
    struct list callers_;            /* all that wait */
    unsigned next_;                  /* the ring whose turn it is */
    struct loop_later later_;
};

struct turn;
/* From the loop: the turn holds its place. */
typedef void turn_fn(struct turn *t);

struct turn {
    turn_fn *start_;
    struct quota_hold waits_, place_;
    struct turns_line *line_;
    struct link link_;
};

/* The user opens the quotas: `running` of places, `waiting` of turns that wait for one. In both,
 * parts[0] is the only part. */
void turns_init(struct turns *t, struct loop *l);
/* Places that are still held, and turns that still wait, are forgotten. */
void turns_done(struct turns *t);

/* start is called once, never from inside. -ERR_QUOTA: the caller has as many waiting as it may,
 * unless the turn must not be refused. */
int turns_join(struct turns *t, struct turn *turn, const struct quota_who *who, bool must,
               turn_fn *start, struct err *e);
/* Releases the place, or leaves the queue: `start` is not called after this. Harmless on a turn
 * that did not join or has left. */
void turns_leave(struct turns *t, struct turn *turn);

static inline bool turn_waits(const struct turn *t)
{
    return t->line_;
}

#endif
