/* The fields of requests to, and answers from, a server inside that a browser may be talking to.
 *
 * A preview is hostile to every other preview and to the API. Cookies are the way from one origin
 * to another: a cookie with `Domain=` reaches every name of the domain, and one of a path reaches
 * all ports of a host. So `Domain=` is always removed, and each cookie carries the name of its
 * sandbox in front of its own, derived from a secret, so that no other sandbox can plant one. Where
 * previews share an origin with the API (by path), answers lose the fields that speak for the whole
 * origin, and the page is put into an origin of its own (CSP sandbox). */
#ifndef API_PREVIEW_FIELDS_H
#define API_PREVIEW_FIELDS_H

#include "base/arena.h"
#include "base/buf.h"
#include "http/h1.h"

enum preview_kind {
    PREVIEW_BY_NAME,   /* the host name is the sandbox's own */
    PREVIEW_BY_HEADER, /* a field of the request names the sandbox: programs, never browsers */
    PREVIEW_BY_PATH,   /* below a path of the API's origin */
};

#define PREVIEW_COOKIE "sbxc-" /* how every renamed cookie begins */
#define PREVIEW_CSP    "sandbox allow-scripts allow-forms allow-modals allow-popups allow-downloads"

struct preview {
    enum preview_kind kind;
    struct str mark; /* PREVIEW_COOKIE, the sandbox's secret name and "-"; empty: cookies keep their
                        names, and others' renamed ones do not pass */
    struct str path; /* PREVIEW_BY_PATH: below which the sandbox's previews are: "/x/ID/" */
    struct str host; /* as the request names it, with its port */
};

/* The most fields that an answer gets in addition. */
enum { PREVIEW_FIELDS_ADDED = 3 };

/* The value that a request's field has inside, written to `out` (emptied first); false: the field
 * does not go inside. */
bool preview_request_field(const struct preview *p, const struct h1_field *f, struct buf *out);

/* The fields of an answer as the client gets them; values that change are made on the arena.
 * `ret` has room for n and PREVIEW_FIELDS_ADDED more. `origin` is that of the request, or empty. */
size_t preview_answer_fields(const struct preview *p, const struct h1_field *fields, size_t n,
                             struct str origin, struct arena *a, struct h1_field *ret);

/* The value of Set-Cookie that reaches the client. False: the cookie is dropped. */
bool preview_set_cookie(const struct preview *p, struct str value, struct buf *out);

#endif
