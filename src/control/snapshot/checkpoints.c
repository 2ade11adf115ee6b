/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoints of each sandbox in memory, their number and their end. */
#include "control/snapshot/checkpoints.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/own.h"
#include "control/owner/event_share.h"
#include "control/plane/plane.h"
#include "control/sandbox/change.h"
#include "control/sandbox/sandbox.h"

/* The checkpoints of one sandbox. */
struct checkpoint_list {
    struct map_entry entry;
    char sandbox[ID_MAX];
    struct list all; /* struct snapshot, by number */
    unsigned n;
};

static struct checkpoint_list *find_checkpoint_list(const struct control *c, const char *sandbox)
{
    struct map_entry *v = map_find(&c->checkpoints, str_from(sandbox));

    return v ? container_of(v, struct checkpoint_list, entry) : NULL;
}

static struct checkpoint_list *add_checkpoint_list(struct control *c, const char *sandbox)
{
    struct checkpoint_list *l = new0(sizeof *l);

    snprintf(l->sandbox, sizeof l->sandbox, "%s", sandbox);
    l->entry.id = l->sandbox;
    map_add(&c->checkpoints, &l->entry);
    return l;
}

static struct list *checkpoints_of(const struct sandbox *s)
{
    static struct list none;
    struct checkpoint_list *l = find_checkpoint_list(s->control, s->record.id);

    return l ? &l->all : &none;
}

void checkpoint_join(struct control *c, struct snapshot *s)
{
    struct checkpoint_list *l = find_checkpoint_list(c, s->record.sandbox);

    if (!l)
        l = add_checkpoint_list(c, s->record.sandbox);
    l->n++;
    LIST_EACH (struct snapshot, x, &l->all, checkpoint) {
        if (x->record.checkpoint > s->record.checkpoint) {
            list_insert(&x->checkpoint, &s->checkpoint);
            return;
        }
    }
    list_append(&l->all, &s->checkpoint);
}

void checkpoint_leave(struct control *c, struct snapshot *s)
{
    struct checkpoint_list *l = find_checkpoint_list(c, s->record.sandbox);

    link_leave(&s->checkpoint);
    if (--l->n)
        return;
    map_remove(&c->checkpoints, &l->entry);
    free(l);
}

void checkpoints_each(const struct sandbox *s, void (*each)(const struct snapshot *x, void *user),
                      void *user)
{
    LIST_EACH (struct snapshot, x, checkpoints_of(s), checkpoint) {
        each(x, user);
    }
}

const struct snapshot *checkpoint_at_most(const struct sandbox *s, int64_t number)
{
    const struct snapshot *found = NULL;

    LIST_EACH (struct snapshot, x, checkpoints_of(s), checkpoint) {
        if (x->record.checkpoint <= number)
            found = x;
    }
    return found;
}

const struct snapshot *checkpoint_find(const struct sandbox *s, int64_t number)
{
    const struct snapshot *x = checkpoint_at_most(s, number);

    return x && x->record.checkpoint == number ? x : NULL;
}

int64_t checkpoint_now(const struct sandbox *s)
{
    return s->detail.checkpoint.at;
}

int64_t checkpoint_undos(const struct sandbox *s)
{
    return s->detail.checkpoint.undos;
}

int checkpoint_cause_check(struct str cause, struct err *e)
{
    for (size_t i = 0; i < cause.n; i++)
        if ((unsigned char)cause.p[i] < ' ' || cause.p[i] == 0x7f)
            return err_set(e, ERR_INVALID, "cause: must have no control characters; byte %zu is %d",
                           i + 1, cause.p[i]);
    return 0;
}

/* --- the record --- */

void checkpoint_fill(struct snapshot_record *r, const struct checkpoint_note *n)
{
    r->checkpoint = n->number;
    r->parent = n->parent;
    r->changed = n->changed;
    snprintf(r->cause, sizeof r->cause, "%s", n->cause);
}

static void edit_checkpoint(struct change *ch, struct sandbox_record *next)
{
    struct sandbox *s = ch->sandbox;

    s->detail.has_checkpoint = true;
    s->detail.checkpoint.at = s->detail.checkpoint.last = ch->number;
    sandbox_write_detail(s, next);
}

void checkpoint_note_change(struct change *ch, const struct checkpoint_note *n)
{
    int size = snprintf(ch->text, sizeof ch->text, "{\"checkpoint\":%lld,\"changed\":%lld}",
                        (long long)n->number, (long long)n->changed);

    ch->detail = (struct str){ ch->text, (size_t)size };
    ch->number = n->number;
    ch->edit = edit_checkpoint;
}

/* A number that could not be recorded is not given again. */
void checkpoint_settle(struct sandbox *s, const struct checkpoint_note *n, int r)
{
    if (r < 0)
        s->detail.checkpoint.at = n->parent;
}

/* --- removal --- */

static bool may_remove_checkpoint(const struct sandbox *s, const struct snapshot *x, int64_t spare)
{
    return x->record.checkpoint != spare && x->record.checkpoint != s->detail.checkpoint.at;
}

static const struct snapshot *find_oldest_checkpoint(const struct sandbox *s, int64_t spare)
{
    LIST_EACH (struct snapshot, x, checkpoints_of(s), checkpoint) {
        if (may_remove_checkpoint(s, x, spare))
            return x;
    }
    return NULL;
}

/* Bytes of the checkpoints that may be removed. */
static uint64_t count_spare_bytes(const struct sandbox *s, int64_t spare)
{
    uint64_t bytes = 0;

    LIST_EACH (struct snapshot, x, checkpoints_of(s), checkpoint) {
        if (may_remove_checkpoint(s, x, spare))
            bytes += (uint64_t)x->record.bytes;
    }
    return bytes;
}

int checkpoint_could_fit(const struct sandbox *s, const struct caller *by,
                         const struct checkpoint_note *n, uint64_t bytes, struct err *e)
{
    struct caller holder = { .actor = by->actor };
    int r = snapshot_check_checkpoint(s->control, s->record.owner, by, bytes, n->automatic, e);
    uint64_t room;

    if (r != -(int)ERR_QUOTA || !find_oldest_checkpoint(s, n->spare))
        return r;
    snprintf(holder.owner, sizeof holder.owner, "%s", s->record.owner);
    snprintf(holder.family, sizeof holder.family, "%s", by->family);
    room = checkpoint_room(s->control, &holder, n->automatic);
    return room >= bytes || count_spare_bytes(s, n->spare) >= bytes - room ? 0 : r;
}

int checkpoint_check_room(const struct sandbox *s, const struct caller *by,
                          const struct checkpoint_note *n, uint64_t bytes,
                          struct snapshot_delete_op *drop, struct err *e)
{
    struct control *c = s->control;
    int r = checkpoint_could_fit(s, by, n, bytes, e);

    if (r < 0)
        return r;
    if (snapshot_check_checkpoint(c, s->record.owner, by, bytes, n->automatic, e) < 0) {
        snapshot_delete(c, find_oldest_checkpoint(s, n->spare), drop);
        return 1;
    }
    r = store_check_room(c->store, e);
    return r < 0 ? r : event_share_check_family(c, s->record.owner, by->family, e);
}

struct checkpoint_removal {
    struct snapshot_delete_op op;
};

static void on_checkpoint_removed(struct snapshot_delete_op *op, int r, const struct err *e)
{
    op->control_->changes--;
    if (r < 0)
        LOG(WARN, "checkpoint.not_removed", LOG_S("snapshot", op->id_), LOG_S("error", e->msg));
    free(container_of(op, struct checkpoint_removal, op));
}

static void remove_checkpoint(struct control *c, const struct snapshot *s)
{
    struct checkpoint_removal *x = new0(sizeof *x);

    x->op.done = on_checkpoint_removed;
    c->changes++;
    snapshot_delete(c, s, &x->op);
}

static unsigned count_checkpoints(const struct sandbox *s)
{
    const struct checkpoint_list *l = find_checkpoint_list(s->control, s->record.id);

    return l ? l->n : 0;
}

void checkpoints_prune(const struct sandbox *s, int64_t spare)
{
    const struct snapshot *oldest =
        count_checkpoints(s) > CHECKPOINTS_MAX ? find_oldest_checkpoint(s, spare) : NULL;

    if (oldest)
        remove_checkpoint(s->control, oldest);
}

void checkpoints_remove(struct sandbox *s)
{
    LIST_EACH_SAFE (struct snapshot, x, checkpoints_of(s), checkpoint) {
        remove_checkpoint(s->control, x);
    }
}

static void sweep_checkpoint_list(struct map_entry *v, void *user)
{
    struct checkpoint_list *l = container_of(v, struct checkpoint_list, entry);
    struct control *c = user;

    if (control_record(c, l->sandbox))
        return;
    LIST_EACH_SAFE (struct snapshot, x, &l->all, checkpoint) {
        remove_checkpoint(c, x);
    }
}

void checkpoints_sweep(struct control *c)
{
    map_each(&c->checkpoints, sweep_checkpoint_list, c);
}
