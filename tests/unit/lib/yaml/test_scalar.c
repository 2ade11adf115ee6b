/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/yaml/scalar.h"

#include "base/own.h"
#include "harness/tap.h"

static struct json plain(const char *text)
{
    struct json v = { 0 };
    const char *why;

    if (!yaml_plain(str_from(text), &v, &why))
        FAIL("'%s': %s", text, why);
    return v;
}

TEST(null_and_booleans)
{
    static const char *const nulls[] = { "", "~", "null", "Null", "NULL" };

    for (size_t i = 0; i < COUNT_OF(nulls); i++)
        CHECK(plain(nulls[i]).type == JSON_NULL);
    CHECK(plain("true").type == JSON_BOOL && plain("true").b);
    CHECK(plain("True").b && plain("TRUE").b);
    CHECK(plain("false").type == JSON_BOOL && !plain("FALSE").b);
}

TEST(strings_that_other_readers_take_for_something_else)
{
    static const char *const strings[] = {
        "yes",        "no",   "on",    "off",    "y",     "n",  "No",  "NO",    "Off",
        "tRUE",       "nULL", "1_000", "12:30",  "1.2.3", "0x", "0o",  "0xZ",   "0o8",
        "-0x1F",      "1e",   "e5",    ".",      "-",     "+",  "--1", "1e5.5", "1-2",
        "2001-01-01", "inf",  "nan",   "0b1010", ".e5",   "+.", "1 2", "0755x",
    };

    for (size_t i = 0; i < COUNT_OF(strings); i++) {
        struct json v = plain(strings[i]);

        if (v.type != JSON_STR || !str_eq(v.s, str_from(strings[i])))
            FAIL("'%s' became %s", strings[i], json_type_name(v.type));
    }
}

TEST(whole_numbers)
{
    CHECK_INT(plain("0").i, 0);
    CHECK_INT(plain("-12").i, -12);
    CHECK_INT(plain("+12").i, 12);
    CHECK_INT(plain("0x1F").i, 31);
    CHECK_INT(plain("0o755").i, 493);
    CHECK(plain("-9223372036854775808").i == INT64_MIN);
    CHECK(plain("18446744073709551615").u == UINT64_MAX);
    CHECK(plain("0xFFFFFFFFFFFFFFFF").u == UINT64_MAX);
    CHECK(plain("0xFFFFFFFFFFFFFFFF").type == JSON_UINT);
    CHECK(plain("0o777777777777777777777").type == JSON_INT);
}

TEST(doubles)
{
    CHECK(plain("1.5").d == 1.5);
    CHECK(plain(".5").d == 0.5);
    CHECK(plain("-.5").d == -0.5);
    CHECK(plain("2.").d == 2.0);
    CHECK(plain("2.e3").d == 2000.0);
    CHECK(plain("1e3").d == 1000.0);
    CHECK(plain("+1E-3").d == 0.001);
    CHECK(plain("2.").type == JSON_DOUBLE);
}

TEST(refused_rather_than_guessed)
{
    static const char *const bad[] = {
        "0755",
        "-007",
        "00",
        "01.5",
        ".inf",
        "-.Inf",
        "+.INF",
        ".nan",
        ".NaN",
        "1e999",
        "18446744073709551616",
        "-9223372036854775809",
        "0x10000000000000000",
        "0o2000000000000000000000",
    };

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct json v;
        const char *why = NULL;

        if (yaml_plain(str_from(bad[i]), &v, &why))
            FAIL("accepted '%s'", bad[i]);
        CHECK(why != NULL);
    }
}

TEST(very_many_digits)
{
    char digits[1000];
    struct json v;
    const char *why = NULL;

    memset(digits, '1', sizeof digits);
    CHECK(!yaml_plain((struct str){ digits, sizeof digits }, &v, &why));
    CHECK(strstr(why, "digits"));
}
