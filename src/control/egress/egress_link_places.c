/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses, besides public ones, that workers of egress links may connect to.
 *
 * A worker has the places of the policies of all its links, with reference counts. Each change
 * sends the whole list to the supervisor, one request at a time, so that nothing outside the list
 * stays in force. A policy is sent to the worker when the supervisor has set a list with its
 * places. A new process of a worker has no places until the list was set for it. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "control/egress/egress_link_internal.h"
#include "control/plane/plane.h"

#define PLACES_RETRY_NS NS_PER_S /* until a refused list is sent again */

/* --- counting --- */

/* The index of the place in the list, or where to insert it. */
static size_t find_counted(const struct worker_places *w, const struct gate_place *p)
{
    size_t from = 0, to = w->n;

    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (gate_place_compare(&w->list[middle].place, p) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static bool is_place_counted(const struct worker_places *w, size_t at, const struct gate_place *p)
{
    return at < w->n && gate_place_compare(&w->list[at].place, p) == 0;
}

static int count_place(struct worker_places *w, const struct gate_place *p, struct err *e)
{
    size_t at = find_counted(w, p);

    if (is_place_counted(w, at, p)) {
        w->list[at].refs++;
        return 0;
    }
    if (w->n == GATE_PLACES_MAX)
        return err_set(e, ERR_TOO_BIG,
                       "the sandboxes of one egress worker can have at most %d addresses and ports "
                       "that are not public; allow fewer, or give the sandbox a worker of its own "
                       "(network.worker of its profile)",
                       GATE_PLACES_MAX);
    memmove(&w->list[at + 1], &w->list[at], (w->n - at) * sizeof *w->list);
    w->list[at] = (struct counted_place){ *p, 1 };
    w->n++;
    w->version++;
    return 0;
}

static void uncount_places(struct worker_places *w, const struct gate_place *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t at = find_counted(w, &list[i]);

        if (!is_place_counted(w, at, &list[i]) || --w->list[at].refs)
            continue;
        memmove(&w->list[at], &w->list[at + 1], (w->n - at - 1) * sizeof *w->list);
        w->n--;
        w->version++;
    }
}

static void uncount_policy(struct egress_link *o)
{
    const struct gate_place *list;
    struct err e;
    size_t n;

    if (o->counted && policy_places(o->counted, &list, &n, &e) >= 0)
        uncount_places(&o->worker->places, list, n);
    policy_text_unref(take_ptr(o->counted));
}

static void send_places(struct egress_link_worker *w);

/* gcc's analyzer reports the list as leaked, because it does not know that o->worker stays. */
#pragma GCC diagnostic push
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif
int egress_link_count_places(struct egress_link *o, struct err *e)
{
    struct worker_places *w = &o->worker->places;
    const struct gate_place *list;
    size_t n, i;
    int r;

    if (o->counted == o->policy)
        return 0;
    r = policy_places(o->policy, &list, &n, e);
    if (r >= 0 && n && !w->list)
        /* Virtual memory for the maximum; the kernel provides the pages that are used. */
        w->list = new0_array(GATE_PLACES_MAX, sizeof *w->list);
    for (i = 0; r >= 0 && i < n; i++)
        r = count_place(w, &list[i], e);
    if (r < 0) {
        if (i)
            uncount_places(w, list, i - 1);
        return r;
    }
    uncount_policy(o);
    o->counted = policy_text_ref(o->policy);
    o->needs = n ? w->version : 0;
    send_places(o->worker);
    return 0;
}
#pragma GCC diagnostic pop

bool egress_link_has_places(struct egress_link *o)
{
    struct worker_places *w = &o->worker->places;

    if (o->needs <= w->known)
        return true;
    if (!link_joined(&o->place_turn))
        list_append(&w->waiting, &o->place_turn);
    return false;
}

void egress_link_drop_places(struct egress_link *o)
{
    link_leave(&o->place_turn);
    uncount_policy(o);
    send_places(o->worker);
}

/* --- the supervisor --- */

static void on_places_retry(struct loop_timer *t)
{
    send_places(container_of(t, struct egress_link_worker, places.retry));
}

static void retry_places_later(struct egress_link_worker *w, const struct err *e)
{
    LOG(ERROR, "egress.places_failed", LOG_S("error", e->msg));
    w->places.requested = 0;
    loop_timer_start(w->control->loop, &w->places.retry, clock_mono() + PLACES_RETRY_NS,
                     on_places_retry, NULL);
}

static void on_places_set(struct control_request *q, int r, const struct err *e, int *fd)
{
    struct egress_link_worker *w = container_of(q, struct egress_link_worker, places.request);
    struct list now = { 0 };

    w->places.requesting = false;
    list_move(&w->places.waiting, &now);
    if (r < 0) {
        retry_places_later(w, e);
        for (struct link *l; (l = list_take(&now));) { /* their policies stay queued */
            list_append(&w->places.waiting, l);
            egress_link_policy_failed(container_of(l, struct egress_link, place_turn), r, e);
        }
        return;
    }
    w->places.known = w->places.requested;
    for (struct link *l; (l = list_take(&now));)
        egress_link_advance(container_of(l, struct egress_link, place_turn));
    send_places(w);
}

static int request_places(struct egress_link_worker *w, struct err *e)
{
    const struct control *c = w->control;
    struct worker_places *x = &w->places;
    AUTO_FREE struct gate_place *list = malloc(x->n * sizeof *list + 1);

    if (!list)
        abort();
    for (size_t i = 0; i < x->n; i++)
        list[i] = x->list[i].place;
    x->request = (struct control_request){ .done = on_places_set };
    return c->supervisor.egress_places(c->supervisor.user, w->process.id, list, x->n, &x->request,
                                       e);
}

/* Sends the list if it has changed and no request is under way. */
static void send_places(struct egress_link_worker *w)
{
    struct worker_places *x = &w->places;
    struct err e;
    int r;

    if (!egress_worker_is_up(&w->process) || x->requesting || x->requested == x->version ||
        loop_timer_started(&x->retry))
        return;
    x->requested = x->version;
    if (!w->control->supervisor.egress_places) {
        x->known = x->version;
        return;
    }
    r = request_places(w, &e);
    if (r < 0)
        retry_places_later(w, &e);
    else
        x->requesting = true;
}

static void cancel_places_request(struct egress_link_worker *w)
{
    loop_timer_stop(&w->places.retry);
    if (w->places.requesting)
        w->control->supervisor.cancel(w->control->supervisor.user, &w->places.request);
    w->places.requesting = false;
}

/* The process that had the places is gone. */
void egress_link_places_down(struct egress_link_worker *w)
{
    cancel_places_request(w);
    w->places.requested = w->places.known = 0;
    while (list_take(&w->places.waiting))
        ;
}

void egress_link_places_up(struct egress_link_worker *w)
{
    if (!w->places.n) /* the new process has none, too */
        w->places.requested = w->places.known = w->places.version;
    send_places(w);
}

void egress_link_places_done(struct egress_link_worker *w)
{
    cancel_places_request(w);
    free(take_ptr(w->places.list));
    w->places.n = 0;
}
