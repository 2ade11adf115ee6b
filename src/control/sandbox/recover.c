/* SPDX-License-Identifier: Apache-2.0 */
/* Recovery after a start: adopts the sandboxes of the store, finishes interrupted operations, and
 * removes orphans. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "control/event/commands.h"
#include "control/process/processes.h"
#include "control/image/images.h"
#include "control/layer/digest_queue.h"
#include "control/sandbox/pool.h"
#include "control/sandbox/remains.h"
#include "control/sandbox/sandbox.h"
#include "control/sandbox/spec.h"
#include "control/snapshot/snapshots.h"

static void on_recovery_done(struct loop_later *l)
{
    struct control *c = container_of(l, struct control, later);

    c->open = true;
    commands_settle(c);
    layers_open(c);
    if (!c->unreadable) {
        remains_sweep(c);
        images_sweep(c);
    }
    digest_queue_open(c);
    snapshots_expire(c);
    snapshots_flatten(c);
    pool_open(c);
    if (c->on_open)
        c->on_open(c->user);
}

void control_note_adopted(struct control *c)
{
    if (--c->adopting == 0 && !c->open) /* later adoptions are those of resumed sandboxes */
        loop_later(c->loop, &c->later, on_recovery_done, NULL);
}

static void finish_destroying(struct sandbox *s)
{
    if (s->record.state == SANDBOX_EXPIRED) {
        sandbox_destroy(s, &ACTOR_DAEMON, s->record.reason, DESTROY_USUAL, NULL);
        return;
    }
    s->end.actor = ACTOR_DAEMON;
    sandbox_begin_teardown(s);
}

void sandbox_on_adopted(struct backend_box *b, int r, const struct err *e,
                        const struct backend_found *found, size_t n)
{
    struct sandbox *s = b->owner;

    if (s->resume) {
        resume_on_adopted(s, r, found, n);
        return;
    }
    if (s->record.state == SANDBOX_EXPIRED || s->record.state == SANDBOX_DESTROYING) {
        finish_destroying(s);
    } else if (r < 0) {
        LOG(WARN, "sandbox.lost", LOG_S("sandbox", s->record.id), LOG_S("error", e->msg));
        processes_reattach(s, NULL, 0);
        sandbox_fail(s, "", "it ended while the daemon was down");
    } else {
        LOG(INFO, "sandbox.found", LOG_S("sandbox", s->record.id), LOG_I("processes", (int64_t)n));
        s->box->unenforced = s->detail.unenforced;
        processes_reattach(s, found, n);
        sandbox_reopen_egress_link(s);
        ttl_start(s);
        sandbox_settle(s);
    }
    control_note_adopted(s->control);
}

static void recover_sandbox(struct sandbox *s)
{
    struct control *c = s->control;
    struct backend *backend = control_backend(c, s->record.extension, &s->ops);

    switch (s->record.state) {
    case SANDBOX_REQUESTED:
    case SANDBOX_PROVISIONING:
        sandbox_fail(s, "", "the daemon ended during its creation");
        return;
    case SANDBOX_PAUSED:
        sandbox_recover_paused(s);
        return;
    case SANDBOX_READY:
    case SANDBOX_ACTIVE:
        break;
    case SANDBOX_EXPIRED:
    case SANDBOX_DESTROYING:
        finish_destroying(s); /* the workspace was brought back before that state was recorded */
        return;
    case SANDBOX_FAILED:
        processes_reattach(s, NULL, 0);
        sandbox_settle_failed(s);
        return;
    default:
        return;
    }
    if (!backend || !sandbox_of_this_boot(c, &s->record)) {
        processes_reattach(s, NULL, 0);
        sandbox_fail(s, "", backend ? "the machine was restarted" : "its backend is not available");
        return;
    }
    if (s->detail.one_shot) {
        sandbox_destroy(s, &ACTOR_DAEMON, "its client was disconnected by a restart of the daemon",
                        DESTROY_NO_SYNC, NULL);
        return;
    }
    c->adopting++;
    sandbox_take_box(s, s->ops->box_new(backend, s->record.id, &sandbox_box_events, s));
    s->ops->adopt(s->box, s->detail.handle ? s->detail.handle : "");
}

/* NULL: it is no longer in the catalog. */
static struct profile *find_recorded_profile(struct control *c, const struct sandbox *s)
{
    AUTO(profile_unrefp_) struct profile *own = NULL;
    char name[RECORD_NAME_MAX + 24];
    struct profile *ret = NULL;

    snprintf(name, sizeof name, "%s@%lld", s->record.profile, (long long)s->record.profile_version);
    if (catalog_find(c->catalog, str_from(name), &own, NULL) < 0 ||
        spec_profile(own, &s->request, &ret, NULL) < 0)
        return NULL;
    return ret;
}

static void load_sandbox(struct control *c, const struct sandbox_record *r)
{
    struct sandbox *s;
    struct err e;

    if (sandbox_new(c, r, &s, &e) < 0) {
        /* Only its id is known: it is neither used nor swept. */
        LOG(ERROR, "sandbox.unreadable", LOG_S("sandbox", r->id), LOG_S("error", e.msg));
        c->unreadable = true;
        return;
    }
    s->stored = true;
    s->profile = find_recorded_profile(c, s);
    sandbox_load_policy(s);
    recover_sandbox(s);
}

int control_recover(struct control *c, struct err *e)
{
    struct store_query q = { .kind = STORE_LIVE };
    int r;

    arena_init(&q.arena, PTRDIFF_MAX); /* no limit: a start loads every sandbox */
    r = store_ask_now(c->store, &q, e);
    c->adopting = 1; /* until all adoptions were started */
    for (size_t i = 0; r >= 0 && i < q.n; i++)
        load_sandbox(c, &q.sandboxes[i]);
    arena_done(&q.arena);
    if (r >= 0)
        control_note_adopted(c);
    return r;
}
