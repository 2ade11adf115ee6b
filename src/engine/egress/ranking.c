/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/ranking.h"

#include "base/own.h"

static unsigned bucket_of(const struct rank *m)
{
    return m->count < EGRESS_OPEN_MAX ? m->count : EGRESS_OPEN_MAX;
}

static void put_in_bucket(struct ranking *r, struct rank *m)
{
    unsigned bucket = bucket_of(m);

    list_append(&r->buckets[bucket], &m->link);
    if (bucket > r->highest)
        r->highest = bucket;
}

/* A member that leaves the highest bucket moves to the bucket below, unless it leaves the
 * ranking. */
static void lower_highest(struct ranking *r)
{
    while (r->highest > 0 && !list_first(&r->buckets[r->highest]))
        r->highest--;
}

void ranking_join(struct ranking *r, struct rank *m)
{
    m->count = 0;
    put_in_bucket(r, m);
}

void ranking_leave(struct ranking *r, struct rank *m)
{
    if (!link_joined(&m->link))
        return;
    link_leave(&m->link);
    lower_highest(r);
}

static void change_count(struct ranking *r, struct rank *m, unsigned count)
{
    unsigned before = bucket_of(m);

    m->count = count;
    if (!link_joined(&m->link) || bucket_of(m) == before)
        return;
    link_leave(&m->link);
    put_in_bucket(r, m);
    lower_highest(r);
}

void ranking_raise(struct ranking *r, struct rank *m)
{
    change_count(r, m, m->count + 1);
}

void ranking_lower(struct ranking *r, struct rank *m)
{
    change_count(r, m, m->count - 1);
}

struct rank *ranking_highest(struct ranking *r)
{
    struct link *first = list_first(&r->buckets[r->highest]);

    return first ? container_of(first, struct rank, link) : NULL;
}
