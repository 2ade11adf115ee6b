/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions that match whole strings in bounded time.
 *
 * The portable part of POSIX extended expressions:
 *
 *     a  \.  .                 a byte, an escaped one, any byte
 *     [a-z_]  [^/]  [[:alnum:]]  one of these bytes, or none of them
 *     ()  |                    a group, alternatives
 *     * + ? {3} {1,} {1,64}    how often, once after each atom
 *
 * The whole string must match: an optional ^ at the start and $ at the end change nothing. Rejected
 * as ambiguous: back references, \d and similar classes, the boundaries \< \> \` \', a backslash in
 * brackets, ^ and $ elsewhere, and one repetition after another. All paths through the expression
 * are followed at once, so matching takes at most the string's length times the expression's. */
#ifndef TRUST_PATTERN_H
#define TRUST_PATTERN_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum {
    PATTERN_BYTES_MAX = 512,
    PATTERN_PLACES_MAX = 512,    /* bytes and brackets, multiplied by their repetitions */
    PATTERN_DEPTH_MAX = 16,      /* of groups */
    PATTERN_STEPS_MAX = 2 << 20, /* of one match: some milliseconds */
};

struct pattern; /* on the arena; needs no release */

int pattern_compile(struct str expression, struct arena *a, const struct pattern **ret,
                    struct err *e);

/* 1 if the whole string matches, 0 if not, -ERR_TOO_BIG if it takes more than PATTERN_STEPS_MAX. */
int pattern_match(const struct pattern *p, struct str text);

#endif
