/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/ranking.h"

#include <stdlib.h>

#include "base/own.h"
#include "harness/tap.h"

enum { MEMBERS = 200, STEPS = 200000 };

static struct ranking ranking;
static struct rank members[MEMBERS];

static void set_count(struct rank *m, unsigned count)
{
    while (m->count < count)
        ranking_raise(&ranking, m);
    while (m->count > count)
        ranking_lower(&ranking, m);
}

TEST(the_highest_is_found_as_counts_change)
{
    CHECK(!ranking_highest(&ranking));
    ranking_join(&ranking, &members[0]);
    ranking_join(&ranking, &members[1]);
    CHECK(ranking_highest(&ranking) == &members[0]);
    set_count(&members[1], 5);
    CHECK(ranking_highest(&ranking) == &members[1]);
    set_count(&members[0], 5); /* it came there later */
    CHECK(ranking_highest(&ranking) == &members[1]);
    set_count(&members[1], 0);
    CHECK(ranking_highest(&ranking) == &members[0]);
    ranking_leave(&ranking, &members[0]); /* from the top, with nothing between */
    CHECK(ranking_highest(&ranking) == &members[1]);
    ranking_leave(&ranking, &members[1]);
    ranking_leave(&ranking, &members[1]);
    CHECK(!ranking_highest(&ranking));
}

TEST(counts_beyond_the_last_bucket_are_kept)
{
    ranking_join(&ranking, &members[0]);
    set_count(&members[0], EGRESS_OPEN_MAX + 100);
    CHECK(ranking_highest(&ranking) == &members[0]);
    ranking_join(&ranking, &members[1]);
    set_count(&members[1], EGRESS_OPEN_MAX - 1);
    CHECK(ranking_highest(&ranking) == &members[0]);
    set_count(&members[0], EGRESS_OPEN_MAX - 2);
    CHECK(ranking_highest(&ranking) == &members[1]);
}

TEST(a_member_that_has_not_joined_is_only_counted)
{
    ranking_raise(&ranking, &members[0]);
    ranking_raise(&ranking, &members[0]);
    CHECK_INT(members[0].count, 2);
    ranking_lower(&ranking, &members[0]);
    CHECK_INT(members[0].count, 1);
    CHECK(!ranking_highest(&ranking));
}

static unsigned find_most(void)
{
    unsigned most = 0;

    for (size_t i = 0; i < MEMBERS; i++)
        if (link_joined(&members[i].link) && members[i].count > most)
            most = members[i].count;
    return most;
}

/* Against a search of all. */
TEST(no_order_of_steps_confuses_it)
{
    struct rank *m;

    srandom(1);
    for (size_t i = 0; i < STEPS; i++) {
        m = &members[random() % MEMBERS];
        if (!link_joined(&m->link))
            ranking_join(&ranking, m);
        else if (random() % 64 == 0)
            ranking_leave(&ranking, m);
        else if (m->count && random() % 2)
            ranking_lower(&ranking, m);
        else
            ranking_raise(&ranking, m);
        if (i % 16 == 0) {
            m = ranking_highest(&ranking);
            CHECK(m && m->count == find_most());
        }
    }
}
