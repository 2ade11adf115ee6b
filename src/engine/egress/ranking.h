/* SPDX-License-Identifier: Apache-2.0 */
/* A ranking of members by a count that changes by one at a time: a bucket queue. All operations are
 * O(1) in the number of members; counts beyond the last bucket share it. */
#ifndef ENGINE_EGRESS_RANKING_H
#define ENGINE_EGRESS_RANKING_H

#include "engine/egress/limits.h"
#include "lib/loop/list.h"

struct rank {
    struct link link;
    unsigned count;
};

/* A zeroed ranking is empty. It must not be moved while it has members. */
struct ranking {
    struct list buckets[EGRESS_OPEN_MAX + 1];
    unsigned highest; /* no bucket behind it has members */
};

void ranking_join(struct ranking *r, struct rank *m); /* with the count 0 */
void ranking_leave(struct ranking *r, struct rank *m);
/* Only changes the count of a member that has not joined. */
void ranking_raise(struct ranking *r, struct rank *m);
void ranking_lower(struct ranking *r, struct rank *m);

/* A member with the highest count, the one that has had it longest; NULL if there are no
 * members. */
struct rank *ranking_highest(struct ranking *r);

#endif
