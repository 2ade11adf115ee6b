/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/text.h"

#include "harness/tap.h"

/* The obvious way, to compare with. */
static size_t slow_run(const char *p, size_t n, bool *high)
{
    size_t i = 0;

    for (; i < n && (unsigned char)p[i] >= 0x20 && p[i] != '"' && p[i] != '\\'; i++)
        *high |= (unsigned char)p[i] >= 0x80;
    return i;
}

TEST(runs_end_where_the_obvious_loop_ends_them)
{
    for (size_t at = 0; at < 24; at++)
        for (int c = 0; c < 256; c++) {
            char text[25] = "abcdefghijklmnopqrstuvwx";
            bool fast_high = false, slow_high = false;
            size_t fast, slow;

            text[at] = (char)c;
            fast = json_plain_run_(text, sizeof text - 1, &fast_high);
            slow = slow_run(text, sizeof text - 1, &slow_high);
            if (fast != slow || fast_high != slow_high)
                FAIL("byte %02x at %zu: run of %zu, not %zu", (unsigned)c, at, fast, slow);
        }
}

TEST(prefix_stops_at_the_first_bad_byte)
{
    CHECK_INT(str_utf8_prefix(STR("")), 0);
    CHECK_INT(str_utf8_prefix(STR("gr\xC3\xB6\xC3\x9F"
                                  "e")),
              7);
    CHECK_INT(str_utf8_prefix(STR("ab\xFF"
                                  "cd")),
              2);
    CHECK_INT(str_utf8_prefix(STR("\xF0\x9F\x98\x80\xED\xA0\x80")), 4);
    CHECK_INT(str_utf8_prefix(STR("\xE2\x82")), 0);
}
