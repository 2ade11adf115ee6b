/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of bytes that reader and writer handle alike. Private to the module. */
#ifndef LIB_JSON_TEXT_H
#define LIB_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"

#define JSON_ALL_BYTES_(b) (UINT64_C(0x0101010101010101) * (b))

/* Nonzero exactly if one of the eight bytes ends a plain run. A borrow may mark bytes above a true
 * one as well, so the lowest mark is the exact one. */
static inline uint64_t json_run_ends_(uint64_t x)
{
    uint64_t quote = x ^ JSON_ALL_BYTES_('"'), slash = x ^ JSON_ALL_BYTES_('\\');

    return (((quote - JSON_ALL_BYTES_(1)) & ~quote) | ((slash - JSON_ALL_BYTES_(1)) & ~slash) |
            ((x - JSON_ALL_BYTES_(0x20)) & ~x)) &
           JSON_ALL_BYTES_(0x80);
}

/* How many of the n bytes at p a JSON string holds as they are: up to a quote, a backslash or a
 * control character. Sets *high if a byte above 7F is among them. Eight bytes at a time: most of
 * any document is strings. */
static inline size_t json_plain_run_(const char *p, size_t n, bool *high)
{
    uint64_t seen = 0, x;
    size_t i = 0;

    for (; n - i >= sizeof x; i += sizeof x) {
        memcpy(&x, p + i, sizeof x);
        if (json_run_ends_(x))
            break;
        seen |= x;
    }
    for (; i < n; i++) {
        unsigned char c = (unsigned char)p[i];

        if (c < 0x20 || c == '"' || c == '\\')
            break;
        seen |= c;
    }
    *high |= (seen & JSON_ALL_BYTES_(0x80)) != 0;
    return i;
}

#endif
