#include "control/feed.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "control/feed_file.h"
#include "control/outlet_inside.h"
#include "control/plane.h"
#include "egress/chain.h"
#include "json/reader.h"
#include "model/time.h"

#if defined(__GNUC__) && !defined(__clang__) /* it does not follow what lists and tables own */
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

enum {
    PIECE = 32 << 10,     /* a line is shorter by far */
    TURN = 64,            /* pieces that one reader looks through before others have their turn */
    TICK_MS = 200,        /* how often outlets are looked at while there are readers */
    TREE_MAX = 256 << 10, /* of a line's JSON */
    DEPTH = 16,
};

const char *const feed_types[FEED_KINDS_] = {
    [FEED_DENIED] = "egress.denied",
    [FEED_ALLOWED] = "egress.allowed",
    [FEED_CLOSED] = "egress.closed",
    [FEED_LOST] = "egress.lost",
};

/* A reader's place in a box's file. */
struct spot {
    char id[ID_MAX];
    struct index_entry entry;
    struct link link; /* its file has more */
    struct feed_place place;
    bool catching_up; /* lines before the reader's time are passed over */
    bool ends;        /* its outlet has: nothing comes any more */
};

/* --- readers and their spots --- */

static void tell_more(struct loop_later *l)
{
    struct feed_reader *r = container_of(l, struct feed_reader, later_);

    r->more(r);
}

static void wake(struct feed_reader *r)
{
    /* -ERR_CONFLICT: it is coming already */
    (void)loop_later(r->control_->loop, &r->later_, tell_more, NULL);
}

static struct spot *new_spot(struct feed_reader *r, const char *box)
{
    struct spot *s = calloc(1, sizeof *s);

    if (!s)
        abort();
    snprintf(s->id, sizeof s->id, "%s", box);
    s->entry.id = s->id;
    if (!r->begins || !r->begins(r, box, &s->place))
        s->catching_up = true;
    index_add(&r->spots_, &s->entry);
    return s;
}

static void free_spot(struct index_entry *v, void *user)
{
    struct feed_reader *r = user;
    struct spot *s = container_of(v, struct spot, entry);

    index_remove(&r->spots_, v);
    link_leave(&s->link);
    free(s);
}

static struct spot *find_spot(const struct feed_reader *r, const char *box)
{
    struct index_entry *v = index_find(&r->spots_, str_from(box));

    return v ? container_of(v, struct spot, entry) : NULL;
}

void feed_look(struct feed_reader *r, const char *box)
{
    struct spot *s = find_spot(r, box);

    if (!s && r->sees(r, box))
        s = new_spot(r, box);
    if (!s)
        return;
    if (!link_joined(&s->link))
        list_append(&r->waiting_, &s->link);
    wake(r);
}

static void tell_readers(struct outlet *o)
{
    struct feed *f = &o->control->feed;

    for (struct link *l = list_first(&f->readers); l; l = list_after(&f->readers, l))
        feed_look(container_of(l, struct feed_reader, link_), o->box->id);
}

void feed_outlet_ends(struct outlet *o)
{
    struct feed *f = &o->control->feed;
    bool moved = list_first(&f->readers) && outlet_log_moved(o);

    for (struct link *l = list_first(&f->readers); l; l = list_after(&f->readers, l)) {
        struct feed_reader *r = container_of(l, struct feed_reader, link_);
        struct spot *s = find_spot(r, o->box->id);

        if (moved || s)
            feed_look(r, o->box->id);
        s = find_spot(r, o->box->id);
        if (s)
            s->ends = true;
    }
}

static void look_at_outlet(struct index_entry *v, void *user)
{
    struct outlet *o = container_of(v, struct outlet, entry);
    bool moved = outlet_log_moved(o);

    (void)user;
    if (moved)
        tell_readers(o);
}

static void on_tick(struct loop_timer *t)
{
    struct control *c = container_of(t, struct control, feed.tick);

    index_each(&c->outlets.index, look_at_outlet, NULL);
    loop_timer_start(c->loop, t, clock_mono() + TICK_MS * NS_PER_MS, on_tick, NULL);
}

static void look_from_start(struct index_entry *v, void *user)
{
    feed_look(user, v->id);
}

void feed_begin(struct control *c, struct feed_reader *r)
{
    bool first = !list_first(&c->feed.readers);

    r->control_ = c;
    if (first) /* what was written before anybody listened is no news */
        index_each(&c->outlets.index, look_at_outlet, NULL);
    list_append(&c->feed.readers, &r->link_);
    if (first)
        loop_timer_start(c->loop, &c->feed.tick, clock_mono() + TICK_MS * NS_PER_MS, on_tick, NULL);
    if (r->from_ms)
        index_each(&c->outlets.index, look_from_start, r);
    else
        r->from_ms = clock_wall() / NS_PER_MS;
}

void feed_end(struct feed_reader *r)
{
    struct control *c = r->control_;

    if (!c)
        return;
    link_leave(&r->link_);
    if (!list_first(&c->feed.readers))
        loop_timer_stop(&c->feed.tick);
    loop_later_stop(&r->later_);
    index_each(&r->spots_, free_spot, r);
    index_done(&r->spots_);
    arena_done(&r->arena_);
    free(take_ptr(r->piece_));
    r->spot_ = NULL;
    r->control_ = NULL;
}

/* --- reading --- */

static int open_file(const struct feed_reader *r, const struct spot *s, uint32_t part)
{
    int fd;

    return outlet_open_part(r->control_, s->id, part, &fd, NULL) < 0 ? -1 : fd;
}

static int64_t name_of(int fd)
{
    return fd < 0 ? 0 : feed_file_name(fd);
}

static bool read_lines(struct feed_reader *r, struct spot *s, int fd)
{
    int64_t before = s->place.at;

    r->at_ = 0;
    r->n_ = feed_file_read(fd, &s->place.at, r->piece_, PIECE);
    return r->n_ || s->place.at > before;
}

/* Whether lines before the oldest file were removed. */
static bool has_lost_begin(int fd)
{
    struct chain_place before;

    return chain_head(fd, &before) && before.seq > 0;
}

/* Where a reader without a place begins, if there is a line already: in the newest file that begins
 * before its time, or else in the oldest. */
static bool take_place(struct feed_reader *r, struct spot *s, const struct outlet_parts *all)
{
    int64_t name = 0;

    for (size_t i = all->n; i-- > 0;) {
        AUTO_CLOSE int fd = open_file(r, s, all->parts[i]);
        int64_t at = name_of(fd);

        if (!at)
            continue;
        name = at;
        s->place.file = at;
        s->place.at = at <= r->from_ms ? feed_file_seek(fd, r->from_ms) : 0;
        r->lost_ = r->resumes && at > r->from_ms && has_lost_begin(fd);
        if (at <= r->from_ms)
            break;
    }
    return name != 0;
}

/* The index of the file that the reader is in; all->n: it was removed. */
static size_t find_read_part(const struct feed_reader *r, const struct spot *s,
                             const struct outlet_parts *all)
{
    for (size_t i = all->n; i-- > 0;) {
        AUTO_CLOSE int fd = open_file(r, s, all->parts[i]);

        if (name_of(fd) == s->place.file)
            return i;
    }
    return all->n;
}

static bool has_lines(const struct feed_reader *r, const struct spot *s, uint32_t part)
{
    AUTO_CLOSE int fd = open_file(r, s, part);

    return name_of(fd) != 0;
}

/* From the beginning of a file; false: it has no line yet. */
static bool enter_part(struct feed_reader *r, struct spot *s, uint32_t part)
{
    AUTO_CLOSE int fd = open_file(r, s, part);
    int64_t name = name_of(fd);

    if (!name)
        return false;
    s->place = (struct feed_place){ name, 0 };
    return read_lines(r, s, fd);
}

/* The reader is in a file that was put aside, or has no place. */
static bool fill_from_parts(struct feed_reader *r, struct spot *s)
{
    struct outlet_parts all;
    AUTO_CLOSE int fd = -1;
    bool was_last;
    size_t i;

    outlet_list_parts(r->control_, s->id, &all);
    if (!s->place.file && !take_place(r, s, &all))
        return false;
    if (r->lost_ || !all.n)
        return r->lost_;
    i = find_read_part(r, s, &all);
    if (i == all.n) {
        fd = open_file(r, s, all.parts[0]);
        r->lost_ = true;
        s->place = (struct feed_place){ name_of(fd), 0 };
        return true;
    }
    /* A line of the next file that is there before the end of this one is read: that is its last.
     */
    was_last = i + 1 == all.n || !has_lines(r, s, all.parts[i + 1]);
    fd = open_file(r, s, all.parts[i]);
    if (fd >= 0 && read_lines(r, s, fd))
        return true;
    return !was_last && enter_part(r, s, all.parts[i + 1]);
}

/* The next lines of a box, or that some are lost; false: there is nothing now. */
static bool fill(struct feed_reader *r, struct spot *s)
{
    AUTO_CLOSE int now = open_file(r, s, OUTLET_PART_NOW);

    r->n_ = r->at_ = 0;
    if (now >= 0 && s->place.file && s->place.file == name_of(now))
        return read_lines(r, s, now);
    return fill_from_parts(r, s);
}

/* Everything of it was read: of a box that is gone for good. */
static void rest_spot(struct feed_reader *r, struct spot *s)
{
    if (!s->ends && control_knows(r->control_, s->id))
        return;
    if (r->over)
        r->over(r, s->id, &s->place);
    free_spot(&s->entry, r);
}

/* The next piece of whichever box has waited longest; false: none has more. */
static bool next_piece(struct feed_reader *r)
{
    struct link *l = list_take(&r->waiting_);
    struct spot *s = l ? container_of(l, struct spot, link) : NULL;

    r->spot_ = s;
    if (!s)
        return false;
    if (!r->piece_ && !(r->piece_ = malloc(PIECE)))
        abort();
    if (fill(r, s)) {
        list_append(&r->waiting_, &s->link);
    } else {
        r->spot_ = NULL;
        r->n_ = r->at_ = 0;
        r->lost_ = false;
        rest_spot(r, s);
    }
    return true;
}

static bool is_wanted(const struct feed_reader *r, struct str line, struct feed_line *ret)
{
    struct spot *s = r->spot_;

    ret->time_ms = feed_line_time(line);
    if (ret->time_ms < 0 || (s->catching_up && ret->time_ms < r->from_ms))
        return false;
    s->catching_up = false;
    return feed_line_kind(line, &ret->kind) && r->kinds & 1u << ret->kind;
}

/* A line that a dead worker left half is no event. */
static bool take_line(struct feed_reader *r, struct str line, struct feed_line *ret)
{
    const struct json_limits limits = { .bytes = PIECE, .depth = DEPTH };

    if (!is_wanted(r, line, ret))
        return false;
    arena_done(&r->arena_);
    arena_init(&r->arena_, TREE_MAX);
    if (json_read(line, limits, &r->arena_, &ret->event, NULL) < 0)
        return false;
    ret->box = r->spot_->id;
    ret->end = r->spot_->place;
    return true;
}

static bool next_line(struct feed_reader *r, struct feed_line *ret)
{
    while (r->at_ < r->n_) {
        struct str rest = { r->piece_ + r->at_, r->n_ - r->at_ }, line;

        str_cut(rest, '\n', &line);
        r->at_ += line.n + 1;
        r->spot_->place.at += (int64_t)line.n + 1;
        if (take_line(r, line, ret))
            return true;
    }
    return false;
}

int feed_next(struct feed_reader *r, struct feed_line *ret)
{
    for (int i = 0; i < TURN && r->control_; i++) {
        if (r->lost_) {
            r->lost_ = false;
            *ret = (struct feed_line){ .box = r->spot_->id,
                                       .kind = FEED_LOST,
                                       .time_ms = clock_wall() / NS_PER_MS,
                                       .end = r->spot_->place };
            return 1;
        }
        if (next_line(r, ret))
            return 1;
        if (!next_piece(r))
            return 0;
    }
    if (r->control_)
        wake(r);
    return 0;
}

/* --- as others see it --- */

static void put(struct json_writer *w, struct str key, const char *value)
{
    json_key(w, key);
    json_put_lossy(w, str_from(value));
}

void feed_write(struct json_writer *w, const struct feed_line *l)
{
    const struct json *why = l->event ? json_get(l->event, STR("message")) : NULL;
    char time[TIME_TEXT];

    time_text(l->time_ms * NS_PER_MS, time);
    json_begin_object(w);
    put(w, STR("time"), time);
    put(w, STR("type"), feed_types[l->kind]);
    put(w, STR("sandbox_id"), l->box);
    put(w, STR("reason"),
        l->kind == FEED_LOST           ? "lines of the egress log expired before they were read"
        : why && why->type == JSON_STR ? why->s.p
                                       : "");
    json_key(w, STR("detail"));
    if (l->event) {
        json_put_tree(w, l->event);
    } else {
        json_begin_object(w);
        json_end_object(w);
    }
    json_end_object(w);
}
