/* SPDX-License-Identifier: Apache-2.0 */
/* Launchers: pending requests, and their fate when a launcher dies.
 *
 * A launcher serves one request after the other. So only a few are sent ahead, and the others wait
 * here, where they can still be cancelled. Assignments of prepared boxes go first, because creates
 * wait for them; then removals, which free resources; then builds. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/own.h"
#include "backends/local/local.h"

static void on_launch_answer(struct loop_fd *s, unsigned events);
static void pump_lane(struct local_lane *l);

static void on_lane_later(struct loop_later *s)
{
    pump_lane(container_of(s, struct local_lane, later));
}

static void on_retry_timer(struct loop_timer *t)
{
    pump_lane(container_of(t, struct local_lane, timer));
}

void local_lane_init(struct local_lane *l, struct backend *x)
{
    *l = (struct local_lane){ .x = x, .launcher = { .sock = -1 }, .generation = 1 };
}

/* requests */

static struct local_box *request_box(struct local_request *q)
{
    return q->type == LAUNCH_CREATE    ? container_of(q, struct local_box, create)
           : q->type == LAUNCH_DESTROY ? container_of(q, struct local_box, end.request)
           : q->type == LAUNCH_ASSIGN  ? container_of(q, struct local_box, assign.request)
                                       : container_of(q, struct local_box, hold.request);
}

static struct local_request *link_request(struct link *m)
{
    return m ? container_of(m, struct local_request, link) : NULL;
}

/* The caller releases the box after it has reported the result. */
static void dequeue_request(struct local_request *q)
{
    link_leave(&q->link);
    q->lane->n--;
    q->lane->n_sent -= q->sent;
    q->lane = NULL;
    q->sent = false;
}

bool local_request_cancel(struct local_request *q)
{
    if (!q->lane || q->sent)
        return false;
    dequeue_request(q);
    local_box_unref(request_box(q));
    return true;
}

/* The first of the least busy lanes: its launcher's data is still in the caches. */
static struct local_lane *least_busy_lane(struct backend *x)
{
    struct local_lane *best = &x->lanes[0];

    for (size_t i = 1; i < LOCAL_LAUNCHERS; i++)
        if (x->lanes[i].n < best->n)
            best = &x->lanes[i];
    return best;
}

void local_lane_ask(struct local_box *b, enum launch_type type)
{
    struct local_request *q = type == LAUNCH_CREATE    ? &b->create
                              : type == LAUNCH_DESTROY ? &b->end.request
                              : type == LAUNCH_ASSIGN  ? &b->assign.request
                                                       : &b->hold.request;
    bool by_maker = type == LAUNCH_ASSIGN || (type == LAUNCH_DESTROY && !local_is_foreign(b));
    struct local_lane *l = by_maker ? b->maker : least_busy_lane(b->x);

    *q = (struct local_request){ .lane = l, .type = type };
    list_append(type == LAUNCH_CREATE   ? &l->creates
                : type == LAUNCH_ASSIGN ? &l->assigns
                                        : &l->destroys,
                &q->link);
    l->n++;
    local_box_ref(b);
    /* -ERR_CONFLICT: it is set to run already */
    loop_later(l->x->c->loop, &l->later, on_lane_later, NULL);
}

static void report_request_failed(struct local_request *q, int r, const struct err *e,
                                  const char *step)
{
    struct local_box *b = request_box(q);

    dequeue_request(q);
    if (q->type == LAUNCH_CREATE)
        local_on_create_failed(b, r, e, step);
    else if (q->type == LAUNCH_DESTROY)
        local_finish_end(b, r, e);
    else if (q->type == LAUNCH_ASSIGN)
        b->assign.why = *e; /* PID 1 decides about the box: it exits if it gets no groups */
    else
        local_on_hold_failed(b, r, e);
    local_box_unref(b);
}

static void report_request_lost(struct local_request *q, const struct err *e)
{
    struct local_box *b = request_box(q);

    dequeue_request(q);
    if (q->type == LAUNCH_CREATE)
        local_on_create_lost(b, e);
    else if (q->type == LAUNCH_DESTROY)
        local_on_destroy_lost(b);
    else if (q->type == LAUNCH_ASSIGN)
        b->assign.why = *e;
    else
        local_on_hold_lost(b);
    local_box_unref(b);
}

static void report_request_answer(struct local_request *q, const union launch_answer *a)
{
    struct local_box *b = request_box(q);
    struct err e = { 0 };

    if (a->head.type == LAUNCH_FAILED) {
        char step[LAUNCH_STEP_MAX + 1];

        snprintf(step, sizeof step, "%.*s", LAUNCH_STEP_MAX, a->failed.step);
        report_request_failed(q, launcher_failure(&a->failed, &e), &e, step);
        return;
    }
    dequeue_request(q);
    if (a->head.type == LAUNCH_CREATED)
        local_on_created(b, &a->created);
    else if (a->head.type == LAUNCH_DESTROYED)
        local_on_destroyed(b, &a->destroyed);
    else if (a->head.type == LAUNCH_HELD)
        local_on_held(b);
    local_box_unref(b);
}

/* The next request to send; NULL: none. */
static struct local_request *next_unsent(struct local_lane *l)
{
    struct list *lists[] = { &l->assigns, &l->destroys, &l->creates };
    struct link *m = NULL;

    for (size_t i = 0; !m && i < COUNT_OF(lists); i++)
        m = list_first(lists[i]);
    return link_request(m);
}

/* life and death of a launcher */

static void fail_all_requests(struct local_lane *l)
{
    struct local_request *q;
    struct err e = { 0 };
    int r = err_set(&e, ERR_UPSTREAM, "no launcher could be started: %.180s", l->why.msg);

    LOG(ERROR, "launcher.unavailable", LOG_S("error", l->why.msg));
    l->tries = 0;
    /* Only the requests of now: a failed owner may send another one, which is tried again. */
    for (size_t n = l->n; n > 0; n--) {
        q = link_request(list_first(&l->creates));
        if (!q)
            q = next_unsent(l);
        if (q)
            report_request_failed(q, r, &e, "launcher");
    }
}

/* A lane without requests waits, too: lost requests may come back in a moment, and would start one
 * dying launcher after the other. */
static void retry_launcher(struct local_lane *l)
{
    unsigned tries = l->tries < LOCAL_LAUNCHER_TRIES ? l->tries : LOCAL_LAUNCHER_TRIES;

    if (l->n > 0 && l->tries >= LOCAL_LAUNCHER_TRIES)
        fail_all_requests(l);
    else
        loop_timer_start(l->x->c->loop, &l->timer,
                         clock_mono() + (tries > 1 ? LOCAL_RETRY_NS << (tries - 2) : 0),
                         on_retry_timer, NULL);
}

static void on_launcher_timeout(struct loop_timer *t);

static void close_launcher(struct local_lane *l)
{
    loop_timer_stop(&l->timer);
    loop_fd_stop(&l->fd);
    drop_fd(&l->launcher.sock);
    l->generation++;
}

static void lane_died(struct local_lane *l, const struct err *e)
{
    struct local_request *q;

    LOG(WARN, "launcher.died", LOG_S("error", e->msg), LOG_I("requests", (int64_t)l->n_sent));
    close_launcher(l);
    l->why = *e;
    l->tries++;
    while ((q = link_request(list_first(&l->sent))))
        report_request_lost(q, &l->why);
    /* Unsent requests to destroy or assign boxes of this launcher are lost, too: the next launcher
     * does not own them. */
    while ((q = link_request(list_first(&l->assigns))))
        report_request_lost(q, &l->why);
    LIST_EACH_SAFE (struct local_request, d, &l->destroys, link) {
        if (d->type == LAUNCH_DESTROY && request_box(d)->maker == l)
            report_request_lost(d, &l->why);
    }
    retry_launcher(l);
}

static void on_launcher_timeout(struct loop_timer *t)
{
    struct err e = { 0 };

    (void)err_set(&e, ERR_TIMEOUT, "the launcher does not answer");
    lane_died(container_of(t, struct local_lane, timer), &e);
}

static void restart_answer_timer(struct local_lane *l)
{
    loop_timer_stop(&l->timer);
    if (l->n_sent)
        loop_timer_start(l->x->c->loop, &l->timer, clock_mono() + LOCAL_ANSWER_NS,
                         on_launcher_timeout, NULL);
}

static int lane_open(struct local_lane *l, struct err *e)
{
    const struct backend_context *c = l->x->c;
    int flags, r = c->launcher(c->user, &l->launcher.sock, e);

    if (r < 0)
        return r;
    flags = fcntl(l->launcher.sock, F_GETFL);
    if (flags < 0 || fcntl(l->launcher.sock, F_SETFL, flags | O_NONBLOCK) < 0)
        r = err_sys(e, "preparing the connection to the launcher");
    else
        r = loop_fd_start(c->loop, &l->fd, l->launcher.sock, LOOP_READ, on_launch_answer, e);
    if (r < 0)
        drop_fd(&l->launcher.sock);
    return r;
}

void local_lane_done(struct local_lane *l)
{
    struct list *lists[] = { &l->sent, &l->assigns, &l->destroys, &l->creates };

    loop_later_stop(&l->later);
    close_launcher(l);
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        for (struct local_request *q; (q = link_request(list_first(lists[i])));) {
            dequeue_request(q);
            local_box_unref(request_box(q));
        }
}

/* sending */

static int send_launch_request(struct local_lane *l, struct local_request *q, struct err *e)
{
    struct local_box *b = request_box(q);
    int r;

    fault_point("launcher.send");
    if (q->type == LAUNCH_CREATE)
        r = launcher_create(&l->launcher, &b->plan->plan, b->plan->fds, b->plan->n, e);
    else if (q->type == LAUNCH_ASSIGN)
        r = launcher_assign(&l->launcher, b->backend.id, &b->assign.owner, e);
    else
        r = launcher_ask(&l->launcher, q->type, b->backend.id, e);
    fault_point("launcher.send");
    return r;
}

static void mark_sent(struct local_lane *l, struct local_request *q)
{
    struct local_box *b = request_box(q);

    link_leave(&q->link);
    list_append(&l->sent, &q->link);
    q->sent = true;
    l->n_sent++;
    if (q->type == LAUNCH_CREATE) {
        b->maker = l;
        b->maker_generation = l->generation;
        local_plan_free(take_ptr(b->plan));
    }
    if (l->n_sent == 1)
        restart_answer_timer(l);
}

/* Sends the next request; false if none can be sent now. Builds of prepared boxes are not sent
 * ahead: a create that waits for an assignment would wait for all of them. */
static bool send_next_request(struct local_lane *l)
{
    struct local_request *q = next_unsent(l);
    bool alone = q && q->type == LAUNCH_CREATE && request_box(q)->assign.prepared;
    struct err e = { 0 };
    int r;

    if (!q || l->n_sent >= (alone ? 1u : LOCAL_WINDOW))
        return false;
    r = q->type == LAUNCH_CREATE ? local_prepare_create(request_box(q), &e) : 0;
    if (r < 0) {
        report_request_failed(q, r, &e, "prepare");
        return true;
    }
    r = send_launch_request(l, q, &e);
    if (r == -(int)ERR_BUSY) {
        loop_fd_want(&l->fd, LOOP_READ | LOOP_WRITE, NULL);
        return false;
    }
    if (r == -(int)ERR_UPSTREAM)
        return false; /* the read reports the reason */
    if (r < 0)
        report_request_failed(q, r, &e, "launcher");
    else
        mark_sent(l, q);
    return true;
}

static void pump_lane(struct local_lane *l)
{
    struct err e = { 0 };

    if (l->launcher.sock < 0 && (l->n == 0 || loop_timer_started(&l->timer)))
        return;
    if (l->launcher.sock < 0 && lane_open(l, &e) < 0) {
        l->why = e;
        l->tries++;
        retry_launcher(l);
        return;
    }
    while (send_next_request(l))
        ;
}

/* receiving */

static bool answer_fits(struct local_request *q, const union launch_answer *a)
{
    enum launch_type wanted = q->type == LAUNCH_CREATE    ? LAUNCH_CREATED
                              : q->type == LAUNCH_DESTROY ? LAUNCH_DESTROYED
                              : q->type == LAUNCH_ASSIGN  ? LAUNCH_ASSIGNED
                                                          : LAUNCH_HELD;
    const char *id = a->head.type == LAUNCH_CREATED     ? a->created.id
                     : a->head.type == LAUNCH_DESTROYED ? a->destroyed.id
                     : a->head.type == LAUNCH_FAILED    ? a->failed.id
                                                        : a->named.id;

    return (a->head.type == LAUNCH_FAILED || a->head.type == wanted) &&
           (!id[0] || strncmp(id, request_box(q)->backend.id, ID_MAX) == 0);
}

static int receive_launch_answer(struct local_lane *l, struct err *e)
{
    struct local_request *q = link_request(list_first(&l->sent));
    union launch_answer a;
    int r;

    fault_point("launcher.recv");
    r = launcher_next(&l->launcher, &a, NULL, e);
    fault_point("launcher.recv");
    if (r < 0)
        return r;
    /* A launcher that cannot work reports that before the first request, and exits. */
    if (a.head.type == LAUNCH_FAILED && strncmp(a.failed.step, "launcher", LAUNCH_STEP_MAX) == 0)
        return launcher_failure(&a.failed, e);
    if (!q || !answer_fits(q, &a))
        return err_set(e, ERR_UPSTREAM, "the launcher sent an unexpected answer");
    l->tries = 0;
    report_request_answer(q, &a);
    return 0;
}

static void on_launch_answer(struct loop_fd *s, unsigned events)
{
    struct local_lane *l = container_of(s, struct local_lane, fd);
    struct err e = { 0 };
    int r = 0;

    if (events & LOOP_WRITE)
        loop_fd_want(&l->fd, LOOP_READ, NULL);
    while (r >= 0)
        r = receive_launch_answer(l, &e);
    if (r != -(int)ERR_BUSY) {
        lane_died(l, &e);
        return;
    }
    restart_answer_timer(l);
    pump_lane(l);
}
