/* After a start: what the store knows is looked for, what is half done is settled, what is left of
 * nobody is removed. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "control/processes.h"
#include "control/images.h"
#include "control/sandbox.h"
#include "control/snapshots.h"

static void log_stale(void *user, const char *extension, const char *id, const char *what)
{
    (void)user;
    LOG(INFO, "sweep.found", LOG_S("extension", extension), LOG_S("id", id), LOG_S("what", what));
}

static void opened(struct loop_later *l)
{
    struct control *c = container_of(l, struct control, later);
    struct err e;

    c->open = true;
    layers_open(c);
    if (!c->unreadable) {
        if (control_reap_stale(c, log_stale, NULL, &e) < 0)
            LOG(WARN, "sweep.failed", LOG_S("error", e.msg));
        output_sweep(c->context.state, control_knows, c);
        images_sweep(c);
    }
    measuring_open(c);
    snapshots_expire(c);
    snapshots_flatten(c);
    pool_open(c);
    if (c->on_open)
        c->on_open(c->user);
}

void control_adopted(struct control *c)
{
    if (--c->adopting == 0 && !c->open) /* a paused one is found again later */
        loop_later(c->loop, &c->later, opened, NULL);
}

static void finish_destroying(struct sandbox *s)
{
    if (s->record.state == SANDBOX_EXPIRED) {
        sandbox_destroy(s, &ACTOR_DAEMON, s->record.reason, DESTROY_SYNC, NULL);
        return;
    }
    s->end.actor = ACTOR_DAEMON;
    sandbox_unmake(s);
}

void sandbox_adopted(struct ext_box *b, int r, const struct err *e, const struct ext_found *found,
                     size_t n)
{
    struct sandbox *s = b->owner;

    if (s->resume) {
        resume_adopted(s, r, found, n);
        return;
    }
    if (s->record.state == SANDBOX_EXPIRED || s->record.state == SANDBOX_DESTROYING) {
        finish_destroying(s);
    } else if (r < 0) {
        LOG(WARN, "sandbox.lost", LOG_S("sandbox", s->record.id), LOG_S("error", e->msg));
        processes_found(s, NULL, 0);
        sandbox_fail(s, "", "it ended while the daemon was away");
    } else {
        LOG(INFO, "sandbox.found", LOG_S("sandbox", s->record.id), LOG_I("processes", (int64_t)n));
        s->box->unenforced = s->facts.unenforced;
        processes_found(s, found, n);
        sandbox_reopen_outlet(s);
        ttl_start(s);
        sandbox_settle(s);
    }
    control_adopted(s->control);
}

static void take_up(struct sandbox *s)
{
    struct control *c = s->control;
    struct extension *ext = control_extension(c, s->record.extension, &s->ops);

    switch (s->record.state) {
    case SANDBOX_REQUESTED:
    case SANDBOX_PROVISIONING:
        sandbox_fail(s, "", "the daemon ended while it was being made");
        return;
    case SANDBOX_PAUSED:
        sandbox_take_up_paused(s);
        return;
    case SANDBOX_READY:
    case SANDBOX_ACTIVE:
        break;
    case SANDBOX_EXPIRED:
    case SANDBOX_DESTROYING:
        finish_destroying(s); /* its workspace was brought back before that was recorded */
        return;
    case SANDBOX_FAILED:
        processes_found(s, NULL, 0);
        sandbox_settle_failed(s);
        return;
    default:
        return;
    }
    if (!ext || strcmp(s->record.boot, c->boot) != 0) {
        if (s->record.state >= SANDBOX_EXPIRED) {
            finish_destroying(s);
            return;
        }
        processes_found(s, NULL, 0);
        sandbox_fail(s, "", ext ? "the machine was restarted" : "its extension is gone");
        return;
    }
    if (s->facts.one_shot && s->record.state < SANDBOX_EXPIRED) {
        sandbox_destroy(s, &ACTOR_DAEMON, "its client went with the daemon", DESTROY_NO_SYNC, NULL);
        return;
    }
    c->adopting++;
    sandbox_take_box(s, s->ops->box_new(ext, s->record.id, &sandbox_box_events, s));
    s->ops->adopt(s->box, s->facts.handle ? s->facts.handle : "");
}

static void load_one(struct control *c, const struct sandbox_record *r)
{
    struct sandbox *s;
    struct err e;
    char name[RECORD_NAME_MAX + 24];

    if (sandbox_new(c, r, &s, &e) < 0) {
        /* Nothing is known of it but its id: it is neither used nor swept away. */
        LOG(ERROR, "sandbox.unreadable", LOG_S("sandbox", r->id), LOG_S("error", e.msg));
        c->unreadable = true;
        return;
    }
    s->stored = true;
    snprintf(name, sizeof name, "%s@%lld", r->profile, (long long)r->profile_version);
    if (catalog_find(c->catalog, str_from(name), &s->profile, NULL) < 0)
        s->profile = NULL;
    if (sandbox_load_policy(s, &e) < 0)
        LOG(ERROR, "egress.policy_failed", LOG_S("sandbox", r->id), LOG_S("error", e.msg));
    take_up(s);
}

int control_recover(struct control *c, struct err *e)
{
    struct store_query q = { .kind = STORE_LIVE };
    int r;

    arena_init(&q.arena, PTRDIFF_MAX); /* however many there are, a start takes them up */
    r = store_ask_now(c->store, &q, e);
    c->adopting = 1; /* until all of them have been asked */
    for (size_t i = 0; r >= 0 && i < q.n; i++)
        load_one(c, &q.sandboxes[i]);
    arena_done(&q.arena);
    if (r >= 0)
        control_adopted(c);
    return r;
}
