/* SPDX-License-Identifier: Apache-2.0 */
#include "control/plane.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "control/event/event_share.h"
#include "control/image/images.h"
#include "control/event/event_delivery.h"
#include "control/event/prune.h"
#include "control/sandbox/usage.h"
#include "control/sandbox/sandbox.h"
#include "control/owner/owner_share.h"
#include "control/snapshot/snapshots.h"

enum { CLOSE_POLL_MS = 2, CLOSE_MAX_S = 5 };

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

struct extension *control_backend(struct control *c, const char *id, const struct backend_ops **ret)
{
    for (size_t i = 0; extensions[i]; i++)
        if (strcmp(extensions[i]->id, id) == 0) {
            *ret = extensions[i];
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
    struct map_entry *at = who->labels.n ? map_find(&c->sandboxes, str_from(v->sandbox)) : NULL;

    return caller_sees(who, v->owner,
                       at ? &container_of(at, struct sandbox, entry)->record.labels : &none);
}

static void log_event(const struct event_record *v)
{
    LOG(INFO, v->type, LOG_I("seq", v->seq), LOG_S("sandbox", v->sandbox),
        LOG_S("from", v->from < 0 ? "" : sandbox_state_names[v->from]), LOG_S("actor", v->actor.id),
        LOG_S("reason", v->reason));
}

void control_publish(struct control *c, const struct event_record *v)
{
    struct link *next;

    log_event(v);
    meters_on_event(c, v);
    event_share_count(c, v);
    prune_on_event(c, v->seq);
    for (struct link *m = list_first(&c->subscribers); m; m = next) {
        struct event_subscriber *s = container_of(m, struct event_subscriber, link_);

        next = list_after(&c->subscribers, m);
        s->on_event(s, v);
    }
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

void control_reload(struct control *c)
{
    struct err e;

    event_delivery_reload(c);
    if (catalog_reload(&c->catalog, c->profiles, &e) < 0) {
        LOG(ERROR, "profile.reload_failed", LOG_S("error", e.msg));
        return;
    }
    log_invalid_profiles(c->catalog);
    pool_reload(c);
}

static int open_backends(struct control *c, struct err *e)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && extensions[i]; i++) {
        r = extensions[i]->open(&c->context, &c->instances[i], e);
        err_wrap(e, r, "opening %s", extensions[i]->id);
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
    usage_close(c);
    images_stop(c);
    digest_queue_close(c);
    snapshots_flatten_stop(c);
    if (c->store)
        store_close(c->store); /* completes pending transactions while their owners exist */
    images_close(c);
    fetcher_done(&c->fetcher);
    meters_close(c);
    egress_links_close(c);
    anchors_close(c); /* lines of the links that were closed just now */
    pool_done(c);
    map_each(&c->sandboxes, release_sandbox, NULL);
    layers_close(c);
    snapshots_close(c);
    for (size_t i = 0; extensions[i]; i++)
        if (c->instances[i])
            extensions[i]->close(c->instances[i]);
    catalog_free(c->catalog);
    map_done(&c->sandboxes);
    map_done(&c->owners);
    map_done(&c->families);
    quota_done(&c->output);
    quota_done(&c->processes);
    quota_done(&c->stored);
    quota_done(&c->taken);
    copy_slots_close(c);
    event_share_close(c);
    free(c);
}

static void open_control_quotas(struct control *c)
{
    const struct config *f = c->config;

    struct quota_limits output = quota_token_limits(f->limits.output_per_owner),
                        processes = quota_token_limits(f->limits.processes_per_owner),
                        stored = quota_token_limits(f->limits.snapshot_bytes_per_owner),
                        taken = quota_token_limits(SNAPSHOTS_PER_OWNER);

    output.parts[1] = (struct quota_part){ .limit = f->limits.output_per_sandbox,
                                           .whose = "this sandbox has",
                                           .key = "limits.output_per_sandbox" };
    quota_init(&c->output, &output, "bytes of processes' output", "", "limits.output_per_owner");
    quota_init(&c->processes, &processes, "background processes", "", "limits.processes_per_owner");
    quota_init(&c->stored, &stored, "bytes of snapshots", "", "limits.snapshot_bytes_per_owner");
    quota_init(&c->taken, &taken, "snapshots", "", "a fixed limit");
    copy_slots_open(c);
}

int control_open(const struct control_setup *s, struct control **ret, struct err *e)
{
    struct control *c = new0(sizeof *c);
    int r;

    c->loop = s->loop;
    c->work = s->work;
    c->config = s->config;
    c->owner = s->owner;
    owner_share_open(c);
    c->profiles = s->profiles;
    c->storage = s->storage;
    c->layers.on_disk = s->storage.on_disk;
    c->context = s->extensions;
    c->context.loop = s->loop;
    c->context.work = s->work;
    c->context.state = s->state;
    c->mirror = s->mirror;
    c->grant = s->grant;
    c->cancel = s->cancel;
    c->forget_grant = s->forget_grant;
    c->headers = s->headers;
    c->egress_worker = s->egress_worker;
    c->end_egress_worker = s->end_egress_worker;
    c->egress_places = s->egress_places;
    c->layer_worker = s->layer_worker;
    c->fetcher = (struct fetcher){
        .loop = s->loop, .start = s->fetch_process, .end = s->end_fetch_process, .user = s->user
    };
    fetcher_init(&c->fetcher);
    c->on_open = s->on_open;
    c->user = s->user;
    open_control_quotas(c);
    r = meters_open(c, e);
    if (r >= 0)
        r = read_boot_id(c->boot, e);
    if (r >= 0)
        r = store_open(s->state, s->loop, s->work, &c->store, e);
    if (r >= 0)
        r = control_open_secrets(c, s->keys, e);
    if (r >= 0)
        r = store_open_ledger(c->store, e);
    if (r >= 0)
        r = event_share_open(c, e);
    if (r >= 0)
        r = event_delivery_open(c, e); /* before the first event is recorded */
    if (r >= 0)
        r = images_open(c, e);
    if (r >= 0)
        r = catalog_load(c->profiles, &c->catalog, e);
    if (r >= 0)
        log_invalid_profiles(c->catalog);
    if (r >= 0)
        r = open_backends(c, e);
    if (r >= 0)
        r = egress_links_open(c, e);
    if (r >= 0)
        event_delivery_open_egress(c);
    if (r >= 0)
        r = snapshots_load(c, e);
    if (r >= 0)
        r = control_recover(c, e);
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

    if ((c->changes || c->pool.total) && clock_mono() < c->close_by) {
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
    loop_timer_start(c->loop, &c->closing, clock_mono(), on_closing, NULL);
}
