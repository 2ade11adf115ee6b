/* SPDX-License-Identifier: Apache-2.0 */
#include "control/egress/egress_tail.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "control/egress/egress_tail_file.h"
#include "control/egress/egress_link_internal.h"
#include "control/plane/plane.h"
#include "engine/egress/chain.h"
#include "lib/json/reader.h"
#include "base/rfc3339.h"

#if defined(__GNUC__) && !defined(__clang__) /* it does not track what lists and maps own */
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

enum {
    PIECE = 32 << 10,     /* far longer than any line */
    TURN = 64,            /* pieces that one reader may read before others have their turn */
    TICK_MS = 200,        /* how often egress links are checked while there are readers */
    TREE_MAX = 256 << 10, /* of a line's JSON */
    DEPTH = 16,
};

const char *const egress_tail_types[EGRESS_TAIL_KINDS_] = {
    [EGRESS_TAIL_DENIED] = "egress.denied",
    [EGRESS_TAIL_ALLOWED] = "egress.allowed",
    [EGRESS_TAIL_CLOSED] = "egress.closed",
    [EGRESS_TAIL_LOST] = "egress.lost",
};

/* A reader's position in a box's log. */
struct egress_tail_cursor {
    char id[ID_MAX];
    struct map_entry entry;
    struct link link; /* in `waiting_`: its file has unread lines */
    struct egress_tail_place place;
    bool catching_up; /* skips lines before the reader's from_ms */
    bool ends;        /* its egress link has ended: no further lines */
};

/* --- readers and their cursors --- */

static void on_tail_later(struct loop_later *l)
{
    struct egress_tail_reader *r = container_of(l, struct egress_tail_reader, later_);

    r->more(r);
}

static void wake_tail_reader(struct egress_tail_reader *r)
{
    /* -ERR_CONFLICT: scheduled already */
    (void)loop_later(r->control_->loop, &r->later_, on_tail_later, NULL);
}

static void free_tail_cursor(struct map_entry *v, void *user)
{
    struct egress_tail_reader *r = user;
    struct egress_tail_cursor *s = container_of(v, struct egress_tail_cursor, entry);

    map_remove(&r->cursors_, v);
    link_leave(&s->link);
    free(s);
}

static struct egress_tail_cursor *find_tail_cursor(const struct egress_tail_reader *r,
                                                   const char *box)
{
    struct map_entry *v = map_find(&r->cursors_, str_from(box));

    return v ? container_of(v, struct egress_tail_cursor, entry) : NULL;
}

void egress_tail_scan(struct egress_tail_reader *r, const char *box)
{
    struct egress_tail_cursor *s = find_tail_cursor(r, box);

    if (!s && !r->sees(r, box))
        return;
    if (!s) {
        s = new0(sizeof *s);
        snprintf(s->id, sizeof s->id, "%s", box);
        s->entry.id = s->id;
        s->catching_up = !r->begins || !r->begins(r, box, &s->place);
        map_add(&r->cursors_, &s->entry);
    }
    if (!link_joined(&s->link))
        list_append(&r->waiting_, &s->link);
    wake_tail_reader(r);
}

void egress_tail_link_ended(struct egress_link *o)
{
    struct egress_tail *f = o->control->egress_tail;
    bool moved = list_first(&f->readers) && egress_link_log_moved(o);

    for (struct link *l = list_first(&f->readers); l; l = list_after(&f->readers, l)) {
        struct egress_tail_reader *r = container_of(l, struct egress_tail_reader, link_);
        struct egress_tail_cursor *s = find_tail_cursor(r, o->box->id);

        if (moved || s)
            egress_tail_scan(r, o->box->id);
        s = find_tail_cursor(r, o->box->id);
        if (s)
            s->ends = true;
    }
}

static void scan_egress_link(struct map_entry *v, void *user)
{
    struct egress_link *o = container_of(v, struct egress_link, entry);

    if (!egress_link_log_moved(o))
        return;
    LIST_EACH (struct egress_tail_reader, r, &o->control->egress_tail->readers, link_)
        egress_tail_scan(r, o->box->id);
}

static void on_tail_tick(struct loop_timer *t)
{
    struct control *c = container_of(t, struct egress_tail, tick)->control;

    map_each(&c->egress_links->by_box, scan_egress_link, NULL);
    loop_timer_start(c->loop, t, clock_mono() + TICK_MS * NS_PER_MS, on_tail_tick, NULL);
}

static void scan_from_start(struct map_entry *v, void *user)
{
    egress_tail_scan(user, v->id);
}

void egress_tail_begin(struct control *c, struct egress_tail_reader *r)
{
    bool first = !list_first(&c->egress_tail->readers);

    r->control_ = c;
    if (first) /* ignores lines from before the first reader */
        map_each(&c->egress_links->by_box, scan_egress_link, NULL);
    list_append(&c->egress_tail->readers, &r->link_);
    if (first)
        loop_timer_start(c->loop, &c->egress_tail->tick, clock_mono() + TICK_MS * NS_PER_MS,
                         on_tail_tick, NULL);
    if (r->from_ms)
        map_each(&c->egress_links->by_box, scan_from_start, r);
    else
        r->from_ms = clock_wall() / NS_PER_MS;
}

void egress_tail_end(struct egress_tail_reader *r)
{
    struct control *c = r->control_;

    if (!c)
        return;
    link_leave(&r->link_);
    if (!list_first(&c->egress_tail->readers))
        loop_timer_stop(&c->egress_tail->tick);
    loop_later_stop(&r->later_);
    map_each(&r->cursors_, free_tail_cursor, r);
    map_done(&r->cursors_);
    arena_done(&r->arena_);
    free(take_ptr(r->piece_));
    r->cursor_ = NULL;
    r->control_ = NULL;
}

/* --- reading --- */

static int open_tail_part(const struct egress_tail_reader *r, const struct egress_tail_cursor *s,
                          uint32_t part)
{
    int fd;

    return egress_link_open_part(r->control_, s->id, part, &fd, NULL) < 0 ? -1 : fd;
}

static int64_t read_tail_name(int fd)
{
    return fd < 0 ? 0 : egress_tail_file_name(fd);
}

static bool read_tail_lines(struct egress_tail_reader *r, struct egress_tail_cursor *s, int fd)
{
    int64_t before = s->place.at;

    r->at_ = 0;
    r->n_ = egress_tail_file_read(fd, &s->place.at, r->piece_, PIECE);
    return r->n_ || s->place.at > before;
}

/* Whether lines before the oldest file were removed. */
static bool has_lost_begin(int fd)
{
    struct chain_place before;

    return chain_head(fd, &before) && before.seq > 0;
}

/* The start of a reader without a position, if there is a line: in the newest file that begins
 * before its from_ms, else in the oldest. */
static bool choose_tail_start(struct egress_tail_reader *r, struct egress_tail_cursor *s,
                              const struct egress_link_parts *all)
{
    int64_t name = 0;

    for (size_t i = all->n; i-- > 0;) {
        AUTO_CLOSE int fd = open_tail_part(r, s, all->parts[i]);
        int64_t at = read_tail_name(fd);

        if (!at)
            continue;
        name = at;
        s->place.file = at;
        s->place.at = at <= r->from_ms ? egress_tail_file_seek(fd, r->from_ms) : 0;
        r->lost_ = r->resumes && at > r->from_ms && has_lost_begin(fd);
        if (at <= r->from_ms)
            break;
    }
    return name != 0;
}

/* The index of the file that the reader is in; all->n: it was removed. */
static size_t find_read_part(const struct egress_tail_reader *r, const struct egress_tail_cursor *s,
                             const struct egress_link_parts *all)
{
    for (size_t i = all->n; i-- > 0;) {
        AUTO_CLOSE int fd = open_tail_part(r, s, all->parts[i]);

        if (read_tail_name(fd) == s->place.file)
            return i;
    }
    return all->n;
}

static bool has_tail_lines(const struct egress_tail_reader *r, const struct egress_tail_cursor *s,
                           uint32_t part)
{
    AUTO_CLOSE int fd = open_tail_part(r, s, part);

    return read_tail_name(fd) != 0;
}

/* From the start of a file; false: it has no line yet. */
static bool enter_part(struct egress_tail_reader *r, struct egress_tail_cursor *s, uint32_t part)
{
    AUTO_CLOSE int fd = open_tail_part(r, s, part);
    int64_t name = read_tail_name(fd);

    if (!name)
        return false;
    s->place = (struct egress_tail_place){ name, 0 };
    return read_tail_lines(r, s, fd);
}

/* The reader is in a rotated file, or has no position. */
static bool fill_from_parts(struct egress_tail_reader *r, struct egress_tail_cursor *s)
{
    struct egress_link_parts all;
    AUTO_CLOSE int fd = -1;
    bool was_last;
    size_t i;

    egress_link_list_parts(r->control_, s->id, &all);
    if (!s->place.file && !choose_tail_start(r, s, &all))
        return false;
    if (r->lost_ || !all.n)
        return r->lost_;
    i = find_read_part(r, s, &all);
    if (i == all.n) {
        fd = open_tail_part(r, s, all.parts[0]);
        r->lost_ = true;
        s->place = (struct egress_tail_place){ read_tail_name(fd), 0 };
        return true;
    }
    /* If the next file has a line before the end of this one is read, this one is complete. */
    was_last = i + 1 == all.n || !has_tail_lines(r, s, all.parts[i + 1]);
    fd = open_tail_part(r, s, all.parts[i]);
    if (fd >= 0 && read_tail_lines(r, s, fd))
        return true;
    return !was_last && enter_part(r, s, all.parts[i + 1]);
}

/* Reads the next lines of a box, or notes that some are lost; false: nothing now. */
static bool fill_tail_piece(struct egress_tail_reader *r, struct egress_tail_cursor *s)
{
    AUTO_CLOSE int now = open_tail_part(r, s, EGRESS_LINK_PART_NOW);

    r->n_ = r->at_ = 0;
    if (now >= 0 && s->place.file && s->place.file == read_tail_name(now))
        return read_tail_lines(r, s, now);
    return fill_from_parts(r, s);
}

/* The next piece of the box that has waited longest; false: no box has unread lines. */
static bool next_tail_piece(struct egress_tail_reader *r)
{
    struct link *l = list_take(&r->waiting_);
    struct egress_tail_cursor *s = l ? container_of(l, struct egress_tail_cursor, link) : NULL;

    r->cursor_ = s;
    if (!s)
        return false;
    if (!r->piece_ && !(r->piece_ = malloc(PIECE)))
        abort();
    if (fill_tail_piece(r, s)) {
        list_append(&r->waiting_, &s->link);
    } else {
        r->cursor_ = NULL;
        r->n_ = r->at_ = 0;
        r->lost_ = false;
        if (s->ends || !control_knows(r->control_, s->id)) { /* all its lines were read */
            if (r->finished)
                r->finished(r, s->id, &s->place);
            free_tail_cursor(&s->entry, r);
        }
    }
    return true;
}

/* Skips the incomplete line of a dead worker. */
static bool parse_tail_line(struct egress_tail_reader *r, struct str line,
                            struct egress_tail_line *ret)
{
    const struct json_limits limits = { .bytes = PIECE, .depth = DEPTH };
    struct egress_tail_cursor *s = r->cursor_;

    ret->time_ms = egress_tail_line_time(line);
    if (ret->time_ms < 0 || (s->catching_up && ret->time_ms < r->from_ms))
        return false;
    s->catching_up = false;
    if (!egress_tail_line_kind(line, &ret->kind) || !(r->kinds & 1u << ret->kind))
        return false;
    arena_done(&r->arena_);
    arena_init(&r->arena_, TREE_MAX);
    if (json_read(line, limits, &r->arena_, &ret->event, NULL) < 0)
        return false;
    ret->box = s->id;
    ret->end = s->place;
    return true;
}

static bool next_tail_line(struct egress_tail_reader *r, struct egress_tail_line *ret)
{
    while (r->at_ < r->n_) {
        struct str rest = { r->piece_ + r->at_, r->n_ - r->at_ }, line;

        str_cut(rest, '\n', &line);
        r->at_ += line.n + 1;
        r->cursor_->place.at += (int64_t)line.n + 1;
        if (parse_tail_line(r, line, ret))
            return true;
    }
    return false;
}

int egress_tail_next(struct egress_tail_reader *r, struct egress_tail_line *ret)
{
    for (int i = 0; i < TURN && r->control_; i++) {
        if (r->lost_) {
            r->lost_ = false;
            *ret = (struct egress_tail_line){ .box = r->cursor_->id,
                                              .kind = EGRESS_TAIL_LOST,
                                              .time_ms = clock_wall() / NS_PER_MS,
                                              .end = r->cursor_->place };
            return 1;
        }
        if (next_tail_line(r, ret))
            return 1;
        if (!next_tail_piece(r))
            return 0;
    }
    if (r->control_)
        wake_tail_reader(r);
    return 0;
}

/* --- JSON --- */

void egress_tail_write(struct json_writer *w, const struct egress_tail_line *l)
{
    const struct json *why = l->event ? json_get(l->event, STR("message")) : NULL;
    char time[TIME_TEXT];

    time_text(l->time_ms * NS_PER_MS, time);
    json_begin_object(w);
    json_field_text(w, "time", time);
    json_field_text(w, "type", egress_tail_types[l->kind]);
    json_field_text(w, "sandbox_id", l->box);
    json_field_text(w, "reason",
                    l->kind == EGRESS_TAIL_LOST
                        ? "lines of the egress log expired before they were read"
                    : why && why->type == JSON_STR ? why->s.p
                                                   : "");
    if (l->event) {
        json_field_tree(w, "detail", l->event);
    } else {
        json_field_begin_object(w, "detail");
        json_end_object(w);
    }
    json_end_object(w);
}
