/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/model/time.h"

#include "base/rfc3339.h"
#include "harness/tap.h"

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
