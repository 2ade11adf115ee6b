/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/time_text.h"

#include "base/clock.h"
#include "base/own.h"
#include "harness/tap.h"

static void check_span(int64_t seconds, const char *want)
{
    char text[WHEN_TEXT];

    when_span(seconds * NS_PER_S, text);
    CHECK_STR(str_from(text), want);
}

TEST(when_shows_two_units)
{
    check_span(-5, "0s");
    check_span(0, "0s");
    check_span(59, "59s");
    check_span(60, "1m");
    check_span(61, "1m1s");
    check_span(7080, "1h58m");
    check_span(7200, "2h");
    check_span(7205, "2h");
    check_span(2 * 86400 + 4 * 3600 + 59, "2d4h");
    check_span(9000000000, "104166d16h");
}

TEST(when_says_how_far_away)
{
    char text[WHEN_TEXT];

    when_ago(0, 180 * NS_PER_S, text);
    CHECK_STR(str_from(text), "3m ago");
    when_ago(10 * NS_PER_S, 0, text);
    CHECK_STR(str_from(text), "now");
    when_until(7080 * NS_PER_S, 0, text);
    CHECK_STR(str_from(text), "in 1h58m");
    when_until(0, 1, text);
    CHECK_STR(str_from(text), "due");
}
