/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include <limits.h>

#include "base/own.h"
#include "harness/tap.h"

static const struct str none = { NULL, 0 };

TEST(equality_is_of_bytes)
{
    CHECK(str_eq(STR("a\0b"), STR("a\0b")));
    CHECK(!str_eq(STR("a\0b"), STR("a\0c")));
    CHECK(!str_eq(STR("a"), STR("ab")));
    CHECK(str_eq(none, STR("")));
    CHECK(str_eq(str_from(NULL), none));
}

TEST(starts_and_ends)
{
    CHECK(str_starts(STR("sbx_1"), STR("sbx_")));
    CHECK(!str_starts(STR("sb"), STR("sbx_")));
    CHECK(str_starts(none, none) && str_starts(STR("a"), none));
    CHECK(str_ends(STR("a.json"), STR(".json")));
    CHECK(!str_ends(STR("json"), STR(".json")));
    CHECK(!str_ends(STR("a.jsox"), STR(".json")));
    CHECK(str_ends(none, none) && str_ends(STR("a"), none));
}

TEST(find_and_cut)
{
    struct str head, rest;

    CHECK_INT(str_find(STR("a=b=c"), '='), 1);
    CHECK_INT(str_find(STR("abc"), '='), 3);
    CHECK_INT(str_find(none, '='), 0);

    rest = str_cut(STR("a=b=c"), '=', &head);
    CHECK_STR(head, "a");
    CHECK_STR(rest, "b=c");
    rest = str_cut(STR("abc"), '=', &head);
    CHECK_STR(head, "abc");
    CHECK(rest.n == 0 && !rest.p);
    rest = str_cut(STR("abc="), '=', &head);
    CHECK_STR(head, "abc");
    CHECK(rest.n == 0 && rest.p); /* there was a separator */
    rest = str_cut(none, '=', &head);
    CHECK(head.n == 0 && !rest.p);
}

TEST(trim)
{
    CHECK_STR(str_trim(STR(" \t\r\na b\n ")), "a b");
    CHECK_INT(str_trim(STR(" \t\n")).n, 0);
    CHECK_INT(str_trim(none).n, 0);
}

TEST(copy_all_or_nothing)
{
    char dst[4] = "old";

    CHECK(!str_copy(STR("1234"), dst, sizeof dst));
    CHECK(!str_copy(STR("a\0b"), dst, sizeof dst));
    CHECK(!str_copy(none, dst, 0));
    CHECK_STR(str_from(dst), "old");
    CHECK(str_copy(STR("123"), dst, sizeof dst));
    CHECK_STR(str_from(dst), "123");
    CHECK(str_copy(none, dst, sizeof dst));
    CHECK_STR(str_from(dst), "");
}

TEST(unsigned_numbers)
{
    uint64_t v;

    CHECK(str_to_u64(STR("0"), &v) && v == 0);
    CHECK(str_to_u64(STR("007"), &v) && v == 7);
    CHECK(str_to_u64(STR("18446744073709551615"), &v) && v == UINT64_MAX);
}

TEST(not_unsigned_numbers)
{
    static const struct str bad[] = {
        { NULL, 0 },
        { "", 0 },
        { "+1", 2 },
        { "-1", 2 },
        { " 1", 2 },
        { "1 ", 2 },
        { "1\0", 2 },
        { "0x1", 3 },
        { "1e1", 3 },
        { "18446744073709551616", 20 }, /* 2^64: the addition overflows */
        { "28446744073709551615", 20 }, /* the multiplication does */
        { "99999999999999999999999", 23 },
    };
    uint64_t v = 42;

    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (str_to_u64(bad[i], &v))
            FAIL("accepted '" STR_FMT "'", STR_ARG(bad[i]));
    CHECK_INT(v, 42);
}

TEST(signed_numbers)
{
    int64_t v = 42;

    CHECK(!str_to_i64(STR("9223372036854775808"), &v));
    CHECK(!str_to_i64(STR("-9223372036854775809"), &v));
    CHECK(!str_to_i64(STR("-"), &v) && !str_to_i64(STR("--1"), &v) && !str_to_i64(none, &v));
    CHECK_INT(v, 42);
    CHECK(str_to_i64(STR("9223372036854775807"), &v) && v == INT64_MAX);
    CHECK(str_to_i64(STR("-9223372036854775808"), &v) && v == INT64_MIN);
    CHECK(str_to_i64(STR("-0"), &v) && v == 0);
}

/* Both ends of every row of Unicode's table of well-formed sequences. */
TEST(utf8_edges)
{
    static const char *const good[] = {
        "",
        "\x01",
        "\x7F",
        "\xC2\x80",
        "\xDF\xBF",
        "\xE0\xA0\x80",
        "\xE0\xBF\xBF",
        "\xE1\x80\x80",
        "\xEC\xBF\xBF",
        "\xED\x80\x80",
        "\xED\x9F\xBF",
        "\xEE\x80\x80",
        "\xEF\xBF\xBF",
        "\xF0\x90\x80\x80",
        "\xF0\xBF\xBF\xBF",
        "\xF1\x80\x80\x80",
        "\xF3\xBF\xBF\xBF",
        "\xF4\x80\x80\x80",
        "\xF4\x8F\xBF\xBF",
        "a\xC3\xA9z",
    };

    for (size_t i = 0; i < COUNT_OF(good); i++)
        if (!str_is_utf8(str_from(good[i])))
            FAIL("refused row %zu", i);
    CHECK(str_is_utf8(STR("a\0b")));
    CHECK(str_is_utf8(none));
}

TEST(not_utf8)
{
    static const char *const bad[] = {
        "\x80",                 /* a continuation alone */
        "\xBF",                 /* the same */
        "\xC0\x80",             /* overlong NUL */
        "\xC1\xBF",             /* overlong 7F */
        "\xC2",                 /* cut */
        "\xC2\x7F",             /* second byte too small */
        "\xC2\xC0",             /* and too big */
        "\xE0\x9F\xBF",         /* overlong 7FF */
        "\xE0\xC0\x80",         /* second byte too big */
        "\xE1\x80",             /* cut */
        "\xE1\x80\x7F",         /* third byte too small */
        "\xE1\x80\xC0",         /* and too big */
        "\xED\xA0\x80",         /* the first surrogate */
        "\xED\xBF\xBF",         /* the last */
        "\xF0\x8F\xBF\xBF",     /* overlong FFFF */
        "\xF0\x90\x80",         /* cut */
        "\xF0\x90\x80\xC0",     /* fourth byte too big */
        "\xF4\x90\x80\x80",     /* 110000 */
        "\xF5\x80\x80\x80",     /* no such first byte */
        "\xF8\x88\x80\x80\x80", /* five bytes */
        "\xFE",                 /* no such byte */
        "\xFF",                 /* nor this */
        "fine\xC3",             /* cut at the end of good text */
    };

    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (str_is_utf8(str_from(bad[i])))
            FAIL("accepted row %zu", i);
}

TEST(distance_of_words)
{
    static const struct {
        const char *a, *b;
        unsigned distance;
    } rows[] = {
        { "", "", 0 },
        { "", "abc", 3 },
        { "abc", "", 3 },
        { "list", "list", 0 },
        { "runn", "run", 1 },
        { "ru", "run", 1 },
        { "rum", "run", 1 },
        { "lsit", "list", 1 },
        { "kitten", "sitting", 3 },
        { "destory", "destroy", 1 },
        { "ca", "abc", 3 },
        { "abcd", "badc", 2 },
        { "flaw", "lawn", 2 },
        { "profile", "profiles", 1 },
    };
    char longest[STR_DISTANCE_MAX + 1];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK_INT(str_distance(str_from(rows[i].a), str_from(rows[i].b)), rows[i].distance);
        CHECK_INT(str_distance(str_from(rows[i].b), str_from(rows[i].a)), rows[i].distance);
    }
    memset(longest, 'x', sizeof longest);
    CHECK_INT(str_distance((struct str){ longest, STR_DISTANCE_MAX }, STR("")), STR_DISTANCE_MAX);
    CHECK(str_distance((struct str){ longest, sizeof longest }, STR("x")) == UINT_MAX);
    CHECK(str_distance(STR("x"), (struct str){ longest, sizeof longest }) == UINT_MAX);
}
