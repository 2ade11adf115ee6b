#include "cli/when.h"

#include "base/clock.h"
#include "base/own.h"
#include "harness/tap.h"

TEST(when_reads_times)
{
    int64_t ns;

    CHECK(when_parse(STR("1970-01-01T00:00:00Z"), &ns));
    CHECK_INT(ns, 0);
    CHECK(when_parse(STR("2026-01-02T03:04:05.678Z"), &ns));
    CHECK_INT(ns, INT64_C(1767323045678000000));
    CHECK(when_parse(STR("2024-02-29T23:59:59.000000001Z"), &ns));
    CHECK_INT(ns, INT64_C(1709251199000000001));
}

TEST(when_refuses_what_is_no_time)
{
    static const char *const bad[] = {
        "",
        "2026",
        "2026-01-02T03:04:05",
        "2026-01-02T03:04:05+01:00",
        "2026-13-02T03:04:05Z",
        "2026-02-29T03:04:05Z",
        "2026-00-02T03:04:05Z",
        "2026-01-02T24:04:05Z",
        "2026-01-02T03:04:05.Z",
        "2026-01-02T03:04:05.1234567890Z",
        "2026-01-02 03:04:05Z",
        "9999-01-02T03:04:05Z",
        "2026-01-02T03:04:05ZZ",
        "2026-01-02T03:04:-5Z",
    };
    int64_t ns = 7;

    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (when_parse(str_from(bad[i]), &ns))
            FAIL("'%s' is taken", bad[i]);
    CHECK_INT(ns, 7);
}

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
