/* SPDX-License-Identifier: Apache-2.0 */
/* Removes destroyed sandboxes and old events from the store after their retention time: in batches,
 * every five minutes, and earlier after many events. */
#ifndef CONTROL_PRUNE_H
#define CONTROL_PRUNE_H

#include <stdint.h>

struct control;

void prune_open(struct control *c);
void prune_close(struct control *c);

/* An event was recorded. */
void prune_on_event(struct control *c, int64_t seq);

#endif
