/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/text.h"

enum { LONGEST_SEQUENCE = 4 };

/* Length of the sequence at s, or 0 if there is no valid one. */
static size_t utf8_sequence_length(struct str s)
{
    for (size_t n = 1; n <= s.n && n <= LONGEST_SEQUENCE; n++)
        if (str_is_utf8((struct str){ s.p, n }))
            return n;
    return 0;
}

size_t json_utf8_prefix_(struct str s)
{
    size_t at = 0, n;

    while (at < s.n && (n = utf8_sequence_length((struct str){ s.p + at, s.n - at })) > 0)
        at += n;
    return at;
}
