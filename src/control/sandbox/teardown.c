/* SPDX-License-Identifier: Apache-2.0 */
/* Failing and destroying: removes everything of a sandbox, then records and reports it. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/egress/anchors.h"
#include "control/process/processes.h"
#include "control/sandbox/remains.h"
#include "control/sandbox/sandbox.h"

enum { TEARDOWN_TRIES = 3, RETRY_FIRST_MS = 200, RETRY_LATER_S = 30 };

static void finish_teardown(struct sandbox *s)
{
    void (*after)(struct sandbox *) = s->after_teardown;

    s->after_teardown = NULL;
    after(s);
    sandbox_unref(s);
}

static void on_no_backend(struct loop_later *l)
{
    finish_teardown(container_of(l, struct sandbox, no_backend));
}

static void tear_down_box(struct sandbox *s)
{
    struct backend *backend = control_backend(s->control, s->record.extension, &s->ops);

    if (!backend) { /* the backend is not part of this build: its remains cannot be removed here */
        loop_later(s->control->loop, &s->no_backend, on_no_backend, NULL);
        return;
    }
    if (!s->box) {
        sandbox_take_box(s, s->ops->box_new(backend, s->record.id, &sandbox_box_events, s));
        if (s->detail.handle)
            snprintf(s->box->handle, sizeof s->box->handle, "%s", s->detail.handle);
    }
    s->ops->teardown(s->box);
}

static void on_teardown_retry(struct loop_timer *t)
{
    tear_down_box(container_of(t, struct sandbox, retry));
}

void sandbox_retry_now(struct sandbox *s)
{
    if (!loop_timer_started(&s->retry))
        return;
    loop_timer_stop(&s->retry);
    loop_timer_start(s->control->loop, &s->retry, clock_mono(), on_teardown_retry, NULL);
}

void sandbox_teardown(struct sandbox *s, void (*after)(struct sandbox *s))
{
    bool under_way = s->after_teardown;

    capture_abort(s);
    workspace_stop_waiting(s);
    s->after_teardown = after;
    ttl_stop(s);
    loop_timer_stop(&s->quiet);
    if (under_way) {
        sandbox_retry_now(s);
    } else {
        s->tries = 0;
        sandbox_ref(s);
        sandbox_close_egress_link(s, tear_down_box);
    }
}

void sandbox_on_torn_down(struct backend_box *b, int r, const struct err *e,
                          const struct backend_report *rep)
{
    struct sandbox *s = b->owner;
    int64_t wait =
        ++s->tries < TEARDOWN_TRIES ? RETRY_FIRST_MS * NS_PER_MS : RETRY_LATER_S * NS_PER_S;
    int64_t from = s->record.ready_ns ? s->record.ready_ns : s->record.created_ns;

    if (r < 0) {
        LOG(WARN, "sandbox.leftover", LOG_S("sandbox", s->record.id), LOG_S("error", e->msg));
        s->box = NULL;
        b->ops->box_free(b);
        if (s->tries >= TEARDOWN_TRIES)
            sandbox_report_stuck(s, e);
        loop_timer_start(s->control->loop, &s->retry, clock_mono() + wait, on_teardown_retry, NULL);
        return;
    }
    if (rep) {
        s->detail.has_actuals = true;
        s->detail.actuals.wall_ns = clock_wall() > from ? clock_wall() - from : 0;
        s->detail.actuals.cpu_ns = rep->cpu_ns;
        s->detail.actuals.peak_bytes = rep->peak_bytes;
        s->detail.actuals.oom_kills = rep->oom_kills;
    }
    processes_lost(s);
    s->box = NULL;
    b->ops->box_free(b);
    finish_teardown(s);
}

void sandbox_notify_destroyers(struct sandbox *s, int r, const struct err *e)
{
    for (struct link *m; (m = list_take(&s->destroyers));) {
        struct sandbox_op *op = container_of(m, struct sandbox_op, link_);

        op->sandbox = NULL; /* the owner may free op from inside done */
        op->done(op, r, e);
        sandbox_unref(s);
    }
}

/* Reports the failure to all that wait; the removal is retried in the background. */
void sandbox_report_stuck(struct sandbox *s, const struct err *e)
{
    struct err why = *e;
    int r = err_wrap(&why, -(int)e->code, "%s is not removed yet; the removal is retried",
                     s->record.id);

    sandbox_notify_destroyers(s, r, &why);
    sandbox_notify_creators(s, r, &why);
}

/* --- failing --- */

/* A pause was on its way to the record as it died: its files are safe. */
static bool is_safely_paused(const struct sandbox *s)
{
    return s->record.state == SANDBOX_PAUSED && !paused_in_memory(s);
}

static int check_failure(const struct change *c, struct err *e)
{
    return is_safely_paused(c->sandbox) ? err_set(e, ERR_CONFLICT, "it was paused") : 0;
}

static void on_failure_recorded(struct change *c, int r, const struct err *e)
{
    if (is_safely_paused(c->sandbox)) {
        ttl_resume(c->sandbox);
        return;
    }
    remains_clear(c->sandbox->control, c->sandbox->record.id);
    sandbox_settle_failed(c->sandbox);
}

/* A sandbox that was in use is kept for a while for inspection. One that never was ready is
 * destroyed, since its record with the reason is all there is to see; then its creators are
 * notified. */
void sandbox_settle_failed(struct sandbox *s)
{
    if (s->record.ready_ns)
        ttl_keep_failed(s);
    else
        sandbox_destroy(s, &ACTOR_DAEMON, s->record.reason, DESTROY_NO_SYNC, NULL);
}

static void notify_failed_create(struct sandbox *s)
{
    if (s->failure.code)
        sandbox_notify_creators(s, -(int)s->failure.code, &s->failure);
}

static void edit_final_detail(struct change *c, struct sandbox_record *next)
{
    next->deadline_ns = 0;
    sandbox_write_detail(c->sandbox, next);
}

static void on_failed_box_removed(struct sandbox *s)
{
    if (s->destroying || !rescue_begin(s))
        sandbox_record_failure(s);
}

bool sandbox_is_failing(const struct sandbox *s)
{
    return s->after_teardown == on_failed_box_removed;
}

void sandbox_record_failure(struct sandbox *s)
{
    struct err why = s->failure;
    struct change *c;

    /* A destroy was accepted meanwhile: it ends in `destroyed`, or comes back here. */
    if (s->destroying) {
        s->unrecorded_failure = true;
        return;
    }
    s->unrecorded_failure = false;
    if (s->failed_step[0]) /* events have no member for the step */
        err_wrap(&why, -(int)why.code, "%s", s->failed_step);
    c = change_new(s, &ACTOR_DAEMON, why.msg);
    change_to(c, SANDBOX_FAILED);
    c->check = check_failure;
    snprintf(c->step, sizeof c->step, "%s", s->failed_step);
    c->edit = edit_final_detail;
    c->done = on_failure_recorded;
    c->stubborn = true;
    change_submit(c);
}

static void begin_failure(struct sandbox *s, const char *step, enum err_code code,
                          const char *reason)
{
    if (is_safely_paused(s) && !s->destroying) {
        resume_fail(s, code, reason);
        return;
    }
    /* The first reason counts. */
    if (s->after_teardown || s->rescuing)
        return;
    (void)err_set(&s->failure, code, "%s", reason);
    snprintf(s->failed_step, sizeof s->failed_step, "%s", step);
    sandbox_teardown(s, on_failed_box_removed);
}

void sandbox_fail(struct sandbox *s, const char *step, const char *reason)
{
    begin_failure(s, step, s->record.state < SANDBOX_READY ? ERR_UPSTREAM : ERR_CONFLICT, reason);
}

void sandbox_refuse(struct sandbox *s, const char *step, const struct err *e)
{
    if (e->code == ERR_INVALID || e->code == ERR_DENIED || e->code == ERR_FULL)
        begin_failure(s, step, e->code, e->msg);
    else
        sandbox_fail(s, step, e->msg);
}

/* --- destroying --- */

static void edit_destroyed(struct change *c, struct sandbox_record *next)
{
    next->finished_ns = next->updated_ns;
    edit_final_detail(c, next);
}

static void on_destroyed_recorded(struct change *c, int r, const struct err *e)
{
    struct sandbox *s = c->sandbox;

    remains_drop(s);
    sandbox_leave_map(s);
    notify_failed_create(s);
    sandbox_notify_destroyers(s, r, e);
    sandbox_unref(s); /* the map's reference */
}

static void store_last_line(struct change *c, struct store_txn *t)
{
    store_put_egress_head(t, &c->sandbox->last_line);
}

static void on_destroyed_box_removed(struct sandbox *s)
{
    struct change *c = change_new(s, &s->end.actor, s->record.reason);

    remains_clear(s->control, s->record.id);
    if (s->last_line.seq) {
        anchors_write(&s->last_line, 1, c->text, sizeof c->text);
        c->detail = str_from(c->text);
        c->also = store_last_line;
    }
    change_to(c, SANDBOX_DESTROYED);
    c->edit = edit_destroyed;
    c->done = on_destroyed_recorded;
    c->stubborn = true;
    change_submit(c);
}

void sandbox_begin_teardown(struct sandbox *s)
{
    struct err e;
    int r = err_set(&e, ERR_CONFLICT, "%s was destroyed during its creation", s->record.id);

    s->destroying = true;
    if (s->record.state == SANDBOX_PAUSED)
        capture_abort(s); /* before anything is thawed */
    if (!s->failure.code)
        sandbox_notify_creators(s, r, &e);
    resume_abort(s);
    stop_abort(s);
    sandbox_teardown(s, on_destroyed_box_removed);
}

static void edit_destroying(struct change *c, struct sandbox_record *next)
{
    struct sandbox *s = c->sandbox;

    if (s->end.kept[0]) {
        s->detail.has_kept = true;
        s->detail.kept.snapshot = s->end.kept;
        s->detail.kept.why = s->end.why;
        s->detail.kept.until_ns = s->end.kept_until_ns;
    }
    sandbox_write_detail(s, next);
    /* Keeps the reason of the failure in the record. */
    if (s->record.state == SANDBOX_FAILED)
        memcpy(next->reason, s->record.reason, sizeof next->reason);
}

static void on_destroying_recorded(struct change *c, int r, const struct err *e)
{
    struct sandbox *s = c->sandbox;

    if (r >= 0) {
        sandbox_begin_teardown(s);
        return;
    }
    s->destroying = s->detail.has_kept = false;
    notify_failed_create(s);
    sandbox_notify_destroyers(s, r, e);
    if (s->unrecorded_failure)
        on_failed_box_removed(s);
    else
        ttl_resume(s);
}

void sandbox_destroy_now(struct sandbox *s, const struct salvage_end *end)
{
    struct change *c = change_new(s, &end->actor, end->reason);

    s->destroying = true;
    s->end = *end;
    if (end->expired && s->record.state != SANDBOX_FAILED)
        change_to(c, SANDBOX_EXPIRED);
    change_to(c, SANDBOX_DESTROYING);
    if (end->kept[0]) { /* for a caller that does not wait for the answer */
        snprintf(c->text, sizeof c->text, "{\"kept_snapshot\":\"%s\"}", end->kept);
        c->detail = str_from(c->text);
    }
    c->edit = edit_destroying;
    c->done = on_destroying_recorded;
    change_submit(c);
}

static bool refuses_destroy(const struct sandbox *s, const struct salvage_end *end, struct err *e)
{
    if (!sandbox_is_held(s) || end->sync != DESTROY_NO_SYNC || end->unsynced == DESTROY_DISCARD)
        return false;
    (void)err_set(e, ERR_CONFLICT, "%.40s is not destroyed: %.170s", s->record.id,
                  s->detail.unsynced.why);
    return true;
}

static void begin_sandbox_end(struct sandbox *s, const struct salvage_end *end)
{
    struct err e;

    if (s->destroying)
        sandbox_retry_now(s);
    else if (s->salvage)
        salvage_join(s, end);
    else if (refuses_destroy(s, end, &e))
        sandbox_notify_destroyers(s, -(int)e.code, &e);
    else if (salvage_wanted(s, end->sync))
        salvage_begin(s, end);
    else
        sandbox_destroy_now(s, end);
}

void sandbox_destroy_as(struct sandbox *s, const struct actor *who, const char *reason,
                        enum destroy_sync sync, enum destroy_unsynced unsynced,
                        struct sandbox_op *op)
{
    struct salvage_end end = { .actor = *who, .sync = sync, .unsynced = unsynced };

    if (op && s->record.state == SANDBOX_DESTROYED) {
        sandbox_op_finish(op, s, 0, NULL);
        return;
    }
    if (op) {
        op->sandbox = sandbox_ref(s);
        list_append(&s->destroyers, &op->link_);
    }
    snprintf(end.reason, sizeof end.reason, "%s", reason);
    begin_sandbox_end(s, &end);
}

void sandbox_destroy(struct sandbox *s, const struct actor *who, const char *reason,
                     enum destroy_sync sync, struct sandbox_op *op)
{
    sandbox_destroy_as(s, who, reason, sync, DESTROY_KEEP, op);
}

void sandbox_expire(struct sandbox *s, const char *reason)
{
    struct salvage_end end = { .actor = ACTOR_DAEMON, .unsynced = DESTROY_KEEP, .expired = true };

    snprintf(end.reason, sizeof end.reason, "%s", reason);
    begin_sandbox_end(s, &end);
}

const struct workspace_op *sandbox_last_sync(const struct sandbox *s)
{
    return s->has_last_sync ? &s->last_sync : NULL;
}

const char *sandbox_kept_snapshot(const struct sandbox *s)
{
    return s->detail.has_kept ? s->detail.kept.snapshot : "";
}
