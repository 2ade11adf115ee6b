#include "control/salvage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hook.h"
#include "base/log.h"
#include "control/sandbox.h"
#include "control/snapshots.h"

enum { WAIT_MS = 50, AGAIN_S = 600 };

struct salvage {
    struct sandbox *sandbox; /* referenced */
    struct salvage_end end;
    struct loop_timer wait; /* for another operation on the sandbox */
    struct workspace_op mirroring;
    struct sandbox_op moving; /* resume, pause or stop */
    struct snapshot_op storing;
    struct caller owner;           /* whose snapshot it is */
    bool was_paused, was_stopped;  /* before it was resumed for the sync */
    bool recorded;                 /* it is paused, and the record says why */
    char why[RECORD_REASON_MAX];   /* what was not brought back; "": everything was */
    char error[RECORD_REASON_MAX]; /* why that cannot be stored */
};

static void begin_again(struct loop_timer *t);

bool salvage_wanted(const struct sandbox *s, enum destroy_sync sync)
{
    enum sandbox_state state = s->record.state;

    if (!workspace_syncs(s) || !s->record.ready_ns || sync == DESTROY_NO_SYNC)
        return false;
    if (state == SANDBOX_PAUSED)
        return true;
    return sandbox_state_usable(state) && s->box && !s->after_teardown;
}

bool sandbox_is_held(const struct sandbox *s)
{
    return s->facts.has_unsynced && s->facts.unsynced.error;
}

/* --- the end: it is destroyed, or stays --- */

static struct salvage_end take_end(struct salvage *x)
{
    struct salvage_end end = x->end;
    struct sandbox *s = x->sandbox;

    loop_timer_stop(&x->wait);
    s->salvage = NULL;
    free(x);
    return end;
}

static void destroy_now(struct salvage *x)
{
    struct sandbox *s = x->sandbox;
    struct salvage_end end = take_end(x);

    hook_point("salvage.destroy");
    sandbox_destroy_now(s, &end);
    sandbox_unref(s);
}

static void stay(struct salvage *x, int r, const struct err *e)
{
    struct sandbox *s = x->sandbox;

    (void)take_end(x);
    s->expiring = false;
    if (s->record.state != SANDBOX_FAILED && !s->after_teardown)
        ttl_start(s);
    sandbox_tell_destroyers(s, r, e);
    sandbox_unref(s);
}

static void refuse(struct salvage *x)
{
    struct err e;
    int r =
        err_set(&e, ERR_CONFLICT, "%.40s is not destroyed: %.180s", x->sandbox->record.id, x->why);

    stay(x, r, &e);
}

static bool is_dead(const struct sandbox *s)
{
    return s->record.state == SANDBOX_FAILED ||
           (s->record.state != SANDBOX_PAUSED && (s->after_teardown || !s->box));
}

/* --- storing it failed: the record says so, and it is tried again much later --- */

static void edit_held(struct change *c, struct sandbox_record *next)
{
    struct sandbox *s = c->sandbox;
    const struct salvage *x = c->user;
    int64_t longest =
        next->state == SANDBOX_PAUSED ? s->control->config->ttl.paused : AGAIN_S * NS_PER_S;

    s->facts.has_unsynced = true;
    s->facts.unsynced.why = arena_dup(&s->arena, str_from(x->why));
    s->facts.unsynced.error = arena_dup(&s->arena, str_from(x->error));
    if (next->deadline_ns < clock_boot() + longest)
        next->deadline_ns = clock_boot() + longest;
    if (next->state == SANDBOX_PAUSED)
        s->facts.paused.until_ns = clock_wall() + longest;
    snprintf(next->reason, sizeof next->reason, "%s", c->reason);
    sandbox_put_facts(s, next);
}

static void told_held(struct change *c, int r, const struct err *e)
{
    struct salvage *x = c->user;
    const struct sandbox *s = x->sandbox;
    struct err why;

    (void)r;
    (void)e;
    r = err_set(&why, ERR_CONFLICT,
                "%.32s stays %s: its changes can be neither brought back nor stored (%.80s); make "
                "room and destroy it again, or discard them",
                s->record.id, sandbox_state_names[s->record.state], x->error);
    stay(x, r, &why);
}

static void hold(struct salvage *x, const struct err *e)
{
    char reason[RECORD_REASON_MAX];
    struct change *c;

    LOG(WARN, "workspace.held", LOG_S("sandbox", x->sandbox->record.id), LOG_S("error", e->msg));
    if (is_dead(x->sandbox)) { /* nothing is left to be stored */
        destroy_now(x);
        return;
    }
    snprintf(x->error, sizeof x->error, "%s", e->msg);
    snprintf(reason, sizeof reason, "%.100s, and this cannot be stored: %.120s", x->why, x->error);
    c = change_new(x->sandbox, &ACTOR_DAEMON, reason);
    c->type = "sandbox.held";
    c->edit = edit_held;
    c->done = told_held;
    c->user = x;
    c->stubborn = true;
    change_submit(c);
}

/* --- a snapshot of what was not brought back --- */

static void on_stored(struct snapshot_op *op, int r, const struct err *e)
{
    struct salvage *x = container_of(op, struct salvage, storing);

    if (r < 0) {
        hold(x, e);
        return;
    }
    snprintf(x->end.kept, sizeof x->end.kept, "%s", op->snapshot->record.id);
    x->end.kept_until_ns = op->snapshot->record.expires_ns;
    snprintf(x->end.why, sizeof x->end.why, "%s", x->why);
    hook_point("salvage.stored");
    destroy_now(x);
}

static void store_rest(struct salvage *x)
{
    struct sandbox *s = x->sandbox;

    if (x->end.unsynced == DESTROY_DISCARD) {
        destroy_now(x);
        return;
    }
    hook_point("salvage.store");
    x->owner = (struct caller){ .actor = ACTOR_DAEMON };
    snprintf(x->owner.owner, sizeof x->owner.owner, "%s", s->record.owner);
    snprintf(x->owner.family, sizeof x->owner.family, "%s", s->record.family);
    x->storing = (struct snapshot_op){ .caller = &x->owner,
                                       .keep_ns = s->control->config->retention.unsynced,
                                       .done = on_stored };
    s->salvage_acts = true;
    sandbox_snapshot(s, &x->storing);
    s->salvage_acts = false;
}

/* --- it stands still before it is stored: nothing is written afterwards --- */

static void on_paused(struct sandbox_op *op, int r, const struct err *e)
{
    struct salvage *x = container_of(op, struct salvage, moving);

    if (r >= 0 && !x->end.refuses)
        store_rest(x);
    else if (x->end.refuses) /* as it was found, if that can be */
        refuse(x);
    else if (e->code == ERR_BUSY)
        loop_timer_start(x->sandbox->control->loop, &x->wait, clock_mono() + WAIT_MS * NS_PER_MS,
                         begin_again, NULL);
    else
        hold(x, e);
}

static void pause_it(struct salvage *x, bool stop)
{
    struct sandbox *s = x->sandbox;

    x->moving = (struct sandbox_op){ .done = on_paused };
    s->salvage_acts = true;
    if (stop)
        sandbox_stop(s, &ACTOR_DAEMON, &x->moving);
    else
        sandbox_pause(s, &ACTOR_DAEMON, &x->moving);
    s->salvage_acts = false;
}

bool salvage_note_pause(struct sandbox *s)
{
    const struct salvage *x = s->salvage;

    if (!x || x->end.unsynced == DESTROY_REFUSE)
        return false;
    s->facts.has_unsynced = true;
    s->facts.unsynced.why = arena_dup(&s->arena, str_from(x->why));
    s->facts.unsynced.reason = arena_dup(&s->arena, str_from(x->end.reason));
    s->facts.unsynced.error = NULL;
    return true;
}

static void decide(struct salvage *x)
{
    const struct sandbox *s = x->sandbox;
    bool paused = s->record.state == SANDBOX_PAUSED;

    if (!x->why[0] || is_dead(s) || x->end.unsynced == DESTROY_DISCARD) {
        destroy_now(x);
        return;
    }
    x->end.refuses = x->end.unsynced == DESTROY_REFUSE;
    if (!x->end.refuses)
        LOG(WARN, "workspace.unsynced", LOG_S("sandbox", s->record.id), LOG_S("error", x->why));
    if (x->end.refuses && (paused || !x->was_paused))
        refuse(x);
    else if (x->end.refuses)
        pause_it(x, x->was_stopped);
    else if (paused)
        store_rest(x);
    else
        pause_it(x, false);
}

/* --- the sync --- */

uint64_t salvage_left(const struct mirror_report *r)
{
    return r->count[MIRROR_CONFLICT] + r->count[MIRROR_SENSITIVE] + r->count[MIRROR_REFUSED] +
           r->count[MIRROR_FAILED];
}

static void describe_left(struct salvage *x, const struct mirror_report *r)
{
    static const enum mirror_action left[] = { MIRROR_CONFLICT, MIRROR_SENSITIVE, MIRROR_REFUSED,
                                               MIRROR_FAILED };
    unsigned long long n = salvage_left(r);
    int at;

    if (!n)
        return;
    at = snprintf(x->why, sizeof x->why, "%llu change%s of the workspace %s not brought back (", n,
                  n == 1 ? "" : "s", n == 1 ? "was" : "were");
    for (size_t i = 0, shown = 0; i < COUNT_OF(left); i++)
        if (r->count[left[i]])
            at +=
                snprintf(x->why + at, sizeof x->why - (size_t)at, "%s%s: %llu", shown++ ? ", " : "",
                         mirror_action_name(left[i]), (unsigned long long)r->count[left[i]]);
    snprintf(x->why + at, sizeof x->why - (size_t)at, ")");
}

static void on_synced(struct workspace_op *op, int r, const struct err *e)
{
    struct salvage *x = container_of(op, struct salvage, mirroring);
    struct sandbox *s = x->sandbox;

    workspace_op_done(&s->brought);
    s->brought = *op;
    s->has_brought = r >= 0;
    hook_point("salvage.synced");
    if (r < 0)
        snprintf(x->why, sizeof x->why, "the workspace was not brought back: %.180s", e->msg);
    else
        describe_left(x, &op->report);
    decide(x);
}

static void sync_it(struct salvage *x)
{
    struct sandbox *s = x->sandbox;

    x->mirroring =
        (struct workspace_op){ .flags = MIRROR_DELETE |
                                        (x->end.sync == DESTROY_FORCE_SYNC ? MIRROR_FORCE : 0),
                               .done = on_synced };
    s->salvage_acts = true;
    workspace_sync(s, &x->end.actor, &x->mirroring);
    s->salvage_acts = false;
}

static void on_resumed(struct sandbox_op *op, int r, const struct err *e)
{
    struct salvage *x = container_of(op, struct salvage, moving);

    if (r >= 0) {
        sync_it(x);
        return;
    }
    snprintf(x->why, sizeof x->why, "its workspace cannot be brought back: %.180s", e->msg);
    decide(x);
}

static void resume_it(struct salvage *x)
{
    struct sandbox *s = x->sandbox;

    x->was_paused = true;
    x->was_stopped = sandbox_stopped(s);
    x->moving = (struct sandbox_op){ .done = on_resumed };
    s->salvage_acts = true;
    sandbox_resume(s, &x->end.actor, &x->moving);
    s->salvage_acts = false;
}

/* One whose changes were to be stored before has been synced, and stands still since then. */
static void decide_held(struct salvage *x)
{
    snprintf(x->why, sizeof x->why, "%s", x->sandbox->facts.unsynced.why);
    decide(x);
}

static void begin(struct salvage *x)
{
    struct sandbox *s = x->sandbox;

    if (is_dead(s))
        destroy_now(x);
    else if (s->pausing || s->stopping || s->transfer || s->capture ||
             (s->record.state == SANDBOX_PAUSED && s->after_teardown))
        loop_timer_start(s->control->loop, &x->wait, clock_mono() + WAIT_MS * NS_PER_MS,
                         begin_again, NULL);
    else if (s->record.state == SANDBOX_PAUSED && s->facts.has_unsynced)
        decide_held(x);
    else if (s->record.state == SANDBOX_PAUSED)
        resume_it(x);
    else
        sync_it(x);
}

static void begin_again(struct loop_timer *t)
{
    begin(container_of(t, struct salvage, wait));
}

void salvage_begin(struct sandbox *s, const struct salvage_end *end)
{
    struct salvage *x = calloc(1, sizeof *x);

    if (!x)
        abort();
    *x = (struct salvage){ .sandbox = sandbox_ref(s), .end = *end };
    s->salvage = x;
    ttl_stop(s);
    loop_timer_start(s->control->loop, &x->wait, clock_mono(), begin_again, NULL);
}

void salvage_join(struct sandbox *s, enum destroy_unsynced unsynced)
{
    struct salvage *x = s->salvage;

    if (unsynced > x->end.unsynced)
        x->end.unsynced = unsynced;
}

bool salvage_resume(struct sandbox *s)
{
    struct salvage_end end = { .actor = ACTOR_DAEMON, .unsynced = DESTROY_KEEP };

    if (!s->facts.has_unsynced || s->facts.unsynced.error || !s->facts.unsynced.reason)
        return false;
    snprintf(end.reason, sizeof end.reason, "%s", s->facts.unsynced.reason);
    salvage_begin(s, &end);
    return true;
}
