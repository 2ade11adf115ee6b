/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/scan/rules.h"

/* One alternative: the last star is where a failed comparison starts again. */
static bool like_one(struct str pattern, struct str s)
{
    size_t p = 0, i = 0, star = SIZE_MAX, from = 0;

    while (i < s.n) {
        if (p < pattern.n && (pattern.p[p] == '*' || pattern.p[p] == '^')) {
            star = p++;
            from = i;
        } else if (p < pattern.n && (pattern.p[p] == '%' ? '*' : pattern.p[p]) == s.p[i]) {
            p++;
            i++;
        } else if (star != SIZE_MAX && (pattern.p[star] == '*' || s.p[from] != '/')) {
            p = star + 1;
            i = ++from;
        } else {
            return false;
        }
    }
    while (p < pattern.n && (pattern.p[p] == '*' || pattern.p[p] == '^'))
        p++;
    return p == pattern.n;
}

/* Most alternatives differ in their first byte, and this is asked for every word: so that is
 * compared first. */
bool scan_like(const char *pattern, struct str s)
{
    for (const char *one = pattern;; one++) {
        const char *end = one;
        bool starts = *one == '*' || *one == '^' || *one == '%' || (s.n && *one == s.p[0]) || !s.n;

        while (*end && *end != '|')
            end++;
        if (starts && like_one((struct str){ one, (size_t)(end - one) }, s))
            return true;
        if (!*end)
            return false;
        one = end;
    }
}
