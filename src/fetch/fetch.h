/* The daemon's own requests to HTTP servers: event hub, registries, webhooks. On libcurl, driven by
 * the loop.
 *
 *     static void on_answer(struct fetch_request *r, const struct fetch_answer *a)
 *     {
 *         struct delivery *d = container_of(r, struct delivery, request);
 *         …
 *     }
 *
 *     d->request = (struct fetch_request){ .url = url, .timeout = 10 * NS_PER_S,
 *                                          .max_body = 65536, .done = on_answer };
 *     r = fetch_start(fetch, &d->request, e);
 *
 * What comes back is bounded: the body by the request, the head by FETCH_HEAD_MAX, everything by
 * the timeout, which includes looking up the name. Certificates are always checked. Proxies, .netrc
 * and cookies are not used, whatever the environment says. HTTP/1.1 only.
 *
 * Names are looked up in threads of libcurl's. They inherit the loop's signal mask, so signal
 * sources must be started before the first request. */
#ifndef FETCH_FETCH_H
#define FETCH_FETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "loop/timer.h"

struct sockaddr;
struct fetch_exchange_;
struct fetch_request;

enum { FETCH_URL_MAX = 8192, FETCH_HEAD_MAX = 65536 };

struct fetch_limits {
    unsigned requests;    /* running at the same time; more are refused with -ERR_BUSY */
    unsigned connections; /* open at the same time; requests wait for one, on their own time */
    unsigned per_host;    /* of these, to the same host */
};

/* Must not be moved. */
struct fetch {
    struct loop *loop;
    struct fetch_limits limits;
    unsigned running;
    void *multi_;
    struct loop_timer timer_;
    struct list sockets_, exchanges_;
};

int fetch_init(struct fetch *f, struct loop *l, struct fetch_limits limits, struct err *e);

/* Cancels what is running. Not from inside a request's callback. */
void fetch_done(struct fetch *f);

enum fetch_method { FETCH_GET, FETCH_HEAD, FETCH_POST, FETCH_PUT, FETCH_PATCH, FETCH_DELETE };

struct fetch_header {
    struct str name, value;
};

struct fetch_answer {
    struct err err; /* ERR_OK if the server answered, whatever its status; else why it did not:
                     * ERR_TIMEOUT, ERR_TOO_BIG, ERR_DENIED by the hook, ERR_UPSTREAM, ERR_SYS */
    int status;     /* 0 if there is no answer, as below */
    struct str body;
    void *easy_;
};

/* Called once for every request that was started and not cancelled, always from the loop, never
 * from inside fetch_start(). The request is over: it may be started again or freed. The answer is
 * gone afterwards. */
typedef void fetch_done_fn(struct fetch_request *r, const struct fetch_answer *a);

/* A piece of the body of an answer whose status is 200 or 206, as it comes, in place of body: 0, or
 * -ERR_x with *e, which ends the request with that error. Called from the loop; must not cancel. */
typedef int fetch_piece_fn(struct fetch_request *r, const struct fetch_answer *head,
                           struct str piece, struct err *e);

/* Asked about every address before a connection to it is tried. */
typedef bool fetch_allow_fn(struct fetch_request *r, const struct sockaddr *address);

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
                            * statuses does */
    int64_t silence;       /* nanoseconds without a byte after which it ends; 0: none */
    fetch_allow_fn *allow; /* a request that has it shares connections with no other: one that
                            * somebody else opened was not asked about */
    fetch_done_fn *done;
    struct fetch_exchange_ *exchange_;
};

/* -ERR_INVALID if the request is wrong, -ERR_BUSY past the limit, -ERR_CONFLICT if it is running.
 */
int fetch_start(struct fetch *f, struct fetch_request *r, struct err *e);

/* The callback will not be called. Idempotent, and harmless on a zeroed request. */
void fetch_cancel(struct fetch_request *r);

/* A header of the answer (the last one, if there are several), in the callback; {NULL, 0} without.
 */
struct str fetch_answer_header(const struct fetch_answer *a, const char *name);

/* Where a redirect that was not followed leads, as a whole URL; {NULL, 0}: the answer is none. */
struct str fetch_answer_redirect(const struct fetch_answer *a);

#endif
