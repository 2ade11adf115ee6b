/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/reader.h"

#include <stdio.h>

#include "base/own.h"
#include "harness/tap.h"

static const struct json_limits limits = { .bytes = 1 << 16, .depth = 8, .places = true };

/* Lives as long as the test's process. */
static struct arena arena = ARENA_INIT(1 << 20);

static const struct json *read_str(struct str text)
{
    const struct json *v = NULL;
    struct err e = { 0 };

    CHECK_OK(json_read(text, limits, &arena, &v, &e), e);
    return v;
}

static const struct json *read_text(const char *text)
{
    return read_str(str_from(text));
}

TEST(every_type)
{
    const struct json *v = read_text(" { \"n\" : null , \"t\":true,\"f\":false,\r\n\t\"i\":-5,"
                                     "\"d\":2.5,\"s\":\"x\",\"a\":[1,[]],\"o\":{} } ");

    CHECK_INT(v->list.n, 8);
    CHECK(json_get(v, STR("n"))->type == JSON_NULL);
    CHECK(json_get(v, STR("t"))->b);
    CHECK(!json_get(v, STR("f"))->b);
    CHECK_INT(json_get(v, STR("i"))->i, -5);
    CHECK(json_get(v, STR("d"))->d == 2.5);
    CHECK_STR(json_get(v, STR("s"))->s, "x");
    CHECK_INT(json_get(v, STR("a"))->list.n, 2);
    CHECK(json_get(v, STR("o"))->type == JSON_OBJECT);
}

TEST(values_alone_are_documents)
{
    CHECK_INT(read_text("7")->i, 7);
    CHECK_STR(read_text("\"\"")->s, "");
    CHECK(read_text("null")->type == JSON_NULL);
}

TEST(escapes)
{
    CHECK_STR(read_text("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"")->s, "\"\\/\b\f\n\r\t");
    CHECK_STR(read_text("\"a\\u0041\\u00e9\\u20AC\\ud83d\\uDE00z\"")->s,
              "aA\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z");
    CHECK_STR(read_text("\"raw \xC3\xA9\xF0\x9F\x98\x80\"")->s, "raw \xC3\xA9\xF0\x9F\x98\x80");
}

TEST(strings_may_hold_nul_and_end_in_one)
{
    struct str s = read_text("\"a\\u0000b\"")->s;

    CHECK(str_eq(s, STR("a\0b")));
    CHECK_INT(s.p[s.n], 0);
    CHECK_INT(strlen(read_text("{\"key\":1}")->list.p[0].key.p), 3);
}

TEST(tree_borrows_nothing_from_the_text)
{
    char text[] = "{\"a\":\"bcd\"}";
    const struct json *v = read_text(text);

    memset(text, 'x', sizeof text - 1);
    CHECK_STR(json_get(v, STR("a"))->s, "bcd");
}

TEST(places_are_those_of_keys_and_items)
{
    const struct json *v = read_text("{\n  \"a\": 1,\n  \"b\":\n    [2,\n 3]\n}");

    CHECK_INT(v->line, 1);
    CHECK_INT(json_get(v, STR("a"))->line, 2);
    CHECK_INT(json_get(v, STR("a"))->column, 3);
    CHECK_INT(json_get(v, STR("b"))->line, 3);
    CHECK_INT(json_get(v, STR("b"))->list.p[1].line, 5);
}

TEST(places_are_kept_only_on_request)
{
    struct json_limits without = limits;
    const struct json *v;

    without.places = false;
    CHECK(json_read(STR("[1]"), without, &arena, &v, NULL) == 0);
    CHECK_INT(v->line, 0);
    CHECK_INT(v->list.p[0].line, 0);
}

static void check_refused(struct str text, const char *where, const char *why)
{
    const struct json *v = NULL;
    struct err e = { 0 };
    int r = json_read(text, limits, &arena, &v, &e);

    if (r >= 0)
        FAIL("accepted: " STR_FMT, STR_ARG(text));
    if (!strstr(e.msg, where) || !strstr(e.msg, why))
        FAIL("'" STR_FMT "' says '%s'; wanted '%s' and '%s'", STR_ARG(text), e.msg, where, why);
    CHECK(v == NULL);
}

TEST(refused_with_place_and_reason)
{
    static const struct {
        struct str text;
        const char *where, *why;
    } rows[] = {
        { STR(""), "line 1, byte 0", "the text ends" },
        { STR("  \n "), "line 2, byte 4", "the text ends" },
        { STR("{\"a\":1,\n\"b\":2,\"a\":3}"), "line 2, byte 14", "twice" },
        { STR("\"ab\xFFz\""), "byte 3", "UTF-8" },
        { STR("\"\\n\xED\xA0\x80\""), "byte 3", "UTF-8" },
        { STR("\"\xC0\x80\""), "byte 1", "UTF-8" },
        { STR("\"\\ud800\""), "byte 1", "high surrogate" },
        { STR("\"\\ud800\\u0041\""), "byte 1", "high surrogate" },
        { STR("\"\\udc00\""), "byte 1", "low surrogate" },
        { STR("\"\\u12g4\""), "byte 1", "four hexadecimal" },
        { STR("\"\\u12"), "byte 1", "four hexadecimal" },
        { STR("\"\\x41\""), "byte 1", "unknown escape" },
        { STR("\"\\"), "byte 1", "unknown escape" },
        { STR("\"a\nb\""), "byte 2", "control character" },
        { STR("\"a\0b\""), "byte 2", "control character" },
        { STR("\"abc"), "byte 4", "ends inside a string" },
        { STR("[1] x"), "byte 4", "nothing behind" },
        { STR("1\0"), "byte 1", "0x00" },
        { STR("\xEF\xBB\xBF{}"), "byte 0", "byte order mark" },
        { STR("01"), "byte 0", "start with 0" },
        { STR("[NaN]"), "byte 1", "a value" },
        { STR("Infinity"), "byte 0", "a value" },
        { STR("-Infinity"), "byte 0", "digit" },
        { STR("1e999"), "byte 0", "too large" },
        { STR("18446744073709551616"), "byte 0", "64 bits" },
        { STR("[1,]"), "byte 3", "a value, not ']'" },
        { STR("[1 2]"), "byte 3", "',' or ']', not '2'" },
        { STR("{\"a\":1,}"), "byte 7", "a key" },
        { STR("{\"a\" 1}"), "byte 5", "':'" },
        { STR("{a:1}"), "byte 1", "a key" },
        { STR("{\"a\":1"), "byte 6", "',' or '}'" },
        { STR("[1}"), "byte 2", "',' or ']'" },
        { STR("nul"), "byte 0", "a value" },
        { STR("truf"), "byte 0", "a value" },
        { STR("'a'"), "byte 0", "a value" },
        { STR("// c\n1"), "byte 0", "a value" },
        { STR("[[[[[[[[[1]]]]]]]]]"), "byte 8", "8 levels" },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_refused(rows[i].text, rows[i].where, rows[i].why);
}

TEST(limits_have_a_code_of_their_own)
{
    struct arena small = ARENA_INIT(256);
    const struct json *v;
    struct err e;

    CHECK_INT(json_read(STR("[1]"), (struct json_limits){ .bytes = 2, .depth = 1 }, &arena, &v, &e),
              -ERR_TOO_BIG);
    CHECK_INT(
        json_read(STR("[[1]]"), (struct json_limits){ .bytes = 9, .depth = 1 }, &arena, &v, &e),
        -ERR_TOO_BIG);
    CHECK_INT(json_read(STR("[1,2,3,4,5,6,7,8,9]"), limits, &small, &v, &e), -ERR_TOO_BIG);
    CHECK(strstr(e.msg, "256"));
    arena_done(&small);
}

TEST(depth_beyond_the_ceiling_is_not_to_be_had)
{
    struct json_limits deep = { .bytes = 1 << 16, .depth = 100000 };
    char text[2 * JSON_DEPTH_MAX + 2];
    const struct json *v;

    memset(text, '[', JSON_DEPTH_MAX + 1);
    memset(text + JSON_DEPTH_MAX + 1, ']', JSON_DEPTH_MAX + 1);
    CHECK_INT(json_read((struct str){ text, sizeof text }, deep, &arena, &v, NULL), -ERR_TOO_BIG);
    CHECK_INT(json_read((struct str){ text + 1, sizeof text - 2 }, deep, &arena, &v, NULL), 0);
}

TEST(keys_equal_after_decoding_are_duplicates)
{
    check_refused(STR("{\"a\":1,\"\\u0061\":2}"), "byte 7", "twice");
    CHECK_INT(read_str(STR("{\"a\":1,\"A\":2,\"a\\u0000\":3,\"\":4}"))->list.n, 4);
}
