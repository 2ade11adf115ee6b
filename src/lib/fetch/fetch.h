/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to HTTP servers on libcurl, driven by the loop, in the process that includes this: the
 * fetch process (engine/fetcher/server.h) and sandboxer-step. The control plane uses
 * engine/fetcher/fetcher.h.
 *
 *     static void on_answer(struct fetch_request *r, const struct fetch_answer *a)
 *     {
 *         struct delivery *d = container_of(r, struct delivery, request);
 *         …
 *     }
 *
 *     d->request = (struct fetch_request){ .url = url, .timeout = 10 * NS_PER_S,
 *                                          .max_body = 65536, .reach = FETCH_REACH_PUBLIC,
 *                                          .done = on_answer };
 *     r = fetch_start(fetch, &d->request, e);
 *
 * Answers are bounded: the body by the request, the head by FETCH_HEAD_MAX, everything by the
 * timeout, which includes the name lookup. Certificates are always verified. Proxies, .netrc and
 * cookies are not used, even if the environment names them. HTTP/1.1 only.
 *
 * Names are looked up in threads of libcurl's. They inherit the loop's signal mask, so signal
 * sources must be started before the first request. */
#ifndef LIB_FETCH_FETCH_H
#define LIB_FETCH_FETCH_H

#include "lib/fetch/request.h"
#include "lib/loop/timer.h"

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

/* -ERR_INVALID if the request is wrong, -ERR_BUSY past the limit, -ERR_CONFLICT if it is
 * running. */
int fetch_start(struct fetch *f, struct fetch_request *r, struct err *e);

/* The callback will not be called. Idempotent, and harmless on a zeroed request. */
void fetch_cancel(struct fetch_request *r);

/* Resumes a request whose piece was answered with FETCH_HOLD: that piece was not taken, and
 * comes again, perhaps before this returns. Meanwhile its connection was not read from; others
 * were. If this fails the request, `done` is called before it returns. */
void fetch_resume(struct fetch_request *r);

#endif
