/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digits.h"

size_t digits_text(uint64_t value, char out[static DIGITS_TEXT])
{
    char reversed[DIGITS_TEXT];
    size_t n = 0;

    do
        reversed[n++] = (char)('0' + value % 10);
    while (value /= 10);
    for (size_t i = 0; i < n; i++)
        out[i] = reversed[n - 1 - i];
    out[n] = '\0';
    return n;
}

char *digits_fill(char *out, size_t n, unsigned value)
{
    for (size_t i = n; i > 0; value /= 10)
        out[--i] = (char)('0' + value % 10);
    return out + n;
}
