/* The end of a sandbox's time: its deadline, or idleness (idle.h).
 *
 * Deadlines are on CLOCK_BOOTTIME, which goes on through sleep and is not set by anybody. Timers
 * run on the monotonic clock, which stops in sleep, so none is longer than a minute. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "control/sandbox.h"

#define LOOK_MAX_NS    (60 * NS_PER_S)
#define USAGE_WAIT_NS  (2 * NS_PER_S)
#define PAUSE_WAIT_NS  (2 * NS_PER_S)
#define FAILED_KEEP_NS (3600 * NS_PER_S)

int64_t clock_boot(void)
{
    return clock_read_(CLOCK_BOOTTIME);
}

static void on_due(struct loop_timer *t);

static void look_again(struct sandbox *s, int64_t in_ns)
{
    int64_t wait = in_ns > LOOK_MAX_NS ? LOOK_MAX_NS : in_ns < 0 ? 0 : in_ns;

    loop_timer_stop(&s->due);
    loop_timer_start(s->control->loop, &s->due, clock_mono() + wait, on_due, NULL);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t ttl_end(const struct sandbox *s)
{
    return idle_counts(s) ? smaller(s->record.deadline_ns, idle_deadline(s))
                          : s->record.deadline_ns;
}

/* When the next look is due; use of the sandbox meanwhile makes it find nothing to do. */
static void plan_next(struct sandbox *s)
{
    look_again(s, ttl_end(s) - clock_boot());
}

void ttl_start(struct sandbox *s)
{
    idle_begin(&s->idle);
    s->asked_usage = false;
    s->expiring = false;
    plan_next(s);
}

void ttl_stop(struct sandbox *s)
{
    loop_timer_stop(&s->due);
}

void ttl_keep_failed(struct sandbox *s)
{
    s->failed_ns = clock_boot();
    look_again(s, FAILED_KEEP_NS);
}

static void told_expired(struct change *c, int r, const struct err *e)
{
    struct sandbox *s = c->sandbox;

    (void)e;
    if (r < 0) {
        look_again(s, NS_PER_S);
        return;
    }
    sandbox_destroy(s, &ACTOR_DAEMON, c->reason, DESTROY_SYNC, NULL);
}

static void expire(struct sandbox *s)
{
    struct change *c;

    if (salvage_wanted(s, DESTROY_SYNC)) {
        sandbox_expire(s, s->expire_reason);
        return;
    }
    c = change_new(s, &ACTOR_DAEMON, s->expire_reason);
    change_to(c, SANDBOX_EXPIRED);
    c->done = told_expired;
    change_submit(c);
}

/* It is on record that it ends: now what runs inside is asked to end. */
static void told_expiring(struct change *c, int r, const struct err *e)
{
    struct sandbox *s = c->sandbox;
    int64_t grace = s->control->config->ttl.grace;

    (void)e;
    if (s->destroying || s->after_teardown)
        return;
    if (r < 0) {
        s->expiring = false;
        look_again(s, NS_PER_S);
        return;
    }
    if (!s->expiring) { /* it was given more time meanwhile */
        plan_next(s);
        return;
    }
    if (s->programs && s->box && s->record.state != SANDBOX_PAUSED)
        s->ops->signal_all(s->box, SIGTERM);
    else
        grace = 0; /* nobody to wait for */
    look_again(s, grace);
}

void ttl_hurry(struct sandbox *s)
{
    if (loop_timer_started(&s->due))
        look_again(s, 0);
}

static void begin_expiry(struct sandbox *s, const char *reason)
{
    struct change *c = change_new(s, &ACTOR_DAEMON, reason);

    s->expiring = true;
    snprintf(s->expire_reason, sizeof s->expire_reason, "%s", reason);
    c->type = "sandbox.expiring";
    c->done = told_expiring;
    change_submit(c);
}

static bool is_idle(const struct sandbox *s)
{
    return idle_counts(s) && clock_boot() >= idle_deadline(s);
}

/* Why its time is over, for people who come too late; in record.reason. */
static void write_end_reason(const struct sandbox *s, bool idle, char out[static RECORD_REASON_MAX])
{
    bool own = s->profile && s->record.idle_ns == s->profile->ttl.idle_reap;
    char time[48];

    units_show_duration(idle ? s->record.idle_ns : s->record.ttl_ns, time);
    if (idle)
        snprintf(out, RECORD_REASON_MAX, "nobody used it for %s (%s)", time,
                 own ? "idle_reap of its profile" : "its own idle time");
    else if (s->record.state == SANDBOX_PAUSED)
        snprintf(out, RECORD_REASON_MAX, "it was paused for too long");
    else
        snprintf(out, RECORD_REASON_MAX, "its ttl of %s is over", time);
}

struct pausing_due {
    struct sandbox *sandbox; /* referenced */
    struct sandbox_op op;
};

/* A snapshot is being taken, or there is no room to keep what it wrote: that passes, and what would
 * be lost does not come again. */
static bool may_pause_later(const struct err *e)
{
    return e->code == ERR_BUSY || (e->code == ERR_SYS && (e->sys == ENOSPC || e->sys == EDQUOT));
}

/* Its time is over, and it stands still from now on; where that cannot be, it ends as others do. */
static void was_paused(struct sandbox_op *op, int r, const struct err *e)
{
    struct pausing_due *p = container_of(op, struct pausing_due, op);
    struct sandbox *s = p->sandbox;

    free(p);
    if (r < 0 && may_pause_later(e)) {
        LOG(INFO, "sandbox.pause_waits", LOG_S("sandbox", s->record.id), LOG_S("error", e->msg));
        look_again(s, PAUSE_WAIT_NS);
    } else if (r < 0 && !s->destroying && !s->after_teardown) {
        LOG(WARN, "sandbox.not_paused", LOG_S("sandbox", s->record.id), LOG_S("error", e->msg));
        begin_expiry(s, "its time is over, and it could not be paused");
    }
    sandbox_unref(s);
}

static void pause_due(struct sandbox *s, bool stop)
{
    struct pausing_due *p = calloc(1, sizeof *p);

    if (!p)
        abort();
    *p = (struct pausing_due){ .sandbox = sandbox_ref(s), .op = { .done = was_paused } };
    if (stop)
        sandbox_stop(s, &ACTOR_DAEMON, &p->op);
    else
        sandbox_pause(s, &ACTOR_DAEMON, &p->op);
    look_again(s, NS_PER_S); /* on_due() waits for it */
}

static void end_time(struct sandbox *s, const char *reason)
{
    if (s->request.on_timeout == ASK_END_PAUSE && s->record.state != SANDBOX_PAUSED)
        pause_due(s, false);
    else
        begin_expiry(s, reason);
}

static void look(struct sandbox *s)
{
    bool over = clock_boot() >= s->record.deadline_ns, idle = !over && is_idle(s);
    char reason[RECORD_REASON_MAX];

    write_end_reason(s, !over, reason);
    if (idle && s->facts.has_rest && s->facts.rest.stops)
        pause_due(s, true);
    else if (over || idle)
        end_time(s, reason);
    else
        plan_next(s);
}

/* A sandbox that does not answer is not known to be idle. */
void ttl_usage(struct ext_box *b, int r, const struct ext_usage *u)
{
    struct sandbox *s = b->owner;
    bool judged;

    if (s->destroying || s->after_teardown || s->expiring)
        return;
    judged = r >= 0 && idle_look(s, u, s->asked_usage);
    if (!s->asked_usage)
        return;
    s->asked_usage = false;
    if (judged || !is_idle(s))
        look(s);
    else
        look_again(
            s, smaller(r < 0 ? USAGE_WAIT_NS : idle_span(s), s->record.deadline_ns - clock_boot()));
}

/* Its idle deadline has come, as far as is known out here: → ttl_usage. */
static void ask_box_usage(struct sandbox *s)
{
    look_again(s, s->record.deadline_ns - clock_boot());
    if (s->asked_usage)
        return;
    s->asked_usage = true;
    s->ops->usage(s->box);
}

static void look_at_failed(struct sandbox *s)
{
    int64_t left = FAILED_KEEP_NS - (clock_boot() - s->failed_ns);

    if (left <= 0)
        sandbox_destroy(s, &ACTOR_DAEMON, "failed an hour ago", DESTROY_NO_SYNC, NULL);
    else
        look_again(s, left);
}

static void on_due(struct loop_timer *t)
{
    struct sandbox *s = container_of(t, struct sandbox, due);
    bool over = clock_boot() >= s->record.deadline_ns;
    bool inside = s->box && (s->ops->can & EXT_CAN_USAGE);

    if (s->destroying || s->salvage || s->after_teardown)
        return;                    /* if that fails, ttl_resume() comes */
    if (s->pausing || s->resume) { /* its time stands still, or is about to */
        look_again(s, NS_PER_S);
        return;
    }
    if (s->record.state == SANDBOX_FAILED) {
        look_at_failed(s);
    } else if (s->record.state == SANDBOX_EXPIRED) {
        sandbox_destroy(s, &ACTOR_DAEMON, s->record.reason, DESTROY_SYNC, NULL);
    } else if (s->expiring) {
        expire(s);
    } else if (!over && inside && is_idle(s)) {
        ask_box_usage(s);
    } else {
        look(s);
    }
}

/* A destroy did not get onto disk: its time goes on. */
void ttl_resume(struct sandbox *s)
{
    look_again(s, NS_PER_S);
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

/* --- those that are due --- */

static bool find_due_reason(const struct sandbox *s, char why[static RECORD_REASON_MAX])
{
    bool over = clock_boot() >= s->record.deadline_ns;

    if (s->destroying || s->salvage || s->after_teardown)
        return false;
    if (s->expiring) {
        snprintf(why, RECORD_REASON_MAX, "%s", s->expire_reason);
        return true;
    }
    if (!sandbox_state_usable(s->record.state) && s->record.state != SANDBOX_PAUSED)
        return false;
    write_end_reason(s, !over, why);
    return over || is_idle(s);
}

struct due_walk {
    const struct caller *who;
    bool apply;
    due_fn *each;
    void *user;
};

static void walk_due(struct index_entry *v, void *user)
{
    struct sandbox *s = container_of(v, struct sandbox, entry);
    const struct due_walk *w = user;
    const struct sandbox_view view = sandbox_view(s);
    char why[RECORD_REASON_MAX];

    if (!s->stored || !sandbox_visible(w->who, &s->record) || !find_due_reason(s, why))
        return;
    w->each(w->user, &view, why);
    if (w->apply && !s->expiring && !s->pausing)
        look_again(s, 0); /* which looks inside before an idle one ends */
}

void control_due(struct control *c, const struct caller *who, bool apply, due_fn *each, void *user)
{
    struct due_walk w = { .who = who, .apply = apply, .each = each, .user = user };

    index_each(&c->index, walk_due, &w);
}

/* --- extending --- */

/* How far the deadline can be moved: counted from the moment it was ready, whatever the wall clock
 * did since. */
static int64_t last_deadline(const struct sandbox_record *r)
{
    return r->deadline_ns - r->ttl_ns + r->ttl_max_ns;
}

void ttl_prolong(struct sandbox_record *next, int64_t duration_ns)
{
    int64_t wanted = smaller(clock_boot() + duration_ns, last_deadline(next));

    if (wanted > next->deadline_ns) {
        next->ttl_ns += wanted - next->deadline_ns;
        next->deadline_ns = wanted;
    }
}

static void edit_deadline(struct change *c, struct sandbox_record *next)
{
    ttl_prolong(next, c->number);
}

/* The same in both directions. */
static void set_deadline(struct change *c, struct sandbox_record *next)
{
    int64_t wanted = smaller(clock_boot() + c->number, last_deadline(next));

    next->ttl_ns += wanted - next->deadline_ns;
    next->deadline_ns = wanted;
}

/* Its time may be over for good: then what was begun goes on. */
static void told_extended(struct change *c, int r, const struct err *e)
{
    struct sandbox *s = c->sandbox;
    struct sandbox_op *op = c->user;
    struct err late;

    if (r >= 0 && !s->destroying && !s->after_teardown) {
        if (clock_boot() < s->record.deadline_ns) {
            s->expiring = false;
            sandbox_touch(s);
            plan_next(s);
        } else {
            r = err_set(&late, ERR_CONFLICT, "sandbox %s has lived as long as its profile allows",
                        s->record.id);
            e = &late;
        }
    }
    link_leave(&op->link_);
    if (op->sandbox)
        sandbox_unref(take_ptr(op->sandbox));
    if (op->done)
        op->done(op, r, e);
}

/* Asked when its turn comes: what was before it in the queue may have ended the sandbox. */
static int check_extendable(const struct change *c, struct err *e)
{
    const struct sandbox *s = c->sandbox;

    if (sandbox_is_ending(s) || s->after_teardown ||
        !(sandbox_state_usable(s->record.state) || s->record.state == SANDBOX_PAUSED))
        return err_set(e, ERR_CONFLICT, "sandbox %s is %s: its time cannot be extended",
                       s->record.id, sandbox_state_names[s->record.state]);
    return 0;
}

static void submit_deadline(struct sandbox *s, struct change *c, int64_t duration_ns,
                            struct sandbox_op *op)
{
    op->sandbox = sandbox_ref(s);
    c->number = duration_ns;
    c->check = check_extendable;
    c->done = told_extended;
    c->user = op;
    change_submit(c);
}

void sandbox_extend(struct sandbox *s, const struct actor *who, int64_t duration_ns,
                    struct sandbox_op *op)
{
    struct change *c = change_new(s, who, "extend-ttl");

    c->type = "sandbox.ttl_extended";
    c->edit = edit_deadline;
    submit_deadline(s, c, duration_ns, op);
}

void sandbox_set_ttl(struct sandbox *s, const struct actor *who, int64_t duration_ns,
                     struct sandbox_op *op)
{
    struct change *c = change_new(s, who, "set-ttl");

    c->type = "sandbox.ttl_set";
    c->edit = set_deadline;
    submit_deadline(s, c, duration_ns, op);
}
