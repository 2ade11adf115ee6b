/* What the control plane counts: sandboxes, events, creations, the pool. */
#ifndef CONTROL_METERS_H
#define CONTROL_METERS_H

#include "model/record.h"
#include "telemetry/metrics.h"

struct control;

struct meters {
    struct metrics registry; /* of the whole daemon: other modules add theirs */
    struct metric_set control, process;
};

int meters_open(struct control *c, struct err *e);
void meters_close(struct control *c);
void meters_event(struct control *c, const struct event_record *v); /* it is on disk */

#endif
