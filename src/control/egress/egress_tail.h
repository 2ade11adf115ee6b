/* SPDX-License-Identifier: Apache-2.0 */
/* A tail of the audit files of egress links: the decisions of egress workers, as they happen.
 *
 * The audit files are the queue: a reader has a position in each file that it may see and continues
 * from there when it has time. So a slow reader delays no other, nothing grows, workers do no extra
 * work, and without readers no file is read. If a file expires before a reader has read it, the
 * reader gets EGRESS_TAIL_LOST.
 *
 * A position is the file (identified by the time of its first line) and a byte offset in it. */
#ifndef CONTROL_EGRESS_EGRESS_TAIL_H
#define CONTROL_EGRESS_EGRESS_TAIL_H

#include "base/arena.h"
#include "base/id.h"
#include "lib/map/map.h"
#include "lib/json/writer.h"
#include "lib/loop/list.h"
#include "lib/loop/loop.h"
#include "lib/loop/timer.h"

struct control;
struct egress_link;

struct egress_tail_place {
    int64_t file; /* 0: none yet */
    int64_t at;
};

enum egress_tail_kind {
    EGRESS_TAIL_DENIED,
    EGRESS_TAIL_ALLOWED,
    EGRESS_TAIL_CLOSED,
    EGRESS_TAIL_LOST,
    EGRESS_TAIL_KINDS_
};
extern const char *const egress_tail_types[EGRESS_TAIL_KINDS_]; /* "egress.denied", … */

struct egress_tail_line {
    const char *box;
    enum egress_tail_kind kind;
    int64_t time_ms;
    const struct json *event;     /* OCSF; NULL for EGRESS_TAIL_LOST */
    struct egress_tail_place end; /* position after the line */
};

/* Embedded in its owner. */
struct egress_tail_reader {
    /* in */
    unsigned kinds;  /* 1u << EGRESS_TAIL_…; lost lines are always reported */
    int64_t from_ms; /* for boxes without a position: skips older lines. 0: from now on */
    bool resumes;    /* from_ms is where an earlier reader stopped: report expired lines as lost */
    /* Whether it may read the box's file; asked until it returns true. */
    bool (*sees)(struct egress_tail_reader *r, const char *box);
    /* The start position in a box; false: by from_ms. May be NULL. */
    bool (*begins)(struct egress_tail_reader *r, const char *box, struct egress_tail_place *ret);
    /* From the loop: egress_tail_next() may have a line. */
    void (*more)(struct egress_tail_reader *r);
    /* The last line of an ended box was read or skipped. May be NULL. */
    void (*finished)(struct egress_tail_reader *r, const char *box,
                     const struct egress_tail_place *at);
    /* private */
    struct control *control_;
    struct link link_;
    struct map cursors_;
    struct list waiting_;               /* cursors whose file has unread lines */
    struct egress_tail_cursor *cursor_; /* of the current piece */
    char *piece_;
    size_t n_, at_;
    bool lost_;
    struct arena arena_; /* of the last line */
    struct loop_later later_;
};

/* Of the control plane. */
struct egress_tail {
    struct control *control;
    struct list readers;
    struct loop_timer tick;
};

void egress_tail_begin(struct control *c, struct egress_tail_reader *r);
void egress_tail_end(struct egress_tail_reader *r); /* idempotent; harmless on a zeroed one */
/* Reads a box's file now, also after its end. */
void egress_tail_scan(struct egress_tail_reader *r, const char *box);
/* 1: a line, borrowed until the next call. 0: none now. */
int egress_tail_next(struct egress_tail_reader *r, struct egress_tail_line *ret);

/* {"time":"…","type":"egress.denied","sandbox_id":"sbx_…","reason":"…","detail":{OCSF}} */
void egress_tail_write(struct json_writer *w, const struct egress_tail_line *l);

/* Called by an egress link that ends and has written its last line. */
void egress_tail_link_ended(struct egress_link *o);

#endif
