/* The path of a request as servers read it. A relay sends a path as its client wrote it; the policy
 * judges it in every reading that servers are known to have (docs/egress-policy.md), and refuses a
 * path that has none. */
#ifndef POLICY_PATH_H
#define POLICY_PATH_H

#include "base/str.h"

enum { PATH_BYTES_MAX = 4096, PATH_QUERY_MAX = 8192 };

struct path_text {
    char bytes[PATH_BYTES_MAX];
    size_t n;
};

/* The ways in which servers differ. Without any of them, ";parameters" of a part are dropped, then
 * "." and ".." are resolved and "//" is made one. */
enum path_way {
    PATH_KEEPS_PARAMETERS = 1 << 0, /* ';' is a character of its part */
    PATH_KEEPS_SLASHES = 1 << 1,    /* a part may be empty */
    PATH_KEEPS_DOTS = 1 << 2,       /* "." and ".." are names of parts */
    PATH_READINGS = 1 << 3,         /* a reading is a set of ways: 0 to 7 */
};

/* The ways in which servers may differ on this path; 0 for most. Sets of others read it alike. */
unsigned path_ways(struct str path);

/* One reading of a path as it stands in a target, without its query. Escapes are resolved once and
 * written again in upper case where they are needed, always for ';' and '+'. Returns NULL, or what
 * is wrong with the path: control characters, blanks, bytes beyond ASCII, '#', '\' in any spelling,
 * broken escapes, escapes that are not UTF-8, escapes of '.', '/', '\' or '%' within an escape,
 * "%2F" unless encoded_slash, a ".." that leaves the root or stands behind a "%2F", anything that
 * does not begin with '/', more than PATH_BYTES_MAX bytes. */
const char *path_read(struct str path, unsigned reading, bool encoded_slash, struct path_text *ret);

/* A reading as the most lenient server would take it, for rules that deny: in lower case, "%2F"
 * a separator, each part without ";parameters", also escaped ones, and without dots and blanks at
 * its end, '+' a blank, empty parts left out. */
void path_fold(struct str reading, struct path_text *ret);

/* NULL, or what is wrong with a query as it stands in a target: bytes that a path cannot have, more
 * than PATH_QUERY_MAX of them, broken escapes, escapes of NUL or of what is not UTF-8. */
const char *path_query_flaw(struct str query);

/* Whether s can stand in a canonical path at all, wildcards and '?' of a glob aside: for rules that
 * would otherwise never match and nobody would know. NULL, or what is wrong with it. */
const char *path_pattern_flaw(struct str s);

/* Walks the pairs of a query: "a=1&b" has two with the separators "&"; some servers take ';' for
 * one, too: "&;". False at the end. Both parts are still escaped. */
bool path_query_next(struct str *rest, const char *separators, struct str *ret_key,
                     struct str *ret_value);

/* Resolves the escapes of a key or value, '+' is a blank. False, and *ret_n untouched, if an escape
 * is broken, a NUL or not UTF-8 comes out, or out is too small. */
bool path_query_decode(struct str s, char *out, size_t cap, size_t *ret_n);

/* Writes a decoded key as the most lenient framework names it, and returns its length, which is at
 * most key.n: in lower case, without blanks around it, without what stands from a '[' on, '.' and
 * ' ' as '_'. */
size_t path_query_fold(struct str key, char *out);

#endif
