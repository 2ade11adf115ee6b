/* SPDX-License-Identifier: Apache-2.0 */
/* Watchers of background processes. Each reads the kept output at its own pace; all its callbacks
 * come from one function, once per turn of the loop, so that they cannot disturb other watchers. */
#include "base/clock.h"
#include "control/process/process.h"

enum {
    CHUNK_MAX = 64 << 10,
    LAG_MAX = PROCESS_KEEP / 2, /* from here on the process is blocked by a watcher … */
    STALL_S = 5,                /* … that accepts nothing, for this long */
};

static void on_watcher_turn(struct loop_later *l);
static void update_hold(struct process *p);

static void wake_watcher(struct watcher *w)
{
    /* -ERR_CONFLICT: scheduled already */
    (void)loop_later(w->process->control->loop, &w->later_, on_watcher_turn, NULL);
}

static bool is_watcher_behind(const struct watcher *w)
{
    return w->process->output.total - w->cursor_.at > LAG_MAX;
}

/* Returns its process with the watcher's reference, which the caller must release. */
static struct process *detach_watcher(struct watcher *w)
{
    struct process *p = take_ptr(w->process);

    link_leave(&w->link_);
    loop_later_stop(&w->later_);
    if (p->sandbox)
        sandbox_detach(p->sandbox);
    update_hold(p);
    if (p->phase == PROCESS_ENDED && !list_first(&p->watchers))
        output_close(&p->output);
    return p;
}

/* --- blocking the process --- */

static void on_watcher_stall(struct loop_timer *t)
{
    struct process *p = process_ref(container_of(t, struct process, stall));
    int64_t since = clock_mono() - STALL_S * NS_PER_S;
    struct link *m = list_first(&p->watchers);

    while (m) {
        struct watcher *w = container_of(m, struct watcher, link_);

        m = list_after(&p->watchers, m);
        if (w->full_ && is_watcher_behind(w) && w->full_since_ <= since) {
            process_unref(detach_watcher(w));
            w->events->fell_behind(w);
            m = list_first(&p->watchers); /* the callback may have stopped others */
        }
    }
    update_hold(p);
    process_unref(p);
}

static void update_hold(struct process *p)
{
    bool held = false;

    for (struct link *m = list_first(&p->watchers); m; m = list_after(&p->watchers, m))
        held = held || is_watcher_behind(container_of(m, struct watcher, link_));
    p->held = held && p->phase == PROCESS_RUNNING;
    if (!p->held)
        loop_timer_stop(&p->stall);
    else if (!loop_timer_started(&p->stall))
        loop_timer_start(p->control->loop, &p->stall, clock_mono() + NS_PER_S, on_watcher_stall,
                         NULL);
    io_update(p);
}

/* --- callbacks --- */

/* Delivers one piece of output. True if there may be more. */
static bool deliver_output(struct watcher *w)
{
    static char bytes[CHUNK_MAX]; /* the loop has one thread */
    struct process *p = w->process;
    int channel;
    size_t n = output_read(&p->output, &w->cursor_, &channel, bytes, sizeof bytes);

    if (!n)
        return false;
    if (w->events->output && !w->events->output(w, channel, (struct str){ bytes, n }))
        watcher_pause(w);
    return true;
}

static void on_watcher_turn(struct loop_later *l)
{
    struct watcher *w = container_of(l, struct watcher, later_);
    struct process *p = process_ref(w->process);
    bool more = false;

    if (w->room_) {
        w->room_ = false;
        if (w->events->room)
            w->events->room(w);
    }
    if (w->process && !w->full_)
        more = deliver_output(w);
    if (w->process && more) {
        if (!w->full_)
            wake_watcher(w);
        update_hold(p);
    } else if (w->process && !w->full_ && p->phase == PROCESS_ENDED) {
        process_unref(detach_watcher(w));
        w->events->ended(w, &p->end);
    } else if (w->process && !w->full_ && w->events->caught_up) {
        w->events->caught_up(w);
    }
    process_unref(p);
}

void watchers_wake(struct process *p)
{
    LIST_EACH (struct watcher, w, &p->watchers, link_)
        if (!w->full_)
            wake_watcher(w);
    update_hold(p);
}

void watchers_room(struct process *p)
{
    LIST_EACH (struct watcher, w, &p->watchers, link_) {
        w->room_ = true;
        wake_watcher(w);
    }
}

void watchers_leave(struct process *p)
{
    for (struct link *m; (m = list_first(&p->watchers));)
        process_unref(detach_watcher(container_of(m, struct watcher, link_)));
}

/* --- for the owner --- */

void process_watch(struct process *p, struct watcher *w, bool live_only)
{
    *w = (struct watcher){ .events = w->events, .process = process_ref(p) };
    if (p->sandbox) {
        sandbox_attach(p->sandbox);
        if (!output_is_open(&p->output)) /* it has ended; if this fails, there is no output */
            (void)output_open(&p->output, p->control->context.state, p->sandbox->record.id, p->proc,
                              OUTPUT_READ, NULL);
    }
    if (live_only)
        w->cursor_.at = p->output.total;
    else if (p->output.total > PROCESS_KEEP)
        w->cursor_.at = p->output.total - PROCESS_KEEP;
    list_append(&p->watchers, &w->link_);
    wake_watcher(w);
    update_hold(p);
}

void watcher_pause(struct watcher *w)
{
    if (!w->process || w->full_)
        return;
    w->full_ = true;
    w->full_since_ = clock_mono();
}

void watcher_resume(struct watcher *w)
{
    if (!w->process || !w->full_)
        return;
    w->full_ = false;
    wake_watcher(w);
}

void watcher_stop(struct watcher *w)
{
    if (w->process)
        process_unref(detach_watcher(w));
}
