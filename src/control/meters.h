/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of the control plane: sandboxes, events, creations, the pool. */
#ifndef CONTROL_METERS_H
#define CONTROL_METERS_H

#include "domain/model/record.h"
#include "lib/metrics/metrics.h"

struct control;

struct meters {
    struct control *plane;
    struct metrics registry; /* of the whole daemon: other modules register here, too */
    struct metric_set control, process;
};

int meters_open(struct control *c, struct err *e);
void meters_close(struct control *c);
void meters_on_event(struct control *c, const struct event_record *v); /* a recorded event */

#endif
