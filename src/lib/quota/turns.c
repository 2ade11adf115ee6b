/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/quota/turns.h"

#include <stdlib.h>

#include "base/own.h"

/* gcc's analyzer does not follow members of lists: it takes a listed caller for leaked, and the
 * first turn of a line that has turns for NULL. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#pragma GCC diagnostic ignored "-Wanalyzer-null-dereference"
#endif

/* The turns of one part of a caller that wait, in their order. While its part is at its limit, the
 * line is parked: not among those that are ready. */
struct turns_line {
    struct turns_caller *caller;
    struct link in_share; /* of the part in `waiting`, by which the line is found */
    struct link in_ready, in_caller;
    struct list turns;
};

/* A caller with turns that wait. While it is at its share, or all its lines are parked, it is
 * parked, too: in no ring. */
struct turns_caller {
    struct link in_share, in_ring, in_all;
    struct list ready, lines;
    struct turns_line *plain; /* of turns that count in no part; NULL: none waits */
};

enum served { SERVED_STARTED, SERVED_PARKED, SERVED_FULL };

void turns_init(struct turns *t, struct loop *l)
{
    *t = (struct turns){ .loop = l };
}

/* --- callers and lines: those that are there have turns that wait --- */

static struct turns_caller *find_caller(const struct quota *waiting, struct str key)
{
    struct quota_share *s = quota_find(waiting, key);
    struct link *m = s ? list_first(&s->all) : NULL;

    return m ? container_of(m, struct turns_caller, in_share) : NULL;
}

/* A part's list is not that of callers: `idle` of its share. */
static struct turns_line *find_line(struct quota_share *part)
{
    struct link *m = part ? list_first(&part->idle) : NULL;

    return m ? container_of(m, struct turns_line, in_share) : NULL;
}

static struct turns_line *join_line(struct turns_caller *c, struct quota_share *part)
{
    struct turns_line *line = part ? find_line(part) : c->plain;

    if (line)
        return line;
    line = new0(sizeof *line);
    line->caller = c;
    list_append(&c->ready, &line->in_ready);
    list_append(&c->lines, &line->in_caller);
    if (part)
        list_append(&part->idle, &line->in_share);
    else
        c->plain = line;
    return line;
}

static void free_line(struct turns_line *line)
{
    if (line->caller->plain == line)
        line->caller->plain = NULL;
    link_leave(&line->in_share);
    link_leave(&line->in_ready);
    link_leave(&line->in_caller);
    free(line);
}

static void free_caller(struct turns_caller *c)
{
    for (struct link *m; (m = list_first(&c->lines));)
        free_line(container_of(m, struct turns_line, in_caller));
    link_leave(&c->in_share);
    link_leave(&c->in_ring);
    link_leave(&c->in_all);
    free(c);
}

void turns_done(struct turns *t)
{
    loop_later_stop(&t->later_);
    for (struct link *m; (m = list_first(&t->callers_));)
        free_caller(container_of(m, struct turns_caller, in_all));
    quota_done(&t->running);
    quota_done(&t->waiting);
    *t = (struct turns){ 0 };
}

/* Takes a turn out of its line. A line or caller without any is gone, before its share is. */
static void remove_turn(struct turn *turn)
{
    struct turns_line *line = take_ptr(turn->line_);
    struct turns_caller *c = line->caller;

    link_leave(&turn->link_);
    if (!list_first(&line->turns))
        free_line(line);
    if (!list_first(&c->lines))
        free_caller(c);
    quota_drop(&turn->waits_);
}

/* --- serving --- */

static void move_to_end(struct list *l, struct link *m)
{
    link_leave(m);
    list_append(l, m);
}

static struct quota_who find_turn_holder(const struct turn *turn)
{
    const struct quota_hold *h = &turn->waits_;

    return (struct quota_who){ .key = str_from(h->share->key),
                               .parts = { str_from(h->parts[0] ? h->parts[0]->key : "") },
                               .privileged = h->privileged };
}

/* Starts the first turn of a caller that its limits allow. */
static enum served serve_caller(struct turns *t, struct turns_caller *c)
{
    struct link *m;

    while ((m = list_first(&c->ready))) {
        struct turns_line *line = container_of(m, struct turns_line, in_ready);
        struct turn *turn = container_of(list_first(&line->turns), struct turn, link_);
        const struct quota_who who = find_turn_holder(turn);
        int r = quota_take(&t->running, &who, 1, &turn->place_, NULL);

        if (r == -ERR_BUSY)
            return SERVED_FULL;
        if (r >= 0) {
            move_to_end(&c->ready, &line->in_ready);
            move_to_end(&t->rings_[who.privileged], &c->in_ring);
            remove_turn(turn);
            turn->start_(turn);
            return SERVED_STARTED;
        }
        if (!quota_part_refuses(&t->running, &who, 1))
            break;
        link_leave(&line->in_ready);
    }
    link_leave(&c->in_ring);
    return SERVED_PARKED;
}

static bool serve_ring(struct turns *t, unsigned ring)
{
    enum served s = SERVED_PARKED;

    for (struct link *m; s == SERVED_PARKED && (m = list_first(&t->rings_[ring]));)
        s = serve_caller(t, container_of(m, struct turns_caller, in_ring));
    if (s != SERVED_STARTED)
        return false;
    t->next_ = (ring + 1) % TURNS_RINGS;
    return true;
}

static void on_serve(struct loop_later *l)
{
    struct turns *t = container_of(l, struct turns, later_);
    unsigned first;

    do
        first = t->next_;
    while (serve_ring(t, first) || serve_ring(t, (first + 1) % TURNS_RINGS));
}

/* --- joining and leaving --- */

static void enter_ring(struct turns *t, struct turns_caller *c, bool privileged)
{
    if (!link_joined(&c->in_ring))
        list_append(&t->rings_[privileged], &c->in_ring);
}

int turns_join(struct turns *t, struct turn *turn, const struct quota_who *who, bool must,
               turn_fn *start, struct err *e)
{
    struct quota_hold h = { 0 };
    struct turns_caller *c;
    int r = 0;

    if (must)
        quota_charge(&t->waiting, who, 1, &h);
    else
        r = quota_take(&t->waiting, who, 1, &h, e);
    if (r < 0)
        return r;
    *turn = (struct turn){ .start_ = start, .waits_ = h };
    c = find_caller(&t->waiting, str_from(h.share->key));
    if (!c) {
        c = new0(sizeof *c);
        list_append(&h.share->all, &c->in_share);
        list_append(&t->callers_, &c->in_all);
    }
    turn->line_ = join_line(c, h.parts[0]);
    list_append(&turn->line_->turns, &turn->link_);
    enter_ring(t, turn->line_->caller, h.privileged); /* its other lines may all be parked */
    loop_later(t->loop, &t->later_, on_serve, NULL);
    return 0;
}

void turns_leave(struct turns *t, struct turn *turn)
{
    const struct quota_hold *h;
    struct turns_caller *c;
    struct turns_line *line;

    if (turn->line_)
        remove_turn(turn);
    if (!turn->place_.share)
        return;
    /* The caller and a part of it release a place: lines that were at their limit become ready. */
    h = &turn->place_;
    c = find_caller(&t->waiting, str_from(h->share->key));
    line = h->parts[0] ? find_line(quota_find(&t->waiting, str_from(h->parts[0]->key))) : NULL;
    if (line && !link_joined(&line->in_ready))
        list_append(&line->caller->ready, &line->in_ready);
    if (c)
        enter_ring(t, c, h->privileged);
    quota_drop(&turn->place_);
    loop_later(t->loop, &t->later_, on_serve, NULL);
}
