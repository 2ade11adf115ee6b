/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sandbox/idle.h"

#include "base/clock.h"
#include "control/process/process.h"

#define SPAN_NS (5 * NS_PER_S) /* processor time is counted in steps of 10 ms */

/* Whether a use is going on at this moment; the others are momentary. */
static bool is_in_use(const struct idle *v, enum sandbox_use use)
{
    return use == USE_CLIENT ? v->attached : use == USE_PROCESS && v->processes;
}

void idle_begin(struct idle *v)
{
    idle_note(v, USE_REQUEST);
    v->sampled = false;
}

void idle_note(struct idle *v, enum sandbox_use use)
{
    v->used_ns[use] = clock_boot();
}

int64_t idle_since(const struct idle *v)
{
    int64_t last = 0;

    for (int i = 0; i < USE_COUNT_; i++) {
        int64_t at = is_in_use(v, (enum sandbox_use)i) ? clock_boot() : v->used_ns[i];

        last = at > last ? at : last;
    }
    return last;
}

bool idle_counts(const struct sandbox *s)
{
    return s->record.idle_ns && s->record.state != SANDBOX_PAUSED;
}

int64_t idle_deadline(const struct sandbox *s)
{
    return idle_since(&s->idle) + s->record.idle_ns;
}

int64_t idle_span(const struct sandbox *s)
{
    return s->record.idle_ns < SPAN_NS ? s->record.idle_ns : SPAN_NS;
}

bool idle_sample(struct sandbox *s, const struct backend_usage *u, bool whole)
{
    struct idle *v = &s->idle;
    int64_t now = clock_boot(), since = now - v->sampled_ns;
    bool judges = v->sampled && since >= idle_span(s);
    uint32_t waiting = 0;

    /* A helper is one process; each program that it runs for its client is another one. */
    LIST_EACH (const struct process, p, &s->processes, link)
        waiting += whole && helper_waits(p);
    if (whole && u->processes > waiting)
        idle_note(v, USE_PROCESS);
    if (judges && u->cpu_ns - v->cpu_ns > since / 1000 * IDLE_CPU_PER_MILLE)
        idle_note(v, USE_CPU);
    if (judges || !v->sampled) {
        v->sampled = true;
        v->sampled_ns = now;
        v->cpu_ns = u->cpu_ns;
    }
    return judges;
}
