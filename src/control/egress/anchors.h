/* SPDX-License-Identifier: Apache-2.0 */
/* Anchors egress logs in the daemon's chain (domain/store/ledger.h): the last line of each log, as
 * its worker reported it, becomes part of an event, and of the sandbox's egress head. So a log that
 * is truncated, replaced or removed is detected.
 *
 * Anchors are recorded some time after lines were written (one transaction for many sandboxes; no
 * request waits for it), soon after a policy was changed, and with the event of a sandbox's end. */
#ifndef CONTROL_EGRESS_ANCHORS_H
#define CONTROL_EGRESS_ANCHORS_H

#include "lib/loop/list.h"
#include "lib/loop/timer.h"
#include "domain/model/record.h"

struct control;
struct egress_link;

/* Of the control plane. */
struct anchors {
    struct control *control;
    struct loop_timer tick;
    int64_t due;        /* CLOCK_MONOTONIC */
    struct list closed; /* last lines of freed egress links */
    size_t n_closed;
};

void anchors_open(struct control *c);
void anchors_close(struct control *c);
/* Within a second. */
void anchors_schedule_soon(struct control *c);
/* An egress link ends: its last line is anchored with the next transaction. */
void anchors_note(const struct egress_link *o);

/* The detail of an event: {"egress_audit":[…]}. It must fit. */
void anchors_write(const struct egress_head_record *lines, size_t n, char *ret, size_t cap);

#endif
