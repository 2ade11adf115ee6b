/* SPDX-License-Identifier: Apache-2.0 */
/* Hexadecimal digits. */
#ifndef BASE_HEX_H
#define BASE_HEX_H

/* The value of a digit of either case; -1: not a digit. */
static inline int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#endif
