/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/value.h"

#include "base/own.h"
#include "harness/tap.h"

static const struct json members[] = {
    { .type = JSON_INT, .key = { "a", 1 }, .i = 1 },
    { .type = JSON_STR, .key = { "", 0 }, .s = { "x", 1 } },
    { .type = JSON_NULL, .key = { "b", 1 } },
};
static const struct json object = { .type = JSON_OBJECT, .list = { members, COUNT_OF(members) } };

TEST(get_finds_members_by_key)
{
    CHECK(json_get(&object, STR("a")) == &members[0]);
    CHECK(json_get(&object, STR("")) == &members[1]);
    CHECK(json_get(&object, STR("c")) == NULL);
    CHECK(json_get(&members[0], STR("a")) == NULL);
}

TEST(each_walks_lists_and_skips_the_rest)
{
    struct json empty = { .type = JSON_ARRAY };
    size_t n = 0;

    for (const struct json *item = json_first(&object); item != json_end(&object); item++)
        CHECK(item == &members[n++]);
    CHECK_INT(n, COUNT_OF(members));
    for (const struct json *item = json_first(&empty); item != json_end(&empty); item++)
        FAIL("an empty list has the item %p", (const void *)item);
    for (const struct json *item = json_first(&members[0]); item != json_end(&members[0]); item++)
        FAIL("a number has the item %p", (const void *)item);
}

TEST(equal_takes_types_keys_and_bits)
{
    struct json one = { .type = JSON_INT, .i = 1 }, real = { .type = JSON_DOUBLE, .d = 1 };
    struct json zero = { .type = JSON_DOUBLE, .d = 0.0 },
                minus = { .type = JSON_DOUBLE, .d = -0.0 };
    struct json fewer = object, array = object;

    CHECK(json_equal(&object, &object));
    CHECK(json_equal(&one, &one));
    CHECK(!json_equal(&one, &real));
    CHECK(!json_equal(&zero, &minus));
    fewer.list.n--;
    CHECK(!json_equal(&object, &fewer));
    array.type = JSON_ARRAY;
    CHECK(!json_equal(&object, &array));
}

TEST(equal_ignores_places)
{
    struct json here = { .type = JSON_NULL, .line = 3, .column = 4 }, there = { .type = JSON_NULL };

    CHECK(json_equal(&here, &there));
}

TEST(types_have_names)
{
    CHECK_STR(str_from(json_type_name(JSON_OBJECT)), "an object");
    CHECK_STR(str_from(json_type_name(JSON_TYPE_COUNT_)), "unknown");
}
