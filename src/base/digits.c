/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digits.h"

#include <string.h>

size_t digits_text(uint64_t value, char out[static DIGITS_TEXT])
{
    char *end = out + DIGITS_TEXT - 1, *p = end;
    size_t n;

    do
        *--p = (char)('0' + value % 10);
    while (value /= 10);
    n = (size_t)(end - p);
    memmove(out, p, n);
    out[n] = '\0';
    return n;
}

char *digits_fill(char *out, size_t n, unsigned value)
{
    for (size_t i = n; i > 0; value /= 10)
        out[--i] = (char)('0' + value % 10);
    return out + n;
}
