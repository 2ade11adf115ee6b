/* SPDX-License-Identifier: Apache-2.0 */
#include "control/layer/digest_queue.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "control/plane/plane.h"

static void on_digest_due(struct loop_timer *t);

static void schedule_next_digest(struct control *c)
{
    struct digest_queue *m = c->digest_queue;
    struct link *first = list_first(&m->waiting);

    if (!first || m->layer[0] || !c->open || c->on_closed || !c->supervisor.layer_worker ||
        loop_timer_started(&m->timer))
        return;
    loop_timer_start(c->loop, &m->timer, container_of(first, struct layer, waiting)->due_ns,
                     on_digest_due, NULL);
}

void digest_queue_next(struct control *c)
{
    c->digest_queue->layer[0] = '\0';
    schedule_next_digest(c);
}

/* A layer that does not exist is still in the writable directory of a paused sandbox, and may
 * become a layer later. */
static void on_queued_digest(struct digest_op *op, int r, const struct err *e)
{
    struct control *c = container_of(op, struct digest_queue, op)->control;

    fault_point("measure.done");
    if (r < 0 && r != -(int)ERR_NOT_FOUND)
        LOG(WARN, "layer.not_measured", LOG_S("layer", c->digest_queue->layer),
            LOG_S("error", e->msg));
    if (r < 0)
        digest_queue_next(c);
    else
        digest_queue_dedup(c);
}

static void on_digest_due(struct loop_timer *t)
{
    struct control *c = container_of(t, struct digest_queue, timer)->control;
    struct digest_queue *m = c->digest_queue;
    struct link *first = list_first(&m->waiting);
    struct layer *l = first ? container_of(first, struct layer, waiting) : NULL;
    const char *name = m->layer;

    if (!l || l->due_ns > clock_mono()) { /* the layer that was due is gone */
        schedule_next_digest(c);
        return;
    }
    link_leave(first);
    snprintf(m->layer, sizeof m->layer, "%s", l->record.name);
    if (layer_digest(c, name)[0]) {
        digest_queue_dedup(c);
        return;
    }
    fault_point("measure.begin");
    m->op = (struct digest_op){ .done = on_queued_digest };
    digest_add(&m->op, &(const struct json_strs){ &name, 1 });
    digest_start(c, &m->op);
}

static void append_to_digest_queue(struct control *c, struct layer *l)
{
    link_leave(&l->waiting);
    l->due_ns = clock_mono() + c->config->storage.measure_after;
    list_append(&c->digest_queue->waiting, &l->waiting);
}

void digest_queue_add(struct control *c, const char *name)
{
    struct layer *l = layer_known(c, name);

    if (!l || !l->refs || !c->open || link_joined(&l->waiting))
        return;
    append_to_digest_queue(c, l);
    schedule_next_digest(c);
}

void digest_queue_forget(struct control *c, struct layer *l)
{
    struct digest_queue *m = c->digest_queue;

    link_leave(&l->waiting);
    if (!m->op.running_ || strcmp(m->layer, l->record.name) != 0)
        return;
    digest_cancel(&m->op);
    digest_queue_next(c);
}

/* A layer with a digest may not have been deduplicated yet. */
static void queue_undigested(struct map_entry *v, void *control)
{
    struct layer *l = container_of(v, struct layer, entry);

    if (l->refs && (!l->record.digest[0] || layer_is_captured(l->record.name)))
        append_to_digest_queue(control, l);
}

void digest_queue_open(struct control *c)
{
    map_each(&c->layers->known, queue_undigested, c);
    schedule_next_digest(c);
}

void digest_queue_close(struct control *c)
{
    loop_timer_stop(&c->digest_queue->timer);
    digest_cancel(&c->digest_queue->op);
}
