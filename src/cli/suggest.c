/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/suggest.h"

#include <limits.h>
#include <stdio.h>

enum { PREFIX_LEAST = 3 }; /* so many letters are a name that was cut off */

/* UINT_MAX: too far away. Longer words may contain more mistakes. */
static unsigned find_spelling_distance(struct str typed, struct str spelling)
{
    unsigned distance = str_distance(typed, spelling);

    if (distance > 1 && typed.n >= PREFIX_LEAST && str_starts(spelling, typed))
        return 1;
    return distance < typed.n && distance <= 1 + typed.n / 4 ? distance : UINT_MAX;
}

void suggestion_add(struct suggestion *s, struct str spelling, struct str word)
{
    unsigned distance = find_spelling_distance(s->typed, spelling);

    if (distance == UINT_MAX || (s->n && distance > s->distance))
        return;
    if (distance < s->distance)
        s->n = 0;
    s->distance = distance;
    for (size_t i = 0; i < s->n; i++)
        if (str_eq(s->words[i], word))
            return;
    if (s->n < SUGGESTIONS_MAX)
        s->words[s->n++] = word;
}

void suggestion_write(const struct suggestion *s, const char *prefix, char *out, size_t cap)
{
    size_t at = 0;

    out[0] = '\0';
    for (size_t i = 0; i < s->n && at < cap; i++)
        at += (size_t)snprintf(out + at, cap - at, "%s'%s" STR_FMT "'",
                               i == 0          ? "; did you mean "
                               : i + 1 == s->n ? " or "
                                               : ", ",
                               prefix, STR_ARG(s->words[i]));
    if (at && at < cap)
        snprintf(out + at, cap - at, "?");
}
