/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a sandbox's lifetime: its deadline, or idleness (idle.h).
 *
 * Deadlines are on CLOCK_BOOTTIME, which includes suspend and cannot be set. Timers run on the
 * monotonic clock, which stops during suspend, so no timer is longer than a minute. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "base/own.h"
#include "control/sandbox/sandbox.h"
#include "control/snapshot/checkpoints.h"

#define CHECK_MAX_NS   (60 * NS_PER_S)
#define USAGE_WAIT_NS  (2 * NS_PER_S)
#define PAUSE_WAIT_NS  (2 * NS_PER_S)
#define FAILED_KEEP_NS (3600 * NS_PER_S)

int64_t clock_boot(void)
{
    return clock_read_(CLOCK_BOOTTIME);
}

static void on_sandbox_due(struct loop_timer *t);

static void schedule_check(struct sandbox *s, int64_t in_ns)
{
    int64_t wait = in_ns > CHECK_MAX_NS ? CHECK_MAX_NS : in_ns < 0 ? 0 : in_ns;

    loop_timer_stop(&s->due);
    loop_timer_start(s->control->loop, &s->due, clock_mono() + wait, on_sandbox_due, NULL);
}

static int64_t earlier_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t ttl_end(const struct sandbox *s)
{
    return idle_counts(s) ? earlier_of(s->record.deadline_ns, idle_deadline(s))
                          : s->record.deadline_ns;
}

/* Schedules the next check; a use in between makes that check do nothing. */
static void schedule_end(struct sandbox *s)
{
    schedule_check(s, ttl_end(s) - clock_boot());
}

void ttl_start(struct sandbox *s)
{
    idle_begin(&s->idle);
    s->usage_requested = false;
    s->expiring = false;
    schedule_end(s);
    checkpoint_timer_start(s);
}

void ttl_stop(struct sandbox *s)
{
    loop_timer_stop(&s->due);
    checkpoint_timer_stop(s);
}

void ttl_keep_failed(struct sandbox *s)
{
    s->failed_ns = clock_boot();
    schedule_check(s, FAILED_KEEP_NS);
}

static void on_expired_recorded(struct change *c, int r, const struct err *e)
{
    struct sandbox *s = c->sandbox;

    if (r < 0) {
        schedule_check(s, NS_PER_S);
        return;
    }
    sandbox_destroy(s, &ACTOR_DAEMON, c->reason, DESTROY_USUAL, NULL);
}

static void expire_sandbox(struct sandbox *s)
{
    struct change *c;

    if (salvage_wanted(s, DESTROY_USUAL)) {
        sandbox_expire(s, s->expire_reason);
        return;
    }
    c = change_new(s, &ACTOR_DAEMON, s->expire_reason);
    change_to(c, SANDBOX_EXPIRED);
    c->done = on_expired_recorded;
    change_submit(c);
}

/* The end is on record: asks the programs inside to exit. */
static void on_expiring_recorded(struct change *c, int r, const struct err *e)
{
    struct sandbox *s = c->sandbox;
    int64_t grace = s->control->config->ttl.grace;

    if (s->destroying || s->after_teardown)
        return;
    if (r < 0) {
        s->expiring = false;
        schedule_check(s, NS_PER_S);
        return;
    }
    if (!s->expiring) { /* its deadline was extended meanwhile */
        schedule_end(s);
        return;
    }
    if (s->programs && s->box && s->record.state != SANDBOX_PAUSED)
        s->ops->signal_all(s->box, SIGTERM);
    else
        grace = 0; /* no program to wait for */
    schedule_check(s, grace);
}

void ttl_hurry(struct sandbox *s)
{
    if (loop_timer_started(&s->due))
        schedule_check(s, 0);
}

static void begin_expiry(struct sandbox *s, const char *reason)
{
    struct change *c = change_new(s, &ACTOR_DAEMON, reason);

    s->expiring = true;
    snprintf(s->expire_reason, sizeof s->expire_reason, "%s", reason);
    c->type = "sandbox.expiring";
    c->done = on_expiring_recorded;
    change_submit(c);
}

static bool is_past_idle(const struct sandbox *s)
{
    return idle_counts(s) && clock_boot() >= idle_deadline(s);
}

/* Why its lifetime is over, for record.reason and later requests. */
static void write_end_reason(const struct sandbox *s, bool idle, char out[static RECORD_REASON_MAX])
{
    bool own = s->profile && s->record.idle_ns == s->profile->ttl.idle_reap;
    char time[48];

    units_show_duration(idle ? s->record.idle_ns : s->record.ttl_ns, time);
    if (idle)
        snprintf(out, RECORD_REASON_MAX, "it was idle for %s (%s)", time,
                 own ? "idle_reap of its profile" : "its own idle time");
    else if (s->record.state == SANDBOX_PAUSED)
        snprintf(out, RECORD_REASON_MAX, "it was paused for too long");
    else
        snprintf(out, RECORD_REASON_MAX, "its ttl of %s has expired", time);
}

struct pausing_due {
    struct sandbox *sandbox; /* referenced */
    struct sandbox_op op;
};

/* Another capture is under way, or the disk is full: both may pass, but files that are not kept are
 * lost for good. */
static bool may_pause_later(const struct err *e)
{
    return e->code == ERR_BUSY || e->code == ERR_FULL ||
           (e->code == ERR_SYS && (e->sys == ENOSPC || e->sys == EDQUOT));
}

/* Its lifetime is over, and it was to be paused; if that is impossible, it expires. */
static void on_due_paused(struct sandbox_op *op, int r, const struct err *e)
{
    struct pausing_due *p = container_of(op, struct pausing_due, op);
    struct sandbox *s = p->sandbox;

    free(p);
    if (r < 0 && may_pause_later(e)) {
        LOG(INFO, "sandbox.pause_waits", LOG_S("sandbox", s->record.id), LOG_S("error", e->msg));
        schedule_check(s, PAUSE_WAIT_NS);
    } else if (r < 0 && !s->destroying && !s->after_teardown) {
        LOG(WARN, "sandbox.not_paused", LOG_S("sandbox", s->record.id), LOG_S("error", e->msg));
        begin_expiry(s, "its lifetime is over, and it could not be paused");
    }
    sandbox_unref(s);
}

static void pause_due_sandbox(struct sandbox *s, bool stop)
{
    struct pausing_due *p = new0(sizeof *p);

    *p = (struct pausing_due){ .sandbox = sandbox_ref(s), .op = { .done = on_due_paused } };
    if (stop)
        sandbox_stop(s, &ACTOR_DAEMON, &p->op);
    else
        sandbox_pause(s, &ACTOR_DAEMON, &p->op);
    schedule_check(s, NS_PER_S); /* on_sandbox_due() waits for it */
}

static void check_ttl_end(struct sandbox *s)
{
    bool past_deadline = clock_boot() >= s->record.deadline_ns,
         idle = !past_deadline && is_past_idle(s);
    char reason[RECORD_REASON_MAX];

    write_end_reason(s, !past_deadline, reason);
    if (idle && s->detail.has_rest && s->detail.rest.stops)
        pause_due_sandbox(s, true);
    else if ((past_deadline || idle) && s->request.on_timeout == ASK_END_PAUSE &&
             s->record.state != SANDBOX_PAUSED)
        pause_due_sandbox(s, false);
    else if (past_deadline || idle)
        begin_expiry(s, reason);
    else
        schedule_end(s);
}

/* A sandbox that does not answer is not known to be idle. */
void ttl_on_usage(struct backend_box *b, int r, const struct backend_usage *u)
{
    struct sandbox *s = b->owner;
    bool judged;

    if (s->destroying || s->after_teardown || s->expiring)
        return;
    judged = r >= 0 && idle_sample(s, u, s->usage_requested);
    if (!s->usage_requested)
        return;
    s->usage_requested = false;
    if (judged || !is_past_idle(s))
        check_ttl_end(s);
    else
        schedule_check(s, earlier_of(r < 0 ? USAGE_WAIT_NS : idle_span(s),
                                     s->record.deadline_ns - clock_boot()));
}

/* The idle deadline is due, as far as is visible from outside: → ttl_on_usage(). */
static void request_box_usage(struct sandbox *s)
{
    schedule_check(s, s->record.deadline_ns - clock_boot());
    if (s->usage_requested)
        return;
    s->usage_requested = true;
    s->ops->usage(s->box);
}

static void check_failed_age(struct sandbox *s)
{
    int64_t left = FAILED_KEEP_NS - (clock_boot() - s->failed_ns);

    if (left <= 0)
        sandbox_destroy(s, &ACTOR_DAEMON, "failed an hour ago", DESTROY_NO_SYNC, NULL);
    else
        schedule_check(s, left);
}

static void on_sandbox_due(struct loop_timer *t)
{
    struct sandbox *s = container_of(t, struct sandbox, due);
    bool past_deadline = clock_boot() >= s->record.deadline_ns;
    bool inside = s->box && (s->ops->can & BACKEND_CAN_USAGE);

    /* If the destroy cannot be recorded, ttl_resume() schedules a check. */
    if (s->destroying || s->salvage || s->after_teardown)
        return;
    if (s->pausing || s->resume) { /* its lifetime does not count, or is about to stop counting */
        schedule_check(s, NS_PER_S);
        return;
    }
    if (s->record.state == SANDBOX_FAILED) {
        check_failed_age(s);
    } else if (s->record.state == SANDBOX_EXPIRED) {
        sandbox_destroy(s, &ACTOR_DAEMON, s->record.reason, DESTROY_USUAL, NULL);
    } else if (s->expiring) {
        expire_sandbox(s);
    } else if (!past_deadline && inside && is_past_idle(s)) {
        request_box_usage(s);
    } else {
        check_ttl_end(s);
    }
}

/* A destroy could not be recorded: schedules the next check. */
void ttl_resume(struct sandbox *s)
{
    schedule_check(s, NS_PER_S);
}

void sandbox_touch(struct sandbox *s)
{
    idle_note(&s->idle, USE_REQUEST);
}

void sandbox_attach(struct sandbox *s)
{
    s->idle.attached++;
}

void sandbox_detach(struct sandbox *s)
{
    s->idle.attached--;
    idle_note(&s->idle, USE_CLIENT);
}

/* --- due sandboxes --- */

static bool find_due_reason(const struct sandbox *s, char why[static RECORD_REASON_MAX])
{
    bool past_deadline = clock_boot() >= s->record.deadline_ns;

    if (s->destroying || s->salvage || s->after_teardown)
        return false;
    if (s->expiring) {
        snprintf(why, RECORD_REASON_MAX, "%s", s->expire_reason);
        return true;
    }
    if (!sandbox_state_usable(s->record.state) && s->record.state != SANDBOX_PAUSED)
        return false;
    write_end_reason(s, !past_deadline, why);
    return past_deadline || is_past_idle(s);
}

struct due_walk {
    const struct caller *who;
    bool apply;
    due_fn *each;
    void *user;
};

static void walk_due(struct map_entry *v, void *user)
{
    struct sandbox *s = container_of(v, struct sandbox, entry);
    const struct due_walk *w = user;
    const struct sandbox_view view = sandbox_view(s);
    char why[RECORD_REASON_MAX];

    if (!s->stored || !sandbox_visible(w->who, &s->record) || !find_due_reason(s, why))
        return;
    w->each(w->user, &view, why);
    if (w->apply && !s->expiring && !s->pausing)
        schedule_check(s, 0); /* samples an idle sandbox before ending it */
}

void control_due(struct control *c, const struct caller *who, bool apply, due_fn *each, void *user)
{
    struct due_walk w = { .who = who, .apply = apply, .each = each, .user = user };

    map_each(&c->sandboxes, walk_due, &w);
}

/* --- extending --- */

/* The latest possible deadline: counted from the moment it was ready, independent of the wall
 * clock. */
static int64_t last_deadline(const struct sandbox_record *r)
{
    return r->deadline_ns - r->ttl_ns + r->ttl_max_ns;
}

void ttl_prolong(struct sandbox_record *next, int64_t duration_ns)
{
    int64_t wanted = earlier_of(clock_boot() + duration_ns, last_deadline(next));

    if (wanted > next->deadline_ns) {
        next->ttl_ns += wanted - next->deadline_ns;
        next->deadline_ns = wanted;
    }
}

static void edit_prolonged_deadline(struct change *c, struct sandbox_record *next)
{
    ttl_prolong(next, c->number);
}

/* Also to an earlier time. */
static void edit_exact_deadline(struct change *c, struct sandbox_record *next)
{
    int64_t wanted = earlier_of(clock_boot() + c->number, last_deadline(next));

    next->ttl_ns += wanted - next->deadline_ns;
    next->deadline_ns = wanted;
}

/* If the new deadline has passed already, the expiry that was begun continues. */
static void on_deadline_recorded(struct change *c, int r, const struct err *e)
{
    struct sandbox *s = c->sandbox;
    struct sandbox_op *op = c->user;
    struct err late;

    if (r >= 0 && !s->destroying && !s->after_teardown) {
        if (clock_boot() < s->record.deadline_ns) {
            s->expiring = false;
            sandbox_touch(s);
            schedule_end(s);
        } else if (!c->number) { /* a request to end it now */
            schedule_end(s);
        } else {
            r = err_set(&late, ERR_CONFLICT,
                        "sandbox %s has reached the maximum lifetime of its profile", s->record.id);
            e = &late;
        }
    }
    sandbox_op_complete(op, r, e);
}

/* Checked when the change's turn comes: an earlier change in the queue may have ended the
 * sandbox. */
static int check_extendable(const struct change *c, struct err *e)
{
    const struct sandbox *s = c->sandbox;

    if (sandbox_is_ending(s) || s->after_teardown ||
        !(sandbox_state_usable(s->record.state) || s->record.state == SANDBOX_PAUSED))
        return err_set(e, ERR_CONFLICT, "sandbox %s is %s: its lifetime cannot be extended",
                       s->record.id, sandbox_state_names[s->record.state]);
    return 0;
}

static void submit_deadline(struct sandbox *s, const struct actor *who, bool exact,
                            int64_t duration_ns, struct sandbox_op *op)
{
    struct change *c = change_new(s, who, exact ? "set-ttl" : "extend-ttl");

    op->sandbox = sandbox_ref(s);
    c->type = exact ? "sandbox.ttl_set" : "sandbox.ttl_extended";
    c->edit = exact ? edit_exact_deadline : edit_prolonged_deadline;
    c->number = duration_ns;
    c->check = check_extendable;
    c->done = on_deadline_recorded;
    c->user = op;
    change_submit(c);
}

void sandbox_extend(struct sandbox *s, const struct actor *who, int64_t duration_ns,
                    struct sandbox_op *op)
{
    submit_deadline(s, who, false, duration_ns, op);
}

void sandbox_set_ttl(struct sandbox *s, const struct actor *who, int64_t duration_ns,
                     struct sandbox_op *op)
{
    submit_deadline(s, who, true, duration_ns, op);
}
