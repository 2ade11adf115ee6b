/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sandbox/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "control/egress/egress_link.h"
#include "control/owner/owner_share.h"
#include "control/owner/owners.h"
#include "control/plane/plane.h"
#include "control/sandbox/remains.h"
#include "control/sandbox/spec.h"

enum {
    TICK_S = 5, /* how often demand is evaluated */
    /* Before a shelf is refilled that is not nearly empty: the hand-over completes first. */
    LULL_MS = 3,
    MAKING_MAX = 4,  /* boxes being provisioned at once: creates that miss the pool have priority */
    FAILURES_MAX = 5 /* in a row, then a shelf waits until the next tick */
};

struct pool_shelf {
    struct control *control;
    struct profile *profile;
    const struct backend_ops *ops;
    struct backend *backend;
    struct list ready; /* struct pool_box, the oldest first */
    unsigned n_ready, making, target, taken, failures;
    unsigned boxes;        /* of this shelf, in any state */
    unsigned foreseen;     /* that have an owner, or are being assigned to one */
    char owner[OWNER_MAX]; /* of the last box that was handed out; empty: none was */
    bool retired;
    bool egress;  /* its boxes have a network */
    unsigned min; /* the profile's, or 0 on the second shelf */
    struct link link;
};

enum pool_box_state { POOL_BOX_MAKING, POOL_BOX_READY, POOL_BOX_LEAVING };

struct pool_box {
    struct backend_box *box;
    struct control *control;
    struct pool_shelf *shelf; /* NULL: it was taken and returned */
    enum pool_box_state state;
    char owner[OWNER_MAX]; /* that it was assigned to ahead; empty: none */
    struct link link;      /* on its shelf */
    struct link all;       /* in the pool */
};

static void refill_soon(struct control *c);

static void remove_from_shelf(struct pool_box *b)
{
    struct pool_shelf *f = b->shelf;

    link_leave(&b->link);
    if (f && b->state == POOL_BOX_MAKING)
        f->making--;
    if (f && b->state == POOL_BOX_READY) {
        f->n_ready--;
        f->control->pool->ready--;
    }
    b->state = POOL_BOX_LEAVING;
}

static void clear_pool_box_owner(struct pool_box *b)
{
    if (b->shelf && b->owner[0])
        b->shelf->foreseen--;
    b->owner[0] = '\0';
}

static void tear_down_pool_box(struct pool_box *b)
{
    remove_from_shelf(b);
    clear_pool_box_owner(b);
    egress_link_free(egress_link_find(b->control, b->box->id));
    egress_link_remove_logs(b->control, b->box->id);
    b->box->ops->teardown(b->box);
}

static void shelf_free(struct pool_shelf *f)
{
    link_leave(&f->link);
    profile_unref(f->profile);
    free(f);
}

static void free_if_empty(struct pool_shelf *f)
{
    if (f->retired && !f->boxes && !f->control->pool->closing)
        shelf_free(f);
}

static void unlink_pool_box(struct pool_box *b)
{
    link_leave(&b->all);
    b->control->pool->total--;
    free(b);
}

/* Whether the box continues after a step: one that failed, or whose shelf is gone, is torn down. */
static bool may_continue(struct pool_box *b, int r, const struct err *e)
{
    if (b->state == POOL_BOX_LEAVING)
        return false;
    if (r >= 0 && !b->shelf->retired)
        return true;
    if (r < 0) {
        LOG(WARN, "pool.failed", LOG_S("profile", b->shelf->profile->id), LOG_S("error", e->msg));
        b->shelf->failures++;
    }
    tear_down_pool_box(b);
    return false;
}

static void on_pool_box_provisioned(struct backend_box *x, int r, const struct err *e)
{
    if (may_continue(x->owner, r, e))
        x->ops->wait_ready(x);
}

static void add_to_shelf(struct pool_box *b)
{
    b->state = POOL_BOX_READY;
    b->shelf->failures = 0;
    b->shelf->n_ready++;
    b->control->pool->ready++;
    list_append(&b->shelf->ready, &b->link);
    refill_soon(b->control);
}

/* The owner of the last hand-out is the likeliest next one: most boxes of a shelf are assigned to
 * it before the create. The rest stay without an owner, for others. */
static bool wants_assigned_ahead(const struct pool_shelf *f)
{
    return f->owner[0] && f->foreseen < f->target - (f->target + 3) / 4;
}

static void on_pool_box_assigned(struct backend_box *x, int r, const struct err *e)
{
    struct pool_box *b = x->owner;

    if (r == -(int)ERR_FULL && b->state != POOL_BOX_LEAVING) /* the owner gets no boxes now */
        b->shelf->owner[0] = '\0';
    if (!may_continue(b, r, e))
        return;
    remove_from_shelf(b);
    add_to_shelf(b);
}

static void on_pool_box_ready(struct backend_box *x, int r, const struct err *e)
{
    struct pool_box *b = x->owner;
    struct pool_shelf *f = b->shelf;
    enum egress_link_share worker;
    struct backend_owner share;

    if (!may_continue(b, r, e))
        return;
    remove_from_shelf(b);
    worker = egress_link_share(b->control, f->profile);
    if (f->egress && worker != EGRESS_LINK_OWNER)           /* its owner is not known yet */
        egress_link_new(b->control, x, worker, NULL, NULL); /* denies all until a create */
    if (!wants_assigned_ahead(f)) {
        add_to_shelf(b);
        return;
    }
    b->state = POOL_BOX_MAKING;
    f->making++;
    f->foreseen++;
    memcpy(b->owner, f->owner, sizeof b->owner);
    owner_share_of(b->control, b->owner, &share);
    x->ops->assign(x, &share);
}

static void on_pool_box_torn_down(struct backend_box *x, int r, const struct err *e,
                                  const struct backend_report *report)
{
    struct pool_box *b = x->owner;
    struct control *c = b->control;
    struct pool_shelf *f = b->shelf;

    if (r < 0)
        LOG(WARN, "pool.leftover", LOG_S("sandbox", x->id), LOG_S("error", e->msg));
    remains_clear(c, x->id);
    x->ops->box_free(x);
    unlink_pool_box(b);
    if (f) {
        f->boxes--;
        free_if_empty(f);
    }
    refill_soon(c);
}

static void on_pool_box_gone(struct backend_box *x, const char *reason)
{
    struct pool_box *b = x->owner;

    LOG(WARN, "pool.died", LOG_S("sandbox", x->id), LOG_S("reason", reason));
    if (b->state != POOL_BOX_LEAVING)
        tear_down_pool_box(b);
}

static void on_pool_box_listeners(struct backend_box *x, int r, const struct err *e,
                                  struct listeners *l)
{
    struct pool_box *b = x->owner;

    egress_link_on_listeners(b->control, x, r, e, l);
}

static void on_pool_box_who(struct backend_box *x, uint64_t tag, int r, const struct err *e,
                            const struct backend_who *w)
{
    struct pool_box *b = x->owner;

    egress_link_on_who(b->control, x, tag, r, e, w);
}

static const struct backend_box_events events = {
    .provisioned = on_pool_box_provisioned,
    .ready = on_pool_box_ready,
    .torn_down = on_pool_box_torn_down,
    .gone = on_pool_box_gone,
    .assigned = on_pool_box_assigned,
    .listeners = on_pool_box_listeners,
    .who = on_pool_box_who,
};

static struct pool_box *pool_box_new(struct control *c, struct pool_shelf *f, struct backend_box *x)
{
    struct pool_box *b = new0(sizeof *b);

    *b = (struct pool_box){ .box = x, .control = c, .shelf = f };
    x->owner = b;
    x->events = &events;
    list_append(&c->pool->boxes, &b->all);
    c->pool->total++;
    return b;
}

static void provision_pool_box(struct pool_shelf *f)
{
    const struct create_request plain = { .egress.given = f->egress };
    struct control *c = f->control;
    struct backend_spec spec;
    struct backend_box *x;
    char id[ID_MAX];

    if (id_make("sbx_", id, NULL) < 0 || spec_fill(f->profile, &plain, false, &spec, NULL) < 0)
        return;
    x = f->ops->box_new(f->backend, id, &events, NULL);
    pool_box_new(c, f, x);
    f->boxes++;
    f->making++;
    f->ops->provision(x, &spec);
}

static void on_pool_refill(struct loop_timer *t)
{
    struct control *c = container_of(t, struct pool, refill)->control;

    LIST_EACH (struct pool_shelf, f, &c->pool->shelves, link)
        while (f->n_ready + f->making < f->target && f->making < MAKING_MAX &&
               f->failures < FAILURES_MAX && c->pool->total < c->config->pool.total_max)
            provision_pool_box(f);
}

static void schedule_refill(struct control *c, int64_t when)
{
    if (c->pool->closing || (loop_timer_started(&c->pool->refill) && c->pool->refill_at <= when))
        return;
    loop_timer_stop(&c->pool->refill);
    c->pool->refill_at = when;
    loop_timer_start(c->loop, &c->pool->refill, when, on_pool_refill, NULL);
}

static void refill_soon(struct control *c)
{
    schedule_refill(c, clock_mono());
}

static unsigned clamp_unsigned(unsigned v, unsigned min, unsigned max)
{
    return v < min ? min : v > max ? max : v;
}

/* Whether an owner has no sandboxes left, and took none since the last tick. */
static bool has_left(const struct pool_shelf *f, const char *owner)
{
    return owner[0] && owner_count(&f->control->owners, owner) == 0 &&
           !(f->taken && strcmp(f->owner, owner) == 0);
}

/* Twice as many as were taken since the last tick; fewer, step by step, in quiet times. */
static void adjust_target(struct pool_shelf *f)
{
    unsigned want = f->taken * 2;
    struct link *m;

    if (want < f->target)
        want = f->target - (f->target - want + 3) / 4;
    f->target = f->retired ? 0 : clamp_unsigned(want, f->min, f->profile->pool.max);
    /* The control groups of an owner go with its last sandbox: no box is kept for an owner that
     * left. */
    if (has_left(f, f->owner))
        f->owner[0] = '\0';
    LIST_EACH_SAFE (struct pool_box, b, &f->ready, link)
        if (has_left(f, b->owner))
            tear_down_pool_box(b);
    f->taken = 0;
    f->failures = 0;
    while (f->n_ready > f->target && (m = list_first(&f->ready)))
        tear_down_pool_box(container_of(m, struct pool_box, link));
}

static void on_pool_tick(struct loop_timer *t)
{
    struct control *c = container_of(t, struct pool, tick)->control;

    for (struct link *m = list_first(&c->pool->shelves); m; m = list_after(&c->pool->shelves, m))
        adjust_target(container_of(m, struct pool_shelf, link));
    refill_soon(c);
    loop_timer_start(c->loop, t, clock_mono() + TICK_S * NS_PER_S, on_pool_tick, NULL);
}

static struct pool_shelf *find_shelf(struct control *c, const struct profile *p, bool egress)
{
    LIST_EACH (struct pool_shelf, f, &c->pool->shelves, link)
        if (f->profile == p && f->egress == egress)
            return f;
    return NULL;
}

static void retire_shelf(struct pool_shelf *f)
{
    struct link *m;

    f->target = 0;
    f->retired = true;
    while ((m = list_first(&f->ready)))
        tear_down_pool_box(container_of(m, struct pool_box, link));
}

static void add_shelf(struct control *c, struct profile *p, bool egress, unsigned min)
{
    const struct backend_ops *ops;
    struct backend *backend = control_backend(c, p->extension, &ops);
    struct pool_shelf *f;

    if (!p->pool.max || !backend || !(ops->can & BACKEND_CAN_POOL) ||
        (egress && !(ops->can & BACKEND_CAN_EGRESS)) || find_shelf(c, p, egress))
        return;
    f = new0(sizeof *f);
    *f = (struct pool_shelf){ .control = c,
                              .profile = profile_ref(p),
                              .ops = ops,
                              .backend = backend,
                              .target = min,
                              .egress = egress,
                              .min = min };
    list_append(&c->pool->shelves, &f->link);
}

static void add_shelves(struct control *c)
{
    const struct create_request nothing = { 0 };

    for (size_t i = 0; i < c->catalog->n; i++) {
        struct profile *p = c->catalog->entries[i].profile;

        if (!p)
            continue;
        add_shelf(c, p, policy_wanted(p, &nothing), p->pool.min);
        add_shelf(c, p, true, 0);
    }
}

void pool_open(struct control *c)
{
    if (!c->config->pool.enabled)
        return;
    add_shelves(c);
    refill_soon(c);
    loop_timer_start(c->loop, &c->pool->tick, clock_mono() + TICK_S * NS_PER_S, on_pool_tick, NULL);
}

/* The old catalog's shelves are emptied, and freed with their last box. */
void pool_reload(struct control *c)
{
    if (!c->config->pool.enabled)
        return;
    LIST_EACH_SAFE (struct pool_shelf, f, &c->pool->shelves, link) {
        retire_shelf(f);
        free_if_empty(f);
    }
    add_shelves(c);
    refill_soon(c);
}

/* Boxes that are being provisioned are torn down when their backend reports. */
void pool_close(struct control *c)
{
    c->pool->closing = true;
    loop_timer_stop(&c->pool->tick);
    loop_timer_stop(&c->pool->refill);
    for (struct link *m = list_first(&c->pool->shelves); m; m = list_after(&c->pool->shelves, m))
        retire_shelf(container_of(m, struct pool_shelf, link));
}

/* A ready box of this owner (may be empty); NULL: none. */
static struct pool_box *find_pool_box(struct pool_shelf *f, const char *owner)
{
    LIST_EACH (struct pool_box, b, &f->ready, link)
        if (strcmp(b->owner, owner) == 0)
            return b;
    return NULL;
}

/* A live box of the owner, or one without an owner. */
static struct pool_box *choose_pool_box(struct pool_shelf *f, const char *owner)
{
    for (;;) {
        struct pool_box *b = find_pool_box(f, owner);

        if (!b)
            b = find_pool_box(f, "");
        if (!b || f->ops->alive(b->box))
            return b;
        tear_down_pool_box(b);
    }
}

/* An owner that comes a second time in a row replaces another one in the assignment ahead. */
static void evict_foreign_box(struct pool_shelf *f, const char *owner)
{
    if (strcmp(f->owner, owner) != 0 || wants_assigned_ahead(f))
        return;
    LIST_EACH (struct pool_box, b, &f->ready, link) {
        if (b->owner[0] && strcmp(b->owner, owner) != 0) {
            tear_down_pool_box(b);
            return;
        }
    }
}

void pool_note_owner(struct control *c, const struct profile *p, const struct create_request *q,
                     const char *owner)
{
    struct pool_shelf *f = find_shelf(c, p, policy_wanted(p, q));

    if (f)
        snprintf(f->owner, sizeof f->owner, "%s", owner);
}

struct backend_box *pool_take(struct control *c, const char *owner, struct profile *p,
                              const struct create_request *q, bool *ret_assigned)
{
    struct pool_shelf *f = find_shelf(c, p, policy_wanted(p, q));
    struct pool_box *b;
    struct backend_box *x;

    if (!f || !spec_is_plain(q))
        return NULL;
    f->taken++;
    if (f->taken > f->target && f->target < p->pool.max)
        f->target = clamp_unsigned(f->taken * 2, f->min, p->pool.max);
    b = choose_pool_box(f, owner);
    if (b)
        remove_from_shelf(b);
    if (!b || !b->owner[0])
        evict_foreign_box(f, owner);
    /* Provisioning competes with requests for a processor and the disk: it is delayed a little,
     * unless the shelf runs empty. */
    schedule_refill(c, clock_mono() + (f->n_ready < f->target / 2 ? 0 : LULL_MS * NS_PER_MS));
    if (!b) {
        c->pool->misses++;
        return NULL;
    }
    c->pool->hits++;
    x = b->box;
    *ret_assigned = b->owner[0];
    if (b->owner[0])
        memcpy(f->owner, b->owner, sizeof f->owner);
    clear_pool_box_owner(b);
    f->boxes--;
    unlink_pool_box(b);
    return x;
}

void pool_destroy_box(struct control *c, struct backend_box *x)
{
    if (x)
        tear_down_pool_box(pool_box_new(c, NULL, x));
}

unsigned control_pool_ready(const struct control *c)
{
    return c->pool->ready;
}

bool pool_knows(struct control *c, const char *id)
{
    for (struct link *m = list_first(&c->pool->boxes); m; m = list_after(&c->pool->boxes, m))
        if (strcmp(container_of(m, struct pool_box, all)->box->id, id) == 0)
            return true;
    return false;
}

void pool_done(struct control *c)
{
    for (struct link *m; (m = list_first(&c->pool->shelves));)
        shelf_free(container_of(m, struct pool_shelf, link));
}
