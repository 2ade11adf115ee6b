/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/number.h"

#include <float.h>
#include <stdlib.h>

#include "base/own.h"
#include "harness/tap.h"

static struct json number(const char *text)
{
    struct json v = { 0 };
    const char *why, *end = json_number(text, &v, &why);

    if (!end)
        FAIL("'%s': %s", text, why);
    if (*end)
        FAIL("'%s': stopped before '%s'", text, end);
    return v;
}

TEST(whole_numbers_are_exact_to_both_ends)
{
    static const struct {
        const char *text;
        enum json_type type;
        uint64_t bits;
    } rows[] = {
        { "0", JSON_INT, 0 },
        { "-0", JSON_INT, 0 },
        { "-1", JSON_INT, UINT64_MAX },
        { "9007199254740993", JSON_INT, UINT64_C(9007199254740993) },
        { "9223372036854775807", JSON_INT, INT64_MAX },
        { "-9223372036854775808", JSON_INT, (uint64_t)INT64_MIN },
        { "9223372036854775808", JSON_UINT, UINT64_C(9223372036854775808) },
        { "18446744073709551615", JSON_UINT, UINT64_MAX },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct json v = number(rows[i].text);

        if (v.type != rows[i].type || v.u != rows[i].bits)
            FAIL("%s: type %d, bits %llx", rows[i].text, (int)v.type, (unsigned long long)v.u);
    }
}

TEST(doubles_are_the_nearest)
{
    static const char *const texts[] = {
        "0.0",
        "-0.0",
        "1.5",
        "0.1",
        "1e22",
        "1e23",
        "1E+5",
        "-2.5e-7",
        "123456789012345678901234567890.5",
        "9007199254740993.0",
        "2.2250738585072011e-308",
        "4.9406564584124654e-324",
        "1.7976931348623157e308",
        "1e-400",
        "0e999999999999",
        "0.00000000000000000000000000000000000000000000000001e50"
    };

    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct json v = number(texts[i]);
        double want = strtod(texts[i], NULL);

        if (v.type != JSON_DOUBLE || memcmp(&v.d, &want, sizeof want) != 0)
            FAIL("%s: %.17g, not %.17g", texts[i], v.d, want);
    }
}

TEST(refused)
{
    static const char *const texts[] = { "-",
                                         "+1",
                                         "01",
                                         "-01",
                                         "00",
                                         "1.",
                                         "1.e5",
                                         ".5",
                                         "1e",
                                         "1e+",
                                         "NaN",
                                         "Infinity",
                                         "1e309",
                                         "-1e309",
                                         "18446744073709551616",
                                         "-9223372036854775809",
                                         "99999999999999999999999999" };

    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct json v;
        const char *why = NULL;

        if (json_number(texts[i], &v, &why))
            FAIL("accepted '%s'", texts[i]);
        CHECK(why != NULL);
    }
}

static void check_text(double d, const char *want)
{
    char text[JSON_DOUBLE_TEXT];

    json_double_text(d, text);
    CHECK_STR(str_from(text), want);
}

TEST(doubles_are_written_short)
{
    check_text(0.1, "0.1");
    check_text(1, "1.0");
    check_text(-0.0, "-0.0");
    check_text(1e300, "1e+300");
    check_text(1.0 / 3, "0.3333333333333333");
    check_text(DBL_MAX, "1.7976931348623157e+308");
    check_text(4.9406564584124654e-324, "5e-324");
    check_text(123456789, "123456789.0");
}

/* Billionths have a writer of their own. */
TEST(billionths_are_written_as_by_printf)
{
    uint64_t n = 1;

    for (int i = 0; i < 100000; i++) {
        char want[64];
        double d;

        n = n * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        d = (double)(n % (UINT64_C(1) << (17 + i % 45))) / (i % 2 ? 1e9 : 1e3);
        snprintf(want, sizeof want, "%.15g", d);
        if (d < 1e-4 || d > 1e6 || strtod(want, NULL) != d)
            continue;
        if (!strchr(want, '.'))
            snprintf(want, sizeof want, "%.0f.0", d);
        check_text(d, want);
    }
}

TEST(doubles_survive_the_way_to_text_and_back)
{
    uint64_t bits = 1;

    for (int i = 0; i < 200000; i++) {
        char text[JSON_DOUBLE_TEXT];
        struct json v;
        double d;

        bits = bits * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        memcpy(&d, &bits, sizeof d);
        if (!__builtin_isfinite(d))
            continue;
        json_double_text(d, text);
        v = number(text);
        if (v.type != JSON_DOUBLE || memcmp(&v.d, &d, sizeof d) != 0)
            FAIL("%a became %s became %a", d, text, v.d);
    }
}
