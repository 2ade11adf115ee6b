/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include <limits.h>

bool str_starts(struct str s, struct str prefix)
{
    return s.n >= prefix.n && str_eq((struct str){ s.p, prefix.n }, prefix);
}

bool str_ends(struct str s, struct str suffix)
{
    if (s.n < suffix.n || suffix.n == 0)
        return suffix.n == 0;
    return memcmp(s.p + s.n - suffix.n, suffix.p, suffix.n) == 0;
}

size_t str_find(struct str s, char c)
{
    const char *at = s.n ? memchr(s.p, c, s.n) : NULL;

    return at ? (size_t)(at - s.p) : s.n;
}

struct str str_cut(struct str s, char c, struct str *head)
{
    size_t at = str_find(s, c);

    *head = (struct str){ s.p, at };
    if (at == s.n)
        return (struct str){ NULL, 0 };
    return (struct str){ s.p + at + 1, s.n - at - 1 };
}

static bool is_str_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct str str_trim(struct str s)
{
    while (s.n && is_str_blank(s.p[0])) {
        s.p++;
        s.n--;
    }
    while (s.n && is_str_blank(s.p[s.n - 1]))
        s.n--;
    return s;
}

bool str_copy(struct str s, char *dst, size_t cap)
{
    if (s.n >= cap || (s.n && memchr(s.p, '\0', s.n)))
        return false;
    if (s.n)
        memcpy(dst, s.p, s.n);
    dst[s.n] = '\0';
    return true;
}

bool str_to_u64(struct str s, uint64_t *ret)
{
    uint64_t v = 0;

    if (s.n == 0)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
        if (__builtin_mul_overflow(v, UINT64_C(10), &v) ||
            __builtin_add_overflow(v, (uint64_t)(s.p[i] - '0'), &v))
            return false;
    }
    *ret = v;
    return true;
}

bool str_to_i64(struct str s, int64_t *ret)
{
    bool negative = s.n && s.p[0] == '-';
    uint64_t v;

    if (!str_to_u64(negative ? (struct str){ s.p + 1, s.n - 1 } : s, &v))
        return false;
    if (v > (uint64_t)INT64_MAX + (negative ? 1 : 0))
        return false;
    *ret = negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

static unsigned least_of(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Optimal string alignment: only the last two rows of the table are needed. */
unsigned str_distance(struct str a, struct str b)
{
    unsigned rows[3][STR_DISTANCE_MAX + 1] = { { 0 } };

    if (a.n > STR_DISTANCE_MAX || b.n > STR_DISTANCE_MAX)
        return UINT_MAX;
    for (unsigned j = 0; j <= b.n; j++)
        rows[0][j] = j;
    for (unsigned i = 1; i <= a.n; i++) {
        unsigned *row = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];

        row[0] = i;
        for (unsigned j = 1; j <= b.n; j++) {
            row[j] = least_of(least_of(last[j], row[j - 1]) + 1,
                              last[j - 1] + (a.p[i - 1] != b.p[j - 1]));
            if (i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] && a.p[i - 2] == b.p[j - 1])
                row[j] = least_of(row[j], before[j - 2] + 1);
        }
    }
    return rows[a.n % 3][b.n];
}

/* Length of the well-formed sequence at p, or 0 (Unicode 15, table 3-7). */
static size_t utf8_sequence(const unsigned char *p, size_t n)
{
    unsigned char lo = 0x80, hi = 0xBF;
    size_t len;

    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xC2 || p[0] > 0xF4)
        return 0;
    len = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (n < len)
        return 0;
    if (p[0] == 0xE0)
        lo = 0xA0;
    else if (p[0] == 0xED)
        hi = 0x9F;
    else if (p[0] == 0xF0)
        lo = 0x90;
    else if (p[0] == 0xF4)
        hi = 0x8F;
    if (p[1] < lo || p[1] > hi)
        return 0;
    for (size_t i = 2; i < len; i++)
        if (p[i] < 0x80 || p[i] > 0xBF)
            return 0;
    return len;
}

size_t str_utf8_prefix(struct str s)
{
    const unsigned char *p = (const unsigned char *)s.p;
    size_t at = 0, len;

    while (at < s.n && (len = utf8_sequence(p + at, s.n - at)) > 0)
        at += len;
    return at;
}

bool str_is_utf8(struct str s)
{
    return str_utf8_prefix(s) == s.n;
}
