/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rfc3339.h"

#include "base/clock.h"
#include "base/own.h"
#include "harness/tap.h"

TEST(moments)
{
    static const struct {
        const char *text;
        int64_t ns; /* -1: is none */
    } rows[] = {
        { "1970-01-01T00:00:00Z", 0 },
        { "2026-01-02T03:04:05Z", INT64_C(1767323045) * NS_PER_S },
        { "2026-01-02T03:04:05.5Z", INT64_C(1767323045) * NS_PER_S + NS_PER_S / 2 },
        { "2026-01-02T03:04:05.1234567899Z", INT64_C(1767323045) * NS_PER_S + 123456789 },
        { "2026-01-02T04:34:05+01:30", INT64_C(1767323045) * NS_PER_S },
        { "2026-01-01T22:04:05-05:00", INT64_C(1767323045) * NS_PER_S },
        { "2024-02-29T00:00:00Z", INT64_C(1709164800) * NS_PER_S },
        { "2261-12-31T23:59:59Z", INT64_C(9214646399) * NS_PER_S },
        { "", -1 },
        { "2026-01-02", -1 },
        { "2026-01-02T03:04:05", -1 },
        { "2026-01-02 03:04:05Z", -1 },
        { "2026-01-02T03:04:05z", -1 },
        { "2026-01-02T03:04:05ZZ", -1 },
        { "2026-01-02T03:04:05.Z", -1 },
        { "2026-01-02T03:04:60Z", -1 },
        { "2026-01-02T24:00:00Z", -1 },
        { "2026-02-29T00:00:00Z", -1 },
        { "2026-06-31T00:00:00Z", -1 },
        { "2026-00-10T00:00:00Z", -1 },
        { "2026-1-02T03:04:05Z", -1 },
        { "2262-01-01T00:00:00Z", -1 },
        { "1970-01-01T00:00:00+00:01", -1 },
        { "2026-01-02T03:04:05+1:00", -1 },
        { "2026-01-02T03:04:05+24:00", -1 },
        { "+026-01-02T03:04:05Z", -1 },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t ns = -1;
        bool good = rfc3339_parse(str_from(rows[i].text), &ns);

        if (ns != rows[i].ns || good != (rows[i].ns >= 0))
            FAIL("'%s': %d, %lld", rows[i].text, good, (long long)ns);
    }
}

TEST(times_are_read_back)
{
    static const int64_t rows[] = { 0, INT64_C(1700000000123000000), INT64_C(1709251199999000000) };
    char text[TIME_TEXT];
    int64_t got;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        time_text(rows[i], text);
        CHECK(rfc3339_parse(str_from(text), &got));
        CHECK_INT(got, rows[i]);
    }
    time_text(INT64_C(1700000000123456789), text);
    CHECK_STR(str_from(text), "2023-11-14T22:13:20.123Z");
}
