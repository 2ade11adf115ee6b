/* SPDX-License-Identifier: Apache-2.0 */
/* A request to an HTTP server and its result. Two modules make requests: libcurl in this process
 * (lib/fetch/fetch.h) and the fetch process (engine/fetcher/fetcher.h). Both take the same
 * requests, call back in the same way, and refuse the same mistakes with fetch_request_check(). */
#ifndef LIB_FETCH_REQUEST_H
#define LIB_FETCH_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "lib/net/address.h"

struct fetch_request;

enum {
    FETCH_URL_MAX = 8192,
    FETCH_HEAD_MAX = 65536,   /* bytes of an answer's head, and of a request's headers */
    FETCH_HEADERS_MAX = 1024, /* lines of either */
    FETCH_ADDRESSES_MAX = 64,
};

enum fetch_method {
    FETCH_GET,
    FETCH_HEAD,
    FETCH_POST,
    FETCH_PUT,
    FETCH_PATCH,
    FETCH_DELETE,
    FETCH_METHOD_COUNT_,
};

/* Which addresses may be connected to. Checked for each connection, those of redirects included. */
enum fetch_reach {
    FETCH_REACH_PUBLIC, /* public ones and those in `addresses`; no port of a cluster's control
                         * plane. Such a request shares its connections with no other. */
    FETCH_REACH_ANY,    /* for URLs that the operator wrote */
    FETCH_REACH_COUNT_,
};

struct fetch_header {
    struct str name, value;
};

struct fetch_answer {
    struct err err; /* ERR_OK if the server answered, with any status; else why it did not:
                     * ERR_TIMEOUT, ERR_TOO_BIG, ERR_DENIED by the reach, ERR_UPSTREAM, ERR_SYS */
    int status;     /* 0 if there is no answer */
    struct str body;
    const struct fetch_header *headers;
    size_t header_count;
    struct str redirect; /* see fetch_answer_redirect() */
};

/* Called once for every request that was started and not cancelled, always from the loop, never
 * from inside the starting call. The request is over: it may be started again or freed. The answer
 * is gone afterwards. */
typedef void fetch_done_fn(struct fetch_request *r, const struct fetch_answer *a);

enum fetch_take {
    FETCH_TAKEN,
    FETCH_HOLD, /* see fetch_resume() and fetcher_resume() */
};

/* A piece of the body of an answer whose status is 200 or 206, as it comes, in place of body: an
 * enum fetch_take, or -ERR_x with *e, which ends the request with that error. Called from the loop;
 * must not cancel. */
typedef int fetch_piece_fn(struct fetch_request *r, const struct fetch_answer *head,
                           struct str piece, struct err *e);

/* A member of its owner. Everything it points to is borrowed until the request is over. */
struct fetch_request {
    enum fetch_method method;
    const char *url; /* http:// or https://, no user or password */
    const struct fetch_header *headers;
    size_t header_count;
    struct str body; /* empty for GET and HEAD */
    int64_t timeout; /* nanoseconds, for everything */
    size_t max_body;
    unsigned redirects;    /* followed at most; GET and HEAD only, never from https to http. Headers
                            * go along, Authorization to the same host only. 0: a redirect is an
                            * answer like others */
    const char *ca_file;   /* certificates to trust instead of the system's */
    fetch_piece_fn *piece; /* NULL: the whole body comes with the answer; with it, that of other
                            * statuses does … */
    bool every_piece;      /* … unless this is set: then pieces come with any status */
    int64_t silence;       /* nanoseconds without a byte after which it ends; 0: none */
    enum fetch_reach reach;
    const struct address *addresses; /* of the URL's host, declared by the operator; a request that
                                      * has some follows no redirects */
    size_t address_count;
    fetch_done_fn *done;
    void *exchange_; /* of the module that makes the request */
};

extern const char *const fetch_method_names[FETCH_METHOD_COUNT_];
bool fetch_method_safe(enum fetch_method m); /* no body, and may be sent again after a redirect */

/* -ERR_BUG or -ERR_INVALID for mistakes that can be seen without the network. Messages repeat
 * neither URL nor values: they may hold secrets. */
int fetch_request_check(const struct fetch_request *r, struct err *e);

/* Whether a server may send this as the name or the value of a header. */
bool fetch_name_valid(struct str name);
bool fetch_value_received(struct str value);
bool fetch_url_printable(struct str url); /* ASCII without blanks */

/* Whether a request may connect to this address. */
bool fetch_allows(const struct fetch_request *r, const struct sockaddr *to);

/* A header of the answer (the last one, if there are several), in the callback; {NULL, 0}
 * without. */
struct str fetch_answer_header(const struct fetch_answer *a, const char *name);

/* The target of a redirect that was not followed, as a whole URL; {NULL, 0} for other answers. */
struct str fetch_answer_redirect(const struct fetch_answer *a);

#endif
