/* SPDX-License-Identifier: Apache-2.0 */
/* Pausing freezes all processes of a sandbox and makes its files durable, also across a reboot of
 * the machine. Its lifetime stops counting, but a paused sandbox is kept for a limited time.
 *
 * Where its files cannot be stored and changes of its workspace would be lost otherwise (salvage.c),
 * it is only frozen: a pause in memory, which ends with its processes.
 *
 * Resuming thaws it. If its processes are gone, because the machine was rebooted or they were
 * killed, the sandbox is rebuilt under its own id on the files that it had written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/own.h"
#include "control/owner/event_share.h"
#include "control/process/processes.h"
#include "control/layer/digest_queue.h"
#include "control/sandbox/sandbox.h"

/* --- pausing --- */

struct pausing {
    struct sandbox *sandbox; /* referenced */
    struct capture capture;
    struct actor actor;
    struct sandbox_op *op;
    bool stop; /* its processes are ended, too */
};

void sandbox_op_complete(struct sandbox_op *op, int r, const struct err *e)
{
    struct sandbox *s = take_ptr(op->sandbox);

    if (op->done && s)
        op->done(op, r, e);
    if (s)
        sandbox_unref(s);
}

static void finish_pausing(struct pausing *p, int r, const struct err *e)
{
    struct sandbox *s = p->sandbox;

    s->pausing = false;
    if (p->stop && r >= 0)
        stop_paused(s, p->op);
    else
        sandbox_op_complete(p->op, r, e);
    free(p);
    sandbox_unref(s);
}

static void on_pause_recorded(struct change *ch, int r, const struct err *e)
{
    struct pausing *p = ch->user;
    struct sandbox *s = p->sandbox;

    fault_point("pause.told");
    if (r >= 0) {
        s->frozen = true;
        ttl_start(s);
    } else {
        s->detail.has_paused = false;
        if (!p->capture.in_memory)
            layer_unref(s->control, p->capture.layer);
        if (s->box && !s->after_teardown)
            s->ops->thaw(s->box);
    }
    finish_pausing(p, r, e);
}

/* The deadline of an earlier boot means nothing in this one: the lifetime begins anew. */
static int64_t find_time_left(const struct sandbox *s, const struct sandbox_record *r, int64_t now)
{
    if (s->record.state == SANDBOX_PAUSED) /* in memory, until its box ended */
        return s->detail.paused.left_ns;
    if (strcmp(r->boot, s->control->boot) != 0)
        return r->ttl_ns;
    return r->deadline_ns > now ? r->deadline_ns - now : NS_PER_S;
}

/* find_time_left() leaves a sandbox in this state when its time is over. */
bool sandbox_timed_out(const struct sandbox *s)
{
    return s->record.state == SANDBOX_PAUSED && s->detail.has_paused &&
           s->request.on_timeout == ASK_END_PAUSE && s->detail.paused.left_ns <= NS_PER_S;
}

void sandbox_note_paused_layer(struct sandbox *s, const char *layer)
{
    snprintf(s->paused_layer, sizeof s->paused_layer, "%s", layer);
    s->detail.paused.layer = s->paused_layer;
}

void pause_note(struct sandbox *s, struct sandbox_record *next, const struct capture *c,
                bool stopped)
{
    int64_t longest = s->control->config->ttl.paused, now = clock_boot(), keep = 0;

    if (stopped && s->detail.has_rest)
        keep = s->detail.rest.keep_ns;
    if (keep && keep < longest)
        longest = keep;
    s->detail.has_paused = true;
    s->detail.paused.stopped = stopped;
    s->detail.paused.in_memory = c->in_memory;
    sandbox_note_paused_layer(s, c->layer);
    s->detail.paused.kept = c->kept;
    s->detail.paused.bytes = (int64_t)c->bytes;
    s->detail.paused.entries = (int64_t)c->entries;
    s->detail.paused.left_ns = find_time_left(s, next, now);
    s->detail.paused.until_ns = clock_wall() + longest;
    next->deadline_ns = now + longest;
    snprintf(next->boot, sizeof next->boot, "%s", s->control->boot);
    sandbox_write_detail(s, next);
}

static void edit_paused(struct change *ch, struct sandbox_record *next)
{
    const struct pausing *p = ch->user;

    (void)salvage_note_pause(p->sandbox);
    pause_note(p->sandbox, next, &p->capture, p->stop);
}

static void on_pause_captured(struct capture *c, int r, const struct err *e)
{
    struct pausing *p = container_of(c, struct pausing, capture);
    struct change *ch;

    if (r < 0) {
        finish_pausing(p, r, e);
        return;
    }
    fault_point("pause.record");
    ch = change_new(p->sandbox, &p->actor, p->stop ? "stop" : "pause");
    change_to(ch, SANDBOX_PAUSED);
    ch->edit = edit_paused;
    ch->done = on_pause_recorded;
    ch->user = p;
    ch->stubborn = p->capture.in_memory; /* the disk is probably full */
    change_submit(ch);
}

void sandbox_pause(struct sandbox *s, const struct actor *who, struct sandbox_op *op)
{
    if (s->record.state == SANDBOX_PAUSED && !s->resume)
        sandbox_op_finish(op, s, 0, NULL); /* idempotent */
    else
        sandbox_begin_pause(s, who, false, op);
}

static void start_pausing(struct sandbox *s, const struct actor *who, bool stop, bool in_memory,
                          struct sandbox_op *op)
{
    struct pausing *p = new0(sizeof *p);

    *p = (struct pausing){
        .sandbox = sandbox_ref(s),
        .actor = *who,
        .op = op,
        .stop = stop,
        .capture = { .stay_frozen = true, .in_memory = in_memory, .done = on_pause_captured },
    };
    op->sandbox = sandbox_ref(s);
    s->pausing = true;
    capture_start(s, &p->capture);
}

void sandbox_begin_pause(struct sandbox *s, const struct actor *who, bool stop,
                         struct sandbox_op *op)
{
    start_pausing(s, who, stop, false, op);
}

void pause_in_memory(struct sandbox *s, struct sandbox_op *op)
{
    start_pausing(s, &ACTOR_DAEMON, false, true, op);
}

bool paused_in_memory(const struct sandbox *s)
{
    return s->record.state == SANDBOX_PAUSED && s->detail.has_paused && s->detail.paused.in_memory;
}

int pause_check_stored(const struct sandbox *s, struct err *e)
{
    if (!paused_in_memory(s))
        return 0;
    return err_set(e, ERR_CONFLICT,
                   "sandbox %s is paused in memory, because its files could not be stored: make "
                   "room on the disk, then resume it",
                   s->record.id);
}

/* --- resuming --- */

struct resume {
    struct sandbox *sandbox;
    struct list waiting; /* struct sandbox_op: all that asked for it */
    struct actor actor;
    int64_t duration_ns;   /* minimum lifetime after the resume */
    bool awaits_upper;     /* waits for the thawed box to prove that it is alive */
    bool awaits_processes; /* after a restart: its processes are being read from the store … */
    bool is_adopted;       /* … and its box was adopted */
    bool rebuilt;          /* its processes are gone … */
    bool holds;            /* … and this holds the layers that it is rebuilt on */
    struct layer_job take; /* turns its files on disk into a layer */
    struct flatten_op flatten;
    struct json_strs old; /* the layers that it was built on before; on stack_arena */
    int r;
    struct err err;
};

void sandbox_ops_complete(struct list *ops, int r, const struct err *e)
{
    for (struct link *m; (m = list_take(ops));)
        sandbox_op_complete(container_of(m, struct sandbox_op, link_), r, e);
}

static void complete_resume(struct sandbox *s, int r, const struct err *e)
{
    struct resume *u = take_ptr(s->resume);

    layer_worker_cancel(&u->take);
    layers_flatten_cancel(&u->flatten);
    mounts_cancel(s);
    if (u->holds)
        layers_unref(s->control, &s->stack);
    sandbox_ref(s); /* the completed operations may hold the last references */
    sandbox_ops_complete(&u->waiting, r, r < 0 ? e : NULL);
    free(u);
    sandbox_unref(s);
}

static void end_resume(struct sandbox *s, int r, const struct err *e)
{
    ttl_start(s);
    complete_resume(s, r, e);
}

static void edit_resumed(struct change *ch, struct sandbox_record *next)
{
    struct sandbox *s = ch->sandbox;

    if (!s->resume)
        return;
    if (s->resume->rebuilt)
        sandbox_note_box(s);
    next->deadline_ns = clock_boot() + s->detail.paused.left_ns;
    if (s->resume->duration_ns)
        ttl_prolong(next, s->resume->duration_ns);
    snprintf(next->boot, sizeof next->boot, "%s", s->control->boot);
    s->detail.has_paused = s->detail.has_unsynced = false;
    if (s->resume->rebuilt && s->detail.layers.p != s->stack.p) { /* the first try */
        s->resume->old = s->detail.layers;
        sandbox_exchange_layers(s, &s->stack, &s->stack_arena);
    }
    sandbox_write_detail(s, next);
}

/* The box is gone. If the resume is on record already, the sandbox has failed. */
static bool fail_if_lost(struct sandbox *s)
{
    if (s->destroying || s->record.state == SANDBOX_PAUSED)
        return false;
    sandbox_fail(s, "", "its processes ended as it was resumed");
    return true;
}

/* A rebuilt sandbox now refers to the layer of its pause; one that was thawed still has its
 * files. */
static void on_resume_recorded(struct change *ch, int r, const struct err *e)
{
    struct sandbox *s = ch->sandbox;

    fault_point("resume.told");
    if (r < 0 || !s->resume) { /* a destroy was recorded before */
        resume_abort(s);
        return;
    }
    if (!s->detail.paused.in_memory)
        layer_unref(s->control, s->detail.paused.layer);
    if (s->resume->rebuilt) {
        layers_unref(s->control, &s->resume->old);
        s->resume->holds = false; /* the sandbox holds them now */
    }
    s->frozen = false;
    sandbox_settle(s);
    end_resume(s, r, e);
    if (!s->box)
        fail_if_lost(s);
}

void resume_record_ready(struct sandbox *s)
{
    struct change *ch = change_new(
        s, &s->resume->actor,
        s->resume->rebuilt ? "resume: rebuilt from its files, because its processes were gone"
                           : "resume");

    fault_point("resume.record");
    change_to(ch, SANDBOX_READY);
    if (s->programs)
        change_to(ch, SANDBOX_ACTIVE);
    ch->edit = edit_resumed;
    ch->done = on_resume_recorded;
    ch->stubborn = true;
    change_submit(ch);
}

static void on_resume_undone(struct sandbox *s)
{
    /* The destroy or failure continues by itself. */
    if (s->destroying || fail_if_lost(s))
        return;
    if (s->resume && s->resume->r < 0)
        end_resume(s, s->resume->r, &s->resume->err);
    else if (s->resume) /* requested meanwhile */
        resume_begin(s);
    else
        ttl_start(s);
}

static void on_old_box_removed(struct sandbox *s);

/* A destroy was accepted during the resume. */
void resume_abort(struct sandbox *s)
{
    struct err e;

    if (s->resume)
        complete_resume(s, err_set(&e, ERR_CONFLICT, "sandbox %s is being destroyed", s->record.id),
                        &e);
}

static void fail_resume(struct sandbox *s, enum err_code code, const char *reason)
{
    bool was_frozen = s->resume && !s->resume->rebuilt; /* it died before it was thawed */

    LOG(WARN, "sandbox.not_resumed", LOG_S("sandbox", s->record.id), LOG_S("error", reason));
    if (s->resume && !was_frozen)
        s->resume->r =
            err_set(&s->resume->err, code, "%s is still paused: %s", s->record.id, reason);
    if (s->resume)
        s->resume->awaits_processes = false;
    s->frozen = false;
    if (!s->after_teardown)
        sandbox_teardown(s, was_frozen ? on_old_box_removed : on_resume_undone);
}

/* Its files ended with its box, unless they are on disk: then it is paused again (rescue.c). */
static void fail_lost_memory(struct sandbox *s, const char *reason)
{
    struct err e;

    if (s->resume)
        complete_resume(
            s,
            err_set(&e, ERR_CONFLICT,
                    "sandbox %s cannot be resumed: its processes ended before its files "
                    "were stored (%s)",
                    s->record.id, reason),
            &e);
    sandbox_fail(s, "", reason);
}

void resume_fail(struct sandbox *s, enum err_code code, const char *reason)
{
    if (paused_in_memory(s)) {
        fail_lost_memory(s, reason);
        return;
    }
    fail_resume(s, code, reason);
}

static void build_resumed_box(struct sandbox *s)
{
    struct err e;

    if (sandbox_build_box(s, &s->stack, NULL, &e) < 0) /* → resume_record_ready() */
        resume_fail(s, e.code, e.msg);
}

static void on_resumed_mounts_opened(struct sandbox *s, int r, const struct err *e)
{
    if (s->destroying || !s->resume)
        return;
    if (r < 0)
        resume_fail(s, e->code, e->msg);
    else
        build_resumed_box(s);
}

static void on_resume_flattened(struct flatten_op *f)
{
    struct resume *u = container_of(f, struct resume, flatten);
    struct sandbox *s = u->sandbox;
    static const struct json_strs none;
    struct err e;
    int r = 0;

    u->holds = true;
    if (f->stack.n == 1 && s->stack.n > 1) /* copied: the operation's name is freed with it */
        r = sandbox_set_stack(s, f->stack.p[0], &none, &e);
    if (r >= 0)
        r = mounts_open(s, on_resumed_mounts_opened, &e);
    if (r < 0)
        resume_fail(s, e.code, e.msg);
    else if (r == 0)
        build_resumed_box(s);
}

static void build_resume_stack(struct sandbox *s)
{
    const struct layer_charge charge = sandbox_layer_charge(s);
    struct resume *u = s->resume;
    struct err e;
    int r = 0;

    if (!control_backend(s->control, s->record.extension, &s->ops) || !s->profile)
        r = err_set(&e, ERR_CONFLICT, "its profile no longer exists");
    if (r >= 0)
        r = sandbox_set_stack(s, s->detail.paused.layer, &s->detail.layers, &e);
    if (r < 0) {
        resume_fail(s, e.code, e.msg);
        return;
    }
    u->flatten = (struct flatten_op){
        .on = sandbox_floor(s), .most = LAYERS_HIGH, .stack = s->stack, .done = on_resume_flattened
    };
    layers_flatten(s->control, &charge, &u->flatten);
}

static void on_paused_layer_taken(struct layer_job *j, int r, const struct err *e,
                                  const struct layers_said *said)
{
    struct sandbox *s = container_of(j, struct resume, take)->sandbox;

    if (r < 0) {
        resume_fail(s, e->code, e->msg);
        return;
    }
    s->detail.paused.kept = false;
    digest_queue_add(s->control, s->detail.paused.layer);
    build_resume_stack(s);
}

static void take_paused_layer(struct sandbox *s)
{
    static const struct layer_worker_events events = { .done = on_paused_layer_taken };
    const struct layer_charge charge = sandbox_layer_charge(s);
    struct resume *u = s->resume;
    struct layers_job job;
    struct err e;

    layers_job_fill(&job, LAYERS_TAKE, s->detail.paused.layer);
    snprintf(job.box, sizeof job.box, "%s", s->record.id);
    if (layer_worker_queue(s->control, &charge, &u->take, &events, &job, NULL, 0, &e) < 0)
        resume_fail(s, e.code, e.msg);
}

static void on_processes_gone_recorded(struct change *ch, int r, const struct err *e)
{
    struct sandbox *s = ch->sandbox;

    if (s->destroying || !s->resume)
        return;
    fault_point("resume.rebuild");
    if (r < 0)
        resume_fail(s, e->code, e->msg);
    else
        take_paused_layer(s);
}

/* The old box is removed, except for its files: they become a layer, and the id can be used again.
 * First the record says that the processes are gone: after a crash, a half-built new box must not
 * be mistaken for the paused one. */
static void on_old_box_removed(struct sandbox *s)
{
    struct change *ch;

    /* The destroy or failure continues by itself. */
    if (s->destroying || fail_if_lost(s) || !s->resume)
        return;
    if (paused_in_memory(s)) {
        fail_lost_memory(s, "its box is gone");
        return;
    }
    s->resume->rebuilt = true;
    if (s->detail.paused.stopped) {
        take_paused_layer(s);
        return;
    }
    ch = change_new(s, &s->resume->actor, "resume: its processes are gone");
    ch->type = "sandbox.stopped";
    ch->edit = stop_edit;
    ch->done = on_processes_gone_recorded;
    change_submit(ch);
}

/* The last statement may call resume_on_reattached(). */
void resume_on_adopted(struct sandbox *s, int r, const struct backend_found *found, size_t n)
{
    s->resume->awaits_processes = true;
    s->resume->is_adopted = r >= 0;
    if (r >= 0) {
        s->box->unenforced = s->detail.unenforced;
        sandbox_reopen_egress_link(s);
    }
    processes_reattach(s, found, r < 0 ? 0 : n);
}

/* The store's readers and its writer run at the same time: the resume must not be recorded and
 * reported before the processes are known again. */
void resume_on_reattached(struct sandbox *s)
{
    if (!s->resume || !s->resume->awaits_processes || s->destroying)
        return;
    s->resume->awaits_processes = false;
    if (s->resume->is_adopted)
        resume_record_ready(s);
    else
        sandbox_teardown(s, on_old_box_removed);
}

static void resume_box(struct sandbox *s)
{
    struct backend *backend = control_backend(s->control, s->record.extension, &s->ops);

    if (s->frozen && s->box) {
        s->ops->thaw(s->box); /* → sandbox_on_held() */
    } else if (backend && s->found_frozen) {
        s->found_frozen = false;
        sandbox_take_box(s, s->ops->box_new(backend, s->record.id, &sandbox_box_events, s));
        s->ops->adopt(s->box, s->detail.handle ? s->detail.handle : "");
    } else {
        sandbox_teardown(s, on_old_box_removed);
    }
}

static void fail_resume_for_workspace(struct sandbox *s, int r, const struct err *e)
{
    struct err why = *e;

    err_wrap(&why, r, "%s is still paused", s->record.id);
    end_resume(s, r, &why);
}

static void on_workspace_checked(struct control_request *q, int r, const struct err *e, int *fd)
{
    struct sandbox *s = container_of(q, struct sandbox, granting);

    if (s->resume && !s->destroying) {
        if (r < 0)
            fail_resume_for_workspace(s, r, e);
        else
            resume_box(s);
    }
    sandbox_unref(s);
}

/* Changes inside must have a destination: the directory is opened again with the rights of the user
 * who granted it. */
void resume_begin(struct sandbox *s)
{
    struct err e;
    int r;

    ttl_stop(s);
    if (!workspace_syncs(s) || !s->control->supervisor.grant) {
        resume_box(s);
        return;
    }
    sandbox_ref(s);
    r = workspace_grant(s, on_workspace_checked, &e);
    if (r < 0) {
        fail_resume_for_workspace(s, r, &e);
        sandbox_unref(s);
    }
}

static int check_resumable(const struct sandbox *s, struct err *e)
{
    if (s->record.state == SANDBOX_PAUSED && !sandbox_is_ending(s) &&
        (!s->expiring || s->salvage_acts) && !s->capture &&
        (!s->after_teardown || s->stopping || s->after_teardown == on_resume_undone))
        return 0;
    return err_set(e, s->pausing || s->capture ? ERR_BUSY : ERR_CONFLICT,
                   "sandbox %s is %s: it cannot be resumed now", s->record.id,
                   sandbox_is_ending(s) ? "being destroyed"
                   : s->pausing         ? "being paused"
                   : s->capture         ? "being captured"
                                        : sandbox_state_names[s->record.state]);
}

void sandbox_resume_for(struct sandbox *s, const struct actor *who, int64_t duration_ns,
                        struct sandbox_op *op)
{
    bool under_way = s->resume && !s->destroying;
    struct err e;
    int r;

    if (sandbox_state_usable(s->record.state) && !s->destroying && !s->pausing && !s->rescuing) {
        sandbox_op_finish(op, s, 0, NULL);
        return;
    }
    r = under_way ? 0 : check_resumable(s, &e);
    if (r >= 0 && !under_way)
        r = event_share_check(s->control, s->record.owner, who, &e);
    if (r < 0) {
        sandbox_op_finish(op, s, r, &e);
        return;
    }
    if (!under_way) {
        s->resume = new0(sizeof *s->resume);
        *s->resume = (struct resume){ .sandbox = s, .actor = *who };
    }
    if (s->resume->duration_ns < duration_ns)
        s->resume->duration_ns = duration_ns;
    op->sandbox = sandbox_ref(s);
    list_append(&s->resume->waiting, &op->link_);
    if (!under_way && !s->stopping && s->after_teardown != on_resume_undone)
        resume_begin(s);
}

void sandbox_resume(struct sandbox *s, const struct actor *who, struct sandbox_op *op)
{
    sandbox_resume_for(s, who, 0, op);
}

/* --- the box --- */

void sandbox_on_held(struct backend_box *b, bool frozen, int r, const struct err *e)
{
    struct sandbox *s = b->owner;

    if (s->capture) {
        capture_on_held(s, frozen, r, e);
    } else if (!frozen && s->resume && !s->destroying) {
        s->resume->awaits_upper = true;
        s->ops->upper(s->box); /* → resume_on_upper() */
    }
}

/* PID 1 may have died unnoticed while it was frozen: then the resume fails, and the files of the
 * pause stay referenced. */
void resume_on_upper(struct sandbox *s, int r)
{
    if (!s->resume || !s->resume->awaits_upper || s->destroying)
        return;
    s->resume->awaits_upper = false;
    if (r >= 0)
        resume_record_ready(s);
    else
        resume_fail(s, ERR_CONFLICT, "its box does not answer");
}

/* --- after a restart of the daemon --- */

void sandbox_recover_paused(struct sandbox *s)
{
    struct sandbox_record *r = &s->record;
    int64_t left = s->detail.paused.until_ns - clock_wall();

    if (paused_in_memory(s) && !sandbox_of_this_boot(s->control, r)) {
        processes_reattach(s, NULL, 0);
        sandbox_fail(s, "", "the machine was restarted before its files were stored");
        return;
    }
    if (sandbox_of_this_boot(s->control, r)) {
        /* The remains of a stopped box are removed before a rebuild. */
        s->found_frozen = !s->detail.paused.stopped;
    } else {
        r->deadline_ns = clock_boot() + (left > 0 ? left : 0);
        snprintf(r->boot, sizeof r->boot, "%s", s->control->boot);
    }
    if (s->found_frozen)
        processes_load(s);
    else
        processes_reattach(s, NULL, 0);
    LOG(INFO, "sandbox.paused_found", LOG_S("sandbox", r->id));
    if (!salvage_resume(s))
        ttl_start(s);
}
