/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sandbox/change.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "control/owner/event_share.h"
#include "control/plane/plane.h"
#include "control/sandbox/sandbox.h"

enum { CHANGE_RETRY_MS = 500 }; /* until a stubborn change is retried */

struct change *change_new(struct sandbox *s, const struct actor *who, const char *reason)
{
    struct change *c = new0(sizeof *c);

    c->sandbox = sandbox_ref(s);
    c->actor = *who;
    snprintf(c->reason, sizeof c->reason, "%s", reason ? reason : "");
    return c;
}

void change_to(struct change *c, enum sandbox_state to)
{
    c->to[c->n_to++] = to;
}

static void begin_change(struct change *c);

/* Ends the change at the head of its sandbox's queue, and begins the next one. */
static void finish_change(struct change *c, int r, const struct err *e)
{
    struct sandbox *s = c->sandbox;
    struct link *next;

    s->control->changes--;
    if (c->done)
        c->done(c, r, e); /* still at the head: a change that `done` submits waits for its turn */
    link_leave(&c->link_);
    free(c);
    next = list_first(&s->changes);
    if (next)
        begin_change(container_of(next, struct change, link_));
    sandbox_unref(s);
}

static void fill_change_event(const struct change *c, enum sandbox_state from, int to,
                              struct event_record *v)
{
    const struct sandbox_record *n = &c->next_;

    *v = (struct event_record){ .time_ns = n->updated_ns,
                                .from = to < 0 ? -1 : (int)from,
                                .to = to,
                                .actor = c->actor,
                                .detail = c->detail };
    if (to < 0)
        snprintf(v->type, sizeof v->type, "%s", c->type);
    else
        snprintf(v->type, sizeof v->type, "sandbox.%s", sandbox_state_names[to]);
    snprintf(v->sandbox, sizeof v->sandbox, "%s", n->id);
    snprintf(v->owner, sizeof v->owner, "%s", n->owner);
    snprintf(v->reason, sizeof v->reason, "%s", c->reason);
}

/* Calls fn for each event of the change, in order. */
static void each_change_event(struct change *c,
                              void (*fn)(struct change *c, struct event_record *v))
{
    enum sandbox_state from = c->sandbox->record.state;
    struct event_record v;

    for (unsigned i = 0; i < c->n_to; from = c->to[i++]) {
        /* A new sandbox has no state before its first. */
        fill_change_event(c, from, (int)c->to[i], &v);
        if (c->to[i] == SANDBOX_REQUESTED)
            v.from = -1;
        fn(c, &v);
    }
    if (c->type) {
        fill_change_event(c, from, -1, &v);
        fn(c, &v);
    }
}

static void add_event_to_txn(struct change *c, struct event_record *v)
{
    store_add_event(&c->txn_, v);
}

static void publish_change_event(struct change *c, struct event_record *v)
{
    v->seq = c->txn_.first_seq++;
    control_publish(c->sandbox->control, v);
}

static void on_change_retry(struct loop_timer *t)
{
    begin_change(container_of(t, struct change, retry_));
}

static void on_change_committed(struct store_txn *t, int r, const struct err *e)
{
    struct change *c = container_of(t, struct change, txn_);
    struct sandbox *s = c->sandbox;

    if (r < 0 && c->stubborn) {
        LOG(ERROR, "store.failed", LOG_S("sandbox", s->record.id), LOG_S("error", e->msg));
        if (loop_timer_start(s->control->loop, &c->retry_,
                             clock_mono() + CHANGE_RETRY_MS * NS_PER_MS, on_change_retry,
                             NULL) >= 0)
            return;
    }
    if (r >= 0) {
        each_change_event(c, publish_change_event);
        sandbox_update_record(s, &c->next_);
    }
    finish_change(c, r, e);
}

static bool may_change_state(const struct change *c, struct err *e)
{
    enum sandbox_state from = c->sandbox->record.state;

    for (unsigned i = 0; i < c->n_to; from = c->to[i++])
        if (!(c->to[i] == SANDBOX_REQUESTED && !c->sandbox->stored) &&
            !sandbox_state_may(from, c->to[i])) {
            (void)err_set(e, ERR_CONFLICT, "sandbox %s is %s: it cannot become %s",
                          c->sandbox->record.id, sandbox_state_names[from],
                          sandbox_state_names[c->to[i]]);
            return false;
        }
    return true;
}

/* Whether a caller's request starts something. Changes that end or settle something are always
 * recorded. */
static bool is_begun_by_caller(const struct change *c)
{
    if (c->stubborn || c->always ||
        (c->actor.kind == ACTOR_ATM && strcmp(c->actor.id, "daemon") == 0))
        return false;
    if (!c->n_to)
        return c->type;
    return c->to[0] == SANDBOX_REQUESTED || c->to[0] == SANDBOX_ACTIVE;
}

static void begin_change(struct change *c)
{
    struct sandbox *s = c->sandbox;
    struct err e;

    loop_later_stop(&c->later_); /* it was submitted from `done` of the change before it */
    if (!may_change_state(c, &e) ||
        (is_begun_by_caller(c) &&
         event_share_check(s->control, s->record.owner, &c->actor, &e) < 0) ||
        (c->check && c->check(c, &e) < 0)) {
        finish_change(c, -(int)e.code, &e);
        return;
    }
    c->next_ = s->record;
    c->next_.updated_ns = clock_wall();
    if (c->n_to) {
        c->next_.state = c->to[c->n_to - 1];
        snprintf(c->next_.reason, sizeof c->next_.reason, "%s", c->reason);
        if (c->step[0])
            snprintf(c->next_.step, sizeof c->next_.step, "%s", c->step);
    }
    if (c->edit)
        c->edit(c, &c->next_);
    store_txn_begin(&c->txn_, s->control->store);
    /* Only the files of a paused sandbox must survive a power cut: so the record that names them is
     * durable, and the one after which they may be removed. */
    c->txn_.durable = s->record.state == SANDBOX_PAUSED;
    for (unsigned i = 0; i < c->n_to; i++)
        c->txn_.durable |= c->to[i] == SANDBOX_PAUSED;
    store_put_sandbox(&c->txn_, &c->next_);
    each_change_event(c, add_event_to_txn);
    if (c->also)
        c->also(c, &c->txn_);
    store_commit(&c->txn_, on_change_committed);
}

/* So that `done` is never called from inside change_submit(). */
static void on_change_later(struct loop_later *l)
{
    begin_change(container_of(l, struct change, later_));
}

void change_submit(struct change *c)
{
    struct sandbox *s = c->sandbox;
    bool first = !list_first(&s->changes);

    s->control->changes++;
    list_append(&s->changes, &c->link_);
    if (first && loop_later(s->control->loop, &c->later_, on_change_later, NULL) < 0)
        abort(); /* it is new: it cannot be pending */
}
