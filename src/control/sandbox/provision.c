/* From provisioning to ready: the backend builds, a probe answers, and only then it is told. */
#include <stdio.h>

#include "base/clock.h"
#include "control/host.h"
#include "control/oom.h"
#include "control/owner_share.h"
#include "control/places.h"
#include "control/sandbox.h"
#include "control/spec.h"
#include "control/usage.h"

void sandbox_take_box(struct sandbox *s, struct ext_box *b)
{
    s->box = b;
    if (!b)
        return;
    b->owner = s;
    b->events = &sandbox_box_events;
}

void sandbox_note_box(struct sandbox *s)
{
    s->facts.handle = arena_dup(&s->arena, str_from(s->box->handle));
    s->facts.unenforced = s->box->unenforced;
    if (strcmp(s->record.profile, CATALOG_DEFAULT_PROFILE) == 0)
        s->facts.telemetry = host_telemetry(s->control, &s->arena);
}

void sandbox_enter_ready(struct sandbox *s, struct sandbox_record *next)
{
    sandbox_note_box(s);
    next->ready_ns = next->updated_ns;
    next->deadline_ns = clock_boot() + next->ttl_ns;
    snprintf(next->boot, sizeof next->boot, "%s", s->control->boot);
    sandbox_put_facts(s, next);
}

static void edit_ready(struct change *c, struct sandbox_record *next)
{
    sandbox_enter_ready(c->sandbox, next);
}

static void told_ready(struct change *c, int r, const struct err *e)
{
    struct sandbox *s = c->sandbox;

    if (r >= 0) {
        ttl_start(s);
        sandbox_tell_creators(s, 0, NULL);
    } else if (!s->destroying) {
        sandbox_fail(s, "record", e->msg);
    }
}

static void become_ready(struct sandbox *s)
{
    struct change *c;

    if (s->resume) {
        resume_ready(s);
        return;
    }
    c = change_new(s, &ACTOR_DAEMON, "the probe answered");

    change_to(c, SANDBOX_READY);
    c->edit = edit_ready;
    c->done = told_ready;
    change_submit(c);
}

static void applied(struct outlet_op *op, int r, const struct err *e)
{
    struct sandbox *s = container_of(op, struct sandbox, applying);

    if (s->destroying || s->after_teardown)
        return;
    if (r < 0)
        sandbox_refuse(s, "egress", e);
    else
        become_ready(s);
}

void sandbox_open_outlet(struct sandbox *s)
{
    struct outlet *o = outlet_find(s->control, s->record.id); /* one of the pool has it already */

    if (!s->policy) {
        become_ready(s);
        return;
    }
    sandbox_tell_step(s, "egress", 0);
    s->applying = (struct outlet_op){ .done = applied };
    if (o)
        outlet_set_owner(o, s->record.owner, s->record.family);
    outlet_set_policy(o ? o
                        : outlet_new(s->control, s->box, outlet_share(s->control, s->profile),
                                     s->record.owner, s->record.family),
                      s->policy, s->facts.egress.generation, &s->applying);
}

static void copying(struct workspace_op *op, uint64_t bytes)
{
    sandbox_tell_step(container_of(op, struct sandbox, mirroring), "workspace", bytes);
}

static void copied_in(struct workspace_op *op, int r, const struct err *e)
{
    struct sandbox *s = container_of(op, struct sandbox, mirroring);

    workspace_op_done(op);
    if (s->destroying || s->after_teardown)
        return;
    if (r < 0)
        sandbox_refuse(s, "workspace", e);
    else
        sandbox_open_outlet(s);
}

static void on_ready(struct ext_box *b, int r, const struct err *e)
{
    struct sandbox *s = b->owner;

    if (s->destroying)
        return;
    if (r < 0) {
        sandbox_fail(s, "probe", e->msg);
    } else if (workspace_mirrored(s) && !s->resume && !s->facts.layers.n) {
        s->mirroring = (struct workspace_op){ .done = copied_in, .moved = copying };
        sandbox_tell_step(s, "workspace", 0);
        workspace_copy_in(s, &s->mirroring);
    } else {
        sandbox_open_outlet(s);
    }
}

static void wait_ready(struct sandbox *s)
{
    sandbox_tell_step(s, "probe", 0);
    s->ops->wait_ready(s->box);
}

static void on_provisioned(struct ext_box *b, int r, const struct err *e)
{
    struct sandbox *s = b->owner;

    if (s->destroying)
        return;
    if (r < 0)
        sandbox_refuse(s, b->step[0] ? b->step : "provision", e);
    else
        wait_ready(s);
}

static void on_gone(struct ext_box *b, const char *reason)
{
    struct sandbox *s = b->owner;

    if (!s->destroying)
        sandbox_fail(s, "", reason);
}

static void on_listeners(struct ext_box *b, int r, const struct err *e, struct listeners *l)
{
    struct sandbox *s = b->owner;

    outlet_listeners(s->control, b, r, e, l);
}

static void on_who(struct ext_box *b, uint64_t tag, int r, const struct err *e,
                   const struct ext_who *w)
{
    struct sandbox *s = b->owner;

    outlet_who(s->control, b, tag, r, e, w);
}

static void on_upper(struct ext_box *b, int r, const struct err *e, int *fd)
{
    struct sandbox *s = b->owner;

    diff_upper(s, r, e, fd);
    capture_upper(s, r, e, fd);
    resume_answered(s, r); /* the last: the box may be gone then */
}

static void on_usage(struct ext_box *b, int r, const struct ext_usage *u)
{
    usage_seen(b->owner, r, u);
    ttl_usage(b, r, u);
}

static void on_oom(struct ext_box *b, uint32_t kills)
{
    sandbox_note_oom(b->owner, kills);
}

const struct ext_box_events sandbox_box_events = {
    .provisioned = on_provisioned,
    .ready = on_ready,
    .adopted = sandbox_adopted,
    .torn_down = sandbox_torn_down,
    .gone = on_gone,
    .assigned = sandbox_assigned,
    .usage = on_usage,
    .oom = on_oom,
    .listeners = on_listeners,
    .who = on_who,
    .held = sandbox_held,
    .upper = on_upper,
};

static void provision_box(struct sandbox *s)
{
    struct extension *ext = control_extension(s->control, s->record.extension, &s->ops);
    struct ext_owner owner;
    struct ext_spec spec;
    struct err e;

    if (s->destroying)
        return;
    sandbox_reset_oom(s);
    if (spec_fill(s->profile, &s->request, !s->control->context.roots_only, &spec, &e) < 0) {
        sandbox_refuse(s, "request", &e);
        return;
    }
    owner_share_of(s->control, sandbox_account(s).name, &owner);
    spec.owner = &owner;
    spec.taken = policy_taken(s->policy);
    spec.layers = s->facts.layers.p;
    spec.n_layers = s->facts.layers.n;
    spec.image = s->image.n ? &s->image : NULL;
    sandbox_take_box(s, s->ops->box_new(ext, s->record.id, &sandbox_box_events, s));
    sandbox_tell_step(s, "provision", 0);
    s->ops->provision(s->box, &spec);
}

static void refuse_workspace(struct sandbox *s, const struct err *e)
{
    struct err why = *e;

    if (e->code == ERR_TIMEOUT)
        err_wrap(&why, -(int)ERR_TIMEOUT, "%.120s", spec_repo(&s->request));
    sandbox_refuse(s, "workspace", &why);
}

static void on_granted(struct control_request *q, int r, const struct err *e, int *fd)
{
    struct sandbox *s = container_of(q, struct sandbox, granting);

    (void)fd;
    s->awaits_grant = false;
    sandbox_tell_granted(s);
    if (!s->destroying && !s->after_teardown) {
        if (r < 0)
            refuse_workspace(s, e);
        else
            provision_box(s);
    }
    sandbox_unref(s);
}

/* Whoever creates it must have the right to its directory, before anything is built. */
void sandbox_make(struct sandbox *s)
{
    struct err e;

    if (s->destroying)
        return;
    if (!workspace_mirrored(s) || !s->control->grant) {
        provision_box(s);
        return;
    }
    sandbox_ref(s);
    s->awaits_grant = true;
    if (workspace_grant(s, on_granted, &e) < 0) {
        s->awaits_grant = false;
        sandbox_refuse(s, "workspace", &e);
        sandbox_unref(s);
    }
}
