/* Globs, compiled once. Matching takes time proportional to the text times the pattern at worst,
 * whatever the two are: all ways through a pattern are followed at once.
 *
 * GLOB_PARTS, for rules, programs and values, has a separator, '/' or '.':
 *
 *     *  ?  [a-z]  [!a-z]    within a part
 *     **                     a whole part of the pattern: any number of parts, also none; at the
 * end, behind a separator: everything below; alone: everything {a,b}  \*              alternatives;
 * the next character as it is
 *
 * GLOB_PLAIN, for the path of an endpoint, in which everything crosses everything:
 *
 *     *  ?  [a-z]  [!a-z]    any text, one character, one of these
 *     **                     a whole part of the pattern: any number of parts, also none
 *     X, '/' and ** behind it  X itself and everything below
 *
 * The two WIDE dialects are for what denies: ASCII letters match in either case, and X, a separator
 * and ** behind it is X itself, too. Each matches all that its narrow one does.
 *
 * Characters are those of UTF-8; a byte that is none counts as one and is only met by wildcards. */
#ifndef POLICY_GLOB_H
#define POLICY_GLOB_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum { GLOB_BYTES_MAX = 512, GLOB_DEPTH_MAX = 8 };

enum glob_dialect { GLOB_PARTS, GLOB_PLAIN, GLOB_PARTS_WIDE, GLOB_PLAIN_WIDE };

struct glob; /* on the arena it was compiled to; needs no release */

/* -ERR_INVALID and why if the pattern is not a glob: brackets without an end, a range that goes
 * backwards, a lone backslash at the end. */
int glob_compile(struct str pattern, enum glob_dialect dialect, char separator, struct arena *a,
                 const struct glob **ret, struct err *e);

bool glob_match(const struct glob *g, struct str text);

/* The bytes that every text begins with; all of it if glob_is_literal(). */
struct str glob_prefix(const struct glob *g);
bool glob_is_literal(const struct glob *g);

/* Whether some text matches both. Allocates for as long as it takes. */
bool glob_overlap(const struct glob *a, const struct glob *b);

#endif
