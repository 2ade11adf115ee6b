/* SPDX-License-Identifier: Apache-2.0 */
/* Takes checkpoints of a sandbox at the interval of its request. The first one is up to the caller,
 * who may have files to add first. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "control/sandbox/sandbox.h"
#include "control/snapshot/checkpoints.h"

struct checkpoint_tick {
    struct checkpoint_op op;
    struct caller caller;
};

static void on_checkpoint_due(struct loop_timer *t);

static void schedule_checkpoint(struct sandbox *s, int64_t in_ns)
{
    loop_timer_stop(&s->checkpoint_due);
    loop_timer_start(s->control->loop, &s->checkpoint_due, clock_mono() + in_ns, on_checkpoint_due,
                     NULL);
}

/* A failed checkpoint may succeed the next time: a capture by others is over, or there is room. */
static void on_checkpoint_tick_done(struct checkpoint_op *op, int r, const struct err *e)
{
    struct checkpoint_tick *t = container_of(op, struct checkpoint_tick, op);

    op->sandbox_->control->changes--;
    if (r < 0)
        LOG(INFO, "checkpoint.not_taken", LOG_S("sandbox", op->sandbox_->record.id),
            LOG_S("error", e->msg));
    free(t);
}

static void take_timed_checkpoint(struct sandbox *s)
{
    struct checkpoint_tick *t = new0(sizeof *t);

    t->caller.actor = ACTOR_DAEMON;
    snprintf(t->caller.owner, sizeof t->caller.owner, "%s", s->record.owner);
    snprintf(t->caller.family, sizeof t->caller.family, "%s", s->record.family);
    t->op = (struct checkpoint_op){ .caller = &t->caller,
                                    .cause = "interval",
                                    .automatic = true,
                                    .done = on_checkpoint_tick_done };
    s->control->changes++;
    checkpoint_take(s, &t->op);
}

static void on_checkpoint_due(struct loop_timer *t)
{
    struct sandbox *s = container_of(t, struct sandbox, checkpoint_due);

    if (sandbox_state_usable(s->record.state) && s->box && !sandbox_is_ending(s) && !s->pausing &&
        !s->resume && !s->after_teardown && !s->checkpointing && !s->capture &&
        !s->control->on_closed)
        take_timed_checkpoint(s);
    schedule_checkpoint(s, s->request.checkpoint_ns);
}

void checkpoint_timer_start(struct sandbox *s)
{
    if (s->request.checkpoint_ns && s->record.state != SANDBOX_PAUSED)
        schedule_checkpoint(s, s->request.checkpoint_ns);
}

void checkpoint_timer_stop(struct sandbox *s)
{
    loop_timer_stop(&s->checkpoint_due);
}
