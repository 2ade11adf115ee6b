#include "control/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/owner_share.h"
#include "control/plane.h"
#include "control/spec.h"

enum {
    TICK_S = 5,      /* how often demand is looked at */
    LULL_MS = 3,     /* without haste, a hand-over is finished before its shelf is filled again */
    MAKING_MAX = 4,  /* boxes being made at once: creates that miss the pool come first */
    FAILURES_MAX = 5 /* in a row, then a shelf rests until the next tick */
};

struct shelf {
    struct control *control;
    struct profile *profile;
    const struct extension_ops *ops;
    struct extension *ext;
    struct list ready; /* struct boxed, the longest waiting first */
    unsigned n_ready, making, target, taken, failures;
    unsigned boxes;        /* that belong here, in whatever state */
    unsigned foreseen;     /* that have an owner, or are about to */
    char owner[OWNER_MAX]; /* who was given a box last; empty: none was */
    bool retired;
    bool egress;  /* its boxes have a network */
    unsigned min; /* the profile's, or 0 on the second shelf */
    struct link link;
};

enum boxed_state { BOXED_MAKING, BOXED_READY, BOXED_LEAVING };

struct boxed {
    struct ext_box *box;
    struct control *control;
    struct shelf *shelf; /* NULL: was taken and came back */
    enum boxed_state state;
    char owner[OWNER_MAX]; /* that it was assigned to ahead; empty: none yet */
    struct link link;      /* on its shelf */
    struct link all;       /* in the pool */
};

static void refill_soon(struct control *c);

static void leave(struct boxed *b)
{
    struct shelf *f = b->shelf;

    link_leave(&b->link);
    if (f && b->state == BOXED_MAKING)
        f->making--;
    if (f && b->state == BOXED_READY) {
        f->n_ready--;
        f->control->pool.ready--;
    }
    b->state = BOXED_LEAVING;
}

static void lose_owner(struct boxed *b)
{
    if (b->shelf && b->owner[0])
        b->shelf->foreseen--;
    b->owner[0] = '\0';
}

static void tear_down(struct boxed *b)
{
    leave(b);
    lose_owner(b);
    outlet_free(outlet_find(b->control, b->box->id));
    outlet_remove_logs(b->control, b->box->id);
    b->box->ops->teardown(b->box);
}

static void shelf_free(struct shelf *f)
{
    link_leave(&f->link);
    profile_unref(f->profile);
    free(f);
}

static void free_if_empty(struct shelf *f)
{
    if (f->retired && !f->boxes && !f->control->pool.closing)
        shelf_free(f);
}

static void forget(struct boxed *b)
{
    link_leave(&b->all);
    b->control->pool.total--;
    free(b);
}

static void free_boxed(struct boxed *b)
{
    struct control *c = b->control;
    struct shelf *f = b->shelf;

    b->box->ops->box_free(b->box);
    forget(b);
    if (f) {
        f->boxes--;
        free_if_empty(f);
    }
    refill_soon(c);
}

static void on_provisioned(struct ext_box *x, int r, const struct err *e)
{
    struct boxed *b = x->owner;

    if (b->state == BOXED_LEAVING)
        return;
    if (r >= 0) {
        x->ops->wait_ready(x);
        return;
    }
    LOG(WARN, "pool.failed", LOG_S("profile", b->shelf->profile->id), LOG_S("error", e->msg));
    b->shelf->failures++;
    tear_down(b);
}

static void shelve(struct boxed *b)
{
    b->state = BOXED_READY;
    b->shelf->failures = 0;
    b->shelf->n_ready++;
    b->control->pool.ready++;
    list_append(&b->shelf->ready, &b->link);
    refill_soon(b->control);
}

/* The owner who was given a box last is the likeliest to come next: for most boxes of a shelf, the
 * hand-over is done before the create. Some stay without an owner, for others. */
static bool foresees(const struct shelf *f)
{
    return f->owner[0] && f->foreseen < f->target - (f->target + 3) / 4;
}

static void assign_ahead(struct boxed *b)
{
    struct shelf *f = b->shelf;
    struct ext_owner share;

    b->state = BOXED_MAKING;
    f->making++;
    f->foreseen++;
    memcpy(b->owner, f->owner, sizeof b->owner);
    owner_share_of(b->control, b->owner, &share);
    b->box->ops->assign(b->box, &share);
}

static void on_assigned(struct ext_box *x, int r, const struct err *e)
{
    struct boxed *b = x->owner;

    if (b->state == BOXED_LEAVING)
        return;
    if (r < 0) {
        on_provisioned(x, r, e);
        return;
    }
    if (b->shelf->retired) {
        tear_down(b);
        return;
    }
    leave(b);
    shelve(b);
}

static void on_ready(struct ext_box *x, int r, const struct err *e)
{
    struct boxed *b = x->owner;
    enum outlet_share share;

    if (b->state == BOXED_LEAVING)
        return;
    if (r < 0) {
        on_provisioned(x, r, e);
        return;
    }
    if (b->shelf->retired) {
        tear_down(b);
        return;
    }
    leave(b);
    share = outlet_share(b->control, b->shelf->profile);
    if (b->shelf->egress && share != OUTLET_OWNER)    /* whose it will be is not known yet */
        outlet_new(b->control, x, share, NULL, NULL); /* denies all until a create takes the box */
    if (foresees(b->shelf))
        assign_ahead(b);
    else
        shelve(b);
}

static void on_torn_down(struct ext_box *x, int r, const struct err *e,
                         const struct ext_report *report)
{
    (void)report;
    if (r < 0)
        LOG(WARN, "pool.leftover", LOG_S("sandbox", x->id), LOG_S("error", e->msg));
    layers_clear_box(((struct boxed *)x->owner)->control, x->id);
    free_boxed(x->owner);
}

static void on_gone(struct ext_box *x, const char *reason)
{
    struct boxed *b = x->owner;

    LOG(WARN, "pool.died", LOG_S("sandbox", x->id), LOG_S("reason", reason));
    if (b->state != BOXED_LEAVING)
        tear_down(b);
}

static void on_listeners(struct ext_box *x, int r, const struct err *e, struct listeners *l)
{
    struct boxed *b = x->owner;

    outlet_listeners(b->control, x, r, e, l);
}

static void on_who(struct ext_box *x, uint64_t tag, int r, const struct err *e,
                   const struct ext_who *w)
{
    struct boxed *b = x->owner;

    outlet_who(b->control, x, tag, r, e, w);
}

static const struct ext_box_events events = {
    .provisioned = on_provisioned,
    .ready = on_ready,
    .torn_down = on_torn_down,
    .gone = on_gone,
    .assigned = on_assigned,
    .listeners = on_listeners,
    .who = on_who,
};

static struct boxed *boxed_new(struct control *c, struct shelf *f, struct ext_box *x)
{
    struct boxed *b = calloc(1, sizeof *b);

    if (!b)
        abort();
    *b = (struct boxed){ .box = x, .control = c, .shelf = f };
    x->owner = b;
    x->events = &events;
    list_append(&c->pool.boxes, &b->all);
    c->pool.total++;
    return b;
}

static void make_one(struct shelf *f)
{
    const struct create_request plain = { .egress.given = f->egress };
    struct control *c = f->control;
    struct ext_spec spec;
    struct ext_box *x;
    char id[ID_MAX];

    if (id_make("sbx_", id, NULL) < 0 || spec_fill(f->profile, &plain, false, &spec, NULL) < 0)
        return;
    x = f->ops->box_new(f->ext, id, &events, NULL);
    boxed_new(c, f, x);
    f->boxes++;
    f->making++;
    f->ops->provision(x, &spec);
}

static bool wants_more(const struct shelf *f)
{
    const struct control *c = f->control;

    return f->n_ready + f->making < f->target && f->making < MAKING_MAX &&
           f->failures < FAILURES_MAX && c->pool.total < c->config->pool.total_max;
}

static void refill(struct loop_timer *t)
{
    struct control *c = container_of(t, struct control, pool.refill);

    for (struct link *m = list_first(&c->pool.shelves); m; m = list_after(&c->pool.shelves, m)) {
        struct shelf *f = container_of(m, struct shelf, link);

        while (wants_more(f))
            make_one(f);
    }
}

static void refill_at(struct control *c, int64_t when)
{
    if (c->pool.closing || (loop_timer_started(&c->pool.refill) && c->pool.refill_at <= when))
        return;
    loop_timer_stop(&c->pool.refill);
    c->pool.refill_at = when;
    loop_timer_start(c->loop, &c->pool.refill, when, refill, NULL);
}

static void refill_soon(struct control *c)
{
    refill_at(c, clock_mono());
}

/* Building takes a processor and the disk from whoever is being served: it can wait a moment, but
 * not while the shelf runs empty. */
static void refill_after(struct shelf *f)
{
    bool haste = f->n_ready < f->target / 2;

    refill_at(f->control, clock_mono() + (haste ? 0 : LULL_MS * NS_PER_MS));
}

static unsigned clamp(unsigned v, unsigned min, unsigned max)
{
    return v < min ? min : v > max ? max : v;
}

/* Whether an owner left: it has no sandboxes, and took none since the last look. */
static bool has_left(const struct shelf *f, const char *owner)
{
    return owner[0] && owner_count(&f->control->owners, owner) == 0 &&
           !(f->taken && strcmp(f->owner, owner) == 0);
}

/* The groups of an owner go with its last sandbox: none is kept for one who left. */
static void release_foreseen(struct shelf *f)
{
    struct link *next;

    if (has_left(f, f->owner))
        f->owner[0] = '\0';
    for (struct link *m = list_first(&f->ready); m; m = next) {
        struct boxed *b = container_of(m, struct boxed, link);

        next = list_after(&f->ready, m);
        if (has_left(f, b->owner))
            tear_down(b);
    }
}

/* As many as were taken since the last look, and some for a burst; less by and by when it is quiet.
 */
static void look_at_demand(struct shelf *f)
{
    unsigned want = f->taken * 2;
    struct link *m;

    if (want < f->target)
        want = f->target - (f->target - want + 3) / 4;
    f->target = f->retired ? 0 : clamp(want, f->min, f->profile->pool.max);
    release_foreseen(f);
    f->taken = 0;
    f->failures = 0;
    while (f->n_ready > f->target && (m = list_first(&f->ready)))
        tear_down(container_of(m, struct boxed, link));
}

static void on_tick(struct loop_timer *t)
{
    struct control *c = container_of(t, struct control, pool.tick);

    for (struct link *m = list_first(&c->pool.shelves); m; m = list_after(&c->pool.shelves, m))
        look_at_demand(container_of(m, struct shelf, link));
    refill_soon(c);
    loop_timer_start(c->loop, t, clock_mono() + TICK_S * NS_PER_S, on_tick, NULL);
}

static struct shelf *find_shelf(struct control *c, const struct profile *p, bool egress)
{
    for (struct link *m = list_first(&c->pool.shelves); m; m = list_after(&c->pool.shelves, m)) {
        struct shelf *f = container_of(m, struct shelf, link);

        if (f->profile == p && f->egress == egress)
            return f;
    }
    return NULL;
}

static void retire(struct shelf *f)
{
    struct link *m;

    f->target = 0;
    f->retired = true;
    while ((m = list_first(&f->ready)))
        tear_down(container_of(m, struct boxed, link));
}

static void add_shelf(struct control *c, struct profile *p, bool egress, unsigned min)
{
    const struct extension_ops *ops;
    struct extension *ext = control_extension(c, p->extension, &ops);
    struct shelf *f;

    if (!p->pool.max || !ext || !(ops->can & EXT_CAN_POOL) ||
        (egress && !(ops->can & EXT_CAN_EGRESS)) || find_shelf(c, p, egress))
        return;
    f = calloc(1, sizeof *f);
    if (!f)
        abort();
    *f = (struct shelf){ .control = c,
                         .profile = profile_ref(p),
                         .ops = ops,
                         .ext = ext,
                         .target = min,
                         .egress = egress,
                         .min = min };
    list_append(&c->pool.shelves, &f->link);
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
    loop_timer_start(c->loop, &c->pool.tick, clock_mono() + TICK_S * NS_PER_S, on_tick, NULL);
}

/* Shelves of the catalog before run empty, and go with their last box. */
void pool_reload(struct control *c)
{
    struct link *next;

    if (!c->config->pool.enabled)
        return;
    for (struct link *m = list_first(&c->pool.shelves); m; m = next) {
        struct shelf *f = container_of(m, struct shelf, link);

        next = list_after(&c->pool.shelves, m);
        retire(f);
        free_if_empty(f);
    }
    add_shelves(c);
    refill_soon(c);
}

/* Boxes that are being made are torn down when they tell of themselves. */
void pool_close(struct control *c)
{
    c->pool.closing = true;
    loop_timer_stop(&c->pool.tick);
    loop_timer_stop(&c->pool.refill);
    for (struct link *m = list_first(&c->pool.shelves); m; m = list_after(&c->pool.shelves, m))
        retire(container_of(m, struct shelf, link));
}

/* A box of this owner, who may be empty; NULL: there is none. */
static struct boxed *find_boxed(struct shelf *f, const char *owner)
{
    for (struct link *m = list_first(&f->ready); m; m = list_after(&f->ready, m)) {
        struct boxed *b = container_of(m, struct boxed, link);

        if (strcmp(b->owner, owner) == 0)
            return b;
    }
    return NULL;
}

/* One of the owner's, or one without an owner, that lives. */
static struct boxed *choose_boxed(struct shelf *f, const char *owner)
{
    for (;;) {
        struct boxed *b = find_boxed(f, owner);

        if (!b)
            b = find_boxed(f, "");
        if (!b || f->ops->alive(b->box))
            return b;
        tear_down(b);
    }
}

/* An owner who comes a second time in a row has boxes made ahead, in the place of another's. */
static void make_way(struct shelf *f, const char *owner)
{
    if (strcmp(f->owner, owner) != 0 || foresees(f))
        return;
    for (struct link *m = list_first(&f->ready); m; m = list_after(&f->ready, m)) {
        struct boxed *b = container_of(m, struct boxed, link);

        if (b->owner[0] && strcmp(b->owner, owner) != 0) {
            tear_down(b);
            return;
        }
    }
}

void pool_note_owner(struct control *c, const struct profile *p, const struct create_request *q,
                     const char *owner)
{
    struct shelf *f = find_shelf(c, p, policy_wanted(p, q));

    if (f)
        snprintf(f->owner, sizeof f->owner, "%s", owner);
}

struct ext_box *pool_take(struct control *c, const char *owner, struct profile *p,
                          const struct create_request *q, bool *ret_assigned)
{
    struct shelf *f = find_shelf(c, p, policy_wanted(p, q));
    struct boxed *b;
    struct ext_box *x;

    if (!f || !spec_is_plain(q))
        return NULL;
    f->taken++;
    if (f->taken > f->target && f->target < p->pool.max)
        f->target = clamp(f->taken * 2, f->min, p->pool.max);
    b = choose_boxed(f, owner);
    if (b)
        leave(b);
    if (!b || !b->owner[0])
        make_way(f, owner);
    refill_after(f);
    if (!b) {
        c->pool.misses++;
        return NULL;
    }
    c->pool.hits++;
    x = b->box;
    *ret_assigned = b->owner[0];
    if (b->owner[0])
        memcpy(f->owner, b->owner, sizeof f->owner);
    lose_owner(b);
    f->boxes--;
    forget(b);
    return x;
}

void pool_discard(struct control *c, struct ext_box *x)
{
    if (!x)
        return;
    tear_down(boxed_new(c, NULL, x));
}

bool pool_knows(struct control *c, const char *id)
{
    for (struct link *m = list_first(&c->pool.boxes); m; m = list_after(&c->pool.boxes, m))
        if (strcmp(container_of(m, struct boxed, all)->box->id, id) == 0)
            return true;
    return false;
}

void pool_done(struct control *c)
{
    for (struct link *m; (m = list_first(&c->pool.shelves));)
        shelf_free(container_of(m, struct shelf, link));
}
