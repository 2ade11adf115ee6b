/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sandbox/salvage.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/own.h"
#include "control/sandbox/sandbox.h"
#include "control/snapshot/snapshots.h"

/* BUSY_MS is longer: each attempt brings the workspace back again. */
enum { WAIT_MS = 50, BUSY_MS = 1000, HELD_RETRY_S = 600, PROGRAMS_END_S = 10 };

struct salvage {
    struct sandbox *sandbox; /* referenced */
    struct salvage_end end;
    struct loop_timer wait; /* for another operation on the sandbox */
    struct workspace_op mirroring;
    bool mirrored;            /* `mirroring` ended, or the workspace cannot be brought back */
    unsigned mirrored_flags;  /* with which it began */
    struct sandbox_op moving; /* resume, pause or stop */
    struct snapshot_op storing;
    struct caller owner;          /* of the snapshot */
    bool was_paused, was_stopped; /* before it was resumed for the sync */
    bool pauses;          /* in order to store it: a caller's pause may be under way before */
    bool rescued;         /* it died before the changes that were left were stored */
    bool awaits_programs; /* it waits until all of them have ended … */
    int64_t patient_ns;   /* … at most until then; monotonic */
    char why[RECORD_REASON_MAX];   /* the changes that were not brought back; "": all were */
    char error[RECORD_REASON_MAX]; /* why they cannot be stored */
};

static void on_salvage_wait(struct loop_timer *t);

static bool compares_only(const struct salvage *x)
{
    return x->end.sync == DESTROY_COMPARE ||
           (x->end.sync == DESTROY_USUAL && x->sandbox->request.workspace.at_end == AT_END_KEEP);
}

static unsigned wanted_flags(const struct salvage *x)
{
    return SYNC_DELETE | (x->end.sync == DESTROY_FORCE_SYNC ? SYNC_FORCE : 0u) |
           (compares_only(x) ? SYNC_DRY_RUN : 0u);
}

/* Since a caller joined who asks for more than was done. The flags of the operation itself do not
 * tell: one that could not begin is marked as a dry run. */
static bool wants_other_sync(const struct salvage *x)
{
    return x->mirrored && x->end.unsynced != DESTROY_DISCARD &&
           x->mirrored_flags != wanted_flags(x);
}

bool salvage_wanted(const struct sandbox *s, enum destroy_sync sync)
{
    enum sandbox_state state = s->record.state;

    if (!workspace_syncs(s) || !s->record.ready_ns || sync == DESTROY_NO_SYNC)
        return false;
    if (state == SANDBOX_PAUSED || rescue_pending(s))
        return true;
    return sandbox_state_usable(state) && s->box && !s->after_teardown;
}

bool sandbox_is_held(const struct sandbox *s)
{
    return s->detail.has_unsynced && s->detail.unsynced.error;
}

/* --- the outcome: destroyed, or kept --- */

static struct salvage_end take_salvage_end(struct salvage *x)
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
    struct salvage_end end = take_salvage_end(x);

    fault_point("salvage.destroy");
    sandbox_destroy_now(s, &end);
    sandbox_unref(s);
}

static void keep_sandbox(struct salvage *x, int r, const struct err *e)
{
    struct sandbox *s = x->sandbox;

    (void)take_salvage_end(x);
    s->expiring = false;
    if (s->record.state != SANDBOX_FAILED && !s->after_teardown)
        ttl_start(s);
    sandbox_notify_destroyers(s, r, e);
    sandbox_unref(s);
}

static void refuse_destroy(struct salvage *x)
{
    struct err e;
    int r =
        err_set(&e, ERR_CONFLICT, "%.40s is not destroyed: %.180s", x->sandbox->record.id, x->why);

    keep_sandbox(x, r, &e);
}

static bool is_dead(const struct sandbox *s)
{
    return s->record.state == SANDBOX_FAILED ||
           (s->record.state != SANDBOX_PAUSED && !rescue_pending(s) &&
            (s->after_teardown || !s->box)) ||
           (paused_in_memory(s) && s->after_teardown && !rescue_pending(s));
}

/* It died: its files are on disk, and it will be paused (rescue.c). False: it lives, or nothing of
 * it is left. */
static bool await_rescue(struct salvage *x)
{
    if (!rescue_pending(x->sandbox))
        return false;
    x->rescued = true;
    loop_timer_start(x->sandbox->control->loop, &x->wait, clock_mono() + WAIT_MS * NS_PER_MS,
                     on_salvage_wait, NULL);
    return true;
}

/* --- storing failed: recorded, and retried much later --- */

static void note_unsynced(struct sandbox *s, const char *why)
{
    s->detail.has_unsynced = true;
    snprintf(s->unsynced_why, sizeof s->unsynced_why, "%s", why);
    s->detail.unsynced.why = s->unsynced_why;
}

static void edit_held(struct change *c, struct sandbox_record *next)
{
    struct sandbox *s = c->sandbox;
    const struct salvage *x = c->user;
    int64_t longest =
        next->state == SANDBOX_PAUSED ? s->control->config->ttl.paused : HELD_RETRY_S * NS_PER_S;

    note_unsynced(s, x->why);
    snprintf(s->unsynced_error, sizeof s->unsynced_error, "%s", x->error);
    s->detail.unsynced.error = s->unsynced_error;
    if (next->deadline_ns < clock_boot() + longest)
        next->deadline_ns = clock_boot() + longest;
    if (next->state == SANDBOX_PAUSED)
        s->detail.paused.until_ns = clock_wall() + longest;
    snprintf(next->reason, sizeof next->reason, "%s", c->reason);
    sandbox_write_detail(s, next);
}

static void on_held_recorded(struct change *c, int r, const struct err *e)
{
    struct salvage *x = c->user;
    const struct sandbox *s = x->sandbox;
    struct err why;

    r = err_set(&why, ERR_CONFLICT,
                "%.32s stays %s: its changes can be neither brought back nor stored (%.80s); make "
                "room and destroy it again, or discard them",
                s->record.id, sandbox_state_names[s->record.state], x->error);
    keep_sandbox(x, r, &why);
}

static void record_hold(struct salvage *x)
{
    char reason[RECORD_REASON_MAX];
    struct change *c;

    snprintf(reason, sizeof reason, "%.100s, and this cannot be stored: %.120s", x->why, x->error);
    c = change_new(x->sandbox, &ACTOR_DAEMON, reason);
    c->type = "sandbox.held";
    c->edit = edit_held;
    c->done = on_held_recorded;
    c->user = x;
    c->stubborn = true;
    change_submit(c);
}

static void wait_for_other_pause(struct salvage *x)
{
    loop_timer_start(x->sandbox->control->loop, &x->wait, clock_mono() + BUSY_MS * NS_PER_MS,
                     on_salvage_wait, NULL);
}

static void on_held_frozen(struct sandbox_op *op, int r, const struct err *e)
{
    struct salvage *x = container_of(op, struct salvage, moving);

    x->pauses = false;
    if (r < 0 && e->code == ERR_BUSY) {
        wait_for_other_pause(x);
        return;
    }
    if (r < 0) /* it died, or keeps running */
        LOG(WARN, "sandbox.not_paused", LOG_S("sandbox", x->sandbox->record.id),
            LOG_S("error", e->msg));
    if (await_rescue(x))
        return;
    if (is_dead(x->sandbox))
        destroy_now(x);
    else
        record_hold(x);
}

/* A pause stores the files that are in memory, and needs room for them, too. */
static void freeze_to_hold(struct salvage *x)
{
    x->moving = (struct sandbox_op){ .done = on_held_frozen };
    x->pauses = true;
    x->sandbox->salvage_acts = true;
    pause_in_memory(x->sandbox, &x->moving);
    x->sandbox->salvage_acts = false;
}

static void hold_sandbox(struct salvage *x, const struct err *e)
{
    const struct sandbox *s = x->sandbox;

    if (await_rescue(x))
        return;
    LOG(WARN, "workspace.held", LOG_S("sandbox", s->record.id), LOG_S("error", e->msg));
    snprintf(x->error, sizeof x->error, "%s", e->msg);
    if (is_dead(s)) /* no files are left to store */
        destroy_now(x);
    else if (s->record.state == SANDBOX_PAUSED)
        record_hold(x);
    else
        freeze_to_hold(x);
}

/* --- a snapshot of the changes that were not brought back --- */

static void on_unsynced_stored(struct snapshot_op *op, int r, const struct err *e)
{
    struct salvage *x = container_of(op, struct salvage, storing);

    if (r < 0) {
        hold_sandbox(x, e);
        return;
    }
    snprintf(x->end.kept, sizeof x->end.kept, "%s", op->snapshot->record.id);
    x->end.kept_until_ns = op->snapshot->record.expires_ns;
    snprintf(x->end.why, sizeof x->end.why, "%s", x->why);
    fault_point("salvage.stored");
    destroy_now(x);
}

static void store_unsynced(struct salvage *x)
{
    struct sandbox *s = x->sandbox;

    if (x->end.unsynced == DESTROY_DISCARD) {
        destroy_now(x);
        return;
    }
    fault_point("salvage.store");
    x->owner = (struct caller){ .actor = ACTOR_DAEMON };
    snprintf(x->owner.owner, sizeof x->owner.owner, "%s", s->record.owner);
    snprintf(x->owner.family, sizeof x->owner.family, "%s", s->record.family);
    x->storing = (struct snapshot_op){ .caller = &x->owner,
                                       .keep_ns = s->control->config->retention.unsynced,
                                       .done = on_unsynced_stored };
    s->salvage_acts = true;
    sandbox_snapshot(s, &x->storing);
    s->salvage_acts = false;
}

/* --- paused before it is stored, so that nothing is written afterwards --- */

static void on_salvage_paused(struct sandbox_op *op, int r, const struct err *e)
{
    struct salvage *x = container_of(op, struct salvage, moving);

    x->pauses = false;
    if (r >= 0 && !x->end.refuses && wants_other_sync(x))
        loop_timer_start(x->sandbox->control->loop, &x->wait, clock_mono(), on_salvage_wait, NULL);
    else if (r >= 0 && !x->end.refuses)
        store_unsynced(x);
    else if (x->end.refuses) /* in its former state, if possible */
        refuse_destroy(x);
    else if (e->code == ERR_BUSY)
        wait_for_other_pause(x);
    else
        hold_sandbox(x, e);
}

static void pause_for_salvage(struct salvage *x, bool stop)
{
    struct sandbox *s = x->sandbox;

    x->moving = (struct sandbox_op){ .done = on_salvage_paused };
    x->pauses = true;
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

    if (!x || !x->pauses || x->end.unsynced == DESTROY_REFUSE)
        return false;
    note_unsynced(s, x->why);
    snprintf(s->unsynced_reason, sizeof s->unsynced_reason, "%s", x->end.reason);
    s->detail.unsynced.reason = s->unsynced_reason;
    s->detail.unsynced.error = NULL;
    return true;
}

static void decide_salvage(struct salvage *x)
{
    const struct sandbox *s = x->sandbox;
    bool paused = s->record.state == SANDBOX_PAUSED;

    if (!x->why[0] || is_dead(s) || x->end.unsynced == DESTROY_DISCARD) {
        destroy_now(x);
        return;
    }
    if (await_rescue(x))
        return;
    x->end.refuses = x->end.unsynced == DESTROY_REFUSE;
    if (!x->end.refuses)
        LOG(WARN, "workspace.unsynced", LOG_S("sandbox", s->record.id), LOG_S("error", x->why));
    if (x->end.refuses && (paused || !x->was_paused))
        refuse_destroy(x);
    else if (x->end.refuses)
        pause_for_salvage(x, x->was_stopped);
    else if (paused)
        store_unsynced(x);
    else
        pause_for_salvage(x, false);
}

/* --- the sync --- */

/* A comparison brings nothing back: it leaves what a sync would have applied, too. */
static void describe_left(struct salvage *x, const struct sync_report *r, bool compared)
{
    static const enum sync_action left[] = { SYNC_CONFLICT, SYNC_SENSITIVE,  SYNC_REFUSED,
                                             SYNC_FAILED,   SYNC_CREATED,    SYNC_REPLACED,
                                             SYNC_DELETED,  SYNC_OVERWRITTEN };
    enum { LEFT_BY_SYNC = 4 };
    size_t kinds = compared ? COUNT_OF(left) : LEFT_BY_SYNC;
    unsigned long long n = 0;
    int at;

    for (size_t i = 0; i < kinds; i++)
        n += r->count[left[i]];
    if (!n)
        return;
    at = snprintf(x->why, sizeof x->why, "%llu change%s of the workspace %s not brought back (", n,
                  n == 1 ? "" : "s", n == 1 ? "was" : "were");
    for (size_t i = 0, shown = 0; i < kinds; i++)
        if (r->count[left[i]])
            at +=
                snprintf(x->why + at, sizeof x->why - (size_t)at, "%s%s: %llu", shown++ ? ", " : "",
                         sync_action_name(left[i]), (unsigned long long)r->count[left[i]]);
    snprintf(x->why + at, sizeof x->why - (size_t)at, ")");
}

static void on_salvage_synced(struct workspace_op *op, int r, const struct err *e);

static void begin_salvage_sync(struct salvage *x)
{
    struct sandbox *s = x->sandbox;

    x->why[0] = '\0';
    x->mirrored = false;
    x->mirrored_flags = wanted_flags(x);
    x->mirroring = (struct workspace_op){ .flags = x->mirrored_flags, .done = on_salvage_synced };
    s->salvage_acts = true;
    workspace_sync(s, &x->end.actor, &x->mirroring);
    s->salvage_acts = false;
}

static void on_salvage_synced(struct workspace_op *op, int r, const struct err *e)
{
    struct salvage *x = container_of(op, struct salvage, mirroring);
    struct sandbox *s = x->sandbox;

    workspace_op_done(&s->last_sync);
    s->last_sync = *op;
    s->has_last_sync = r >= 0;
    x->mirrored = true;
    fault_point("salvage.synced");
    if (r < 0)
        snprintf(x->why, sizeof x->why, "the workspace was not brought back: %.180s", e->msg);
    else
        describe_left(x, &op->report, x->mirrored_flags & SYNC_DRY_RUN);
    if (wants_other_sync(x) && !is_dead(s) && !rescue_pending(s))
        begin_salvage_sync(x);
    else
        decide_salvage(x);
}

/* A program that writes to a file after it was compared would lose that change: without changes the
 * sandbox is destroyed at once. None can be started meanwhile. */
static void end_programs(struct salvage *x)
{
    struct sandbox *s = x->sandbox;

    s->ops->signal_all(s->box, SIGKILL);
    if (!(s->ops->can & BACKEND_CAN_USAGE)) {
        begin_salvage_sync(x);
        return;
    }
    x->awaits_programs = true;
    loop_timer_start(s->control->loop, &x->wait, clock_mono() + BUSY_MS * NS_PER_MS,
                     on_salvage_wait, NULL);
    s->ops->usage(s->box); /* → salvage_on_usage() */
}

void salvage_on_usage(struct sandbox *s, int r, const struct backend_usage *u)
{
    struct salvage *x = s->salvage;

    if (!x || !x->awaits_programs)
        return;
    x->awaits_programs = false;
    loop_timer_stop(&x->wait);
    if (r >= 0 && u->processes == 0) {
        x->patient_ns = 0;
        begin_salvage_sync(x);
        return;
    }
    loop_timer_start(s->control->loop, &x->wait, clock_mono() + WAIT_MS * NS_PER_MS,
                     on_salvage_wait, NULL);
}

static void sync_for_salvage(struct salvage *x)
{
    struct sandbox *s = x->sandbox;

    if (!x->patient_ns)
        x->patient_ns = clock_mono() + PROGRAMS_END_S * NS_PER_S;
    if (x->end.unsynced == DESTROY_DISCARD) { /* since a caller joined who wants no sync */
        destroy_now(x);
    } else if (!compares_only(x)) {
        begin_salvage_sync(x);
    } else if (!s->box || clock_mono() > x->patient_ns) {
        snprintf(x->why, sizeof x->why,
                 "its workspace was not compared with its directory, because its programs do not "
                 "end");
        decide_salvage(x);
    } else {
        end_programs(x);
    }
}

static void on_salvage_resumed(struct sandbox_op *op, int r, const struct err *e)
{
    struct salvage *x = container_of(op, struct salvage, moving);

    if (r >= 0) {
        sync_for_salvage(x);
        return;
    }
    snprintf(x->why, sizeof x->why, "its workspace cannot be brought back: %.180s", e->msg);
    x->mirrored = true; /* not resumed again and again */
    x->mirrored_flags = wanted_flags(x);
    decide_salvage(x);
}

static void resume_for_salvage(struct salvage *x)
{
    struct sandbox *s = x->sandbox;

    x->was_paused = true;
    x->was_stopped = sandbox_stopped(s);
    x->moving = (struct sandbox_op){ .done = on_salvage_resumed };
    s->salvage_acts = true;
    sandbox_resume(s, &x->end.actor, &x->moving);
    s->salvage_acts = false;
}

static void on_salvage_wait(struct loop_timer *t)
{
    struct salvage *x = container_of(t, struct salvage, wait);
    struct sandbox *s = x->sandbox;

    x->awaits_programs = false;
    if (is_dead(s)) {
        destroy_now(x);
    } else if (s->pausing || s->stopping || s->transfer || s->capture || rescue_pending(s) ||
               (s->record.state == SANDBOX_PAUSED && s->after_teardown)) {
        loop_timer_start(s->control->loop, &x->wait, clock_mono() + WAIT_MS * NS_PER_MS,
                         on_salvage_wait, NULL);
    } else if (s->record.state == SANDBOX_PAUSED && s->detail.has_unsynced &&
               !wants_other_sync(x) && !(paused_in_memory(s) && x->end.unsynced == DESTROY_KEEP)) {
        /* It was paused for storing: it has been synced already, and is frozen since. In memory,
         * its files can be stored only after a resume. */
        snprintf(x->why, sizeof x->why, "%s", s->detail.unsynced.why);
        decide_salvage(x);
    } else if (s->record.state == SANDBOX_PAUSED && x->rescued) {
        decide_salvage(x); /* not resumed for another sync: the cause of its death may recur */
    } else if (s->record.state == SANDBOX_PAUSED) {
        resume_for_salvage(x);
    } else {
        sync_for_salvage(x);
    }
}

void salvage_begin(struct sandbox *s, const struct salvage_end *end)
{
    struct salvage *x = new0(sizeof *x);

    *x = (struct salvage){ .sandbox = sandbox_ref(s), .end = *end };
    s->salvage = x;
    ttl_stop(s);
    loop_timer_start(s->control->loop, &x->wait, clock_mono(), on_salvage_wait, NULL);
}

/* In ascending order of what is brought back. */
static int sync_rank(enum destroy_sync sync)
{
    static const int ranks[] = { [DESTROY_NO_SYNC] = 0,
                                 [DESTROY_COMPARE] = 1,
                                 [DESTROY_USUAL] = 2,
                                 [DESTROY_SYNC] = 3,
                                 [DESTROY_FORCE_SYNC] = 4 };

    return ranks[sync];
}

void salvage_join(struct sandbox *s, const struct salvage_end *end)
{
    struct salvage *x = s->salvage;
    enum destroy_unsynced unsynced = end->sync == DESTROY_NO_SYNC ? DESTROY_DISCARD : end->unsynced;

    if (sync_rank(end->sync) > sync_rank(x->end.sync)) {
        x->end.sync = end->sync;
        x->end.actor = end->actor; /* what is brought back is on record as theirs */
    }
    if (unsynced > x->end.unsynced)
        x->end.unsynced = unsynced;
    if (x->end.unsynced == DESTROY_DISCARD)
        workspace_stop_waiting(s); /* for a sync that is no longer wanted */
}

bool salvage_resume(struct sandbox *s)
{
    struct salvage_end end = { .actor = ACTOR_DAEMON, .unsynced = DESTROY_KEEP };

    if (!s->detail.has_unsynced || s->detail.unsynced.error || !s->detail.unsynced.reason)
        return false;
    snprintf(end.reason, sizeof end.reason, "%s", s->detail.unsynced.reason);
    salvage_begin(s, &end);
    return true;
}
