/* Failing and destroying: what there is of a sandbox is removed first, then it is told. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/anchors.h"
#include "control/processes.h"
#include "control/sandbox.h"
#include "json/writer.h"

enum { TEARDOWN_TRIES = 3, RETRY_FIRST_MS = 200, RETRY_LATER_S = 30 };

static void over(struct sandbox *s)
{
    void (*after)(struct sandbox *) = s->after_teardown;

    s->after_teardown = NULL;
    after(s);
    sandbox_unref(s);
}

static void torn_down_without(struct loop_later *l)
{
    over(container_of(l, struct sandbox, no_extension));
}

static void tear_down(struct sandbox *s)
{
    struct extension *ext = control_extension(s->control, s->record.extension, &s->ops);

    if (!ext) { /* of another build: nobody here can reach what may be left of it */
        loop_later(s->control->loop, &s->no_extension, torn_down_without, NULL);
        return;
    }
    if (!s->box) {
        sandbox_take_box(s, s->ops->box_new(ext, s->record.id, &sandbox_box_events, s));
        if (s->facts.handle)
            snprintf(s->box->handle, sizeof s->box->handle, "%s", s->facts.handle);
    }
    s->ops->teardown(s->box);
}

static void retry(struct loop_timer *t)
{
    tear_down(container_of(t, struct sandbox, retry));
}

void sandbox_retry_now(struct sandbox *s)
{
    if (!loop_timer_started(&s->retry))
        return;
    loop_timer_stop(&s->retry);
    loop_timer_start(s->control->loop, &s->retry, clock_mono(), retry, NULL);
}

void sandbox_teardown(struct sandbox *s, void (*after)(struct sandbox *s))
{
    bool under_way = s->after_teardown;

    capture_abort(s);
    s->after_teardown = after;
    ttl_stop(s);
    loop_timer_stop(&s->quiet);
    if (under_way) {
        sandbox_retry_now(s);
    } else {
        s->tries = 0;
        sandbox_ref(s);
        sandbox_close_outlet(s, tear_down);
    }
}

static void keep_report(struct sandbox *s, const struct ext_report *rep)
{
    int64_t from = s->record.ready_ns ? s->record.ready_ns : s->record.created_ns;

    s->facts.has_actuals = true;
    s->facts.actuals.wall_ns = clock_wall() > from ? clock_wall() - from : 0;
    s->facts.actuals.cpu_ns = rep->cpu_ns;
    s->facts.actuals.peak_bytes = rep->peak_bytes;
    s->facts.actuals.oom_kills = rep->oom_kills;
}

void sandbox_torn_down(struct ext_box *b, int r, const struct err *e, const struct ext_report *rep)
{
    struct sandbox *s = b->owner;
    int64_t wait =
        ++s->tries < TEARDOWN_TRIES ? RETRY_FIRST_MS * NS_PER_MS : RETRY_LATER_S * NS_PER_S;

    if (r < 0) {
        LOG(WARN, "sandbox.leftover", LOG_S("sandbox", s->record.id), LOG_S("error", e->msg));
        s->box = NULL;
        b->ops->box_free(b);
        if (s->tries >= TEARDOWN_TRIES)
            sandbox_tell_stuck(s, e);
        loop_timer_start(s->control->loop, &s->retry, clock_mono() + wait, retry, NULL);
        return;
    }
    if (rep)
        keep_report(s, rep);
    processes_lost(s);
    s->box = NULL;
    b->ops->box_free(b);
    over(s);
}

void sandbox_tell_destroyers(struct sandbox *s, int r, const struct err *e)
{
    for (struct link *m; (m = list_take(&s->destroyers));) {
        struct sandbox_op *op = container_of(m, struct sandbox_op, link_);

        op->sandbox = NULL; /* the owner may free op from inside done */
        op->done(op, r, e);
        sandbox_unref(s);
    }
}

/* Those who wait are told the truth; the removal goes on being tried. */
void sandbox_tell_stuck(struct sandbox *s, const struct err *e)
{
    struct err why = *e;
    int r = err_wrap(&why, -(int)e->code, "%s is not removed yet, it is tried again", s->record.id);

    sandbox_tell_destroyers(s, r, &why);
    sandbox_tell_creators(s, r, &why);
}

/* --- failing --- */

static void told_failed(struct change *c, int r, const struct err *e)
{
    struct sandbox *s = c->sandbox;

    (void)r;
    (void)e;
    sandbox_settle_failed(s);
}

/* One that was in use is kept for a while, for people to look at. Of one that never was, the record
 * with the reason is all there is to see: it is destroyed, and then its creators are told. */
void sandbox_settle_failed(struct sandbox *s)
{
    if (s->record.ready_ns)
        ttl_keep_failed(s);
    else
        sandbox_destroy(s, &ACTOR_DAEMON, s->record.reason, DESTROY_NO_SYNC, NULL);
}

static void tell_failed_create(struct sandbox *s)
{
    if (s->failure.code)
        sandbox_tell_creators(s, -(int)s->failure.code, &s->failure);
}

static void edit_facts(struct change *c, struct sandbox_record *next)
{
    next->deadline_ns = 0;
    sandbox_put_facts(c->sandbox, next);
}

static void failed(struct sandbox *s)
{
    struct err why = s->failure;
    struct change *c;

    if (s->destroying) { /* asked for meanwhile: its own way ends in destroyed, or back here */
        s->untold_failure = true;
        return;
    }
    s->untold_failure = false;
    layers_clear_box(s->control, s->record.id);
    if (s->failed_step[0]) /* events have no step beside it */
        err_wrap(&why, -(int)why.code, "%s", s->failed_step);
    c = change_new(s, &ACTOR_DAEMON, why.msg);
    change_to(c, SANDBOX_FAILED);
    snprintf(c->step, sizeof c->step, "%s", s->failed_step);
    c->edit = edit_facts;
    c->done = told_failed;
    c->stubborn = true;
    change_submit(c);
}

static void fail(struct sandbox *s, const char *step, enum err_code code, const char *reason)
{
    if (s->record.state == SANDBOX_PAUSED && !s->destroying) { /* its files are safe */
        resume_failed(s, code, reason);
        return;
    }
    if (s->after_teardown)
        return; /* the first reason is the reason */
    (void)err_set(&s->failure, code, "%s", reason);
    snprintf(s->failed_step, sizeof s->failed_step, "%s", step);
    sandbox_teardown(s, failed);
}

void sandbox_fail(struct sandbox *s, const char *step, const char *reason)
{
    fail(s, step, s->record.state < SANDBOX_READY ? ERR_UPSTREAM : ERR_CONFLICT, reason);
}

void sandbox_refuse(struct sandbox *s, const char *step, const struct err *e)
{
    if (e->code == ERR_INVALID || e->code == ERR_DENIED)
        fail(s, step, e->code, e->msg);
    else
        sandbox_fail(s, step, e->msg);
}

/* --- destroying --- */

static void edit_destroyed(struct change *c, struct sandbox_record *next)
{
    next->finished_ns = next->updated_ns;
    edit_facts(c, next);
}

static void told_destroyed(struct change *c, int r, const struct err *e)
{
    struct sandbox *s = c->sandbox;

    processes_drop(s);
    tell_failed_create(s);
    sandbox_tell_destroyers(s, r, e);
    workspace_forget(s);
    index_remove(&s->control->index, &s->entry);
    sandbox_unref(s); /* the index's */
}

static void put_last_line(struct change *c, struct store_txn *t)
{
    store_put_egress_head(t, &c->sandbox->last_line);
}

static void destroyed(struct sandbox *s)
{
    struct change *c = change_new(s, &s->end.actor, s->record.reason);

    layers_clear_box(s->control, s->record.id);
    if (s->last_line.seq) {
        anchors_write(&s->last_line, 1, s->last_line_text, sizeof s->last_line_text);
        c->detail = str_from(s->last_line_text);
        c->also = put_last_line;
    }
    change_to(c, SANDBOX_DESTROYED);
    c->edit = edit_destroyed;
    c->done = told_destroyed;
    c->stubborn = true;
    change_submit(c);
}

void sandbox_unmake(struct sandbox *s)
{
    struct err e;
    int r = err_set(&e, ERR_CONFLICT, "%s was destroyed while it was being made", s->record.id);

    s->destroying = true;
    if (s->record.state == SANDBOX_PAUSED)
        capture_abort(s); /* before anything moves again */
    if (!s->failure.code)
        sandbox_tell_creators(s, r, &e);
    resume_abort(s);
    stop_abort(s);
    sandbox_teardown(s, destroyed);
}

static void note_kept(struct sandbox *s)
{
    if (!s->end.kept[0])
        return;
    s->facts.has_kept = true;
    s->facts.kept.snapshot = s->end.kept;
    s->facts.kept.why = s->end.why;
    s->facts.kept.until_ns = s->end.kept_until_ns;
}

static void edit_destroying(struct change *c, struct sandbox_record *next)
{
    note_kept(c->sandbox);
    sandbox_put_facts(c->sandbox, next);
    if (c->sandbox->record.state ==
        SANDBOX_FAILED) /* why it failed is what its record is read for */
        memcpy(next->reason, c->sandbox->record.reason, sizeof next->reason);
}

static void told_destroying(struct change *c, int r, const struct err *e)
{
    struct sandbox *s = c->sandbox;

    if (r >= 0) {
        sandbox_unmake(s);
        return;
    }
    s->destroying = s->facts.has_kept = false;
    tell_failed_create(s);
    sandbox_tell_destroyers(s, r, e);
    if (s->untold_failure)
        failed(s);
    else
        ttl_resume(s);
}

/* The event names the snapshot, for a caller that is not there to read an answer. */
static struct str describe_kept(struct sandbox *s)
{
    struct buf text = BUF_INIT(sizeof s->kept_text - 1);
    struct json_writer w;

    if (!s->end.kept[0])
        return (struct str){ NULL, 0 };
    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_object(&w);
    json_key(&w, STR("kept_snapshot"));
    json_put_str(&w, str_from(s->end.kept));
    json_end_object(&w);
    json_writer_finish(&w, NULL);
    str_copy(buf_str(&text), s->kept_text, sizeof s->kept_text);
    buf_done(&text);
    return str_from(s->kept_text);
}

void sandbox_destroy_now(struct sandbox *s, const struct salvage_end *end)
{
    struct change *c = change_new(s, &end->actor, end->reason);

    s->destroying = true;
    s->end = *end;
    if (end->expired && s->record.state != SANDBOX_FAILED)
        change_to(c, SANDBOX_EXPIRED);
    change_to(c, SANDBOX_DESTROYING);
    c->detail = describe_kept(s);
    c->edit = edit_destroying;
    c->done = told_destroying;
    change_submit(c);
}

static bool is_refused(const struct sandbox *s, const struct salvage_end *end, struct err *e)
{
    if (!sandbox_is_held(s) || end->sync != DESTROY_NO_SYNC || end->unsynced == DESTROY_DISCARD)
        return false;
    (void)err_set(e, ERR_CONFLICT, "%.40s is not destroyed: %.170s", s->record.id,
                  s->facts.unsynced.why);
    return true;
}

static void begin_end(struct sandbox *s, const struct salvage_end *end)
{
    struct err e;

    if (s->destroying)
        sandbox_retry_now(s);
    else if (s->salvage)
        salvage_join(s, end->sync == DESTROY_NO_SYNC ? DESTROY_DISCARD : end->unsynced);
    else if (is_refused(s, end, &e))
        sandbox_tell_destroyers(s, -(int)e.code, &e);
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
    begin_end(s, &end);
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
    begin_end(s, &end);
}

const struct workspace_op *sandbox_brought(const struct sandbox *s)
{
    return s->has_brought ? &s->brought : NULL;
}

const char *sandbox_kept(const struct sandbox *s)
{
    return s->facts.has_kept ? s->facts.kept.snapshot : "";
}
