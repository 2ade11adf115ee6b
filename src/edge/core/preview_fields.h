/* SPDX-License-Identifier: Apache-2.0 */
/* Filters the headers of requests to, and answers from, a server inside that a browser may be
 * talking to.
 *
 * A preview is hostile to every other preview and to the API. Cookies are the way from one origin
 * to another: a cookie with `Domain=` reaches every name of the domain, and one of a path reaches
 * all ports of a host. So `Domain=` is always removed, and each cookie name gets a prefix derived
 * from a secret of its sandbox, so that no other sandbox can plant one. Where previews share an
 * origin with the API (by path), answers lose the headers that affect the whole origin, and the
 * page is put into an origin of its own (CSP sandbox). */
#ifndef EDGE_CORE_PREVIEW_FIELDS_H
#define EDGE_CORE_PREVIEW_FIELDS_H

#include "base/arena.h"
#include "base/buf.h"
#include "lib/http/h1.h"

enum preview_kind {
    PREVIEW_BY_NAME,   /* the host name is the sandbox's own */
    PREVIEW_BY_HEADER, /* a header names the sandbox: programs, never browsers */
    PREVIEW_BY_PATH,   /* below a path of the API's origin */
};

#define PREVIEW_COOKIE "sbxc-" /* prefix of every renamed cookie */
#define PREVIEW_CSP    "sandbox allow-scripts allow-forms allow-modals allow-popups allow-downloads"

struct preview {
    enum preview_kind kind;
    struct str mark; /* PREVIEW_COOKIE, the sandbox's secret name and "-"; empty: cookies keep their
                        names, and others' renamed ones do not pass */
    struct str path; /* PREVIEW_BY_PATH: prefix of the sandbox's previews: "/x/ID/" */
    struct str host; /* as the request names it, with its port */
};

/* The maximum number of headers added to an answer. */
enum { PREVIEW_FIELDS_ADDED = 3 };

/* Writes the value that the header has inside to `out` (emptied first). False: the header is
 * dropped. */
bool preview_request_field(const struct preview *p, const struct h1_field *f, struct buf *out);

/* The headers of an answer for the client; changed values are made on the arena. `ret` has room for
 * n and PREVIEW_FIELDS_ADDED more. `origin` is that of the request, or empty. */
size_t preview_answer_fields(const struct preview *p, const struct h1_field *fields, size_t n,
                             struct str origin, struct arena *a, struct h1_field *ret);

/* Whether a header name is one of several, or begins with a prefix, in any case of letters. */
bool field_in(struct str name, const struct str *names, size_t n);
bool field_begins_with(struct str name, struct str start);

/* The value of Set-Cookie that reaches the client. False: the cookie is dropped. */
bool preview_set_cookie(const struct preview *p, struct str value, struct buf *out);

#endif
