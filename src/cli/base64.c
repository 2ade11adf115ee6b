/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/base64.h"

static int base64_digit_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int base64_decode(struct str text, struct buf *out)
{
    size_t missing = text.n < 4 || text.p[text.n - 1] != '=' ? 0
                     : text.p[text.n - 2] == '='             ? 2
                                                             : 1;
    size_t digits = text.n - missing;
    char *room, *at;
    unsigned bits = 0;

    if (text.n % 4)
        return -ERR_INVALID;
    for (size_t i = 0; i < digits; i++)
        if (base64_digit_value(text.p[i]) < 0)
            return -ERR_INVALID;
    if (buf_room(out, text.n / 4 * 3, &room) < 0)
        return -ERR_TOO_BIG;
    at = room;
    for (size_t i = 0; i < text.n; i++) {
        bits = bits << 6 | (i < digits ? (unsigned)base64_digit_value(text.p[i]) : 0);
        if (i % 4 != 3)
            continue;
        *at++ = (char)(bits >> 16);
        *at++ = (char)(bits >> 8);
        *at++ = (char)bits;
    }
    buf_grew(out, text.n / 4 * 3 - missing);
    return 0;
}
