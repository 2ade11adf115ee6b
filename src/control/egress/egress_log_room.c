/* SPDX-License-Identifier: Apache-2.0 */
/* Quota on disk for egress logs, by owner and family of tokens.
 *
 * A worker writes to a log up to the room that it was granted, and denies everything without room.
 * Room is granted in steps and charged before it is granted, so that a sandbox's log stays within
 * egress.audit_max, an owner's logs within limits.egress_logs_per_owner, and those of a family's
 * sandboxes within seven eighths of that. The log of an ended sandbox is charged until it is
 * removed. Without room, the worker denies with `audit_full` until records expire
 * (egress_log_expiry.c) or the administrator raises the limit.
 *
 * With egress.audit_overflow: drop_oldest, logs of the owner's ended sandboxes are removed instead,
 * the oldest log and part first: after the cut is on record (engine/egress/chain.h), so that the
 * rest of the audit still verifies, together with an event that names the dropped records. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "control/egress/egress_link_internal.h"
#include "control/owner/owner_share.h"
#include "control/plane/plane.h"
#include "domain/model/event.h"

enum {
    ROOM_STEP = 1 << 20,
    ROOM_STEP_MIN = 64 << 10,
    ROOM_STEP_PART = 16, /* of an owner's share: half of what one family leaves to the others */
    ROOM_NONE = 1,       /* one byte: no line fits */
    LOG_PARTS = 32,      /* number of parts of a full log */
    LOG_PART_MIN = 64 << 10,
    DISK_PART = 16,        /* of the file system: an owner's share if none is configured … */
    OWNER_MIN = 256 << 20, /* … and at least */
};

/* The log of a box that has no egress link. */
struct ended_log {
    struct map_entry entry;
    struct quota_hold hold;
    struct link link;      /* in the share of its owner, oldest first … */
    struct link of_family; /* … and in its family's part of it, if it has one */
    char box[ID_MAX];
    char owner[OWNER_MAX]; /* of its events; its share may be that of a family */
    bool going; /* its cut is being recorded, or could not be: retention removes the log */
};

/* A part of an ended log that is removed as soon as its cut is on record. */
struct log_removal {
    struct control *control;
    struct store_txn txn;
    char box[ID_MAX];
    char wanted_by[ID_MAX]; /* the box whose log needs the room */
    uint32_t part;          /* EGRESS_LINK_PART_NOW: the whole rest */
    struct event_record event;
    char detail[256];
};

/* A log without an owner belongs to the daemon. */
static struct quota_who find_log_holder(const struct account *a)
{
    struct quota_who who = account_holder(a);

    who.privileged = a->exempt || !a->name[0];
    return who;
}

/* Bytes that the worker has written of its granted room. */
static uint64_t egress_link_used_room(const struct egress_link *o)
{
    uint64_t size = egress_link_part_bytes(o->control, o->box->id, EGRESS_LINK_PART_NOW);

    return size > o->room.begun ? size - o->room.begun : 0;
}

static struct ended_log *find_ended_log(const struct control *c, const char *box)
{
    struct map_entry *v = map_find(&c->egress_links->ended_logs, str_from(box));

    return v ? container_of(v, struct ended_log, entry) : NULL;
}

static void forget_ended_log(struct control *c, struct ended_log *l)
{
    map_remove(&c->egress_links->ended_logs, &l->entry);
    link_leave(&l->link);
    link_leave(&l->of_family);
    quota_drop(&l->hold);
    free(l);
}

static void add_ended_log(struct control *c, const char *box, const char *owner, const char *family,
                          uint64_t bytes)
{
    const struct account a = account_of(c, owner, family);
    const struct quota_who who = find_log_holder(&a);
    struct ended_log *l = new0(sizeof *l);
    struct quota_share *part;

    str_copy(str_from(box), l->box, sizeof l->box);
    str_copy(str_from(owner), l->owner, sizeof l->owner);
    l->entry.id = l->box;
    quota_charge(&c->egress_links->log_bytes, &who, bytes, &l->hold);
    part = l->hold.parts[0];
    list_append(&l->hold.share->idle, &l->link);
    if (part)
        list_append(&part->idle, &l->of_family);
    map_add(&c->egress_links->ended_logs, &l->entry);
}

void egress_link_room_recount(struct control *c, const char *box)
{
    struct egress_link *o = egress_link_find(c, box);
    struct ended_log *l = find_ended_log(c, box);
    uint64_t bytes = o || l ? egress_link_log_bytes(c, box) : 0, used, charged;

    if (o && o->room.hold.share) { /* its files, and the room that its worker has left */
        used = egress_link_used_room(o);
        charged = bytes + (o->room.given > used ? o->room.given - used : 0);
        if (charged < o->room.hold.n)
            quota_shrink(&o->room.hold, o->room.hold.n - charged);
    }
    if (l && !bytes)
        forget_ended_log(c, l);
    else if (l && bytes < l->hold.n)
        quota_shrink(&l->hold, l->hold.n - bytes);
}

/* --- making room --- */

static void remove_ended_part(struct control *c, const char *box, uint32_t part,
                              const char *wanted_by)
{
    uint64_t before = egress_link_log_bytes(c, box), dropped;

    if (part == EGRESS_LINK_PART_NOW) {
        egress_link_remove_logs(c, box); /* recounts */
    } else {
        (void)egress_link_remove_part(c, box, part);
        egress_link_room_recount(c, box);
    }
    dropped = before - egress_link_log_bytes(c, box);
    c->egress_links->dropped += dropped;
    LOG(WARN, "egress.audit_dropped", LOG_S("sandbox", box), LOG_I("bytes", (int64_t)dropped),
        LOG_S("for", wanted_by));
}

static void on_removal_recorded(struct store_txn *t, int r, const struct err *e)
{
    struct log_removal *x = container_of(t, struct log_removal, txn);
    struct control *c = x->control;
    struct ended_log *l = find_ended_log(c, x->box);
    struct egress_link *o = egress_link_find(c, x->wanted_by);

    if (r < 0) {
        LOG(WARN, "egress.audit_failed", LOG_S("sandbox", x->box), LOG_S("error", e->msg));
    } else if (l) {
        l->going = false;
        remove_ended_part(c, x->box, x->part, x->wanted_by);
        control_publish_first(c, t, &x->event);
    }
    if (o)
        egress_link_give_room(o);
    c->changes--;
    free(x);
}

/* The event is in the transaction that records the cut: no record is dropped without it. */
static void begin_removal(struct egress_link *wanted_by, struct ended_log *l, uint32_t part,
                          const struct egress_head_record *h)
{
    struct control *c = wanted_by->control;
    struct log_removal *x = new0(sizeof *x);

    l->going = true;
    x->control = c;
    x->part = part;
    str_copy(str_from(l->box), x->box, sizeof x->box);
    str_copy(str_from(wanted_by->box->id), x->wanted_by, sizeof x->wanted_by);
    c->changes++;
    store_txn_begin(&x->txn, c->store);
    store_put_egress_head(&x->txn, h);
    snprintf(x->detail, sizeof x->detail, "{\"upto\":%llu,\"for\":\"%s\"}",
             (unsigned long long)h->cut_seq, x->wanted_by);
    event_fill(&x->event, &ACTOR_DAEMON, l->owner, "audit.dropped",
               "its owner's egress logs were full");
    x->event.detail = str_from(x->detail);
    str_copy(str_from(x->box), x->event.sandbox, sizeof x->event.sandbox);
    store_add_event(&x->txn, &x->event);
    store_commit(&x->txn, on_removal_recorded);
}

/* If the sandbox is known, its egress link is about to be opened again. */
static bool may_remove_log(struct control *c, const struct ended_log *l)
{
    return !l->going && !control_knows(c, l->box);
}

/* The oldest removable log, of the link's own family first. If the family's part has no room for n
 * more, removing another's log does not help. NULL: none. */
static struct ended_log *find_oldest_log(struct egress_link *o, uint64_t n)
{
    const struct account a = account_of(o->control, o->owner, o->family);
    const struct quota_who who = find_log_holder(&a);
    struct quota_share *share = o->room.hold.share, *family = o->room.hold.parts[0];

    if (family)
        LIST_EACH (struct ended_log, l, &family->idle, of_family)
            if (may_remove_log(o->control, l))
                return l;
    if (quota_part_refuses(&o->control->egress_links->log_bytes, &who, n))
        return NULL;
    LIST_EACH (struct ended_log, l, &share->idle, link)
        if (may_remove_log(o->control, l))
            return l;
    return NULL;
}

/* Begins to remove one part of one log. True: it was removed at once. */
static bool remove_oldest_log(struct egress_link *o, uint64_t n)
{
    struct control *c = o->control;
    struct quota_share *share = o->room.hold.share;
    struct egress_head_record h = { .time_ns = clock_wall() };
    struct ended_log *l = find_oldest_log(o, n);
    uint64_t before = share->used;
    struct egress_link_parts all;
    char box[ID_MAX];
    uint32_t part;

    if (!l)
        return false;
    egress_link_list_parts(c, l->box, &all);
    part = all.n ? all.parts[0] : EGRESS_LINK_PART_NOW;
    str_copy(str_from(l->box), h.sandbox, sizeof h.sandbox);
    if (egress_link_find_cut(c, l->box, part, &h)) {
        begin_removal(o, l, part, &h);
        return false;
    }
    str_copy(str_from(l->box), box, sizeof box); /* `l` is freed with its last part */
    remove_ended_part(c, box, part, o->box->id);
    return share->used < before;
}

static bool grow_room(struct egress_link *o, uint64_t n)
{
    bool drops = o->control->config->egress.audit_overflow == CONFIG_AUDIT_DROP_OLDEST;
    struct err e;

    while (quota_grow(&o->room.hold, n, &e) < 0)
        if (!drops || !remove_oldest_log(o, n))
            return false;
    return true;
}

static uint64_t find_room_step(const struct control *c)
{
    uint64_t most = c->config->egress.audit_max,
             step = c->egress_links->log_bytes.limits.share / ROOM_STEP_PART;

    if (step < ROOM_STEP_MIN)
        step = ROOM_STEP_MIN;
    if (most && most < step)
        step = most;
    return step < ROOM_STEP ? step : ROOM_STEP;
}

uint64_t egress_link_part_max(const struct control *c)
{
    uint64_t part = c->config->egress.audit_max / LOG_PARTS;

    return part > LOG_PART_MIN ? part : LOG_PART_MIN;
}

/* --- room of an egress link --- */

/* Logged once, when it begins: the worker's denials show the rest. */
static void log_lack(struct egress_link *o)
{
    static const char *const limits[WIRE_LACKS_] = {
        [WIRE_LACK_BOX] = "egress.audit_max", [WIRE_LACK_OWNER] = "limits.egress_logs_per_owner"
    };
    const char *limit = limits[o->room.lack];

    if (limit && !o->room.logged)
        LOG(WARN, "egress.audit_full", LOG_S("sandbox", o->box->id), LOG_S("owner", o->owner),
            LOG_S("limit", limit));
    o->room.logged = limit != NULL;
}

/* Another step, or the rest of the sandbox's budget. */
static struct egress_link_room add_room(struct egress_link *o)
{
    uint64_t step = find_room_step(o->control), most = o->control->config->egress.audit_max,
             left = most > o->room.hold.n ? most - o->room.hold.n : 0,
             n = left < step ? left : step;

    o->room.lack = WIRE_LACK_NONE;
    if (n && !grow_room(o, n)) {
        o->room.lack = WIRE_LACK_OWNER;
        n = 0;
    } else if (n == left) {
        o->room.lack = WIRE_LACK_BOX;
    }
    o->room.given += n;
    if (!n || o->room.lack == WIRE_LACK_NONE)
        log_lack(o);
    return (struct egress_link_room){ o->room.given ? o->room.given : ROOM_NONE, o->room.lack };
}

struct egress_link_room egress_link_room_begin(struct egress_link *o)
{
    struct control *c = o->control;
    const struct account a = account_of(c, o->owner, o->family);
    const struct quota_who who = find_log_holder(&a);
    struct ended_log *old = find_ended_log(c, o->box->id);

    if (old)
        forget_ended_log(c, old);
    quota_drop(&o->room.hold);
    quota_charge(&c->egress_links->log_bytes, &who, egress_link_log_bytes(c, o->box->id),
                 &o->room.hold);
    o->room.begun = egress_link_part_bytes(c, o->box->id, EGRESS_LINK_PART_NOW);
    o->room.given = 0;
    return add_room(o);
}

struct egress_link_room egress_link_room_more(struct egress_link *o)
{
    uint64_t used = egress_link_used_room(o);

    if (o->room.lack == WIRE_LACK_NONE && o->room.given > used &&
        o->room.given - used > find_room_step(o->control) / 2)
        return (struct egress_link_room){ o->room.given, WIRE_LACK_NONE }; /* granted already */
    return add_room(o);
}

static void count_full(struct map_entry *v, void *user)
{
    *(size_t *)user += container_of(v, struct egress_link, entry)->room.logged;
}

size_t egress_links_full_logs(struct control *c)
{
    size_t n = 0;

    map_each(&c->egress_links->by_box, count_full, &n);
    return n;
}

void egress_link_room_end(struct egress_link *o)
{
    uint64_t bytes = egress_link_log_bytes(o->control, o->box->id);

    quota_drop(&o->room.hold);
    if (bytes && !find_ended_log(o->control, o->box->id))
        add_ended_log(o->control, o->box->id, o->owner, o->family, bytes);
}

void egress_link_set_owner(struct egress_link *o, const char *owner, const char *family)
{
    const struct account a = account_of(o->control, owner, family);
    const struct quota_who who = find_log_holder(&a);
    uint64_t n = o->room.hold.n;

    str_copy(str_from(owner), o->owner, sizeof o->owner);
    str_copy(str_from(family), o->family, sizeof o->family);
    if (!o->room.hold.share)
        return;
    quota_drop(&o->room.hold);
    quota_charge(&o->control->egress_links->log_bytes, &who, n, &o->room.hold);
}

/* --- opening and closing --- */

struct found_log {
    int64_t ended_ns;
    char box[ID_MAX];
};

static int compare_found_logs(const void *a, const void *b)
{
    const struct found_log *x = a, *y = b;

    return (x->ended_ns > y->ended_ns) - (x->ended_ns < y->ended_ns);
}

/* A log whose sandbox is not on record has no owner, and is removed by the next pruning. */
static int count_found_log(struct control *c, const struct found_log *f, struct err *e)
{
    struct store_query q = { .kind = STORE_SANDBOX, .text = str_from(f->box) };
    uint64_t bytes = find_ended_log(c, f->box) ? 0 : egress_link_log_bytes(c, f->box);
    int r;

    if (!bytes)
        return 0;
    arena_init(&q.arena, CONTROL_ARENA_MAX);
    r = store_ask_now(c->store, &q, e);
    if (r >= 0)
        add_ended_log(c, f->box, q.n ? q.sandboxes[0].owner : "", q.n ? q.sandboxes[0].family : "",
                      bytes);
    arena_done(&q.arena);
    return r;
}

/* The default is a fraction of the disk: a large disk keeps a week of very many sandboxes. */
static uint64_t find_owner_share(const struct control *c)
{
    uint64_t share = c->config->limits.egress_logs_per_owner;
    struct statvfs v;

    if (share)
        return share;
    if (fstatvfs(c->egress_links->dir, &v) == 0)
        share = (uint64_t)v.f_blocks * v.f_frsize / DISK_PART;
    return share > OWNER_MIN ? share : OWNER_MIN;
}

int egress_link_room_open(struct control *c, struct err *e)
{
    const struct quota_limits limits = quota_token_limits(find_owner_share(c));
    struct found_log *found = NULL;
    size_t n = 0, room = 0;
    AUTO(close_dirp_) DIR *d = egress_link_open_dir(c, ".");
    int r = 0;

    quota_init(&c->egress_links->log_bytes, &limits, "bytes of egress logs", "",
               "limits.egress_logs_per_owner");
    if (!d)
        return err_sys(e, "reading the directory of egress logs");
    for (struct dirent *v; (v = readdir(d));) {
        struct stat st;
        char box[ID_MAX];

        if (!egress_link_log_box(v->d_name, box) ||
            fstatat(c->egress_links->dir, v->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (n == room) {
            room = room ? 2 * room : 64;
            found = realloc(found, room * sizeof *found);
            if (!found)
                abort();
        }
        found[n].ended_ns = st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec;
        memcpy(found[n++].box, box, sizeof box);
    }
    if (n)
        qsort(found, n, sizeof *found, compare_found_logs);
    for (size_t i = 0; r >= 0 && i < n; i++)
        r = count_found_log(c, &found[i], e);
    free(found);
    return r;
}

static void free_ended_log(struct map_entry *v, void *user)
{
    forget_ended_log(user, container_of(v, struct ended_log, entry));
}

void egress_link_room_close(struct control *c)
{
    map_each(&c->egress_links->ended_logs, free_ended_log, c);
    map_done(&c->egress_links->ended_logs);
    quota_done(&c->egress_links->log_bytes);
}
