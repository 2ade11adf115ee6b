/* Events to the hub: CloudEvents 1.0 in JSON, POSTed one by one, in order per sandbox, until taken.
 *
 * What the hub has not taken yet waits in the store, so nothing is lost by a hub that is down or by
 * our own end; an event may come twice (its id is the same). A lane is one sandbox with events that
 * wait: lanes do not wait for each other, and a few of them are busy at a time. A lane that fails
 * rests, longer each time, and when a hub that could not be reached answers again, all of them go
 * on at once. Events that concern no sandbox each have a lane of their own.
 *
 * Denials of egress are no events of the store: what of a sandbox's audit file the hub has taken is
 * noted beside that file, and they come as long as the file is kept. */
#ifndef CONTROL_OUTBOX_H
#define CONTROL_OUTBOX_H

#include "base/err.h"

struct control;

enum {
    OUTBOX_BUSY_MAX = 8,     /* lanes that talk to the hub at the same time */
    OUTBOX_LANES_MAX = 4096, /* in memory; the rest is found again when one of them is done */
    OUTBOX_PAGE = 32,        /* events of a lane in memory */
};

/* Starts if the configuration names a hub: before anything happens that it is to be told. */
int outbox_open(struct control *c, struct err *e);
/* Tells the hub of egress denials too, if the configuration says so: when there are outlets. */
void outbox_open_egress(struct control *c);
void outbox_reload(struct control *c); /* the headers; the old ones stay if that fails */
void outbox_close(struct control *c);  /* idempotent */

#endif
