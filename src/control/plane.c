/* SPDX-License-Identifier: Apache-2.0 */
#include "control/control.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "control/egress/anchors.h"
#include "control/egress/egress_link.h"
#include "control/egress/egress_tail.h"
#include "control/layer/digest_queue.h"
#include "control/layer/layer_slots.h"
#include "control/layer/layers.h"
#include "control/meters.h"
#include "control/owner/event_share.h"
#include "control/image/images.h"
#include "control/event/commands_internal.h"
#include "control/event/event_delivery.h"
#include "control/prune.h"
#include "control/sandbox/copy_slots.h"
#include "control/sandbox/grant_slots.h"
#include "control/sandbox/pool.h"
#include "control/sandbox/sandbox.h"
#include "control/sandbox/usage.h"
#include "control/owner/owner_share.h"
#include "control/snapshot/snapshots.h"

enum { CLOSE_POLL_MS = 2, CLOSE_MAX_S = 5 };

/* The control plane, and the state of its parts. */
struct plane {
    struct control control;
    struct anchors anchors;
    struct commands commands;
    struct copy_slots copies;
    struct grant_slots grants;
    struct digest_queue digest_queue;
    struct egress_links egress_links;
    struct egress_tail egress_tail;
    struct layers layers;
    struct layer_slots layer_slots;
    struct meters meters;
    struct pool pool;
};

struct store *control_store(struct control *c)
{
    return c->store;
}

struct loop *control_loop(struct control *c)
{
    return c->loop;
}

struct thread_pool *control_work(struct control *c)
{
    return c->work;
}

int control_scratch(struct control *c, struct err *e)
{
    int fd = openat(c->context.state, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    return fd < 0 ? err_sys(e, "creating a file in the state directory") : fd;
}

struct catalog *control_catalog(struct control *c)
{
    return c->catalog;
}

struct backend *control_backend(struct control *c, const char *id, const struct backend_ops **ret)
{
    for (size_t i = 0; backends[i]; i++)
        if (strcmp(backends[i]->id, id) == 0) {
            *ret = backends[i];
            return c->instances[i];
        }
    return NULL;
}

/* --- events --- */

void control_subscribe(struct control *c, struct event_subscriber *s, event_fn *fn)
{
    s->on_event = fn;
    list_append(&c->subscribers, &s->link_);
}

void event_unsubscribe(struct event_subscriber *s)
{
    link_leave(&s->link_);
}

bool event_visible(const struct control *c, const struct caller *who, const struct event_record *v)
{
    static const struct json_map none = { NULL, 0 };
    const struct sandbox_record *r = who->labels.n ? control_record(c, v->sandbox) : NULL;

    return caller_sees(who, v->owner, r ? &r->labels : &none);
}

void control_publish(struct control *c, const struct event_record *v)
{
    if (!str_starts(str_from(v->type), STR("command."))) /* too many for the log */
        LOG(INFO, v->type, LOG_I("seq", v->seq), LOG_S("sandbox", v->sandbox),
            LOG_S("from", v->from < 0 ? "" : sandbox_state_names[v->from]),
            LOG_S("actor", v->actor.id), LOG_S("reason", v->reason));
    meters_on_event(c, v);
    event_share_count(c, v);
    prune_on_event(c, v->seq);
    LIST_EACH_SAFE (struct event_subscriber, s, &c->subscribers, link_)
        s->on_event(s, v);
}

void control_publish_first(struct control *c, const struct store_txn *t, struct event_record *v)
{
    v->seq = t->first_seq;
    control_publish(c, v);
}

/* --- opening and closing --- */

static int read_boot_id(char ret[static RECORD_BOOT_MAX], struct err *e)
{
    AUTO_CLOSE int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, ret, RECORD_BOOT_MAX - 1);

    if (n <= 0)
        return err_sys(e, "reading the boot id");
    ret[n] = 0;
    ret[strcspn(ret, "\n")] = 0;
    return 0;
}

static void log_invalid_profiles(const struct catalog *c)
{
    for (size_t i = 0; i < c->problem_count; i++)
        LOG(WARN, "profile.invalid", LOG_S("file", c->problems[i].file),
            LOG_S("error", c->problems[i].err.msg));
}

bool control_is_idle(struct control *c)
{
    return c->open && control_count(c) == 0 && c->changes == 0 && !c->event_delivery &&
           !list_first(&c->digest_queue->waiting) && !c->digest_queue->layer[0] && !c->dedup &&
           !c->flatten_queue && commands_are_idle(c) && !c->pruning && !c->rotating &&
           !list_first(&c->audit_checks) && images_are_idle(c);
}

int control_reload_profiles(struct control *c, struct err *e)
{
    int r = catalog_reload(&c->catalog, c->profiles, e);

    if (r < 0) {
        LOG(ERROR, "profile.reload_failed", LOG_S("error", e->msg));
        return r;
    }
    log_invalid_profiles(c->catalog);
    pool_reload(c);
    return 0;
}

void control_reload_hub(struct control *c)
{
    event_delivery_reload(c);
}

static int open_backends(struct control *c, struct err *e)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && backends[i]; i++) {
        r = backends[i]->open(&c->context, &c->instances[i], e);
        err_wrap(e, r, "opening %s", backends[i]->id);
    }
    return r;
}

/* The box keeps running; the next start adopts it. */
static void release_sandbox(struct map_entry *v, void *user)
{
    sandbox_unref(container_of(v, struct sandbox, entry));
}

static void control_free(struct control *c)
{
    loop_later_stop(&c->later);
    event_delivery_close(c);
    prune_close(c);
    anchors_close(c);
    loop_timer_stop(&c->usage);
    images_stop(c);
    digest_queue_close(c);
    dedup_stop(c);
    snapshots_flatten_stop(c);
    commands_flush(c);
    if (c->store)
        store_close(c->store); /* completes pending transactions while their owners exist */
    commands_close(c);
    images_close(c);
    fetcher_done(&c->fetcher);
    meters_close(c);
    egress_links_close(c);
    anchors_close(c); /* lines of the links that were closed just now */
    pool_done(c);
    map_each(&c->sandboxes, release_sandbox, NULL);
    layers_close(c);
    snapshots_close(c);
    for (size_t i = 0; backends[i]; i++)
        if (c->instances[i])
            backends[i]->close(c->instances[i]);
    catalog_free(c->catalog);
    map_done(&c->sandboxes);
    map_done(&c->names);
    map_done(&c->owners);
    map_done(&c->families);
    quota_done(&c->output);
    quota_done(&c->processes);
    quota_done(&c->stored);
    quota_done(&c->taken);
    quota_done(&c->checkpointed);
    quota_done(&c->checkpoint_bytes);
    copy_slots_close(c);
    grant_slots_close(c);
    layer_slots_close(c);
    event_share_close(c);
    free(container_of(c, struct plane, control));
}

static void open_control_quotas(struct control *c)
{
    const struct config *f = c->config;

    struct quota_limits output = quota_token_limits(f->limits.output_per_owner),
                        processes = quota_token_limits(f->limits.processes_per_owner),
                        stored = quota_token_limits(f->limits.snapshot_bytes_per_owner),
                        taken = quota_token_limits(SNAPSHOTS_PER_OWNER),
                        checkpointed = quota_token_limits(CHECKPOINTS_PER_OWNER);

    output.parts[1] = (struct quota_part){ .limit = f->limits.output_per_sandbox,
                                           .whose = "this sandbox has",
                                           .key = "limits.output_per_sandbox" };
    quota_init(&c->output, &output, "bytes of processes' output", "", "limits.output_per_owner");
    quota_init(&c->processes, &processes, "background processes", "", "limits.processes_per_owner");
    quota_init(&c->stored, &stored, "bytes of snapshots", "", "limits.snapshot_bytes_per_owner");
    quota_init(&c->taken, &taken, "snapshots", "", "a fixed limit");
    quota_init(&c->checkpointed, &checkpointed, "checkpoints", "", "a fixed limit");
    quota_init(&c->checkpoint_bytes, &(struct quota_limits){ 0 }, "bytes of checkpoints", "", "");
    copy_slots_open(c);
    grant_slots_open(c);
    layer_slots_open(c);
}

static int open_store(struct control *c, struct err *e)
{
    int r = read_boot_id(c->boot, e);

    r = r < 0 ? r : store_open(c->context.state, c->loop, c->work, &c->store, e);
    r = r < 0 ? r : control_open_secrets(c, e);
    return r < 0 ? r : store_open_ledger(c->store, e);
}

static int open_catalog(struct control *c, struct err *e)
{
    int r = catalog_load(c->profiles, &c->catalog, e);

    if (r >= 0)
        log_invalid_profiles(c->catalog);
    return r;
}

static int open_egress(struct control *c, struct err *e)
{
    int r = egress_links_open(c, e);

    if (r >= 0)
        event_delivery_open_egress(c);
    return r;
}

static int (*const open_steps[])(struct control *c, struct err *e) = {
    meters_open,   open_store,          event_share_open,
    commands_open, event_delivery_open, /* before the first event is recorded */
    images_open,   open_catalog,        open_backends,
    open_egress,   snapshots_load,      control_recover,
};

static struct control *control_new(const struct control_setup *s)
{
    struct plane *p = new0(sizeof *p);
    struct control *c = &p->control;

    *c = (struct control){ .loop = s->loop,
                           .work = s->work,
                           .config = s->config,
                           .owner = s->owner,
                           .keys = s->keys,
                           .profiles = s->profiles,
                           .storage = s->storage,
                           .context = s->backends,
                           .supervisor = s->supervisor,
                           .fetcher = { .loop = s->loop,
                                        .start = s->supervisor.fetch_process,
                                        .end = s->supervisor.end_fetch_process,
                                        .user = s->supervisor.user },
                           .on_open = s->on_open,
                           .user = s->user,
                           .anchors = &p->anchors,
                           .commands = &p->commands,
                           .copies = &p->copies,
                           .grants = &p->grants,
                           .digest_queue = &p->digest_queue,
                           .egress_links = &p->egress_links,
                           .egress_tail = &p->egress_tail,
                           .layers = &p->layers,
                           .layer_slots = &p->layer_slots,
                           .meters = &p->meters,
                           .pool = &p->pool };
    c->context.loop = s->loop;
    c->context.work = s->work;
    c->context.state = s->state;
    p->layers.on_disk = s->storage.on_disk;
    p->anchors.control = p->commands.control = p->digest_queue.control = p->egress_tail.control =
        p->layers.control = p->meters.plane = p->pool.control = c;
    fetcher_init(&c->fetcher);
    owner_share_open(c);
    open_control_quotas(c);
    return c;
}

int control_open(const struct control_setup *s, struct control **ret, struct err *e)
{
    struct control *c = control_new(s);
    int r = 0;

    for (size_t i = 0; r >= 0 && i < COUNT_OF(open_steps); i++)
        r = open_steps[i](c, e);
    if (r < 0) {
        control_free(c);
        return r;
    }
    prune_open(c);
    anchors_open(c);
    usage_open(c);
    *ret = c;
    return 0;
}

/* Polls until no operation is under way, or a timeout. */
static void on_closing(struct loop_timer *t)
{
    struct control *c = container_of(t, struct control, closing);
    void (*on_closed)(void *) = c->on_closed;
    void *user = c->user;

    if ((c->changes || c->pool->total) && clock_mono() < c->close_by) {
        loop_timer_start(c->loop, t, clock_mono() + CLOSE_POLL_MS * NS_PER_MS, on_closing, NULL);
        return;
    }
    control_free(c);
    on_closed(user);
}

void control_close(struct control *c, void (*on_closed)(void *user))
{
    c->on_closed = on_closed;
    c->close_by = clock_mono() + CLOSE_MAX_S * NS_PER_S;
    pool_close(c);
    event_delivery_close(c);
    images_stop(c);
    digest_queue_close(c);
    dedup_stop(c);
    loop_timer_start(c->loop, &c->closing, clock_mono(), on_closing, NULL);
}
