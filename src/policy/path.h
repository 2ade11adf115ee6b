/* The path of a request in one spelling, for the policy and for the wire: what was judged is what
 * is sent. Where servers are known to disagree on what a path means, it is refused. */
#ifndef POLICY_PATH_H
#define POLICY_PATH_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum { PATH_BYTES_MAX = 4096, PATH_QUERY_MAX = 8192 };

/* target is the origin form: a path, and a query behind the first '?'. The canonical path goes to
 * the end of out, the query behind it, byte for byte; *ret_path and *ret_query (p is NULL without a
 * '?') point into out and hold until it changes.
 *
 * Escapes are resolved once and written again in upper case where they are needed; ";parameters" of
 * a part are looked at likewise and dropped; then "." and ".." are resolved and "//" is made one.
 * Refused, -ERR_INVALID: control characters, blanks, bytes beyond ASCII, '#', '\' in any spelling,
 * broken escapes, escapes that are not UTF-8, escapes of '.', '/', '\' or '%' within an escape,
 * "%2F" unless allow_encoded_slash, a ".." that leaves the root or stands behind a "%2F", anything
 * that does not begin with '/', more than PATH_BYTES_MAX or PATH_QUERY_MAX bytes. */
int path_canonical(struct str target, bool allow_encoded_slash, struct buf *out,
                   struct str *ret_path, struct str *ret_query, struct err *e);

/* Whether s can stand in a canonical path at all, wildcards and '?' of a glob aside: for rules that
 * would otherwise never match and nobody would know. NULL, or what is wrong with it. */
const char *path_pattern_flaw(struct str s);

/* Walks the pairs of a query: "a=1&b" has two. False at the end. Both parts are still escaped. */
bool path_query_next(struct str *rest, struct str *ret_key, struct str *ret_value);

/* Resolves the escapes of a key or value, '+' is a blank. False, and *ret_n untouched, if an escape
 * is broken, a NUL or not UTF-8 comes out, or out is too small. */
bool path_query_decode(struct str s, char *out, size_t cap, size_t *ret_n);

#endif
