/* Which addresses, beside public ones, the workers of outlets may connect to.
 *
 * A worker has the places of all policies of its outlets, each counted. Whenever the list changes,
 * the supervisor is sent all of it, one request at a time, so that nothing stays in force that is
 * not in the list. A policy is sent to the worker when the supervisor has set a list with its
 * places. A new process of the worker has none until it was sent the list. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "control/outlet_inside.h"
#include "control/plane.h"

#define AGAIN_NS NS_PER_S /* until a list that was not taken is sent again */

/* --- counting --- */

/* Where the place is in the list, or belongs. */
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

/* Room for all, of which the kernel gives what is used. */
static struct counted_place *make_counted(void)
{
    struct counted_place *list = calloc(GATE_PLACES_MAX, sizeof *list);

    if (!list)
        abort();
    return list;
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

static void uncount_policy(struct outlet *o)
{
    const struct gate_place *list;
    struct err e;
    size_t n;

    if (o->counted && policy_places(o->counted, &list, &n, &e) >= 0)
        uncount_places(&o->worker->places, list, n);
    policy_text_unref(take_ptr(o->counted));
}

static void send_places(struct outlet_worker *w);

/* gcc's analyzer takes the list for lost, because it does not know that o->worker stays. */
#pragma GCC diagnostic push
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif
int outlet_count_places(struct outlet *o, struct err *e)
{
    struct worker_places *w = &o->worker->places;
    const struct gate_place *list;
    size_t n, i;
    int r;

    if (o->counted == o->policy)
        return 0;
    r = policy_places(o->policy, &list, &n, e);
    if (r >= 0 && n && !w->list)
        w->list = make_counted();
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

bool outlet_has_places(struct outlet *o)
{
    struct worker_places *w = &o->worker->places;

    if (o->needs <= w->known)
        return true;
    if (!link_joined(&o->place_turn))
        list_append(&w->waiting, &o->place_turn);
    return false;
}

void outlet_drop_places(struct outlet *o)
{
    link_leave(&o->place_turn);
    uncount_policy(o);
    send_places(o->worker);
}

/* --- the supervisor --- */

static void on_places_again(struct loop_timer *t)
{
    send_places(container_of(t, struct outlet_worker, places.again));
}

static void ask_again_later(struct outlet_worker *w, const struct err *e)
{
    LOG(ERROR, "egress.places_failed", LOG_S("error", e->msg));
    w->places.asked = 0;
    loop_timer_start(w->control->loop, &w->places.again, clock_mono() + AGAIN_NS, on_places_again,
                     NULL);
}

static void take_waiting_outlets(struct outlet_worker *w, struct list *ret)
{
    for (struct link *l; (l = list_take(&w->places.waiting));)
        list_append(ret, l);
}

/* Who waits is told; their policies wait on. */
static void fail_waiting(struct outlet_worker *w, int r, const struct err *e)
{
    struct list all = { 0 };

    take_waiting_outlets(w, &all);
    for (struct link *l; (l = list_take(&all));) {
        list_append(&w->places.waiting, l);
        outlet_policy_failed(container_of(l, struct outlet, place_turn), r, e);
    }
}

static void on_places_set(struct control_request *q, int r, const struct err *e, int *fd)
{
    struct outlet_worker *w = container_of(q, struct outlet_worker, places.request);
    struct list now = { 0 };

    (void)fd;
    w->places.asking = false;
    if (r < 0) {
        ask_again_later(w, e);
        fail_waiting(w, r, e);
        return;
    }
    w->places.known = w->places.asked;
    take_waiting_outlets(w, &now);
    for (struct link *l; (l = list_take(&now));)
        outlet_advance(container_of(l, struct outlet, place_turn));
    send_places(w);
}

static int ask_for_places(struct outlet_worker *w, struct err *e)
{
    const struct control *c = w->control;
    struct worker_places *x = &w->places;
    AUTO_FREE struct gate_place *list = malloc(x->n * sizeof *list + 1);

    if (!list)
        abort();
    for (size_t i = 0; i < x->n; i++)
        list[i] = x->list[i].place;
    x->request = (struct control_request){ .done = on_places_set };
    return c->egress_places(c->user, w->process.id, list, x->n, &x->request, e);
}

/* Sends the list if it has changed and no request is under way. */
static void send_places(struct outlet_worker *w)
{
    struct worker_places *x = &w->places;
    struct err e;
    int r;

    if (!egress_worker_is_up(&w->process) || x->asking || x->asked == x->version ||
        loop_timer_started(&x->again))
        return;
    x->asked = x->version;
    if (!w->control->egress_places) {
        x->known = x->version;
        return;
    }
    r = ask_for_places(w, &e);
    if (r < 0)
        ask_again_later(w, &e);
    else
        x->asking = true;
}

static void stop_asking(struct outlet_worker *w)
{
    loop_timer_stop(&w->places.again);
    if (w->places.asking)
        w->control->cancel(w->control->user, &w->places.request);
    w->places.asking = false;
}

/* The process that had them is gone. */
void outlet_places_down(struct outlet_worker *w)
{
    stop_asking(w);
    w->places.asked = w->places.known = 0;
    while (list_first(&w->places.waiting))
        list_take(&w->places.waiting);
}

void outlet_places_up(struct outlet_worker *w)
{
    if (!w->places.n) /* as the new process has */
        w->places.asked = w->places.known = w->places.version;
    send_places(w);
}

void outlet_places_done(struct outlet_worker *w)
{
    stop_asking(w);
    free(take_ptr(w->places.list));
    w->places.n = 0;
}
