/* SPDX-License-Identifier: Apache-2.0 */
/* The path of a request as servers read it. A relay sends a path unchanged; the policy judges it in
 * every reading that servers are known to use (docs/egress-policy.md), and refuses a path without a
 * valid reading. */
#ifndef DOMAIN_POLICY_PATH_H
#define DOMAIN_POLICY_PATH_H

#include "base/str.h"

enum { PATH_BYTES_MAX = 4096, PATH_QUERY_MAX = 8192 };

struct path_text {
    char bytes[PATH_BYTES_MAX];
    size_t n;
};

/* The ways in which servers differ. With none of them, ";parameters" of a part are dropped, then
 * "." and ".." are resolved and "//" is collapsed. */
enum path_way {
    PATH_KEEPS_PARAMETERS = 1 << 0, /* ';' belongs to its part */
    PATH_KEEPS_SLASHES = 1 << 1,    /* a part may be empty */
    PATH_KEEPS_DOTS = 1 << 2,       /* "." and ".." are names of parts */
    PATH_READINGS = 1 << 3,         /* a reading is a set of ways: 0 to 7 */
};

/* The ways that make a difference for this path; 0 for most paths. Readings that differ only in
 * other ways are the same. */
unsigned path_ways(struct str path);

/* Writes one reading of a target's path, without its query. Escapes are decoded once and written
 * again in upper case where they are needed, always for ';' and '+'. Returns NULL, or the error:
 * control characters, blanks, bytes beyond ASCII, '#', '\' in any spelling, broken escapes, escapes
 * that are not UTF-8, escapes of '.', '/', '\' or '%' within an escape, "%2F" unless encoded_slash,
 * a ".." that leaves the root or is behind a "%2F", a path that does not begin with '/', more than
 * PATH_BYTES_MAX bytes. */
const char *path_read(struct str path, unsigned reading, bool encoded_slash, struct path_text *ret);

/* Folds a reading as the most lenient server would, for deny rules: lower case, "%2F" as separator,
 * each part without ";parameters" (escaped ones, too) and trailing dots and blanks, '+' as blank,
 * no empty parts. */
void path_fold(struct str reading, struct path_text *ret);

/* Checks the query of a target. Returns NULL, or the error: bytes that are invalid in a path, more
 * than PATH_QUERY_MAX bytes, broken escapes, escapes of NUL or of bytes that are not UTF-8. */
const char *path_query_flaw(struct str query);

/* Checks that s can occur in a canonical path, apart from wildcards and '?' of a glob: such a rule
 * would silently never match. Returns NULL, or the error. */
const char *path_pattern_flaw(struct str s);

/* Returns the next pair of a query: "a=1&b" has two with the separators "&"; some servers also
 * separate with ';': "&;". False at the end. Key and value are still escaped. */
bool path_query_next(struct str *rest, const char *separators, struct str *ret_key,
                     struct str *ret_value);

/* Decodes the escapes of a key or value; '+' is a blank. False, with *ret_n unchanged, if an escape
 * is broken, the result has a NUL or is not UTF-8, or out is too small. */
bool path_query_decode(struct str s, char *out, size_t cap, size_t *ret_n);

/* Writes a decoded key as the most lenient framework names it, and returns its length, which is at
 * most key.n: in lower case, trimmed, cut at the first '[', '.' and ' ' replaced by '_'. */
size_t path_query_fold(struct str key, char *out);

#endif
