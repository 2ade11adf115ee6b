#include "control/idle.h"

#include "base/clock.h"
#include "control/process.h"

#define SPAN_NS (5 * NS_PER_S) /* processor time is counted in steps of 10 ms */

static bool has_attached_client(const struct idle *v)
{
    return v->attached;
}

static bool has_client_process(const struct idle *v)
{
    return v->processes;
}

/* Every use, and how the daemon knows that it goes on at this moment; NULL: it is over as soon as
 * it is noted. */
static const struct {
    bool (*goes_on)(const struct idle *v);
} uses[USE_COUNT_] = {
    [USE_REQUEST] = { NULL }, [USE_CLIENT] = { has_attached_client }, [USE_EGRESS] = { NULL },
    [USE_CPU] = { NULL },     [USE_PROCESS] = { has_client_process },
};

void idle_begin(struct idle *v)
{
    idle_note(v, USE_REQUEST);
    v->looked = false;
}

void idle_note(struct idle *v, enum sandbox_use use)
{
    v->used_ns[use] = clock_boot();
}

int64_t idle_since(const struct idle *v)
{
    int64_t last = 0;

    for (int i = 0; i < USE_COUNT_; i++) {
        int64_t at = uses[i].goes_on && uses[i].goes_on(v) ? clock_boot() : v->used_ns[i];

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

/* A helper is one process; whatever it runs for its client is another one. */
static bool runs_for_client(struct sandbox *s, uint32_t processes)
{
    uint32_t waiting = 0;

    for (struct link *m = list_first(&s->processes); m; m = list_after(&s->processes, m))
        waiting += helper_waits(container_of(m, struct process, link));
    return processes > waiting;
}

bool idle_look(struct sandbox *s, const struct ext_usage *u, bool whole)
{
    struct idle *v = &s->idle;
    int64_t now = clock_boot(), since = now - v->looked_ns;
    bool judges = v->looked && since >= idle_span(s);

    if (whole && runs_for_client(s, u->processes))
        idle_note(v, USE_PROCESS);
    if (judges && u->cpu_ns - v->cpu_ns > since / 1000 * IDLE_CPU_PER_MILLE)
        idle_note(v, USE_CPU);
    if (judges || !v->looked) {
        v->looked = true;
        v->looked_ns = now;
        v->cpu_ns = u->cpu_ns;
    }
    return judges;
}
