/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/build.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/own.h"
#include "harness/tap.h"

static void push_int(struct json_build *b, const char *key, int64_t i)
{
    struct json v = { .type = JSON_INT, .key = str_from(key), .i = i };

    CHECK(json_build_push(b, &v) == 0);
}

TEST(lists_close_from_the_inside_out)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(1 << 16);
    AUTO(json_build_done) struct json_build b = { 0 };
    struct json outer = { .type = JSON_ARRAY }, inner = { .type = JSON_ARRAY };
    size_t outer_mark, inner_mark;

    json_build_init(&b, &a);
    outer_mark = json_build_mark(&b);
    push_int(&b, "", 1);
    inner_mark = json_build_mark(&b);
    push_int(&b, "", 2);
    push_int(&b, "", 3);
    CHECK(json_build_close(&b, inner_mark, &inner) == 0);
    CHECK(json_build_push(&b, &inner) == 0);
    CHECK(json_build_close(&b, outer_mark, &outer) == 0);
    CHECK_INT(inner.list.n, 2);
    CHECK_INT(outer.list.n, 2);
    CHECK_INT(outer.list.p[0].i, 1);
    CHECK_INT(outer.list.p[1].list.p[1].i, 3);
}

TEST(nothing_passes_the_ceiling_of_the_arena)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(4 * sizeof(struct json));
    AUTO(json_build_done) struct json_build b = { 0 };
    struct json v = { .type = JSON_NULL };
    int pushed = 0;

    json_build_init(&b, &a);
    while (pushed < 100 && json_build_push(&b, &v) == 0)
        pushed++;
    CHECK_INT(pushed, 4);
}

/* An object of n members; the member `same` has the key of member 0, unless it is 0. */
static struct json make_object(struct json_build *b, char (*keys)[16], size_t n, size_t same)
{
    struct json object = { .type = JSON_OBJECT };

    for (size_t i = 0; i < n; i++) {
        snprintf(keys[i], sizeof keys[i], "%zu", i == same ? 0 : i * 7919 % 100003);
        push_int(b, keys[i], (int64_t)i);
    }
    CHECK(json_build_close(b, 0, &object) == 0);
    return object;
}

TEST(the_second_of_two_equal_keys_is_found)
{
    static const size_t counts[] = { 2, 12, 13, 1000 };
    static char keys[1000][16];

    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
        AUTO(json_build_done) struct json_build b = { 0 };
        struct json object;
        size_t last = counts[i] - 1;

        json_build_init(&b, &a);
        object = make_object(&b, keys, counts[i], 0);
        CHECK(json_build_twice(&b, &object) == NULL);
        object = make_object(&b, keys, counts[i], last);
        CHECK(json_build_twice(&b, &object) == &object.list.p[last]);
    }
}

TEST(many_members_take_no_quadratic_time)
{
    enum { MANY = 100000 };
    static char keys[MANY][16];
    AUTO(arena_done) struct arena a = ARENA_INIT(64 << 20);
    AUTO(json_build_done) struct json_build b = { 0 };
    int64_t start = clock_mono();
    struct json object;

    json_build_init(&b, &a);
    object = make_object(&b, keys, MANY, 0);
    CHECK(json_build_twice(&b, &object) == NULL);
    CHECK(clock_mono() - start < 10 * NS_PER_S);
}
