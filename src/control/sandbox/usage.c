/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sandbox/usage.h"

#include "base/clock.h"
#include "base/own.h"
#include "control/sandbox/sandbox.h"
#include "control/sandbox/spec.h"

enum { SAMPLES_MAX = 120, SAMPLE_EVERY_S = 30 };
#define USAGE_TIMEOUT_NS (2 * NS_PER_S)

struct usage {
    struct usage_sample samples[SAMPLES_MAX];
    size_t n;
    int64_t cpu_ns, seen_ns; /* time of the last sample; monotonic */
    struct list waiting;     /* struct usage_op */
};

bool sandbox_limits(const struct sandbox *s, struct sandbox_limits *ret)
{
    if (!s->profile)
        return false;
    *ret = (struct sandbox_limits){ .memory = spec_memory(s->profile, &s->request),
                                    .disk = spec_disk(s->profile),
                                    .pids = s->profile->resources.pids,
                                    .cpu_milli = spec_cpu(s->profile, &s->request) };
    return true;
}

static struct usage *get_usage(struct sandbox *s)
{
    if (!s->usage)
        s->usage = new0(sizeof *s->usage);
    return s->usage;
}

size_t sandbox_samples(const struct sandbox *s, const struct usage_sample **ret)
{
    *ret = s->usage ? s->usage->samples : NULL;
    return s->usage ? s->usage->n : 0;
}

/* --- sampling --- */

/* The place for the next sample. Samples within one round replace each other, so that frequent
 * requests do not push out older ones. */
static struct usage_sample *next_sample(struct usage *u)
{
    struct usage_sample *all = u->samples;

    if (u->n >= 2 && all[u->n - 1].time_ns - all[u->n - 2].time_ns < SAMPLE_EVERY_S * NS_PER_S)
        return &all[u->n - 1];
    if (u->n < SAMPLES_MAX)
        return &all[u->n++];
    memmove(all, all + 1, (SAMPLES_MAX - 1) * sizeof *all);
    return &all[SAMPLES_MAX - 1];
}

/* The first sample covers the time since it was ready, and no less than a second: a prepared box has
 * used processors before it was handed over. */
static void add_sample(const struct sandbox *s, struct usage *u, const struct backend_usage *x)
{
    int64_t now = clock_mono(), wall = clock_wall(),
            since = u->seen_ns ? now - u->seen_ns : wall - s->record.ready_ns,
            used = x->cpu_ns - u->cpu_ns;

    if (!u->seen_ns && since < NS_PER_S)
        since = NS_PER_S;

    *next_sample(u) = (struct usage_sample){
        .time_ns = wall,
        .cpu_ns = x->cpu_ns,
        .processors = since > 0 && used > 0 ? (double)used / (double)since : 0,
        .memory = x->memory,
        .mapped = x->mapped,
        .disk = x->disk,
        .disk_max = x->disk_max,
        .processes = x->processes,
    };
    u->cpu_ns = x->cpu_ns;
    u->seen_ns = now;
}

static void finish_usage(struct usage_op *op)
{
    struct sandbox *s = take_ptr(op->sandbox_);

    link_leave(&op->link_);
    loop_timer_stop(&op->timer_);
    op->done(op);
    sandbox_unref(s);
}

void usage_on_sample(struct sandbox *s, int r, const struct backend_usage *x)
{
    struct usage *u = get_usage(s);

    if (r >= 0)
        add_sample(s, u, x);
    sandbox_ref(s);
    for (struct link *m; (m = list_first(&u->waiting));)
        finish_usage(container_of(m, struct usage_op, link_));
    sandbox_unref(s);
}

static void on_usage_timeout(struct loop_timer *t)
{
    finish_usage(container_of(t, struct usage_op, timer_));
}

static bool can_sample(const struct sandbox *s)
{
    return s->box && s->ops && (s->ops->can & BACKEND_CAN_USAGE) && !s->after_teardown &&
           sandbox_state_usable(s->record.state);
}

static bool has_fresh_sample(const struct sandbox *s)
{
    return s->usage && s->usage->n && clock_mono() - s->usage->seen_ns < USAGE_FRESH_NS;
}

void sandbox_usage(struct sandbox *s, struct usage_op *op)
{
    bool samples = can_sample(s) && !has_fresh_sample(s);

    op->sandbox_ = sandbox_ref(s);
    list_append(&get_usage(s)->waiting, &op->link_);
    loop_timer_start(s->control->loop, &op->timer_, clock_mono() + (samples ? USAGE_TIMEOUT_NS : 0),
                     on_usage_timeout, NULL);
    if (samples)
        s->ops->usage(s->box); /* → usage_on_sample() */
}

/* --- periodic samples --- */

static void request_sample(struct map_entry *v, void *user)
{
    struct sandbox *s = container_of(v, struct sandbox, entry);

    if (can_sample(s))
        s->ops->usage(s->box);
}

static void on_usage_round(struct loop_timer *t)
{
    struct control *c = container_of(t, struct control, usage);

    map_each(&c->sandboxes, request_sample, NULL);
    usage_open(c);
}

void usage_open(struct control *c)
{
    loop_timer_start(c->loop, &c->usage, clock_mono() + SAMPLE_EVERY_S * NS_PER_S, on_usage_round,
                     NULL);
}
