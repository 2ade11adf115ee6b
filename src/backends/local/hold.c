/* A box that stands still, and what it has written meanwhile.
 *
 * A launcher freezes the box's control group. Where there is none, PID 1 stops everything but
 * itself. That it may be still is on disk before it is, so that the next life of the daemon lets go
 * of what this one held. */
#include "base/log.h"
#include "base/own.h"
#include "extensions/local.h"

#define STAND_NS      (2 * NS_PER_S) /* for everything to stand still */
#define STAND_LOOK_NS (2 * NS_PER_MS)

static void tell_held(struct local_box *b, bool still, int r, const struct err *e)
{
    b->held_r = r;
    if (r < 0)
        b->held_why = *e;
    b->asked |= still ? ASKED_FREEZE : ASKED_THAW;
    b->held = true;
    local_soon(b);
}

void local_hold_tell(struct local_box *b)
{
    bool froze = b->asked & ASKED_FREEZE;

    if (!b->held || b->freed)
        return;
    b->held = false;
    b->asked &= ~(unsigned)(ASKED_FREEZE | ASKED_THAW);
    if (b->ext.events->held)
        b->ext.events->held(&b->ext, froze, b->held_r, b->held_r < 0 ? &b->held_why : NULL);
}

/* --- freezing --- */

/* What could not be brought to a standstill goes on; why it could not is what counts. */
static void give_up(struct local_box *b, int r, const struct err *e)
{
    struct err why = *e;

    loop_timer_stop(&b->stand);
    local_channel_post_ask(b, CONTROL_GO_ON, TAG_NOBODY);
    run_dir_mark(&b->x->run, b->ext.id, false, NULL);
    tell_held(b, true, r, &why);
}

static void on_look(struct loop_timer *t);

static void wake(struct local_box *b, int64_t at)
{
    loop_timer_stop(&b->stand);
    loop_timer_start(b->x->c->loop, &b->stand, at, on_look, NULL);
}

/* It may not answer at all. */
static void ask_stand(struct local_box *b)
{
    wake(b, b->stand_by);
    local_channel_post_ask(b, CONTROL_STAND, TAG_STAND);
}

static void on_look(struct loop_timer *t)
{
    struct local_box *b = container_of(t, struct local_box, stand);
    struct err e;

    if (clock_mono() >= b->stand_by)
        give_up(b, err_set(&e, ERR_TIMEOUT, "the sandbox does not come to a standstill"), &e);
    else
        ask_stand(b);
}

void local_hold_on_stood(struct local_box *b, const struct control_stood *m)
{
    if (m->head.tag != TAG_STAND || !loop_timer_started(&b->stand))
        return;
    if (m->running) {
        wake(b, clock_mono() + STAND_LOOK_NS);
        return;
    }
    loop_timer_stop(&b->stand);
    tell_held(b, true, 0, NULL);
}

bool local_hold_on_failed(struct local_box *b, const struct control_failed *m)
{
    struct err e;

    if (m->head.tag == TAG_UPPER && b->uppers) {
        b->uppers--;
        b->lost_uppers++;
        local_soon(b);
        return true;
    }
    if (m->head.tag != TAG_STAND || !loop_timer_started(&b->stand))
        return m->head.tag == TAG_UPPER || m->head.tag == TAG_STAND;
    give_up(b, err_set(&e, ERR_UNSUPPORTED, "%.199s", m->msg), &e);
    return true;
}

void local_freeze(struct ext_box *ext)
{
    struct local_box *b = local_box_of(ext);
    struct err e;
    int r;

    if (b->state != BOX_UP || b->hold.lane) {
        tell_held(b, true, err_set(&e, ERR_CONFLICT, "the sandbox is not running"), &e);
        return;
    }
    if (b->joining) { /* its group is not the one to freeze yet */
        b->freeze_waits = true;
        return;
    }
    r = run_dir_mark(&b->x->run, b->ext.id, true, &e);
    if (r < 0)
        tell_held(b, true, r, &e);
    else
        local_lane_hold(b->x, b, true);
}

/* --- thawing --- */

void local_thaw(struct ext_box *ext)
{
    struct local_box *b = local_box_of(ext);

    loop_timer_stop(&b->stand);
    if (!b->hold.lane)
        local_lane_hold(b->x, b, false);
}

/* Whichever way it was held. */
static void thawed(struct local_box *b, bool by_pid1)
{
    if (by_pid1)
        local_channel_post_ask(b, CONTROL_GO_ON, TAG_NOBODY);
    run_dir_mark(&b->x->run, b->ext.id, false, NULL);
    if (b->asked & ASKED_ADOPT)
        local_adopt_thawed(b, by_pid1);
    else
        tell_held(b, false, 0, NULL);
}

/* --- what launchers say --- */

void local_held(struct local_box *b)
{
    if (b->freed)
        return;
    if (b->hold.type == LAUNCH_FREEZE)
        tell_held(b, true, 0, NULL);
    else
        thawed(b, false);
}

void local_hold_failed(struct local_box *b, int r, const struct err *e)
{
    if (b->freed)
        return;
    if (b->hold.type == LAUNCH_THAW) {
        if (r != -(int)ERR_UNSUPPORTED)
            LOG(ERROR, "sandbox.thaw_failed", LOG_S("sandbox", b->ext.id), LOG_S("error", e->msg));
        thawed(b, r == -(int)ERR_UNSUPPORTED);
    } else if (r == -(int)ERR_UNSUPPORTED && b->state == BOX_UP) {
        b->stand_by = clock_mono() + STAND_NS;
        ask_stand(b);
    } else {
        give_up(b, r, e);
    }
}

/* Whether it was done is not known: it does no harm to do it again. */
void local_hold_lost(struct local_box *b)
{
    if (!b->freed)
        local_lane_hold(b->x, b, b->hold.type == LAUNCH_FREEZE);
}

void local_hold_done(struct local_box *b)
{
    loop_timer_stop(&b->stand);
    local_request_cancel(&b->hold);
}

/* --- what it has written --- */

void local_upper(struct ext_box *ext)
{
    struct local_box *b = local_box_of(ext);

    if (b->state == BOX_UP && local_channel_is_open(b)) {
        b->uppers++;
        local_channel_post_ask(b, CONTROL_UPPER, TAG_UPPER);
    } else {
        b->lost_uppers++;
        local_soon(b);
    }
}

void local_hold_on_upper(struct local_box *b, const struct control_head *m, struct ipc_fds *fds)
{
    if (m->tag != TAG_UPPER || !b->uppers || !fds->n)
        return;
    b->uppers--;
    b->ext.events->upper(&b->ext, 0, NULL, &fds->fd[0]);
}

void local_hold_lose_all(struct local_box *b)
{
    struct err e;

    if (b->freeze_waits)
        tell_held(b, true, err_set(&e, ERR_CONFLICT, "the sandbox is not running"), &e);
    b->freeze_waits = false;
    b->lost_uppers += b->uppers;
    b->uppers = 0;
}

void local_hold_tell_lost(struct local_box *b)
{
    struct err e;
    int r = err_set(&e, ERR_CONFLICT, "the sandbox is not running, or cannot show what it wrote");

    while (!b->freed && b->lost_uppers) {
        b->lost_uppers--;
        b->ext.events->upper(&b->ext, r, &e, NULL);
    }
}
