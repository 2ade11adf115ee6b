/* Regular expressions for whole texts, in a time that has a bound.
 *
 * The part of POSIX's extended expressions that means the same to everybody:
 *
 *     a  \.  .                 a byte, one that would mean something else, any byte
 *     [a-z_]  [^/]  [[:alnum:]]  one of these bytes, or none of them
 *     ()  |                    a group, alternatives
 *     * + ? {3} {1,} {1,64}    how often, once behind each thing
 *
 * A text matches if all of it does: an expression may begin with ^ and end with $, which change
 * nothing. Refused rather than guessed: back references, \d and its like, the boundaries \< \> \`
 * \', a backslash in brackets, ^ and $ elsewhere, one repetition behind another. All ways through
 * the expression are followed at once, so matching takes at most the text's length times the
 * expression's. */
#ifndef TRUST_PATTERN_H
#define TRUST_PATTERN_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum {
    PATTERN_BYTES_MAX = 512,
    PATTERN_PLACES_MAX = 512,    /* bytes and brackets, counted with their repetitions */
    PATTERN_DEPTH_MAX = 16,      /* of groups */
    PATTERN_STEPS_MAX = 2 << 20, /* of one match: some milliseconds */
};

struct pattern; /* on the arena it was compiled to; needs no release */

int pattern_compile(struct str expression, struct arena *a, const struct pattern **ret,
                    struct err *e);

/* 1 if all of the text matches, 0 if not, -ERR_TOO_BIG if it takes more than PATTERN_STEPS_MAX. */
int pattern_match(const struct pattern *p, struct str text);

#endif
