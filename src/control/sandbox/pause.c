/* Pausing: everything in a sandbox stands still, and what it has written is safe, also from a
 * restart of the machine. Its time stands still, too, but it is not kept for ever.
 *
 * Resuming lets it go on where it stood. If its processes are gone, because the machine was
 * restarted or somebody killed them, it is built again, under its own id, on what it had written.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hook.h"
#include "base/log.h"
#include "control/event_share.h"
#include "control/processes.h"
#include "control/sandbox.h"
#include "control/owner_share.h"
#include "control/places.h"
#include "control/spec.h"

/* --- pausing --- */

struct pausing {
    struct sandbox *sandbox; /* referenced */
    struct capture capture;
    struct actor actor;
    struct sandbox_op *op;
    bool stop; /* its processes are to end */
};

void sandbox_op_tell(struct sandbox_op *op, int r, const struct err *e)
{
    struct sandbox *s = take_ptr(op->sandbox);

    if (op->done && s)
        op->done(op, r, e);
    if (s)
        sandbox_unref(s);
}

static void pausing_end(struct pausing *p, int r, const struct err *e)
{
    struct sandbox *s = p->sandbox;

    s->pausing = false;
    if (p->stop && r >= 0)
        stop_paused(s, p->op);
    else
        sandbox_op_tell(p->op, r, e);
    free(p);
    sandbox_unref(s);
}

static void told_paused(struct change *ch, int r, const struct err *e)
{
    struct pausing *p = ch->user;
    struct sandbox *s = p->sandbox;

    hook_point("pause.told");
    if (r >= 0) {
        s->still = true;
        ttl_start(s);
    } else {
        s->facts.has_paused = false;
        layer_unref(s->control, p->capture.layer);
        if (s->box && !s->after_teardown)
            s->ops->thaw(s->box);
    }
    pausing_end(p, r, e);
}

static void edit_paused(struct change *ch, struct sandbox_record *next)
{
    const struct pausing *p = ch->user;
    struct sandbox *s = p->sandbox;
    int64_t longest = s->control->config->ttl.paused, now = clock_boot(), keep = 0;

    if (p->stop && s->facts.has_rest)
        keep = s->facts.rest.keep_ns;
    if (keep && keep < longest)
        longest = keep;
    (void)salvage_note_pause(s);
    s->facts.has_paused = true;
    s->facts.paused.stopped = p->stop;
    s->facts.paused.layer = arena_dup(&s->arena, str_from(p->capture.layer));
    s->facts.paused.kept = p->capture.kept;
    s->facts.paused.bytes = (int64_t)p->capture.bytes;
    s->facts.paused.entries = (int64_t)p->capture.entries;
    s->facts.paused.left_ns = next->deadline_ns > now ? next->deadline_ns - now : NS_PER_S;
    s->facts.paused.until_ns = clock_wall() + longest;
    next->deadline_ns = now + longest;
    snprintf(next->boot, sizeof next->boot, "%s", s->control->boot);
    sandbox_put_facts(s, next);
}

static void captured(struct capture *c, int r, const struct err *e)
{
    struct pausing *p = container_of(c, struct pausing, capture);
    struct change *ch;

    if (r < 0) {
        pausing_end(p, r, e);
        return;
    }
    hook_point("pause.record");
    ch = change_new(p->sandbox, &p->actor, p->stop ? "stop" : "pause");
    change_to(ch, SANDBOX_PAUSED);
    ch->edit = edit_paused;
    ch->done = told_paused;
    ch->user = p;
    change_submit(ch);
}

void sandbox_pause(struct sandbox *s, const struct actor *who, struct sandbox_op *op)
{
    if (s->record.state == SANDBOX_PAUSED && !s->resume)
        sandbox_op_finish(op, s, 0, NULL); /* as often as one likes */
    else
        sandbox_begin_pause(s, who, false, op);
}

void sandbox_begin_pause(struct sandbox *s, const struct actor *who, bool stop,
                         struct sandbox_op *op)
{
    struct pausing *p;

    p = calloc(1, sizeof *p);
    if (!p)
        abort();
    *p = (struct pausing){ .sandbox = sandbox_ref(s),
                           .actor = *who,
                           .op = op,
                           .stop = stop,
                           .capture = { .stay = true, .done = captured } };
    op->sandbox = sandbox_ref(s);
    s->pausing = true;
    capture_start(s, &p->capture);
}

/* --- resuming --- */

struct resume {
    struct sandbox *sandbox;
    struct list waiting; /* struct sandbox_op: whoever asked meanwhile, too */
    struct actor actor;
    int64_t duration_ns;    /* that it shall live at least */
    bool asked;             /* whether it lives, now that it was let go */
    bool rebuilt;           /* its processes are gone … */
    bool holds;             /* … and the layers that it is built on are held here */
    struct keeper_job take; /* of what it wrote to disk */
    struct flatten_op flatten;
    struct json_strs old; /* what it stood on before */
    int r;
    struct err err;
};

void sandbox_ops_tell(struct list *ops, int r, const struct err *e)
{
    for (struct link *m; (m = list_take(ops));)
        sandbox_op_tell(container_of(m, struct sandbox_op, link_), r, e);
}

static void resume_over(struct sandbox *s, int r, const struct err *e)
{
    struct resume *u = take_ptr(s->resume);

    keeper_cancel(&u->take);
    layers_flatten_cancel(&u->flatten);
    if (u->holds)
        layers_unref(s->control, &s->stack);
    sandbox_ref(s); /* those who are told may hold the last one */
    sandbox_ops_tell(&u->waiting, r, r < 0 ? e : NULL);
    free(u);
    sandbox_unref(s);
}

static void resume_end(struct sandbox *s, int r, const struct err *e)
{
    ttl_start(s);
    resume_over(s, r, e);
}

static void edit_resumed(struct change *ch, struct sandbox_record *next)
{
    struct sandbox *s = ch->sandbox;

    if (!s->resume)
        return;
    if (s->resume->rebuilt)
        sandbox_note_box(s);
    next->deadline_ns = clock_boot() + s->facts.paused.left_ns;
    if (s->resume->duration_ns)
        ttl_prolong(next, s->resume->duration_ns);
    snprintf(next->boot, sizeof next->boot, "%s", s->control->boot);
    s->facts.has_paused = s->facts.has_unsynced = false;
    if (s->resume->rebuilt) {
        s->resume->old = s->facts.layers;
        s->facts.layers = s->stack;
    }
    sandbox_put_facts(s, next);
}

/* What is left of it is gone. If it went on, on record, just before, nothing of it does now. */
static bool is_lost(struct sandbox *s)
{
    if (s->destroying || s->record.state == SANDBOX_PAUSED)
        return false;
    sandbox_fail(s, "", "its processes ended as it was resumed");
    return true;
}

/* On what it had written it stands from now on, if it was built again; else it has that still. */
static void told_resumed(struct change *ch, int r, const struct err *e)
{
    struct sandbox *s = ch->sandbox;

    hook_point("resume.told");
    if (r < 0 || !s->resume) { /* a destroy came first */
        resume_abort(s);
        return;
    }
    layer_unref(s->control, s->facts.paused.layer);
    if (s->resume->rebuilt) {
        layers_unref(s->control, &s->resume->old);
        s->resume->holds = false; /* the sandbox does */
    }
    s->still = false;
    sandbox_settle(s);
    resume_end(s, r, e);
    if (!s->box)
        is_lost(s);
}

void resume_ready(struct sandbox *s)
{
    struct change *ch = change_new(
        s, &s->resume->actor,
        s->resume->rebuilt ? "resume: its processes were gone, its files are there" : "resume");

    hook_point("resume.record");
    change_to(ch, SANDBOX_READY);
    if (s->programs)
        change_to(ch, SANDBOX_ACTIVE);
    ch->edit = edit_resumed;
    ch->done = told_resumed;
    ch->stubborn = true;
    change_submit(ch);
}

static void still_paused(struct sandbox *s)
{
    if (s->destroying || is_lost(s))
        return; /* its own way goes on */
    if (s->resume && s->resume->r < 0)
        resume_end(s, s->resume->r, &s->resume->err);
    else if (s->resume) /* asked for meanwhile */
        resume_begin(s);
    else
        ttl_start(s);
}

static void rebuild(struct sandbox *s);

/* It is destroyed meanwhile. */
void resume_abort(struct sandbox *s)
{
    struct err e;
    int r;

    if (!s->resume)
        return;
    r = err_set(&e, ERR_CONFLICT, "sandbox %s is being destroyed", s->record.id);
    resume_over(s, r, &e);
}

void resume_failed(struct sandbox *s, enum err_code code, const char *reason)
{
    bool stood = s->resume && !s->resume->rebuilt; /* it died before it went on */

    LOG(WARN, "sandbox.not_resumed", LOG_S("sandbox", s->record.id), LOG_S("error", reason));
    if (s->resume && !stood)
        s->resume->r =
            err_set(&s->resume->err, code, "%s is still paused: %s", s->record.id, reason);
    s->still = false;
    if (!s->after_teardown)
        sandbox_teardown(s, stood ? rebuild : still_paused);
}

static int provision(struct sandbox *s, struct err *e)
{
    struct extension *ext = control_extension(s->control, s->record.extension, &s->ops);
    struct ext_owner owner;
    struct ext_spec spec;
    int r = spec_fill(s->profile, &s->request, !s->control->context.roots_only, &spec, e);

    if (r < 0)
        return r;
    owner_share_of(s->control, sandbox_account(s).name, &owner);
    spec.owner = &owner;
    spec.taken = policy_taken(s->policy);
    spec.layers = s->stack.p;
    spec.n_layers = s->stack.n;
    spec.image = s->image.n ? &s->image : NULL;
    sandbox_take_box(s, s->ops->box_new(ext, s->record.id, &sandbox_box_events, s));
    s->ops->provision(s->box, &spec); /* → make.c, which comes back to resume_ready() */
    return 0;
}

static void flattened(struct flatten_op *f)
{
    struct resume *u = container_of(f, struct resume, flatten);
    struct sandbox *s = u->sandbox;
    static const struct json_strs none;
    struct err e;
    int r = 0;

    u->holds = true;
    if (f->stack.n == 1 && s->stack.n > 1) /* its name outlives us */
        r = layers_stack(f->stack.p[0], &none, &s->arena, &s->stack, &e);
    if (r >= 0)
        r = provision(s, &e);
    if (r < 0)
        resume_failed(s, e.code, e.msg);
}

static void build_on(struct sandbox *s)
{
    struct resume *u = s->resume;
    struct err e;
    int r = 0;

    if (!control_extension(s->control, s->record.extension, &s->ops) || !s->profile)
        r = err_set(&e, ERR_CONFLICT, "its profile is gone");
    if (r >= 0)
        r = layers_stack(s->facts.paused.layer, &s->facts.layers, &s->arena, &s->stack, &e);
    if (r < 0) {
        resume_failed(s, e.code, e.msg);
        return;
    }
    u->flatten = (struct flatten_op){
        .on = sandbox_floor(s), .most = LAYERS_HIGH, .stack = s->stack, .done = flattened
    };
    layers_flatten(s->control, &u->flatten);
}

static void taken(struct keeper_job *j, int r, const struct err *e, const struct layers_said *said)
{
    struct sandbox *s = container_of(j, struct resume, take)->sandbox;

    (void)said;
    if (r < 0) {
        resume_failed(s, e->code, e->msg);
        return;
    }
    s->facts.paused.kept = false;
    layer_made(s->control, s->facts.paused.layer);
    build_on(s);
}

static void take(struct sandbox *s)
{
    static const struct keeper_events events = { .done = taken };
    struct resume *u = s->resume;
    struct layers_job job;
    struct err e;

    layers_job_fill(&job, LAYERS_TAKE, s->facts.paused.layer);
    snprintf(job.box, sizeof job.box, "%s", s->record.id);
    if (keeper_start(s->control, &u->take, &events, &job, NULL, 0, &e) < 0)
        resume_failed(s, e.code, e.msg);
}

static void edit_gone(struct change *ch, struct sandbox_record *next)
{
    ch->sandbox->facts.paused.stopped = true;
    sandbox_put_facts(ch->sandbox, next);
}

static void told_gone(struct change *ch, int r, const struct err *e)
{
    struct sandbox *s = ch->sandbox;

    if (s->destroying || !s->resume)
        return;
    hook_point("resume.rebuild");
    if (r < 0)
        resume_failed(s, e->code, e->msg);
    else
        take(s);
}

/* Everything of the old one is removed, but what it wrote: that is a layer from now on, and its id
 * can be used again. First it is put on record that nothing stands still any more: whoever finds a
 * new one half built must not take it for what was paused. */
static void rebuild(struct sandbox *s)
{
    struct change *ch;

    if (s->destroying || is_lost(s) || !s->resume)
        return; /* its own way goes on */
    s->resume->rebuilt = true;
    if (s->facts.paused.stopped) {
        take(s);
        return;
    }
    ch = change_new(s, &s->resume->actor, "resume: its processes are gone");
    ch->type = "sandbox.stopped";
    ch->edit = edit_gone;
    ch->done = told_gone;
    change_submit(ch);
}

void resume_adopted(struct sandbox *s, int r, const struct ext_found *found, size_t n)
{
    if (r < 0) {
        processes_found(s, NULL, 0);
        sandbox_teardown(s, rebuild);
        return;
    }
    s->box->unenforced = s->facts.unenforced;
    processes_found(s, found, n);
    sandbox_reopen_outlet(s);
    resume_ready(s);
}

static void resume_box(struct sandbox *s)
{
    struct extension *ext = control_extension(s->control, s->record.extension, &s->ops);

    if (s->still && s->box) {
        s->ops->thaw(s->box); /* → sandbox_held() */
    } else if (ext && s->found_still) {
        s->found_still = false;
        sandbox_take_box(s, s->ops->box_new(ext, s->record.id, &sandbox_box_events, s));
        s->ops->adopt(s->box, s->facts.handle ? s->facts.handle : "");
    } else {
        sandbox_teardown(s, rebuild);
    }
}

static void fail_for_workspace(struct sandbox *s, int r, const struct err *e)
{
    struct err why = *e;

    err_wrap(&why, r, "%s is still paused", s->record.id);
    resume_end(s, r, &why);
}

static void on_workspace_checked(struct control_request *q, int r, const struct err *e, int *fd)
{
    struct sandbox *s = container_of(q, struct sandbox, granting);

    (void)fd;
    if (s->resume && !s->destroying) {
        if (r < 0)
            fail_for_workspace(s, r, e);
        else
            resume_box(s);
    }
    sandbox_unref(s);
}

/* What is written inside must have a place to go to: the directory is opened again with the rights
 * of the user who granted it. */
void resume_begin(struct sandbox *s)
{
    struct err e;
    int r;

    ttl_stop(s);
    if (!workspace_syncs(s) || !s->control->grant) {
        resume_box(s);
        return;
    }
    sandbox_ref(s);
    r = workspace_grant(s, on_workspace_checked, &e);
    if (r < 0) {
        fail_for_workspace(s, r, &e);
        sandbox_unref(s);
    }
}

static int check_resumable(const struct sandbox *s, struct err *e)
{
    if (s->record.state == SANDBOX_PAUSED && !sandbox_is_ending(s) &&
        (!s->expiring || s->salvage_acts) && !s->capture &&
        (!s->after_teardown || s->stopping || s->after_teardown == still_paused))
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

    if (sandbox_state_usable(s->record.state) && !s->destroying && !s->pausing) {
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
        s->resume = calloc(1, sizeof *s->resume);
        if (!s->resume)
            abort();
        *s->resume = (struct resume){ .sandbox = s, .actor = *who };
    }
    if (s->resume->duration_ns < duration_ns)
        s->resume->duration_ns = duration_ns;
    op->sandbox = sandbox_ref(s);
    list_append(&s->resume->waiting, &op->link_);
    if (!under_way && !s->stopping && s->after_teardown != still_paused)
        resume_begin(s);
}

void sandbox_resume(struct sandbox *s, const struct actor *who, struct sandbox_op *op)
{
    sandbox_resume_for(s, who, 0, op);
}

/* --- the box --- */

void sandbox_held(struct ext_box *b, bool frozen, int r, const struct err *e)
{
    struct sandbox *s = b->owner;

    if (s->capture) {
        capture_held(s, frozen, r, e);
    } else if (!frozen && s->resume && !s->destroying) {
        s->resume->asked = true;
        s->ops->upper(s->box); /* → resume_answered() */
    }
}

/* Its first process may have died while it stood still, and nobody have noticed: then what was
 * paused must not be let go of. */
void resume_answered(struct sandbox *s, int r)
{
    if (!s->resume || !s->resume->asked || s->destroying)
        return;
    s->resume->asked = false;
    if (r >= 0)
        resume_ready(s);
    else
        resume_failed(s, ERR_CONFLICT, "it does not answer");
}

/* --- after a restart of the daemon --- */

void sandbox_take_up_paused(struct sandbox *s)
{
    struct sandbox_record *r = &s->record;
    int64_t left = s->facts.paused.until_ns - clock_wall();

    if (strcmp(r->boot, s->control->boot) == 0) {
        s->found_still = !s->facts.paused.stopped; /* what may be left of one goes before it does */
    } else {
        processes_found(s, NULL, 0);
        r->deadline_ns = clock_boot() + (left > 0 ? left : 0);
        snprintf(r->boot, sizeof r->boot, "%s", s->control->boot);
    }
    LOG(INFO, "sandbox.paused_found", LOG_S("sandbox", r->id));
    if (!salvage_resume(s))
        ttl_start(s);
}
