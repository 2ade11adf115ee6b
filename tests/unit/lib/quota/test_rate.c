/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/quota/rate.h"

#include <stdio.h>

#include "harness/tap.h"

enum { DAY = 86400 };

static struct rate r;

TEST(half_is_available_at_once_and_the_rest_comes_back)
{
    rate_init(&r, 200, DAY);
    for (int i = 0; i < 100; i++) {
        CHECK_INT(rate_wait(&r, STR("a"), 1000), 0);
        rate_use(&r, STR("a"), 1, 1000);
    }
    CHECK_INT(rate_wait(&r, STR("a"), 1000), 864);
    CHECK_INT(rate_wait(&r, STR("a"), 1500), 364);
    CHECK_INT(rate_wait(&r, STR("a"), 1864), 0);
    rate_use(&r, STR("a"), 1, 1864);
    CHECK(rate_wait(&r, STR("a"), 1864) > 0);
    rate_done(&r);
}

TEST(no_period_holds_more_than_its_most)
{
    int used = 0;

    rate_init(&r, 200, DAY);
    for (int64_t now = 0; now < DAY; now += 60)
        while (!rate_wait(&r, STR("a"), now)) {
            rate_use(&r, STR("a"), 1, now);
            used++;
        }
    CHECK(used >= 198 && used <= 200);
    rate_done(&r);
}

TEST(callers_do_not_use_up_each_other)
{
    rate_init(&r, 10, DAY);
    rate_use(&r, STR("a"), 5, 0);
    CHECK(rate_wait(&r, STR("a"), 0) > 0);
    CHECK_INT(rate_wait(&r, STR("b"), 0), 0);
    rate_done(&r);
}

TEST(use_beyond_what_is_there_is_forgotten_after_two_periods)
{
    rate_init(&r, 10, DAY);
    rate_use(&r, STR("a"), UINT64_MAX, 0);
    rate_use(&r, STR("a"), 1000, 0);
    CHECK(rate_wait(&r, STR("a"), 0) > 0);
    CHECK_INT(rate_wait(&r, STR("a"), 2 * (int64_t)DAY), 0);
    rate_done(&r);
}

TEST(callers_that_have_everything_back_cost_nothing)
{
    char key[32];

    rate_init(&r, 10, DAY);
    for (int i = 0; i < 100000; i++) {
        snprintf(key, sizeof key, "owner-%d", i);
        rate_use(&r, str_from(key), 1, (int64_t)i * DAY);
    }
    CHECK(r.users_.n <= 64);
    CHECK(r.users_.size_ <= 128);
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "flood-%d", i);
        rate_use(&r, str_from(key), 5, 100000 * (int64_t)DAY);
        CHECK(rate_wait(&r, str_from(key), 100000 * (int64_t)DAY) > 0);
    }
    CHECK(rate_wait(&r, STR("flood-0"), 100000 * (int64_t)DAY) > 0);
    rate_done(&r);
}

TEST(an_amount_of_nothing_is_still_something)
{
    rate_init(&r, 0, DAY);
    CHECK_INT(rate_wait(&r, STR("a"), 0), 0);
    rate_use(&r, STR("a"), 1, 0);
    CHECK_INT(rate_wait(&r, STR("a"), 0), DAY);
    rate_done(&r);
    CHECK_INT(rate_wait(&r, STR("a"), 0), 0);
}
