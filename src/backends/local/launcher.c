/* Launchers: requests in flight, and what becomes of them when one dies.
 *
 * A launcher works on one request after the other. So only a few are sent ahead, and the others
 * wait here, where they can still be taken back. First the assigning of prepared boxes, which a
 * create waits for; then removing, because it gives back what building needs; then building. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/hook.h"
#include "base/log.h"
#include "base/own.h"
#include "extensions/local.h"

static void on_answer(struct loop_fd *s, unsigned events);
static void pump(struct lane *l);

static void on_later(struct loop_later *s)
{
    pump(container_of(s, struct lane, later));
}

static void on_try(struct loop_timer *t)
{
    pump(container_of(t, struct lane, timer));
}

static void pump_soon(struct lane *l)
{
    /* -ERR_CONFLICT: it is set to run already */
    loop_later(l->x->c->loop, &l->later, on_later, NULL);
}

void local_lane_init(struct lane *l, struct extension *x)
{
    *l = (struct lane){ .x = x, .launcher = { .sock = -1 }, .life = 1 };
}

/* requests */

static struct local_box *box_of(struct local_request *q)
{
    switch (q->type) {
    case LAUNCH_CREATE:
        return container_of(q, struct local_box, create);
    case LAUNCH_DESTROY:
        return container_of(q, struct local_box, destroy);
    case LAUNCH_ASSIGN:
        return container_of(q, struct local_box, assign);
    default:
        return container_of(q, struct local_box, hold);
    }
}

static struct local_request *request_of(struct link *m)
{
    return m ? container_of(m, struct local_request, link) : NULL;
}

static void enqueue(struct lane *l, struct local_request *q)
{
    q->lane = l;
    q->sent = false;
    list_append(q->type == LAUNCH_CREATE   ? &l->creates
                : q->type == LAUNCH_ASSIGN ? &l->assigns
                                           : &l->destroys,
                &q->link);
    l->n++;
    local_hold(box_of(q));
    pump_soon(l);
}

/* The caller releases the box when it has told it what became of the request. */
static void dequeue(struct local_request *q)
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
    dequeue(q);
    local_release(box_of(q));
    return true;
}

/* The first of those with equally little to do: what it needs is still in the caches. */
static struct lane *least_busy(struct extension *x)
{
    struct lane *best = &x->lanes[0];

    for (size_t i = 1; i < LOCAL_LAUNCHERS; i++)
        if (x->lanes[i].n < best->n)
            best = &x->lanes[i];
    return best;
}

void local_lane_create(struct extension *x, struct local_box *b)
{
    b->create.type = LAUNCH_CREATE;
    enqueue(least_busy(x), &b->create);
}

void local_lane_destroy(struct extension *x, struct local_box *b)
{
    bool known = b->maker && b->maker->life == b->maker_life;

    b->destroy.type = LAUNCH_DESTROY;
    enqueue(known ? b->maker : least_busy(x), &b->destroy);
}

void local_lane_hold(struct extension *x, struct local_box *b, bool freeze)
{
    b->hold.type = freeze ? LAUNCH_FREEZE : LAUNCH_THAW;
    enqueue(least_busy(x), &b->hold);
}

void local_lane_assign(struct local_box *b)
{
    b->assign.type = LAUNCH_ASSIGN;
    enqueue(b->maker, &b->assign);
}

static void tell_failed(struct local_request *q, int r, const struct err *e, const char *step)
{
    struct local_box *b = box_of(q);

    dequeue(q);
    if (q->type == LAUNCH_CREATE)
        local_create_failed(b, r, e, step);
    else if (q->type == LAUNCH_DESTROY)
        local_destroy_failed(b, r, e);
    else if (q->type == LAUNCH_ASSIGN)
        local_assign_failed(b, e);
    else
        local_hold_failed(b, r, e);
    local_release(b);
}

static void tell_lost(struct local_request *q, const struct err *e)
{
    struct local_box *b = box_of(q);

    dequeue(q);
    if (q->type == LAUNCH_CREATE)
        local_create_lost(b, e);
    else if (q->type == LAUNCH_DESTROY)
        local_destroy_lost(b);
    else if (q->type == LAUNCH_ASSIGN)
        local_assign_failed(b, e);
    else
        local_hold_lost(b);
    local_release(b);
}

static void tell_answer(struct local_request *q, const union launch_answer *a)
{
    struct local_box *b = box_of(q);
    struct err e = { 0 };

    if (a->head.type == LAUNCH_FAILED) {
        char step[LAUNCH_STEP_MAX + 1];

        snprintf(step, sizeof step, "%.*s", LAUNCH_STEP_MAX, a->failed.step);
        tell_failed(q, launcher_failure(&a->failed, &e), &e, step);
        return;
    }
    dequeue(q);
    if (a->head.type == LAUNCH_CREATED)
        local_created(b, &a->created);
    else if (a->head.type == LAUNCH_DESTROYED)
        local_destroyed(b, &a->destroyed);
    else if (a->head.type == LAUNCH_HELD)
        local_held(b);
    local_release(b);
}

/* The next request to send; NULL: there is none. */
static struct local_request *next_unsent(struct lane *l)
{
    struct list *lists[] = { &l->assigns, &l->destroys, &l->creates };
    struct link *m = NULL;

    for (size_t i = 0; !m && i < COUNT_OF(lists); i++)
        m = list_first(lists[i]);
    return request_of(m);
}

/* life and death of a launcher */

static void fail_all(struct lane *l)
{
    struct local_request *q;
    struct err e = { 0 };
    int r = err_set(&e, ERR_UPSTREAM, "no launcher can be had: %.180s", l->why.msg);

    LOG(ERROR, "launcher.unavailable", LOG_S("error", l->why.msg));
    l->tries = 0;
    /* Only those that wait now: what fails may ask again, and shall be tried again. */
    for (size_t n = l->n; n > 0; n--) {
        q = request_of(list_first(&l->creates));
        if (!q)
            q = next_unsent(l);
        if (q)
            tell_failed(q, r, &e, "launcher");
    }
}

static int64_t rest(const struct lane *l)
{
    unsigned tries = l->tries < LOCAL_LAUNCHER_TRIES ? l->tries : LOCAL_LAUNCHER_TRIES;

    return tries > 1 ? LOCAL_RETRY_NS << (tries - 2) : 0;
}

/* A lane that nobody waits for rests too: what was lost may come back in a moment, and would get
 * one launcher after the other as fast as they die. */
static void try_again(struct lane *l)
{
    if (l->n > 0 && l->tries >= LOCAL_LAUNCHER_TRIES)
        fail_all(l);
    else
        loop_timer_start(l->x->c->loop, &l->timer, clock_mono() + rest(l), on_try, NULL);
}

static void on_silence(struct loop_timer *t);

static void hang_up(struct lane *l)
{
    loop_timer_stop(&l->timer);
    loop_fd_stop(&l->fd);
    drop_fd(&l->launcher.sock);
    l->life++;
}

/* Requests to destroy or assign what this launcher has made, and that were not sent: to the next
 * one it will be a stranger. */
static void lose_own(struct lane *l)
{
    struct local_request *assign;
    struct link *next;

    while ((assign = request_of(list_first(&l->assigns))))
        tell_lost(assign, &l->why);
    for (struct link *m = list_first(&l->destroys); m; m = next) {
        struct local_request *q = request_of(m);

        next = list_after(&l->destroys, m);
        if (q->type == LAUNCH_DESTROY && box_of(q)->maker == l)
            tell_lost(q, &l->why);
    }
}

static void lane_died(struct lane *l, const struct err *e)
{
    struct local_request *q;

    LOG(WARN, "launcher.died", LOG_S("error", e->msg), LOG_I("requests", (int64_t)l->n_sent));
    hang_up(l);
    l->why = *e;
    l->tries++;
    while ((q = request_of(list_first(&l->sent))))
        tell_lost(q, &l->why);
    lose_own(l);
    try_again(l);
}

static void on_silence(struct loop_timer *t)
{
    struct err e = { 0 };

    (void)err_set(&e, ERR_TIMEOUT, "the launcher does not answer");
    lane_died(container_of(t, struct lane, timer), &e);
}

static void watch_silence(struct lane *l)
{
    loop_timer_stop(&l->timer);
    if (l->n_sent)
        loop_timer_start(l->x->c->loop, &l->timer, clock_mono() + LOCAL_ANSWER_NS, on_silence,
                         NULL);
}

static int lane_open(struct lane *l, struct err *e)
{
    const struct ext_context *c = l->x->c;
    int flags, r = c->launcher(c->user, &l->launcher.sock, e);

    if (r < 0)
        return r;
    flags = fcntl(l->launcher.sock, F_GETFL);
    if (flags < 0 || fcntl(l->launcher.sock, F_SETFL, flags | O_NONBLOCK) < 0)
        r = err_sys(e, "preparing the connection to the launcher");
    else
        r = loop_fd_start(c->loop, &l->fd, l->launcher.sock, LOOP_READ, on_answer, e);
    if (r < 0)
        drop_fd(&l->launcher.sock);
    return r;
}

void local_lane_done(struct lane *l)
{
    struct list *lists[] = { &l->sent, &l->assigns, &l->destroys, &l->creates };

    loop_later_stop(&l->later);
    hang_up(l);
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        for (struct local_request *q; (q = request_of(list_first(lists[i])));) {
            dequeue(q);
            local_release(box_of(q));
        }
}

/* sending */

static int send_request(struct lane *l, struct local_request *q, struct err *e)
{
    struct local_box *b = box_of(q);
    int r;

    hook_point("launcher.send");
    if (q->type == LAUNCH_CREATE)
        r = launcher_create(&l->launcher, &b->plan->plan, b->plan->fds, b->plan->n, e);
    else if (q->type == LAUNCH_DESTROY)
        r = launcher_destroy(&l->launcher, b->ext.id, e);
    else if (q->type == LAUNCH_ASSIGN)
        r = launcher_assign(&l->launcher, b->ext.id, &b->owner, e);
    else
        r = launcher_hold(&l->launcher, b->ext.id, q->type == LAUNCH_FREEZE, e);
    hook_point("launcher.send");
    return r;
}

static void mark_sent(struct lane *l, struct local_request *q)
{
    struct local_box *b = box_of(q);

    link_leave(&q->link);
    list_append(&l->sent, &q->link);
    q->sent = true;
    l->n_sent++;
    if (q->type == LAUNCH_CREATE) {
        b->maker = l;
        b->maker_life = l->life;
        local_plan_free(take_ptr(b->plan));
    }
    if (l->n_sent == 1)
        watch_silence(l);
}

/* No build of a prepared box is sent ahead: a create that waits for an assignment would wait for
 * all of them. */
static size_t window_of(struct local_request *q)
{
    return q->type == LAUNCH_CREATE && box_of(q)->prepared ? 1 : LOCAL_WINDOW;
}

/* False if no more can be sent now. */
static bool send_next(struct lane *l)
{
    struct local_request *q = next_unsent(l);
    struct err e = { 0 };
    int r;

    if (!q || l->n_sent >= window_of(q))
        return false;
    r = q->type == LAUNCH_CREATE ? local_prepare(box_of(q), &e) : 0;
    if (r < 0) {
        tell_failed(q, r, &e, "prepare");
        return true;
    }
    r = send_request(l, q, &e);
    if (r == -(int)ERR_BUSY) {
        loop_fd_want(&l->fd, LOOP_READ | LOOP_WRITE, NULL);
        return false;
    }
    if (r == -(int)ERR_UPSTREAM)
        return false; /* reading will tell why */
    if (r < 0)
        tell_failed(q, r, &e, "launcher");
    else
        mark_sent(l, q);
    return true;
}

static void pump(struct lane *l)
{
    struct err e = { 0 };

    if (l->launcher.sock < 0 && (l->n == 0 || loop_timer_started(&l->timer)))
        return;
    if (l->launcher.sock < 0 && lane_open(l, &e) < 0) {
        l->why = e;
        l->tries++;
        try_again(l);
        return;
    }
    while (send_next(l))
        ;
}

/* hearing */

static bool fits(struct local_request *q, const union launch_answer *a)
{
    enum launch_type wanted = q->type == LAUNCH_CREATE    ? LAUNCH_CREATED
                              : q->type == LAUNCH_DESTROY ? LAUNCH_DESTROYED
                              : q->type == LAUNCH_ASSIGN  ? LAUNCH_ASSIGNED
                                                          : LAUNCH_HELD;
    const char *id = a->head.type == LAUNCH_CREATED     ? a->created.id
                     : a->head.type == LAUNCH_DESTROYED ? a->destroyed.id
                     : a->head.type == LAUNCH_HELD      ? a->held.id
                     : a->head.type == LAUNCH_ASSIGNED  ? a->assigned.id
                                                        : a->failed.id;

    return (a->head.type == LAUNCH_FAILED || a->head.type == wanted) &&
           (!id[0] || strncmp(id, box_of(q)->ext.id, ID_MAX) == 0);
}

static int hear(struct lane *l, struct err *e)
{
    struct local_request *q = request_of(list_first(&l->sent));
    union launch_answer a;
    int r;

    hook_point("launcher.recv");
    r = launcher_next(&l->launcher, &a, NULL, e);
    hook_point("launcher.recv");
    if (r < 0)
        return r;
    /* A launcher that cannot work says so before it is asked, and ends. */
    if (a.head.type == LAUNCH_FAILED && strncmp(a.failed.step, "launcher", LAUNCH_STEP_MAX) == 0)
        return launcher_failure(&a.failed, e);
    if (!q || !fits(q, &a))
        return err_set(e, ERR_UPSTREAM, "the launcher answered what was not asked");
    l->tries = 0;
    tell_answer(q, &a);
    return 0;
}

static void on_answer(struct loop_fd *s, unsigned events)
{
    struct lane *l = container_of(s, struct lane, fd);
    struct err e = { 0 };
    int r = 0;

    if (events & LOOP_WRITE)
        loop_fd_want(&l->fd, LOOP_READ, NULL);
    while (r >= 0)
        r = hear(l, &e);
    if (r != -(int)ERR_BUSY) {
        lane_died(l, &e);
        return;
    }
    watch_silence(l);
    pump(l);
}
