/* Retention of egress logs. Records go by their age alone (egress.audit_keep), so that a program
 * cannot remove those of its earlier requests by making more: a part of a log goes when its newest
 * record is that old, from the oldest part on, and after the place of its last line is on record as
 * a cut (egress/chain.h), so that the rest of the audit still verifies. A crash before the removal
 * leaves a cut with the lines before it, which is no damage; the next pass removes them. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "control/anchors.h"
#include "control/feed_file.h"
#include "control/outlet_inside.h"
#include "control/plane.h"
#include "egress/chain.h"

enum { AGE_PARTS = 8 }; /* of egress.audit_keep: the time that one part of a log stands for */

/* A part that goes as soon as its cut is on record. */
struct log_expiry {
    struct control *control;
    struct store_txn txn;
    char box[ID_MAX];
    uint32_t part;
};

static bool read_tail_of(const struct control *c, const char *box, uint32_t part,
                         struct chain_place *ret)
{
    AUTO_CLOSE int fd = -1;
    int64_t end;

    *ret = (struct chain_place){ 0 };
    return outlet_open_part(c, box, part, &fd, NULL) >= 0 && chain_tail(fd, ret, &end);
}

/* The last line of all: a part that was just begun has none. */
static bool find_last_line(const struct control *c, const char *box, struct chain_place *ret)
{
    struct outlet_parts all;

    outlet_list_parts(c, box, &all);
    *ret = (struct chain_place){ 0 };
    for (size_t i = all.n; i-- > 0 && !ret->seq;)
        if (!read_tail_of(c, box, all.parts[i], ret))
            return false;
    return ret->seq > 0;
}

bool outlet_find_cut(const struct control *c, const char *box, uint32_t part,
                     struct egress_head_record *ret)
{
    struct chain_place last, cut;

    if (!find_last_line(c, box, &last))
        return false;
    if (part == OUTLET_PART_NOW)
        cut = last;
    else if (!read_tail_of(c, box, part, &cut))
        return false;
    ret->seq = last.seq;
    memcpy(ret->digest, last.digest, sizeof ret->digest);
    ret->cut_seq = cut.seq;
    memcpy(ret->cut_digest, cut.digest, sizeof ret->cut_digest);
    return cut.seq > 0;
}

static void expire_log(struct control *c, const char *box);

/* What was removed is room for the outlet, if it has one. */
static void remove_expired(struct control *c, const char *box, uint32_t part)
{
    struct outlet *o = outlet_find(c, box);

    (void)outlet_remove_part(c, box, part);
    outlet_room_recount(c, box);
    if (o)
        outlet_give_room(o);
}

static void on_expiry_kept(struct store_txn *t, int r, const struct err *e)
{
    struct log_expiry *x = container_of(t, struct log_expiry, txn);
    struct control *c = x->control;

    if (r < 0) { /* the next pass tries again */
        LOG(WARN, "egress.audit_failed", LOG_S("sandbox", x->box), LOG_S("error", e->msg));
    } else {
        remove_expired(c, x->box, x->part);
        expire_log(c, x->box);
    }
    c->changes--;
    free(x);
}

static void begin_part_expiry(struct control *c, uint32_t part, const struct egress_head_record *h)
{
    struct log_expiry *x = calloc(1, sizeof *x);

    if (!x)
        abort();
    x->control = c;
    x->part = part;
    str_copy(str_from(h->sandbox), x->box, sizeof x->box);
    c->changes++;
    store_txn_begin(&x->txn, c->store);
    store_put_egress_head(&x->txn, h);
    store_commit(&x->txn, on_expiry_kept);
}

static bool is_older(const struct control *c, const char *box, uint32_t part, int64_t before_ns)
{
    int64_t at = outlet_part_time(c, box, part);

    return at >= 0 && at < before_ns;
}

/* Of the parts that were put aside, the oldest one, if it has expired. */
static void expire_oldest_part(struct control *c, const char *box, uint32_t part, int64_t before_ns)
{
    struct egress_head_record h = { .time_ns = clock_wall() };

    if (!control_knows(c, box)) /* that of its end, by which all of it expires */
        h.time_ns = outlet_part_time(c, box, OUTLET_PART_NOW);
    if (part == OUTLET_PART_NOW || !is_older(c, box, part, before_ns))
        return;
    str_copy(str_from(box), h.sandbox, sizeof h.sandbox);
    if (outlet_find_cut(c, box, part, &h))
        begin_part_expiry(c, part, &h);
    else /* lines of a version without a chain */
        remove_expired(c, box, part);
}

/* A log of a sandbox that has ended goes as a whole with its last record, as `is_expired()` in
 * audit_check.c expects. */
static void expire_log(struct control *c, const char *box)
{
    int64_t before_ns = clock_wall() - c->config->egress.audit_keep;
    struct outlet_parts all;
    uint32_t newest;

    outlet_list_parts(c, box, &all);
    newest = all.n ? all.parts[all.n - 1] : OUTLET_PART_NOW;
    if (!control_knows(c, box) && (!all.n || is_older(c, box, newest, before_ns)))
        outlet_remove_logs(c, box);
    else if (all.n && (anchors_may_hold(c, box) || !control_knows(c, box)))
        expire_oldest_part(c, box, all.parts[0], before_ns);
}

/* A part that holds records of a long time would go too late for most of them. */
static void put_old_part_aside(struct index_entry *v, void *user)
{
    struct outlet *o = container_of(v, struct outlet, entry);
    const struct control *c = user;
    AUTO_CLOSE int fd = -1;
    int64_t first_ms;

    if (o->state != OUTLET_OPEN ||
        outlet_open_part(c, o->box->id, OUTLET_PART_NOW, &fd, NULL) < 0 ||
        !(first_ms = feed_file_name(fd)))
        return;
    if (first_ms * NS_PER_MS < clock_wall() - c->config->egress.audit_keep / AGE_PARTS)
        outlet_rotate_log(o);
}

/* There may be very many logs of one small file: one look is enough for these. */
static bool is_worth_a_look(struct control *c, const char *file, const char *box)
{
    int64_t before_ns = clock_wall() - c->config->egress.audit_keep;

    if (str_ends(str_from(file), STR(".jsonl")))
        return !control_knows(c, box) && is_older(c, box, OUTLET_PART_NOW, before_ns);
    if (str_ends(str_from(file), STR(".sent")))
        return outlet_part_time(c, box, OUTLET_PART_NOW) < 0;
    return true; /* parts that were put aside */
}

void outlets_expire_logs(struct control *c)
{
    int fd = openat(c->outlets.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    char box[ID_MAX];

    index_each(&c->outlets.index, put_old_part_aside, c);
    for (struct dirent *v; d && (v = readdir(d));)
        if (outlet_log_box(v->d_name, box) && is_worth_a_look(c, v->d_name, box))
            expire_log(c, box);
    if (d)
        closedir(d);
    else
        drop_fd(&fd);
}
