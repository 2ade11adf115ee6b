/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digits.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "harness/tap.h"

TEST(digits_are_those_of_printf)
{
    char out[DIGITS_TEXT] = "", expected[32];

    for (uint64_t v = 0, step = 1; v >= step - 1; v = v * 3 + step % 7, step++) {
        snprintf(expected, sizeof expected, "%llu", (unsigned long long)v);
        CHECK_INT(digits_text(v, out), (int)strlen(expected));
        CHECK_STR(str_from(out), expected);
        if (step == 60)
            break;
    }
    CHECK_INT(digits_text(UINT64_MAX, out), 20);
    CHECK_STR(str_from(out), "18446744073709551615");
}

TEST(a_fixed_number_of_digits)
{
    char out[8] = "xxxxxxx";

    CHECK(digits_fill(out, 4, 27) == out + 4);
    CHECK(digits_fill(out + 4, 2, 12345) == out + 6);
    CHECK_STR(str_from(out), "002745x");
}
