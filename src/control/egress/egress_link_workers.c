/* SPDX-License-Identifier: Apache-2.0 */
/* The workers of egress links: shared ones, as many as there are processors, and those that serve
 * one owner or one sandbox only. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "domain/config/config.h"
#include "control/egress/egress_link_internal.h"
#include "control/plane/plane.h"
#include "domain/profile/profile.h"

enum { SHARED_MAX = 256 };
#define OWNER_IDLE_NS (30 * NS_PER_S) /* an owner's worker without sandboxes ends after this */

static uint64_t count_restarts(const struct egress_link_worker *w)
{
    return w->process.starts > 1 ? w->process.starts - 1 : 0;
}

static struct egress_link_worker make_link_worker(struct control *c)
{
    return (struct egress_link_worker){ .control = c,
                                        .process = { .loop = c->loop,
                                                     .events = &egress_link_worker_events,
                                                     .start = c->supervisor.egress_worker,
                                                     .end = c->supervisor.end_egress_worker,
                                                     .user = c->supervisor.user } };
}

/* ---- workers of one sandbox or one owner ---- */

static struct egress_link_worker *own_worker_new(struct control *c, const char *owner)
{
    struct egress_link_worker *w = new0(sizeof *w);

    *w = make_link_worker(c);
    w->own = !owner;
    snprintf(w->owner, sizeof w->owner, "%s", owner ? owner : "");
    list_append(&c->egress_links->own, &w->link);
    return w;
}

static void own_worker_free(struct egress_link_worker *w)
{
    w->control->egress_links->restarts += count_restarts(w);
    link_leave(&w->link);
    loop_later_stop(&w->deferred_free);
    loop_timer_stop(&w->idle);
    egress_link_places_done(w);
    egress_worker_close(&w->process);
    free(w);
}

static void on_own_worker_gone(struct loop_later *l)
{
    own_worker_free(container_of(l, struct egress_link_worker, deferred_free));
}

static void on_owner_idle(struct loop_timer *t)
{
    own_worker_free(container_of(t, struct egress_link_worker, idle));
}

static struct egress_link_worker *find_owners_worker(struct control *c, const char *owner)
{
    LIST_EACH (struct egress_link_worker, w, &c->egress_links->own, link) {
        if (!w->own && strcmp(w->owner, owner) == 0) {
            loop_timer_stop(&w->idle);
            return w;
        }
    }
    return own_worker_new(c, owner);
}

/* ---- choosing ---- */

enum egress_link_share egress_link_share(const struct control *c, const struct profile *p)
{
    if (!p || p->network.worker == PROFILE_WORKER_OWN)
        return EGRESS_LINK_OWN;
    return p->network.worker == PROFILE_WORKER_OWNER || config_serves_tenants(c->config)
               ? EGRESS_LINK_OWNER
               : EGRESS_LINK_SHARED;
}

static struct egress_link_worker *find_least_busy(const struct egress_links *x)
{
    struct egress_link_worker *best = &x->workers[0];

    for (size_t i = 1; i < x->n && best->n; i++)
        if (x->workers[i].n < best->n)
            best = &x->workers[i];
    return best;
}

void egress_link_join_worker(struct egress_link *o, enum egress_link_share share, const char *owner)
{
    struct control *c = o->control;
    struct egress_link_worker *w = share == EGRESS_LINK_SHARED ? find_least_busy(c->egress_links)
                                   : share == EGRESS_LINK_OWNER && owner
                                       ? find_owners_worker(c, owner)
                                       : own_worker_new(c, NULL);

    if (!w->opened)
        egress_worker_open(&w->process);
    w->opened = true;
    w->n++;
    list_append(&w->egress_links, &o->link);
    o->worker = w;
}

void egress_link_leave_worker(struct egress_link *o)
{
    struct egress_link_worker *w = o->worker;

    link_leave(&o->link);
    w->n--;
    if (w->own)
        loop_later(o->control->loop, &w->deferred_free, on_own_worker_gone, NULL);
    else if (w->owner[0] && !w->n)
        loop_timer_start(o->control->loop, &w->idle, clock_mono() + OWNER_IDLE_NS, on_owner_idle,
                         NULL);
}

/* ---- all workers ---- */

uint64_t egress_links_restarts(struct control *c)
{
    struct egress_links *x = c->egress_links;
    uint64_t n = x->restarts;

    for (size_t i = 0; i < x->n; i++)
        n += count_restarts(&x->workers[i]);
    for (struct link *l = list_first(&x->own); l; l = list_after(&x->own, l))
        n += count_restarts(container_of(l, struct egress_link_worker, link));
    return n;
}

int egress_links_open(struct control *c, struct err *e)
{
    struct egress_links *x = c->egress_links;
    long n =
        c->config->egress.workers ? (long)c->config->egress.workers : sysconf(_SC_NPROCESSORS_ONLN);

    x->dir = -1;
    egress_links_open_hashing(c);
    if (mkdirat(c->context.state, "egress", 0700) < 0 && errno != EEXIST)
        return err_sys(e, "creating the directory of egress logs");
    x->dir = openat(c->context.state, "egress", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (x->dir < 0)
        return err_sys(e, "opening the directory of egress logs");
    x->n = n < 1 ? 1 : n > SHARED_MAX ? SHARED_MAX : (size_t)n;
    x->workers = new0_array(x->n, sizeof *x->workers);
    for (size_t i = 0; i < x->n; i++)
        x->workers[i] = make_link_worker(c);
    return egress_link_room_open(c, e);
}

static void forget_link(struct map_entry *v, void *user)
{
    egress_link_forget(container_of(v, struct egress_link, entry));
}

void egress_links_close(struct control *c)
{
    struct egress_links *x = c->egress_links;

    map_each(&x->by_box, forget_link, NULL);
    for (size_t i = 0; i < x->n; i++) {
        egress_link_places_done(&x->workers[i]);
        if (x->workers[i].opened)
            egress_worker_close(&x->workers[i].process);
    }
    for (struct link *l; (l = list_first(&x->own));)
        own_worker_free(container_of(l, struct egress_link_worker, link));
    free(x->workers);
    egress_link_room_close(c);
    turns_done(&x->hashing);
    map_done(&x->by_box);
    if (x->workers)
        drop_fd(&x->dir);
    x->workers = NULL;
    x->n = 0;
}
