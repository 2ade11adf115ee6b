/* SPDX-License-Identifier: Apache-2.0 */
/* From provisioning to ready: the backend builds the box, a probe answers, and then the sandbox is
 * recorded as ready. */
#include <stdio.h>

#include "control/sandbox/oom.h"
#include "base/own.h"
#include "control/owner/owner_share.h"
#include "control/egress/places.h"
#include "control/sandbox/sandbox.h"
#include "control/sandbox/spec.h"
#include "control/sandbox/usage.h"

void sandbox_take_box(struct sandbox *s, struct backend_box *b)
{
    s->box = b;
    if (!b)
        return;
    b->owner = s;
    b->events = &sandbox_box_events;
}

void sandbox_note_box(struct sandbox *s)
{
    arena_done(&s->box_arena);
    arena_init(&s->box_arena, SANDBOX_ARENA_MAX);
    s->detail.handle = arena_dup(&s->box_arena, str_from(s->box->handle));
    s->detail.unenforced = s->box->unenforced;
}

void sandbox_enter_ready(struct sandbox *s, struct sandbox_record *next)
{
    sandbox_note_box(s);
    next->ready_ns = next->updated_ns;
    next->deadline_ns = clock_boot() + next->ttl_ns;
    snprintf(next->boot, sizeof next->boot, "%s", s->control->boot);
    sandbox_write_detail(s, next);
}

static void edit_ready(struct change *c, struct sandbox_record *next)
{
    sandbox_enter_ready(c->sandbox, next);
}

static void on_ready_recorded(struct change *c, int r, const struct err *e)
{
    struct sandbox *s = c->sandbox;

    if (r >= 0) {
        ttl_start(s);
        sandbox_notify_creators(s, 0, NULL);
    } else if (!s->destroying) {
        sandbox_fail(s, "record", e->msg);
    }
}

static void become_ready(struct sandbox *s)
{
    struct change *c;

    if (s->resume) {
        resume_record_ready(s);
        return;
    }
    c = change_new(s, &ACTOR_DAEMON, "the probe answered");

    change_to(c, SANDBOX_READY);
    c->edit = edit_ready;
    c->done = on_ready_recorded;
    change_submit(c);
}

static void on_first_policy_applied(struct egress_link_op *op, int r, const struct err *e)
{
    struct sandbox *s = container_of(op, struct sandbox, applying);

    if (s->destroying || s->after_teardown)
        return;
    if (r < 0)
        sandbox_refuse(s, "egress", e);
    else
        become_ready(s);
}

void sandbox_open_egress_link(struct sandbox *s)
{
    /* A box of the pool has one already. */
    struct egress_link *o = egress_link_find(s->control, s->record.id);

    if (!s->policy) {
        become_ready(s);
        return;
    }
    sandbox_report_step(s, "egress", 0);
    s->applying = (struct egress_link_op){ .done = on_first_policy_applied };
    if (o)
        egress_link_set_owner(o, s->record.owner, s->record.family);
    egress_link_set_policy(o ? o
                             : egress_link_new(s->control, s->box,
                                               egress_link_share(s->control, s->profile),
                                               s->record.owner, s->record.family),
                           s->policy, s->detail.egress.generation, &s->applying);
}

static void on_workspace_copying(struct workspace_op *op, uint64_t bytes)
{
    sandbox_report_step(container_of(op, struct sandbox, mirroring), "workspace", bytes);
}

static void on_workspace_copied_in(struct workspace_op *op, int r, const struct err *e)
{
    struct sandbox *s = container_of(op, struct sandbox, mirroring);

    workspace_op_done(op);
    if (s->destroying || s->after_teardown)
        return;
    if (r < 0)
        sandbox_refuse(s, "workspace", e);
    else
        sandbox_open_egress_link(s);
}

static void on_box_probed(struct backend_box *b, int r, const struct err *e)
{
    struct sandbox *s = b->owner;

    if (s->destroying)
        return;
    if (r < 0) {
        sandbox_fail(s, "probe", e->msg);
    } else if (workspace_mirrored(s) && !s->resume && !s->detail.layers.n) {
        s->mirroring =
            (struct workspace_op){ .done = on_workspace_copied_in, .moved = on_workspace_copying };
        sandbox_report_step(s, "workspace", 0);
        workspace_copy_in(s, &s->mirroring);
    } else {
        sandbox_open_egress_link(s);
    }
}

static void on_box_provisioned(struct backend_box *b, int r, const struct err *e)
{
    struct sandbox *s = b->owner;

    if (s->destroying)
        return;
    if (r < 0) {
        sandbox_refuse(s, b->step[0] ? b->step : "provision", e);
        return;
    }
    sandbox_report_step(s, "probe", 0);
    s->ops->wait_ready(s->box);
}

static void on_box_gone(struct backend_box *b, const char *reason)
{
    struct sandbox *s = b->owner;

    if (!s->destroying)
        sandbox_fail(s, "", reason);
}

static void on_box_listeners(struct backend_box *b, int r, const struct err *e, struct listeners *l)
{
    struct sandbox *s = b->owner;

    egress_link_on_listeners(s->control, b, r, e, l);
}

static void on_box_who(struct backend_box *b, uint64_t tag, int r, const struct err *e,
                       const struct backend_who *w)
{
    struct sandbox *s = b->owner;

    egress_link_on_who(s->control, b, tag, r, e, w);
}

static void on_box_upper(struct backend_box *b, int r, const struct err *e, int *fd)
{
    struct sandbox *s = b->owner;

    diff_on_upper(s, r, e, fd);
    capture_on_upper(s, r, e, fd);
    resume_on_upper(s, r); /* last, because it may free the box */
}

static void on_box_usage(struct backend_box *b, int r, const struct backend_usage *u)
{
    usage_on_sample(b->owner, r, u);
    salvage_on_usage(b->owner, r, u);
    ttl_on_usage(b, r, u);
}

static void on_box_oom(struct backend_box *b, uint32_t kills)
{
    sandbox_note_oom(b->owner, kills);
}

const struct backend_box_events sandbox_box_events = {
    .provisioned = on_box_provisioned,
    .ready = on_box_probed,
    .adopted = sandbox_on_adopted,
    .torn_down = sandbox_on_torn_down,
    .gone = on_box_gone,
    .assigned = sandbox_on_assigned,
    .usage = on_box_usage,
    .oom = on_box_oom,
    .listeners = on_box_listeners,
    .who = on_box_who,
    .held = sandbox_on_held,
    .upper = on_box_upper,
};

int sandbox_build_box(struct sandbox *s, const struct json_strs *layers, const char *step,
                      struct err *e)
{
    struct backend *backend = control_backend(s->control, s->record.extension, &s->ops);
    struct backend_owner owner;
    struct backend_spec spec;
    AUTO_CLOSE int granted = mounts_take(s);
    int r = spec_fill(s->profile, &s->request, !s->control->context.roots_only, &spec, e);

    if (r >= 0 && spec.n_mounts && !(s->ops->can & BACKEND_CAN_MOUNTS))
        r = err_set(e, ERR_UNSUPPORTED, "%s does not support mounts", s->ops->id);
    if (r < 0)
        return r;
    owner_share_of(s->control, sandbox_account(s).name, &owner);
    spec.owner = &owner;
    spec.again = !step;
    spec.taken = policy_taken(s->policy);
    spec.layers = layers->p;
    spec.n_layers = layers->n;
    spec.image = s->image.n ? &s->image : NULL;
    spec.granted = granted;
    sandbox_take_box(s, s->ops->box_new(backend, s->record.id, &sandbox_box_events, s));
    if (step)
        sandbox_report_step(s, step, 0);
    s->ops->provision(s->box, &spec);
    return 0;
}

static void build_first_box(struct sandbox *s)
{
    struct err e;

    s->detail.oom.counted = 0; /* in its next box */
    if (sandbox_build_box(s, &s->detail.layers, "provision", &e) < 0)
        sandbox_refuse(s, "request", &e);
}

static void on_first_mounts_opened(struct sandbox *s, int r, const struct err *e)
{
    if (s->destroying || s->after_teardown)
        return;
    if (r < 0)
        sandbox_refuse(s, "mounts", e);
    else
        build_first_box(s);
}

static void provision_box(struct sandbox *s)
{
    struct err e;
    int r;

    if (s->destroying)
        return;
    r = mounts_open(s, on_first_mounts_opened, &e);
    if (r < 0)
        sandbox_refuse(s, "mounts", &e);
    else if (r == 0)
        build_first_box(s);
}

static void on_workspace_granted(struct control_request *q, int r, const struct err *e, int *fd)
{
    struct sandbox *s = container_of(q, struct sandbox, granting);

    struct err why;

    s->awaits_grant = false;
    sandbox_notify_granted(s);
    if (r >= 0 && !s->destroying && !s->after_teardown)
        provision_box(s);
    if (r < 0 && !s->destroying && !s->after_teardown) {
        why = *e;
        if (r == -(int)ERR_TIMEOUT)
            err_wrap(&why, r, "%.120s", spec_granted_path(&s->request));
        sandbox_refuse(s, workspace_mirrored(s) ? "workspace" : "mounts", &why);
    }
    sandbox_unref(s);
}

/* Before anything is built, the supervisor checks that the creator may use the files of the
 * workspace and of the mounts. */
void sandbox_provision(struct sandbox *s)
{
    struct err e;

    if (s->destroying)
        return;
    if (!workspace_granted(s) || !s->control->supervisor.grant) {
        provision_box(s);
        return;
    }
    sandbox_ref(s);
    s->awaits_grant = true;
    if (workspace_grant(s, on_workspace_granted, &e) < 0) {
        s->awaits_grant = false;
        sandbox_refuse(s, "workspace", &e);
        sandbox_unref(s);
    }
}
