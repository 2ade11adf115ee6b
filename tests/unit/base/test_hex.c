/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hex.h"

#include "harness/tap.h"

TEST(digits_of_both_cases_have_values_and_nothing_else_has)
{
    static const char digits[] = "0123456789abcdef";

    for (int c = -128; c < 128; c++) {
        int value = -1;

        for (int i = 0; i < 16; i++)
            if (c == digits[i] || (i > 9 && c == digits[i] - 'a' + 'A'))
                value = i;
        CHECK_INT(hex_digit((char)c), value);
    }
}
