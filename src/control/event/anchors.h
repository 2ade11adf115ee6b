/* Egress logs are anchored in the daemon's chain (store/ledger.h): the last line of each, as its
 * worker told it, becomes part of an event, and of the sandbox's egress head. So a log whose end is
 * cut off, or that is replaced or removed, is found.
 *
 * Some time after lines were written: one transaction for many sandboxes, no request waits for it.
 * A little later after a policy was changed. With the event of a sandbox's end, at that. */
#ifndef CONTROL_ANCHORS_H
#define CONTROL_ANCHORS_H

#include "loop/list.h"
#include "loop/timer.h"
#include "model/record.h"

struct control;
struct outlet;

/* Of the control plane. */
struct anchors {
    struct loop_timer tick;
    int64_t due;        /* CLOCK_MONOTONIC */
    struct list closed; /* lines of outlets that are gone */
    size_t n_closed;
};

void anchors_open(struct control *c);
void anchors_close(struct control *c);
/* Within a second. */
void anchors_soon(struct control *c);
/* An outlet ends: its last line is anchored with the next ones. */
void anchors_note(const struct outlet *o);
/* Whether a sandbox of that id is on record, so that its egress head can be. */
bool anchors_may_hold(struct control *c, const char *box);

/* The detail of an event: {"egress_audit":[…]}. It must fit. */
void anchors_write(const struct egress_head_record *lines, size_t n, char *ret, size_t cap);

#endif
