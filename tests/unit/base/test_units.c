#include "base/units.h"

#include "harness/tap.h"

static uint64_t bytes(const char *s)
{
    uint64_t v = 0;

    return units_bytes(str_from(s), "--x", &v, NULL) < 0 ? 0 : v;
}

static int64_t duration(const char *s)
{
    int64_t v = 0;

    return units_duration(str_from(s), "--x", &v, NULL) < 0 ? 0 : v;
}

TEST(sizes)
{
    CHECK_INT(bytes("4096"), 4096);
    CHECK_INT(bytes("64M"), 64 << 20);
    CHECK_INT(bytes("64mib"), 64 << 20);
    CHECK_INT(bytes("1.5G"), 3LL << 29);
    CHECK_INT(bytes("0.25k"), 256);
}

TEST(bad_sizes)
{
    static const char *const bad[] = { "",    "0",   "-1",  "M",  "1Q",   "1 M",
                                       "1M1", "1.M", "1e3", "1.", "0x10", "99999999999999999999" };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (bytes(bad[i]) != 0)
            FAIL("accepted '%s'", bad[i]);
}

TEST(durations)
{
    CHECK_INT(duration("2s"), 2000000000LL);
    CHECK_INT(duration("250ms"), 250000000LL);
    CHECK_INT(duration("1h30m"), 5400000000000LL);
    CHECK_INT(duration("0.5s"), 500000000LL);
}

TEST(bad_durations)
{
    static const char *const bad[] = { "",    "2",   "s",    "0s",         "-2s",
                                       "2s ", "2 s", "1h30", "9999999999d" };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (duration(bad[i]) != 0)
            FAIL("accepted '%s'", bad[i]);
}

TEST(errors_name_the_value_and_the_cure)
{
    struct err e;
    uint64_t v = 7;

    CHECK_INT(units_bytes(STR("lots"), "--memory", &v, &e), -ERR_INVALID);
    CHECK(strstr(e.msg, "--memory") && strstr(e.msg, "'lots'") && strstr(e.msg, "64M"));
    CHECK_INT(v, 7);
}
