/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/model/time.h"
#include "base/own.h"
#include "harness/tap.h"

TEST(times_are_read_back)
{
    char text[TIME_TEXT];
    int64_t got;

    time_text(INT64_C(1700000000123000000), text);
    CHECK(time_read(str_from(text), &got));
    CHECK_INT(got, INT64_C(1700000000123000000));
    CHECK(time_read(STR("1970-01-01T00:00:00Z"), &got));
    CHECK_INT(got, 0);
    CHECK(time_read(STR("2024-02-29T23:59:59.123456789Z"), &got));
    CHECK_INT(got % 1000000000, 123456789);
}

TEST(what_is_no_time)
{
    static const char *const rows[] = { "",
                                        "2024",
                                        "2024-02-29",
                                        "2024-02-29T23:59:59",
                                        "2024-02-29T23:59:59+01:00",
                                        "2024-13-01T00:00:00Z",
                                        "2024-02-29T24:00:00Z",
                                        "2024-02-29T23:59:59.Z",
                                        "2024-02-29T23:59:59.1234567890Z",
                                        "2024-02-29 23:59:59Z",
                                        "2024-02-29T23:59:59Zx" };
    int64_t got;

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CHECK(!time_read(str_from(rows[i]), &got));
}
