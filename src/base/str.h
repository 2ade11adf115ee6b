/* SPDX-License-Identifier: Apache-2.0 */
/* A borrowed run of bytes, passed by value. It owns nothing, need not end in NUL and may hold
 * NULs. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct str {
    const char *p;
    size_t n;
};

#define STR(lit)   ((struct str){ (lit), sizeof(lit) - 1 }) /* a string literal */
#define STR_FMT    "%.*s"
#define STR_ARG(s) (int)(s).n, (s).p

static inline struct str str_from(const char *cstr)
{
    return (struct str){ cstr, cstr ? strlen(cstr) : 0 };
}

static inline bool str_eq(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);

/* Position of the first c, or s.n if s has no c. */
size_t str_find(struct str s, char c);

/* Cuts at the first c: *head is what comes before, the result what comes after. Without a c, *head
 * is all of s and the result is empty with p == NULL. */
struct str str_cut(struct str s, char c, struct str *head);

struct str str_trim(struct str s); /* without blanks at both ends */

/* Copies into a fixed array and ends it with NUL. False, and dst untouched, if it does not fit or s
 * holds a NUL. */
bool str_copy(struct str s, char *dst, size_t cap);

/* The whole of s as a decimal number: no sign, no blank, nothing behind it, nothing lost. */
bool str_to_u64(struct str s, uint64_t *ret);
bool str_to_i64(struct str s, int64_t *ret); /* the same with an optional leading '-' */

enum { STR_DISTANCE_MAX = 64 };

/* The number of bytes to insert, delete, replace or swap with their neighbour in order to turn a
 * into b. UINT_MAX if one is longer than STR_DISTANCE_MAX. */
unsigned str_distance(struct str a, struct str b);

bool str_is_utf8(struct str s); /* valid UTF-8: no surrogates, overlong forms or values > 10FFFF */
size_t str_utf8_prefix(struct str s); /* length of the longest start that is valid UTF-8 */

#endif
