#include "control/measuring.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hook.h"
#include "base/log.h"
#include "control/plane.h"

static void on_due(struct loop_timer *t);

static void wait_for_next(struct control *c)
{
    struct measuring *m = &c->measuring;
    struct link *first = list_first(&m->waiting);

    if (!first || m->layer[0] || !c->open || c->on_closed || !c->keeper ||
        loop_timer_started(&m->timer))
        return;
    loop_timer_start(c->loop, &m->timer, container_of(first, struct layer, waiting)->due_ns, on_due,
                     NULL);
}

void measuring_next(struct control *c)
{
    c->measuring.layer[0] = '\0';
    wait_for_next(c);
}

/* One that is not there is still what a paused sandbox writes to: it is made of that, or never. */
static void measured(struct measure_op *op, int r, const struct err *e)
{
    struct control *c = container_of(op, struct control, measuring.op);

    hook_point("measure.done");
    if (r < 0 && r != -(int)ERR_NOT_FOUND)
        LOG(WARN, "layer.not_measured", LOG_S("layer", c->measuring.layer), LOG_S("error", e->msg));
    if (r < 0)
        measuring_next(c);
    else
        measuring_share(c);
}

static void on_due(struct loop_timer *t)
{
    struct control *c = container_of(t, struct control, measuring.timer);
    struct measuring *m = &c->measuring;
    struct link *first = list_first(&m->waiting);
    struct layer *l = first ? container_of(first, struct layer, waiting) : NULL;
    const char *name = m->layer;

    if (!l || l->due_ns > clock_mono()) { /* the one that was due is gone */
        wait_for_next(c);
        return;
    }
    link_leave(first);
    snprintf(m->layer, sizeof m->layer, "%s", l->record.name);
    if (layer_measure(c, name)[0]) {
        measuring_share(c);
        return;
    }
    hook_point("measure.begin");
    m->op = (struct measure_op){ .idle = true, .done = measured };
    measure_add(&m->op, &(const struct json_strs){ &name, 1 });
    measure_start(c, &m->op);
}

static void add(struct control *c, struct layer *l)
{
    link_leave(&l->waiting);
    l->due_ns = clock_mono() + c->config->storage.measure_after;
    list_append(&c->measuring.waiting, &l->waiting);
}

void layer_made(struct control *c, const char *name)
{
    struct layer *l = layer_known(c, name);

    if (!l || !l->refs || !c->open || link_joined(&l->waiting))
        return;
    add(c, l);
    wait_for_next(c);
}

void measuring_forget(struct control *c, struct layer *l)
{
    struct measuring *m = &c->measuring;

    link_leave(&l->waiting);
    if (!m->op.running_ || strcmp(m->layer, l->record.name) != 0)
        return;
    measure_cancel(&m->op);
    measuring_next(c);
}

/* What has a measure may not have been looked for among others yet. */
static void look(struct index_entry *v, void *control)
{
    struct layer *l = container_of(v, struct layer, entry);

    if (l->refs && (!l->record.measure[0] || layer_is_captured(l->record.name)))
        add(control, l);
}

void measuring_open(struct control *c)
{
    index_each(&c->layers.known, look, c);
    wait_for_next(c);
}

void measuring_close(struct control *c)
{
    loop_timer_stop(&c->measuring.timer);
    measure_cancel(&c->measuring.op);
    measure_cancel(&c->measuring.sharing.op);
}
