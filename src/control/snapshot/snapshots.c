/* SPDX-License-Identifier: Apache-2.0 */
#include "control/snapshot/snapshots.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/own.h"
#include "control/layer/digest_queue.h"
#include "control/owner/event_share.h"
#include "control/sandbox/sandbox.h"
#include "control/snapshot/checkpoints.h"

enum { SNAPSHOT_ARENA_MAX = 512 << 10 };

/* --- in memory --- */

void snapshot_free(struct snapshot *s)
{
    if (!s)
        return;
    quota_drop(&s->stored);
    quota_drop(&s->taken);
    quota_drop(&s->apart);
    arena_done(&s->arena);
    free(s);
}

static int parse_layer_names(struct snapshot *s, struct str rest, size_t max, struct json_strs *ret,
                             struct err *e)
{
    const char **names = arena_array(&s->arena, max, sizeof *names);
    struct str word;
    size_t n = 0;

    while (names && rest.n && n < max) {
        rest = str_cut(rest, ' ', &word);
        names[n] = arena_dup(&s->arena, word);
        if (!names[n] || !layer_name_valid(names[n]))
            return err_set(e, ERR_INVALID, "the record of %s has an invalid layer name",
                           s->record.id);
        n++;
    }
    if (!names || rest.n)
        return err_set(e, ERR_INVALID, "the record of %s has more than %zu layers", s->record.id,
                       n);
    *ret = (struct json_strs){ names, n };
    return 0;
}

static int parse_snapshot_texts(struct snapshot *s, struct err *e)
{
    const struct snapshot_record *x = &s->record;
    int r;

    s->base = (struct base_image){ .ref = x->base.n ? x->image.p : NULL,
                                   .digest = x->base.n ? x->digest.p : NULL };
    r = base_image_read_config(x->config, &s->arena, &s->base.config, e);
    r = r < 0 ? r : parse_layer_names(s, x->layers, LAYERS_OF_SNAPSHOT_MAX, &s->layers, e);
    if (r >= 0 && !s->layers.n)
        r = err_set(e, ERR_INVALID, "the record of %s has no layers", s->record.id);
    return r < 0 ? r : parse_layer_names(s, x->base, LAYERS_STACK_MAX, &s->base.layers, e);
}

int snapshot_new(const struct snapshot_record *r, struct snapshot **ret, struct err *e)
{
    struct snapshot *s = new0(sizeof *s);
    struct snapshot_record *own = &s->record;
    struct str *const texts[] = { &own->image,  &own->layers, &own->base,
                                  &own->digest, &own->config, &own->settings };
    bool fits = true;
    int x;

    *own = *r;
    arena_init(&s->arena, SNAPSHOT_ARENA_MAX);
    for (size_t i = 0; fits && i < COUNT_OF(texts); i++)
        fits = (texts[i]->p = arena_dup(&s->arena, *texts[i]));
    x = fits && json_map_copy(&own->labels, &s->arena)
            ? parse_snapshot_texts(s, e)
            : err_set(e, ERR_TOO_BIG,
                      "the record of %s needs more memory than the allowed %d bytes", r->id,
                      SNAPSHOT_ARENA_MAX);
    if (x < 0) {
        snapshot_free(s);
        return x;
    }
    s->entry.id = s->record.id;
    *ret = s;
    return 0;
}

/* An administrator has the share of one owner as well. */
static struct quota_who find_snapshot_holder(const struct account *a)
{
    return (struct quota_who){ .key = str_from(a->name), .parts = { a->part } };
}

void snapshot_count(struct control *c, struct snapshot *s)
{
    const struct account a = account_of(c, s->record.owner, s->record.family);
    const struct quota_who who = find_snapshot_holder(&a);

    if (s->taken.share)
        return;
    quota_charge(s->record.checkpoint ? &c->checkpointed : &c->taken, &who, 1, &s->taken);
    quota_charge(&c->stored, &who, (uint64_t)s->record.bytes, &s->stored);
    if (s->record.checkpoint)
        quota_charge(&c->checkpoint_bytes, &who, (uint64_t)s->record.bytes, &s->apart);
}

void snapshot_keep(struct control *c, struct snapshot *s)
{
    snapshot_count(c, s);
    map_add(&c->snapshots, &s->entry);
    if (s->record.checkpoint)
        checkpoint_join(c, s);
    layers_ref(c, &s->layers);
    layers_ref(c, &s->base.layers);
    digest_queue_add(c, s->layers.p[0]); /* for deduplication */
    if (c->open && s->layers.n > LAYERS_FLAT)
        snapshots_flatten(c);
}

void snapshot_leave(struct control *c, struct snapshot *s)
{
    map_remove(&c->snapshots, &s->entry);
    if (s->record.checkpoint)
        checkpoint_leave(c, s);
}

void snapshot_release(struct control *c, struct snapshot *s)
{
    layers_unref(c, &s->layers);
    layers_unref(c, &s->base.layers);
    snapshot_free(s);
}

int snapshots_load(struct control *c, struct err *e)
{
    struct store_query q = { .kind = STORE_SNAPSHOTS };
    int r;

    arena_init(&q.arena, PTRDIFF_MAX); /* no limit: a start loads every snapshot */
    r = store_ask_now(c->store, &q, e);
    for (size_t i = 0; r >= 0 && i < q.n; i++) {
        struct snapshot *s;

        r = snapshot_new(&q.snapshots[i], &s, e);
        if (r >= 0)
            snapshot_keep(c, s);
    }
    arena_done(&q.arena);
    return r;
}

static void free_snapshot_entry(struct map_entry *v, void *user)
{
    struct snapshot *s = container_of(v, struct snapshot, entry);

    if (s->record.checkpoint)
        checkpoint_leave(user, s);
    snapshot_free(s);
}

void snapshots_close(struct control *c)
{
    map_each(&c->snapshots, free_snapshot_entry, c);
    map_done(&c->snapshots);
    map_done(&c->checkpoints);
}

struct snapshot_search {
    const struct caller *who;
    struct str name;
    struct snapshot *found;
    void (*each)(const struct snapshot *s, void *user);
    void *user;
};

/* A name means one of the caller's own, also for an administrator: the newest one of all owners
 * would be what any of them chose to call so. */
static bool is_snapshot_named(const struct snapshot *s, const struct snapshot_search *x)
{
    return str_eq(x->name, str_from(s->record.name)) && strcmp(x->who->owner, s->record.owner) == 0;
}

static void match_snapshot(struct map_entry *v, void *user)
{
    struct snapshot *s = container_of(v, struct snapshot, entry);
    struct snapshot_search *x = user;

    if (s->record.checkpoint || !caller_sees(x->who, s->record.owner, &s->record.labels))
        return;
    if (x->each)
        x->each(s, x->user);
    else if (is_snapshot_named(s, x) &&
             (!x->found || x->found->record.created_ns < s->record.created_ns))
        x->found = s; /* the newest one of that name */
}

int snapshot_name_check(struct str name, struct err *e)
{
    if (str_starts(name, STR("snap_")))
        return err_set(e, ERR_INVALID,
                       "name: '%.*s' looks like the id of a snapshot; choose one that does not "
                       "begin with snap_",
                       (int)name.n, name.p);
    for (size_t i = 0; i < name.n; i++)
        if ((unsigned char)name.p[i] <= ' ' || name.p[i] == 0x7f)
            return err_set(e, ERR_INVALID,
                           "name: the name of a snapshot has no spaces and no control characters; "
                           "byte %zu is %d",
                           i + 1, name.p[i]);
    return 0;
}

struct snapshot *snapshot_known(const struct control *c, struct str id)
{
    struct map_entry *v = map_find(&c->snapshots, id);

    return v ? container_of(v, struct snapshot, entry) : NULL;
}

struct snapshot *snapshot_find(struct control *c, const struct caller *who, struct str id)
{
    struct snapshot *s = snapshot_known(c, id);
    struct snapshot_search x = { .who = who, .name = id };

    if (s)
        return caller_sees(who, s->record.owner, &s->record.labels) ? s : NULL;
    if (id.n)
        map_each(&c->snapshots, match_snapshot, &x);
    return x.found;
}

void snapshots_each(struct control *c, const struct caller *who,
                    void (*each)(const struct snapshot *s, void *user), void *user)
{
    struct snapshot_search x = { .who = who, .each = each, .user = user };

    map_each(&c->snapshots, match_snapshot, &x);
}

/* --- base images --- */

struct base_walk {
    base_image_fn *each;
    void *user;
};

static void visit_snapshot_base(struct map_entry *v, void *user)
{
    const struct snapshot *s = container_of(v, struct snapshot, entry);
    const struct base_walk *w = user;

    w->each(w->user, &s->base, s->record.id);
}

static void visit_sandbox_base(struct map_entry *v, void *user)
{
    const struct sandbox *s = container_of(v, struct sandbox, entry);
    const struct base_walk *w = user;

    w->each(w->user, &s->detail.base, s->record.id);
}

void control_each_base(struct control *c, base_image_fn *each, void *user)
{
    struct base_walk w = { each, user };

    map_each(&c->snapshots, visit_snapshot_base, &w);
    map_each(&c->sandboxes, visit_sandbox_base, &w);
}

/* --- creating --- */

static void finish_snapshot(struct snapshot_op *op, int r, const struct err *e)
{
    struct sandbox *s = take_ptr(op->sandbox_);

    arena_done(&op->arena_);
    op->done(op, r, e);
    sandbox_unref(s);
}

static void on_snapshot_recorded(struct change *ch, int r, const struct err *e)
{
    struct snapshot_op *op = ch->user;

    fault_point("snapshot.told");
    if (op->checkpoint)
        checkpoint_settle(op->sandbox_, op->checkpoint, r);
    if (r >= 0) {
        op->snapshot = op->new_;
        snapshot_keep(op->sandbox_->control, take_ptr(op->new_));
    } else {
        snapshot_free(take_ptr(op->new_));
    }
    /* The snapshot has its own references now. */
    layers_unref(op->sandbox_->control, &op->flatten_.stack);
    finish_snapshot(op, r, e);
}

static void record_snapshot(struct snapshot_op *op);

static void store_new_snapshot(struct change *ch, struct store_txn *t)
{
    struct snapshot_op *op = ch->user;

    store_put_snapshot(t, &op->new_->record);
}

static int make_snapshot_record(struct snapshot_op *op, const struct json_strs *layers,
                                struct err *e)
{
    const struct sandbox *s = op->sandbox_;
    const struct base_image *on = &s->detail.base;
    const char *image = on->ref ? on->ref : s->profile ? s->profile->image : NULL;
    struct buf text AUTO(buf_done) = BUF_INIT(LAYERS_NAMES_MAX),
                    base AUTO(buf_done) = BUF_INIT(LAYERS_NAMES_MAX),
                    config AUTO(buf_done) = BUF_INIT(BASE_CONFIG_MAX),
                    settings AUTO(buf_done) = BUF_INIT(REQUEST_JSON_MAX);
    struct snapshot_record r = { .profile_version = s->record.profile_version,
                                 .created_ns = clock_wall(),
                                 .expires_ns = op->keep_ns ? clock_wall() + op->keep_ns : 0,
                                 .bytes = (int64_t)op->capture_.bytes,
                                 .entries = (int64_t)op->capture_.entries,
                                 .pause_ns = op->capture_.pause_ns,
                                 .image = str_from(image ? image : ""),
                                 .digest = str_from(on->digest ? on->digest : ""),
                                 .labels = s->record.labels };
    int x = id_make("snap_", r.id, e);

    x = x < 0 ? x : layers_join(layers, &text);
    x = x < 0 ? x : layers_join(&on->layers, &base);
    x = x < 0 ? x : base_image_write_config(on, &config, e);
    x = x < 0 ? x : request_settings_write(&s->request.settings, &settings, e);
    if (x < 0)
        return x;
    r.settings = buf_str(&settings);
    r.layers = buf_str(&text);
    r.base = buf_str(&base);
    r.config = buf_str(&config);
    snprintf(r.owner, sizeof r.owner, "%s", s->record.owner);
    snprintf(r.family, sizeof r.family, "%s", op->caller->family);
    snprintf(r.name, sizeof r.name, "%s", op->name ? op->name : "");
    snprintf(r.sandbox, sizeof r.sandbox, "%s", s->record.id);
    snprintf(r.profile, sizeof r.profile, "%s", s->record.profile);
    if (op->checkpoint)
        checkpoint_fill(&r, op->checkpoint);
    return snapshot_new(&r, &op->new_, e);
}

/* How much more of the disk the snapshots of an account may have; UINT64_MAX: there is no limit.
 * Imported ones are in no sum of the storage: else an owner fills the disk with them. */
static uint64_t count_disk_room(const struct control *c, const struct account *a)
{
    uint64_t most = c->storage.owner_bytes, used = quota_used(&c->stored, str_from(a->name));

    if (a->exempt || !most)
        return UINT64_MAX;
    return used < most ? most - used : 0;
}

static int check_disk_share(const struct control *c, const struct account *a, uint64_t bytes,
                            struct err *e)
{
    uint64_t used = quota_used(&c->stored, str_from(a->name));

    if (bytes <= count_disk_room(c, a))
        return 0;
    return err_set(e, ERR_QUOTA,
                   "the snapshots of this owner have %llu of %llu bytes of the disk "
                   "(limits.owner.disk); remove some, then try again",
                   (unsigned long long)used, (unsigned long long)c->storage.owner_bytes);
}

/* The real charge follows at once: snapshot_count(). */
static int check_snapshot_share(struct control *c, const struct account *a, struct quota *number,
                                uint64_t bytes, struct err *e)
{
    const struct quota_who who = find_snapshot_holder(a);
    struct quota_hold one = { 0 }, all = { 0 };
    int r = quota_take(number, &who, 1, &one, e);

    if (r >= 0)
        r = check_disk_share(c, a, bytes, e);
    if (r >= 0)
        r = quota_take(&c->stored, &who, bytes ? bytes : 1, &all, e);
    quota_drop(&one);
    quota_drop(&all);
    return r;
}

int snapshot_check_quota(struct control *c, const char *owner, const struct caller *by,
                         uint64_t bytes, struct err *e)
{
    const struct account a = account_of(c, owner, by->family);
    int r = check_snapshot_share(c, &a, &c->taken, bytes, e);

    if (r >= 0)
        r = store_check_room(c->store, e);
    return r < 0 ? r : event_share_check_family(c, owner, by->family, e);
}

/* Bytes that automatic checkpoints of an account may add to those of all of its checkpoints. */
static uint64_t count_automatic_room(const struct control *c, const struct account *a)
{
    uint64_t used = quota_used(&c->checkpoint_bytes, str_from(a->name));
    uint64_t most = c->config->limits.snapshot_bytes_per_owner / 2;
    uint64_t disk = a->exempt ? 0 : c->storage.owner_bytes / 2;

    if (!most || (disk && disk < most))
        most = disk ? disk : UINT64_MAX;
    return used < most ? most - used : 0;
}

int snapshot_check_checkpoint(struct control *c, const char *owner, const struct caller *by,
                              uint64_t bytes, bool automatic, struct err *e)
{
    const struct account a = account_of(c, owner, by->family);

    if (automatic && bytes > count_automatic_room(c, &a))
        return err_set(e, ERR_QUOTA,
                       "the checkpoints of this owner have half of its budget for snapshots "
                       "(limits.snapshot_bytes_per_owner, limits.owner.disk): remove some, or take "
                       "one by hand");
    return check_snapshot_share(c, &a, &c->checkpointed, bytes, e);
}

uint64_t snapshot_room(const struct control *c, const struct caller *of)
{
    const struct account a = account_of(c, of->owner, of->family);
    const struct quota_who who = find_snapshot_holder(&a);
    uint64_t room = quota_room(&c->stored, &who), disk = count_disk_room(c, &a);

    return room < disk ? room : disk;
}

uint64_t checkpoint_room(const struct control *c, const struct caller *of, bool automatic)
{
    const struct account a = account_of(c, of->owner, of->family);
    uint64_t room = snapshot_room(c, of), most = count_automatic_room(c, &a);

    return automatic && most < room ? most : room;
}

static void fail_snapshot(struct snapshot_op *op, int r, const struct err *e)
{
    layers_unref(op->sandbox_->control, &op->flatten_.stack);
    finish_snapshot(op, r, e);
}

static void on_room_made(struct snapshot_delete_op *o, int r, const struct err *e)
{
    struct snapshot_op *op = container_of(o, struct snapshot_op, dropping_);

    if (r < 0)
        fail_snapshot(op, r, e);
    else
        record_snapshot(op);
}

/* 1: an older checkpoint is removed first → on_room_made() */
static int check_new_snapshot(struct snapshot_op *op, struct err *e)
{
    const struct sandbox *s = op->sandbox_;
    uint64_t bytes = op->capture_.bytes;

    if (!op->checkpoint)
        return snapshot_check_quota(s->control, s->record.owner, op->caller, bytes, e);
    op->dropping_.done = on_room_made;
    return checkpoint_check_room(s, op->caller, op->checkpoint, bytes, &op->dropping_, e);
}

static void record_snapshot(struct snapshot_op *op)
{
    struct sandbox *s = op->sandbox_;
    struct change *ch;
    struct err e;
    int r = check_new_snapshot(op, &e);

    if (r > 0)
        return;
    if (r >= 0)
        r = make_snapshot_record(op, &op->flatten_.stack, &e);
    if (r < 0) {
        fail_snapshot(op, r, &e);
        return;
    }
    snapshot_count(s->control, op->new_);
    fault_point("snapshot.record");
    ch = change_new(s, &op->caller->actor, op->new_->record.id);
    ch->type = op->checkpoint ? "sandbox.checkpoint" : "sandbox.snapshot";
    ch->also = store_new_snapshot;
    ch->done = on_snapshot_recorded;
    ch->user = op;
    if (op->checkpoint)
        checkpoint_note_change(ch, op->checkpoint);
    change_submit(ch);
}

static void on_snapshot_flattened(struct flatten_op *f)
{
    struct snapshot_op *op = container_of(f, struct snapshot_op, flatten_);

    /* The stack references the layer, or has its files. */
    layer_unref(op->sandbox_->control, op->capture_.layer);
    record_snapshot(op);
}

static void on_snapshot_captured(struct capture *c, int r, const struct err *e)
{
    struct snapshot_op *op = container_of(c, struct snapshot_op, capture_);
    struct sandbox *s = op->sandbox_;
    struct layer_charge charge;
    struct err why;

    if (r < 0) {
        finish_snapshot(op, r, e);
        return;
    }
    op->flatten_ = (struct flatten_op){ .on = sandbox_floor(s),
                                        .most = LAYERS_HIGH,
                                        .done = on_snapshot_flattened };
    r = layers_stack(c->layer, &s->detail.layers, &op->arena_, &op->flatten_.stack, &why);
    if (r < 0) {
        layer_unref(s->control, c->layer);
        finish_snapshot(op, r, &why);
        return;
    }
    charge = layer_charge_caller(s->control, op->caller);
    charge.must = true;
    layers_flatten(s->control, &charge, &op->flatten_);
}

void sandbox_snapshot(struct sandbox *s, struct snapshot_op *op)
{
    op->sandbox_ = sandbox_ref(s);
    op->new_ = NULL;
    arena_init(&op->arena_, SNAPSHOT_ARENA_MAX);
    op->capture_ = (struct capture){ .caller = s->salvage_acts ? NULL : op->caller,
                                     .done = on_snapshot_captured };
    capture_start(s, &op->capture_);
}

/* --- verifying --- */

void snapshot_verify(struct control *c, const struct snapshot *s, struct digest_op *op)
{
    digest_add(op, &s->layers);
    digest_add(op, &s->base.layers);
    digest_start(c, op);
}

/* --- deleting --- */

static void on_snapshot_removed(struct store_txn *t, int r, const struct err *e)
{
    struct snapshot_delete_op *op = container_of(t, struct snapshot_delete_op, txn_);
    struct control *c = op->control_;
    struct snapshot *s = snapshot_known(c, str_from(op->id_));

    if (r >= 0 && s) {
        snapshot_leave(c, s);
        snapshot_release(c, s);
    }
    op->done(op, r, e);
}

void snapshot_delete(struct control *c, const struct snapshot *s, struct snapshot_delete_op *op)
{
    op->control_ = c;
    memcpy(op->id_, s->record.id, sizeof op->id_);
    store_txn_begin(&op->txn_, c->store);
    store_remove_snapshot(&op->txn_, op->id_);
    store_commit(&op->txn_, on_snapshot_removed);
}

/* --- expiry --- */

static void on_snapshot_expired(struct snapshot_delete_op *op, int r, const struct err *e)
{
    op->control_->changes--;
    if (r < 0)
        LOG(WARN, "snapshot.not_expired", LOG_S("snapshot", op->id_), LOG_S("error", e->msg));
    else
        LOG(INFO, "snapshot.expired", LOG_S("snapshot", op->id_));
    free(op);
}

static void expire_snapshot(struct map_entry *v, void *user)
{
    const struct snapshot *s = container_of(v, struct snapshot, entry);
    struct control *c = user;
    struct snapshot_delete_op *op;

    if (!s->record.expires_ns || s->record.expires_ns > clock_wall())
        return;
    op = new0(sizeof *op);
    op->done = on_snapshot_expired;
    c->changes++;
    snapshot_delete(c, s, op);
}

void snapshots_expire(struct control *c)
{
    map_each(&c->snapshots, expire_snapshot, c);
}
