/* SPDX-License-Identifier: Apache-2.0 */
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

TEST(sizes_up_to_the_last_that_fits)
{
    CHECK_INT(bytes("9223372036854775807"), INT64_MAX);
    CHECK_INT(bytes("9223372036854775808"), 0);
    CHECK_INT(bytes("8388607T"), INT64_C(8388607) << 40);
    CHECK_INT(bytes("8388608T"), 0);
    CHECK_INT(bytes("18446744073709551615T"), 0);
    CHECK_INT(bytes("0.000001M"), 1);
    CHECK_INT(bytes("0.0000001M"), 0);
    CHECK_INT(bytes("0.1"), 0);
}

TEST(thousandths)
{
    static const char *const bad[] = { "", "0", "0.0009", "-1", "1.", ".5", "1x", "4294967.296" };
    uint32_t v = 0;

    CHECK(units_milli(STR("0.5"), "--cpus", &v, NULL) == 0 && v == 500);
    CHECK(units_milli(STR("2"), "--cpus", &v, NULL) == 0 && v == 2000);
    CHECK(units_milli(STR("4294967.295"), "--cpus", &v, NULL) == 0 && v == UINT32_MAX);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (units_milli(str_from(bad[i]), "--cpus", &v, NULL) != -ERR_INVALID)
            FAIL("accepted '%s'", bad[i]);
}

TEST(counts)
{
    uint64_t v = 0;

    CHECK(units_count(STR("3"), "--n", 1, 3, &v, NULL) == 0 && v == 3);
    CHECK_INT(units_count(STR("4"), "--n", 1, 3, &v, NULL), -ERR_INVALID);
    CHECK_INT(units_count(STR("0"), "--n", 1, 3, &v, NULL), -ERR_INVALID);
    CHECK_INT(units_count(STR("x"), "--n", 1, 3, &v, NULL), -ERR_INVALID);
    CHECK_INT(v, 3);
}

static struct str shown(uint64_t n)
{
    static char out[24];

    units_show_bytes(n, out);
    return str_from(out);
}

TEST(sizes_for_messages)
{
    CHECK_STR(shown(0), "0");
    CHECK_STR(shown(1000), "1000");
    CHECK_STR(shown(64 << 20), "64M");
    CHECK_STR(shown(UINT64_C(3) << 29), "1.5G");
    CHECK_STR(shown((1 << 20) + 1), "1048577");
    CHECK_STR(shown(UINT64_C(2048) << 40), "2048T");
    CHECK_STR(shown(UINT64_MAX), "18446744073709551615");
}
