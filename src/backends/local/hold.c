/* SPDX-License-Identifier: Apache-2.0 */
/* Freezes and thaws a box, and hands out its writable layer.
 *
 * A launcher freezes the box's control group. Without one, PID 1 stops all processes but itself. A
 * marker on disk is written before the freeze, so that the next run of the daemon thaws the box. */
#include "base/log.h"
#include "base/own.h"
#include "backends/local/local.h"

#define FREEZE_NS      (2 * NS_PER_S) /* timeout until all processes are stopped */
#define FREEZE_POLL_NS (2 * NS_PER_MS)

static void queue_held_event(struct local_box *b, bool still, int r, const struct err *e)
{
    b->hold.r = r;
    if (r < 0)
        b->hold.why = *e;
    b->pending |= still ? PENDING_FREEZE : PENDING_THAW;
    b->hold.due = true;
    local_report_later(b);
}

void local_hold_report(struct local_box *b)
{
    bool froze = b->pending & PENDING_FREEZE;

    if (!b->hold.due || b->freed)
        return;
    b->hold.due = false;
    b->pending &= ~(unsigned)(PENDING_FREEZE | PENDING_THAW);
    if (b->backend.events->held)
        b->backend.events->held(&b->backend, froze, b->hold.r, b->hold.r < 0 ? &b->hold.why : NULL);
}

/* --- freezing --- */

/* Reports a failed freeze and resumes the box; keeps the first error. */
static void fail_freeze(struct local_box *b, int r, const struct err *e)
{
    struct err why = *e;

    loop_timer_stop(&b->hold.poll);
    local_channel_post_request(b, CONTROL_GO_ON, TAG_NONE);
    run_dir_set_frozen(&b->x->run, b->backend.id, false, NULL);
    queue_held_event(b, true, r, &why);
}

static void on_freeze_poll(struct loop_timer *t);

static void schedule_freeze_poll(struct local_box *b, int64_t at)
{
    loop_timer_stop(&b->hold.poll);
    loop_timer_start(b->x->c->loop, &b->hold.poll, at, on_freeze_poll, NULL);
}

/* Sends the request, with a timer in case PID 1 does not answer. */
static void request_freeze(struct local_box *b)
{
    schedule_freeze_poll(b, b->hold.deadline);
    local_channel_post_request(b, CONTROL_STAND, TAG_STAND);
}

static void on_freeze_poll(struct loop_timer *t)
{
    struct local_box *b = container_of(t, struct local_box, hold.poll);
    struct err e;

    if (clock_mono() >= b->hold.deadline)
        fail_freeze(
            b, err_set(&e, ERR_TIMEOUT, "sandbox %s could not be frozen within 2 s", b->backend.id),
            &e);
    else
        request_freeze(b);
}

void local_hold_on_stood(struct local_box *b, const union supervisor_message *m,
                         struct ipc_fds *fds)
{
    if (m->head.tag != TAG_STAND || !loop_timer_started(&b->hold.poll))
        return;
    if (m->stood.running) {
        schedule_freeze_poll(b, clock_mono() + FREEZE_POLL_NS);
        return;
    }
    loop_timer_stop(&b->hold.poll);
    queue_held_event(b, true, 0, NULL);
}

bool local_hold_on_failed(struct local_box *b, const struct control_failed *m)
{
    struct err e;

    if (m->head.tag == TAG_UPPER && local_answers_take(&b->hold.uppers)) {
        b->hold.uppers.lost++;
        local_report_later(b);
        return true;
    }
    if (m->head.tag != TAG_STAND || !loop_timer_started(&b->hold.poll))
        return m->head.tag == TAG_UPPER || m->head.tag == TAG_STAND;
    fail_freeze(b, err_set(&e, ERR_UNSUPPORTED, "%.199s", m->msg), &e);
    return true;
}

void local_freeze(struct backend_box *backend)
{
    struct local_box *b = local_box_of(backend);
    struct err e;
    int r;

    if (b->state != BOX_UP || b->hold.request.lane) {
        queue_held_event(b, true,
                         err_set(&e, ERR_CONFLICT, "sandbox %s is not running", b->backend.id), &e);
        return;
    }
    if (b->assign.joining) { /* its final group does not exist yet */
        b->hold.waits = true;
        return;
    }
    r = run_dir_set_frozen(&b->x->run, b->backend.id, true, &e);
    if (r < 0)
        queue_held_event(b, true, r, &e);
    else
        local_lane_ask(b, LAUNCH_FREEZE);
}

/* --- thawing --- */

void local_thaw(struct backend_box *backend)
{
    struct local_box *b = local_box_of(backend);

    loop_timer_stop(&b->hold.poll);
    if (!b->hold.request.lane)
        local_lane_ask(b, LAUNCH_THAW);
}

/* Finishes a thaw after either kind of freeze. */
static void finish_thaw(struct local_box *b, bool by_pid1)
{
    if (by_pid1)
        local_channel_post_request(b, CONTROL_GO_ON, TAG_NONE);
    run_dir_set_frozen(&b->x->run, b->backend.id, false, NULL);
    if (b->pending & PENDING_ADOPT)
        local_adopt_after_thaw(b, by_pid1);
    else
        queue_held_event(b, false, 0, NULL);
}

/* --- answers of launchers --- */

void local_on_held(struct local_box *b)
{
    if (b->freed)
        return;
    if (b->hold.request.type == LAUNCH_FREEZE)
        queue_held_event(b, true, 0, NULL);
    else
        finish_thaw(b, false);
}

void local_on_hold_failed(struct local_box *b, int r, const struct err *e)
{
    if (b->freed)
        return;
    if (b->hold.request.type == LAUNCH_THAW) {
        if (r != -(int)ERR_UNSUPPORTED)
            LOG(ERROR, "sandbox.thaw_failed", LOG_S("sandbox", b->backend.id),
                LOG_S("error", e->msg));
        finish_thaw(b, r == -(int)ERR_UNSUPPORTED);
    } else if (r == -(int)ERR_UNSUPPORTED && b->state == BOX_UP) {
        b->hold.deadline = clock_mono() + FREEZE_NS;
        request_freeze(b);
    } else {
        fail_freeze(b, r, e);
    }
}

/* Repeats the request: its result is unknown, and repeating is harmless. */
void local_on_hold_lost(struct local_box *b)
{
    if (!b->freed)
        local_lane_ask(b, b->hold.request.type);
}

void local_hold_done(struct local_box *b)
{
    loop_timer_stop(&b->hold.poll);
    local_request_cancel(&b->hold.request);
}

/* --- the writable layer --- */

void local_upper(struct backend_box *backend)
{
    struct local_box *b = local_box_of(backend);

    local_answers_ask(b, &b->hold.uppers, CONTROL_UPPER, TAG_UPPER);
}

void local_hold_on_upper(struct local_box *b, const union supervisor_message *m,
                         struct ipc_fds *fds)
{
    if (m->head.tag == TAG_UPPER && fds->n && local_answers_take(&b->hold.uppers))
        b->backend.events->upper(&b->backend, 0, NULL, &fds->fd[0]);
}

void local_hold_lose_all(struct local_box *b)
{
    struct err e;

    if (b->hold.waits)
        queue_held_event(b, true,
                         err_set(&e, ERR_CONFLICT, "sandbox %s is not running", b->backend.id), &e);
    b->hold.waits = false;
    local_answers_lose(&b->hold.uppers);
}

void local_hold_report_lost(struct local_box *b)
{
    struct err e;
    int r = err_set(&e, ERR_CONFLICT,
                    "sandbox %s is not running, or its writable layer is not accessible",
                    b->backend.id);

    while (local_answers_take_lost(b, &b->hold.uppers))
        b->backend.events->upper(&b->backend, r, &e, NULL);
}
