/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdalign.h>

#include "base/own.h"
#include "harness/tap.h"

TEST(zeroed_aligned_and_apart)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
    char *last = NULL;

    for (size_t n = 0; n < 300; n++) {
        char *p = arena_alloc(&a, n);

        CHECK(p && (uintptr_t)p % alignof(max_align_t) == 0);
        for (size_t i = 0; i < n; i++)
            CHECK_INT(p[i], 0);
        memset(p, 0xAA, n);
        CHECK(p != last || n <= 1);
        last = p;
    }
}

TEST(refuses_to_pass_its_ceiling)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(1024);

    CHECK(!arena_alloc(&a, 1025));
    CHECK_INT(a.used, 0);
    CHECK(arena_alloc(&a, 1000));
    CHECK(!arena_alloc(&a, 100));
    CHECK(arena_alloc(&a, 16));
    CHECK(!arena_alloc(&a, 1));
    CHECK_INT(a.used, 1024);
}

TEST(sizes_that_would_wrap_around)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(SIZE_MAX);

    CHECK(arena_alloc(&a, 8));
    for (size_t less = 0; less < 200; less++)
        CHECK(!arena_alloc(&a, SIZE_MAX - less));
    CHECK(!arena_array(&a, SIZE_MAX / 2, 3));
    CHECK(!arena_array(&a, SIZE_MAX, SIZE_MAX));
    CHECK(!arena_dup(&a, (struct str){ "x", SIZE_MAX }));
    CHECK(!arena_dup(&a, (struct str){ "x", SIZE_MAX - 1 }));
}

TEST(large_and_small_together)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(64 << 20);
    char *small = arena_alloc(&a, 8), *large = arena_alloc(&a, 5 << 20), *after;

    CHECK(small && large);
    memset(large, 1, 5 << 20);
    after = arena_alloc(&a, 4 << 20);
    CHECK(after);
    memset(after, 2, 4 << 20);
    CHECK_INT(small[0], 0);
    CHECK_INT(large[(5 << 20) - 1], 1);
}

TEST(array_and_dup)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(1000);
    uint32_t *numbers = arena_array(&a, 100, sizeof *numbers);
    char *copy = arena_dup(&a, (struct str){ "abcdef", 3 });

    CHECK(numbers && numbers[99] == 0);
    CHECK_STR(str_from(copy), "abc");
    CHECK_STR(str_from(arena_dup(&a, (struct str){ NULL, 0 })), "");
    CHECK(!arena_array(&a, 1000, 1000));
}

TEST(can_be_used_again)
{
    struct arena a;

    arena_init(&a, 100);
    CHECK(arena_alloc(&a, 96));
    arena_done(&a);
    CHECK_INT(a.used, 0);
    CHECK(arena_alloc(&a, 96));
    CHECK(!arena_alloc(&a, 96));
    arena_done(&a);
    arena_done(&a);
}

TEST(a_zeroed_arena_has_nothing_to_give)
{
    AUTO(arena_done) struct arena a = { 0 };

    CHECK(!arena_alloc(&a, 1));
}

TEST(two_exchange_what_they_hold)
{
    struct arena a = ARENA_INIT(1000), b = ARENA_INIT(2000);
    const char *of_a = arena_dup(&a, STR("of a"));

    arena_swap(&a, &b);
    CHECK_INT(a.max, 2000);
    arena_done(&a);
    CHECK_STR(str_from(of_a), "of a");
    arena_swap(&a, &b);
    CHECK_STR(str_from(of_a), "of a");
    arena_done(&a);
    arena_done(&b);
}
