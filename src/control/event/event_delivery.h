/* SPDX-License-Identifier: Apache-2.0 */
/* Delivers events to the hub: CloudEvents 1.0 in JSON, one per POST, in order per sandbox, with
 * retries until they are accepted.
 *
 * Undelivered events stay in the store, so nothing is lost while the hub is down or after a crash;
 * an event may be delivered twice (with the same id). A lane is one sandbox with undelivered
 * events: lanes do not wait for each other, and a few of them are busy at a time. A lane that fails
 * backs off exponentially, and when an unreachable hub answers again, all lanes retry at once. Each
 * event without a sandbox has a lane of its own.
 *
 * Denials of egress are not in the store: the position that the hub has accepted is noted beside a
 * sandbox's audit file, and denials are delivered as long as the file is kept. */
#ifndef CONTROL_EVENT_EVENT_DELIVERY_H
#define CONTROL_EVENT_EVENT_DELIVERY_H

#include "base/err.h"

struct control;

enum {
    EVENT_DELIVERY_BUSY_MAX = 8, /* lanes with a request at the same time */
    /* In memory; the rest is found again when one of them is done. */
    EVENT_DELIVERY_LANES_MAX = 4096,
    EVENT_DELIVERY_PAGE = 32, /* events of a lane in memory */
};

/* Starts the delivery if the configuration names a hub: before the first event is recorded. */
int event_delivery_open(struct control *c, struct err *e);
/* Delivers egress denials, too, if the configuration says so: after egress links are open. */
void event_delivery_open_egress(struct control *c);
void event_delivery_reload(struct control *c); /* the headers; the old ones stay if loading fails */
void event_delivery_close(struct control *c);  /* idempotent */

#endif
