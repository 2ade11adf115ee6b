/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/idle_exit.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"

#define TICK_MAX_NS   (2 * NS_PER_S)
#define TICK_MIN_NS   (50 * NS_PER_MS)
#define REFUSED_NS    (5 * NS_PER_S)  /* for connections that came just before the end */
#define GONE_LIMIT_NS (20 * NS_PER_S) /* for the end of sandboxes without a state directory */

static void on_idle_tick(struct loop_timer *t);

static void check_later(struct idle_exit *i)
{
    int64_t tick = i->after_ns ? i->after_ns / 4 : TICK_MAX_NS;

    if (i->refused_at_ || tick < TICK_MIN_NS)
        tick = TICK_MIN_NS;
    if (tick > TICK_MAX_NS)
        tick = TICK_MAX_NS;
    loop_timer_start(i->loop, &i->timer_, clock_mono() + tick, on_idle_tick, NULL);
}

/* --- the state directory --- */

static bool is_state_removed(const struct idle_exit *i)
{
    struct stat st;

    return fstat(i->state, &st) == 0 && st.st_nlink == 0;
}

struct orphan_end {
    struct sandbox_op op;
};

static void on_orphan_destroyed(struct sandbox_op *op, int r, const struct err *e)
{
    if (r < 0)
        LOG(ERROR, "state.sandbox_left", LOG_S("error", e->msg));
    free(container_of(op, struct orphan_end, op));
}

/* Its changes go to the workspace where that is possible; a snapshot of the rest has no place. */
static bool destroy_orphan(void *user, struct sandbox *s)
{
    const struct actor daemon = ACTOR_DAEMON;
    struct orphan_end *end = new0(sizeof *end);

    end->op.done = on_orphan_destroyed;
    sandbox_destroy_as(s, &daemon, "the state directory was removed", DESTROY_USUAL,
                       DESTROY_DISCARD, &end->op);
    return false;
}

/* True: the daemon may end. */
static bool leave_state(struct idle_exit *i)
{
    int64_t now = clock_mono();

    if (!i->gone_) {
        i->gone_ = now;
        LOG(ERROR, "state.removed", LOG_S("action", "destroying all sandboxes, then stopping"));
        control_each(i->control, destroy_orphan, NULL);
    }
    return control_count(i->control) == 0 || now - i->gone_ > GONE_LIMIT_NS;
}

/* --- use --- */

static bool is_unused(struct idle_exit *i)
{
    uint64_t requests = i->requests_;

    i->requests_ = api_requests(i->api);
    return i->requests_ == requests && api_is_idle(i->api) && control_is_idle(i->control);
}

/* True: it has not been used for long enough. Connections that came before new ones were refused are
 * served; then it ends in any case, since the next client starts another daemon, which finds what
 * these have left. */
static bool has_idled(struct idle_exit *i)
{
    int64_t now = clock_mono();
    bool unused = is_unused(i);

    if (i->refused_at_)
        return api_is_idle(i->api) || now - i->refused_at_ > REFUSED_NS;
    if (!unused)
        LOG(DEBUG, "daemon.in_use", LOG_I("sandboxes", (int64_t)control_count(i->control)));
    if (!unused || !i->since_) {
        i->since_ = unused ? now : 0;
        return false;
    }
    if (now - i->since_ >= i->after_ns) {
        i->refused_at_ = now;
        LOG(DEBUG, "daemon.refusing", LOG_S("reason", "not used"));
        i->on_refuse(i);
    }
    return false;
}

static void on_idle_tick(struct loop_timer *t)
{
    struct idle_exit *i = container_of(t, struct idle_exit, timer_);

    if (is_state_removed(i) ? leave_state(i) : i->after_ns && has_idled(i)) {
        LOG(INFO, "daemon.unused",
            LOG_S("reason",
                  i->gone_ ? "the state directory was removed" : "no sandbox and no client"));
        i->on_end(i);
        return;
    }
    check_later(i);
}

void idle_exit_watch(struct idle_exit *i)
{
    check_later(i);
}

void idle_exit_stop(struct idle_exit *i)
{
    loop_timer_stop(&i->timer_);
}
