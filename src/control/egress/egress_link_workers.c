/* The workers of outlets: as many as there are processors, shared; and those that serve one owner
 * or one sandbox alone. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "config/config.h"
#include "control/outlet_inside.h"
#include "control/plane.h"
#include "profile/profile.h"

enum { SHARED_MAX = 256 };
#define OWNER_IDLE_NS (30 * NS_PER_S) /* an owner's worker without sandboxes ends then */

static uint64_t restarts(const struct outlet_worker *w)
{
    return w->process.starts > 1 ? w->process.starts - 1 : 0;
}

static struct outlet_worker worker_init(struct control *c)
{
    return (struct outlet_worker){ .control = c,
                                   .process = { .loop = c->loop,
                                                .events = &outlet_worker_events,
                                                .start = c->egress_worker,
                                                .end = c->end_egress_worker,
                                                .user = c->user } };
}

/* ---- of one sandbox or one owner alone ---- */

static struct outlet_worker *own_new(struct control *c, const char *owner)
{
    struct outlet_worker *w = malloc(sizeof *w);

    if (!w)
        abort();
    *w = worker_init(c);
    w->own = !owner;
    snprintf(w->owner, sizeof w->owner, "%s", owner ? owner : "");
    list_append(&c->outlets.own, &w->link);
    return w;
}

static void own_free(struct outlet_worker *w)
{
    w->control->outlets.restarts += restarts(w);
    link_leave(&w->link);
    loop_later_stop(&w->gone);
    loop_timer_stop(&w->idle);
    outlet_places_done(w);
    egress_worker_close(&w->process);
    free(w);
}

static void on_gone(struct loop_later *l)
{
    own_free(container_of(l, struct outlet_worker, gone));
}

static void on_owner_idle(struct loop_timer *t)
{
    own_free(container_of(t, struct outlet_worker, idle));
}

static struct outlet_worker *find_owners_worker(struct control *c, const char *owner)
{
    for (struct link *l = list_first(&c->outlets.own); l; l = list_after(&c->outlets.own, l)) {
        struct outlet_worker *w = container_of(l, struct outlet_worker, link);

        if (!w->own && strcmp(w->owner, owner) == 0) {
            loop_timer_stop(&w->idle);
            return w;
        }
    }
    return own_new(c, owner);
}

/* ---- choosing ---- */

enum outlet_share outlet_share(const struct control *c, const struct profile *p)
{
    if (!p || p->network.worker == PROFILE_WORKER_OWN)
        return OUTLET_OWN;
    return p->network.worker == PROFILE_WORKER_OWNER || config_serves_tenants(c->config)
               ? OUTLET_OWNER
               : OUTLET_SHARED;
}

static struct outlet_worker *least_busy(const struct outlets *x)
{
    struct outlet_worker *best = &x->workers[0];

    for (size_t i = 1; i < x->n && best->n; i++)
        if (x->workers[i].n < best->n)
            best = &x->workers[i];
    return best;
}

void outlet_join_worker(struct outlet *o, enum outlet_share share, const char *owner)
{
    struct control *c = o->control;
    struct outlet_worker *w = share == OUTLET_SHARED           ? least_busy(&c->outlets)
                              : share == OUTLET_OWNER && owner ? find_owners_worker(c, owner)
                                                               : own_new(c, NULL);

    if (!w->opened)
        egress_worker_open(&w->process);
    w->opened = true;
    w->n++;
    list_append(&w->outlets, &o->link);
    o->worker = w;
}

void outlet_leave_worker(struct outlet *o)
{
    struct outlet_worker *w = o->worker;

    link_leave(&o->link);
    w->n--;
    if (w->own)
        loop_later(o->control->loop, &w->gone, on_gone, NULL);
    else if (w->owner[0] && !w->n)
        loop_timer_start(o->control->loop, &w->idle, clock_mono() + OWNER_IDLE_NS, on_owner_idle,
                         NULL);
}

/* ---- all of them ---- */

uint64_t outlets_restarts(struct control *c)
{
    struct outlets *x = &c->outlets;
    uint64_t n = x->restarts;

    for (size_t i = 0; i < x->n; i++)
        n += restarts(&x->workers[i]);
    for (struct link *l = list_first(&x->own); l; l = list_after(&x->own, l))
        n += restarts(container_of(l, struct outlet_worker, link));
    return n;
}

static size_t count_workers(const struct control *c)
{
    long n =
        c->config->egress.workers ? (long)c->config->egress.workers : sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : n > SHARED_MAX ? SHARED_MAX : (size_t)n;
}

int outlets_open(struct control *c, struct err *e)
{
    struct outlets *x = &c->outlets;

    x->dir = -1;
    if (mkdirat(c->context.state, "egress", 0700) < 0 && errno != EEXIST)
        return err_sys(e, "making the directory of egress logs");
    x->dir = openat(c->context.state, "egress", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (x->dir < 0)
        return err_sys(e, "opening the directory of egress logs");
    x->n = count_workers(c);
    x->workers = calloc(x->n, sizeof *x->workers);
    if (!x->workers)
        abort();
    for (size_t i = 0; i < x->n; i++)
        x->workers[i] = worker_init(c);
    return outlet_room_open(c, e);
}

static void let_go(struct index_entry *v, void *user)
{
    (void)user;
    outlet_forget(container_of(v, struct outlet, entry));
}

void outlets_close(struct control *c)
{
    struct outlets *x = &c->outlets;

    index_each(&x->index, let_go, NULL);
    for (size_t i = 0; i < x->n; i++) {
        outlet_places_done(&x->workers[i]);
        if (x->workers[i].opened)
            egress_worker_close(&x->workers[i].process);
    }
    for (struct link *l; (l = list_first(&x->own));)
        own_free(container_of(l, struct outlet_worker, link));
    free(x->workers);
    outlet_room_close(c);
    index_done(&x->index);
    if (x->workers)
        drop_fd(&x->dir);
    x->workers = NULL;
    x->n = 0;
}
