/* SPDX-License-Identifier: Apache-2.0 */
/* Paths and queries of request targets. Rules and routes see the text on the wire; decoding is
 * strict, and ambiguous spellings are refused. */
#ifndef LIB_HTTP_URL_H
#define LIB_HTTP_URL_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum { URL_SEGMENTS_MAX = 32 };

struct url {
    struct str path;  /* before the '?', encoded */
    struct str query; /* behind it, encoded; p == NULL: there is no '?' */
};

struct url url_split(struct str path_and_query);

/* A decoded path: "/a/b%20c/" is "a", "b c" and a trailing slash. Refused: a path that does not
 * start with '/', empty segments, "." and ".." in any spelling, bad percent-encodings, encoded
 * slashes, backslashes, control characters, anything that is not UTF-8, more than
 * URL_SEGMENTS_MAX. */
struct url_path {
    struct str segments[URL_SEGMENTS_MAX];
    size_t n;
    bool slash; /* ends in '/'; true for "/" itself, which has no segments */
};

int url_path(struct str path, struct arena *a, struct url_path *ret, struct err *e);

/* One percent-encoded piece. NULs and invalid UTF-8 are refused; a form's '+' is a blank. */
int url_decode(struct str s, bool form, struct arena *a, struct str *ret, struct err *e);

/* Walks "k=v&k2=v2" on encoded text: false at the end. An empty piece is skipped; without '=' the
 * value is empty with p == NULL. */
struct url_pair {
    struct str name, value;
};
bool url_next(struct str *query, struct url_pair *ret);

/* The decoded value of the one pair of that (decoded) name: 1 found, 0 absent, -ERR_INVALID if it
 * is there twice or does not decode. */
int url_query(struct str query, struct str name, struct arena *a, struct str *ret, struct err *e);

/* Appends s with everything but unreserved characters encoded. */
int url_encode(struct buf *out, struct str s);

#endif
