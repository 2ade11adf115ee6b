/* SPDX-License-Identifier: Apache-2.0 */
/* Globs, compiled once. Matching takes at most time proportional to the length of the text times
 * that of the pattern, because all paths through a pattern are followed at once.
 *
 * GLOB_PARTS, for rules, programs and values, has a separator, '/' or '.':
 *
 *     *  ?  [a-z]  [!a-z]    within a part
 *     **                     as a whole part of the pattern: any number of parts, also none;
 *                            at the end, behind a separator: everything below; alone: everything
 *     {a,b}                  alternatives
 *     \*                     the next character, literally
 *
 * GLOB_PLAIN, for the path of an endpoint, in which wildcards match across parts:
 *
 *     *  ?  [a-z]  [!a-z]    any text, one character, one of these
 *     **                     as a whole part of the pattern: any number of parts, also none
 *     X, '/' and ** behind it  X itself and everything below
 *
 * The two WIDE dialects are for deny rules: ASCII letters match in either case, and X, a separator
 * and ** behind it matches X itself, too. Each matches everything that its narrow dialect does.
 *
 * Characters are those of UTF-8; an invalid byte counts as one character, which only wildcards
 * match. */
#ifndef DOMAIN_POLICY_GLOB_H
#define DOMAIN_POLICY_GLOB_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum { GLOB_BYTES_MAX = 512, GLOB_DEPTH_MAX = 8 };

enum glob_dialect { GLOB_PARTS, GLOB_PLAIN, GLOB_PARTS_WIDE, GLOB_PLAIN_WIDE };

struct glob; /* on the arena that it was compiled to; needs no release */

/* -ERR_INVALID with the reason if the pattern is malformed: unclosed brackets, a reversed range, a
 * backslash at the end. */
int glob_compile(struct str pattern, enum glob_dialect dialect, char separator, struct arena *a,
                 const struct glob **ret, struct err *e);

bool glob_match(const struct glob *g, struct str text);

/* The bytes that every matching text begins with; the whole text if glob_is_literal(). */
struct str glob_prefix(const struct glob *g);
bool glob_is_literal(const struct glob *g);

/* Whether some text matches both. Allocates temporarily. */
bool glob_overlap(const struct glob *a, const struct glob *b);

/* Whether every text that matches `a` matches one of the others; also false if a text could decide
 * that cannot occur, and if the search takes more steps than *work, from which they are subtracted,
 * or more than a few thousand states. Allocates temporarily. */
bool glob_covered(const struct glob *a, const struct glob *const *by, size_t n, size_t *work);

#endif
