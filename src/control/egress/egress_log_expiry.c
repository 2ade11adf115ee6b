/* SPDX-License-Identifier: Apache-2.0 */
/* Retention of egress logs. Records are removed by their age only (egress.audit_keep), so that a
 * program cannot remove the records of its earlier requests by making more: a part of a log is
 * removed when its newest record is that old, the oldest part first, and after the position of its
 * last line is on record as a cut (engine/egress/chain.h), so that the rest of the audit still
 * verifies. A crash before the removal leaves a cut with the lines before it, which is harmless;
 * the next pass removes them. */
#include <dirent.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "control/egress/egress_tail_file.h"
#include "control/egress/egress_link_internal.h"
#include "control/plane/plane.h"
#include "engine/egress/chain.h"

enum { AGE_PARTS = 8 }; /* fraction of egress.audit_keep that one part may cover */

/* A part that is removed as soon as its cut is on record. */
struct log_expiry {
    struct control *control;
    struct store_txn txn;
    char box[ID_MAX];
    uint32_t part;
};

static bool read_part_tail(const struct control *c, const char *box, uint32_t part,
                           struct chain_place *ret)
{
    AUTO_CLOSE int fd = -1;
    int64_t end;

    *ret = (struct chain_place){ 0 };
    return egress_link_open_part(c, box, part, &fd, NULL) >= 0 && chain_tail(fd, ret, &end);
}

/* The last line of the log: a part that was just begun has no line. */
static bool find_last_line(const struct control *c, const char *box, struct chain_place *ret)
{
    struct egress_link_parts all;

    egress_link_list_parts(c, box, &all);
    *ret = (struct chain_place){ 0 };
    for (size_t i = all.n; i-- > 0 && !ret->seq;)
        if (!read_part_tail(c, box, all.parts[i], ret))
            return false;
    return ret->seq > 0;
}

bool egress_link_find_cut(const struct control *c, const char *box, uint32_t part,
                          struct egress_head_record *ret)
{
    struct chain_place last, cut;

    if (!find_last_line(c, box, &last))
        return false;
    if (part == EGRESS_LINK_PART_NOW)
        cut = last;
    else if (!read_part_tail(c, box, part, &cut))
        return false;
    ret->seq = last.seq;
    memcpy(ret->digest, last.digest, sizeof ret->digest);
    ret->cut_seq = cut.seq;
    memcpy(ret->cut_digest, cut.digest, sizeof ret->cut_digest);
    return cut.seq > 0;
}

static void expire_log(struct control *c, const char *box);

/* Gives the room of the removed part to the egress link, if there is one. */
static void remove_expired(struct control *c, const char *box, uint32_t part)
{
    struct egress_link *o = egress_link_find(c, box);

    (void)egress_link_remove_part(c, box, part);
    egress_link_room_recount(c, box);
    if (o)
        egress_link_give_room(o);
}

static void on_expiry_recorded(struct store_txn *t, int r, const struct err *e)
{
    struct log_expiry *x = container_of(t, struct log_expiry, txn);
    struct control *c = x->control;

    if (r < 0) { /* the next pass retries */
        LOG(WARN, "egress.audit_failed", LOG_S("sandbox", x->box), LOG_S("error", e->msg));
    } else {
        remove_expired(c, x->box, x->part);
        expire_log(c, x->box);
    }
    c->changes--;
    free(x);
}

static bool is_part_older(const struct control *c, const char *box, uint32_t part,
                          int64_t before_ns)
{
    int64_t at = egress_link_part_time(c, box, part);

    return at >= 0 && at < before_ns;
}

/* Expires the oldest rotated part. */
static void expire_oldest_part(struct control *c, const char *box, uint32_t part, int64_t before_ns)
{
    struct egress_head_record h = { .time_ns = clock_wall() };
    struct log_expiry *x;

    if (!control_knows(c, box)) /* the end of the sandbox, by which its whole log expires */
        h.time_ns = egress_link_part_time(c, box, EGRESS_LINK_PART_NOW);
    if (part == EGRESS_LINK_PART_NOW || !is_part_older(c, box, part, before_ns))
        return;
    str_copy(str_from(box), h.sandbox, sizeof h.sandbox);
    if (!egress_link_find_cut(c, box, part, &h)) { /* lines of a version without a chain */
        remove_expired(c, box, part);
        return;
    }
    x = new0(sizeof *x);
    x->control = c;
    x->part = part;
    str_copy(str_from(box), x->box, sizeof x->box);
    c->changes++;
    store_txn_begin(&x->txn, c->store);
    store_put_egress_head(&x->txn, &h);
    store_commit(&x->txn, on_expiry_recorded);
}

/* The log of an ended sandbox is removed as a whole with its last record: audit_check.c accepts a
 * missing log only if its last record is past the retention time. */
static void expire_log(struct control *c, const char *box)
{
    int64_t before_ns = clock_wall() - c->config->egress.audit_keep;
    struct egress_link_parts all;
    uint32_t newest;

    egress_link_list_parts(c, box, &all);
    newest = all.n ? all.parts[all.n - 1] : EGRESS_LINK_PART_NOW;
    if (!control_knows(c, box) && (!all.n || is_part_older(c, box, newest, before_ns)))
        egress_link_remove_logs(c, box);
    else if (all.n && (control_has_record(c, box) || !control_knows(c, box)))
        expire_oldest_part(c, box, all.parts[0], before_ns);
}

/* A part that covers a long time would expire too late for most of its records. */
static void rotate_old_part(struct map_entry *v, void *user)
{
    struct egress_link *o = container_of(v, struct egress_link, entry);
    const struct control *c = user;
    AUTO_CLOSE int fd = -1;
    int64_t first_ms;

    if (o->state != EGRESS_LINK_OPEN ||
        egress_link_open_part(c, o->box->id, EGRESS_LINK_PART_NOW, &fd, NULL) < 0 ||
        !(first_ms = egress_tail_file_name(fd)))
        return;
    if (first_ms * NS_PER_MS < clock_wall() - c->config->egress.audit_keep / AGE_PARTS)
        egress_link_rotate_log(o);
}

/* There may be very many logs of one small file: one stat() is enough for these. */
static bool may_expire_file(struct control *c, const char *file, const char *box)
{
    int64_t before_ns = clock_wall() - c->config->egress.audit_keep;

    if (str_ends(str_from(file), STR(".jsonl")))
        return !control_knows(c, box) && is_part_older(c, box, EGRESS_LINK_PART_NOW, before_ns);
    if (str_ends(str_from(file), STR(".sent")))
        return egress_link_part_time(c, box, EGRESS_LINK_PART_NOW) < 0;
    return true; /* rotated parts */
}

void egress_links_expire_logs(struct control *c)
{
    AUTO(close_dirp_) DIR *d = egress_link_open_dir(c, ".");
    char box[ID_MAX];

    map_each(&c->egress_links->by_box, rotate_old_part, c);
    for (struct dirent *v; d && (v = readdir(d));)
        if (egress_link_log_box(v->d_name, box) && may_expire_file(c, v->d_name, box))
            expire_log(c, box);
}
