/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to HTTP servers, made by another process: sandboxer-fetch, which has neither store nor
 * rights. The control plane uses it for registries and the event hub; requests and callbacks are
 * those of lib/fetch/request.h.
 *
 *     fetcher_share_init(&d->share, fetcher, 8);
 *     d->request = (struct fetch_request){ .url = url, … .done = on_answer };
 *     r = fetcher_start(&d->share, &d->request, e);
 *
 * The process is started with the first request and ends when none was made for a minute. If it
 * dies, does not answer, or breaks the protocol (engine/fetcher/wire.h), it is ended, running
 * requests end with ERR_UPSTREAM, and the next request starts another one: after a pause that grows
 * while processes keep dying, in which requests wait on their own time. */
#ifndef ENGINE_FETCHER_FETCHER_H
#define ENGINE_FETCHER_FETCHER_H

#include "lib/fetch/request.h"
#include "engine/fetcher/wire.h"
#include "lib/loop/fd.h"
#include "lib/loop/timer.h"

/* Must not be moved. */
struct fetcher {
    struct loop *loop;
    /* A connected socket to a new process, and a number that names it. It may not run yet; if it
     * cannot be started, FAILED says why. */
    int (*start)(void *user, int *ret_sock, uint64_t *ret_id, struct err *e);
    void (*end)(void *user, uint64_t id); /* ends one that may not end by itself; may be NULL */
    void *user;
    int64_t look_ns;             /* how often the process is looked at; 0: every 5 s */
    const char *const *settings; /* files that a process reads as they were when it started, NULL at
                                  * the end; NULL: those of name resolution */
    uint64_t starts, deaths;     /* of processes, so far */
    /* private */
    int sock; /* -1: no process */
    uint64_t process, last_id;
    struct loop_fd fd;
    struct loop_timer again, look;
    unsigned silent, idle; /* looks since a ping that was not answered; since a request */
    uint64_t ping;         /* id of that ping; 0: it was answered */
    int64_t up_ns, pause_ns, not_before_ns;
    uint64_t stamp;    /* of the settings when it started */
    struct list calls; /* struct fetcher_call_: sent, and those that wait to be sent */
    size_t sent;
    struct list out; /* packets that the process has not taken yet */
};

/* One user's part of it: at most `max` requests at a time. Must not be moved. */
struct fetcher_share {
    struct fetcher *fetcher;
    unsigned max, running;
    struct list calls;
};

/* The members before `private` are set, the rest is zeroed. */
void fetcher_init(struct fetcher *f);
void fetcher_done(struct fetcher *f); /* after its shares; harmless on a zeroed one */

void fetcher_share_init(struct fetcher_share *s, struct fetcher *f, unsigned max);
/* Cancels what is running. Not from inside a request's callback. */
void fetcher_share_done(struct fetcher_share *s);

/* -ERR_INVALID if the request is wrong, -ERR_BUSY past the share, -ERR_CONFLICT if it is running,
 * -ERR_SYS if ca_file cannot be opened. Everything that the request points to may change as soon as
 * this returns. */
int fetcher_start(struct fetcher_share *s, struct fetch_request *r, struct err *e);

/* The callback will not be called. Idempotent, and harmless on a zeroed request. */
void fetcher_cancel(struct fetch_request *r);

/* Resumes a request whose piece was answered with FETCH_HOLD: the piece was taken, and until now at
 * most FETCHER_WINDOW more bytes came. */
void fetcher_resume(struct fetch_request *r);

#endif
