/* What egress workers decide, for whoever wants to hear of it while it happens.
 *
 * The audit files of outlets are the queue: a reader has a place in each file that it may see and
 * goes on from there when it has time. So a slow one holds up nobody, nothing grows, no worker does
 * more for it, and without readers nothing is looked at. A file that has expired before a reader
 * got to it is lost to that reader, which is told so (FEED_LOST).
 *
 * A place is the file (the time of its first line tells it from the next) and a byte in it. */
#ifndef CONTROL_FEED_H
#define CONTROL_FEED_H

#include "base/arena.h"
#include "base/id.h"
#include "control/index.h"
#include "json/writer.h"
#include "loop/list.h"
#include "loop/loop.h"
#include "loop/timer.h"

struct control;
struct outlet;

struct feed_place {
    int64_t file; /* 0: none yet */
    int64_t at;
};

enum feed_kind { FEED_DENIED, FEED_ALLOWED, FEED_CLOSED, FEED_LOST, FEED_KINDS_ };
extern const char *const feed_types[FEED_KINDS_]; /* "egress.denied", … */

struct feed_line {
    const char *box;
    enum feed_kind kind;
    int64_t time_ms;
    const struct json *event; /* OCSF; NULL of FEED_LOST */
    struct feed_place end;    /* behind it */
};

/* A member of its owner. */
struct feed_reader {
    /* in */
    unsigned kinds;  /* 1u << FEED_…; lost ones are always told */
    int64_t from_ms; /* of boxes in which it has no place yet: nothing older. 0: from now on */
    bool resumes;    /* from_ms is where somebody was before: what is not there any more is lost */
    bool (*sees)(struct feed_reader *r, const char *box); /* asked until it says yes */
    /* Where to begin in a box; false: by from_ms. May be NULL. */
    bool (*begins)(struct feed_reader *r, const char *box, struct feed_place *ret);
    void (*more)(struct feed_reader *r); /* from the loop: feed_next() may have something */
    /* The last line of a box that is gone was read, or passed over. May be NULL. */
    void (*over)(struct feed_reader *r, const char *box, const struct feed_place *at);
    /* private */
    struct control *control_;
    struct link link_;
    struct index spots_;
    struct list waiting_; /* spots whose file has more */
    struct spot *spot_;   /* whose piece this is */
    char *piece_;
    size_t n_, at_;
    bool lost_;
    struct arena arena_; /* of the last line */
    struct loop_later later_;
};

/* Of the control plane. */
struct feed {
    struct list readers;
    struct loop_timer tick;
};

void feed_begin(struct control *c, struct feed_reader *r);
void feed_end(struct feed_reader *r); /* idempotent; harmless on a zeroed one */
/* Looks into a box's file now, also if it has ended. */
void feed_look(struct feed_reader *r, const char *box);
/* 1: a line, borrowed until the next call. 0: there is none now. */
int feed_next(struct feed_reader *r, struct feed_line *ret);

/* {"time":"…","type":"egress.denied","sandbox_id":"sbx_…","reason":"…","detail":{OCSF}} */
void feed_write(struct json_writer *w, const struct feed_line *l);

/* For outlets: it ends, and has written its last line. */
void feed_outlet_ends(struct outlet *o);

#endif
