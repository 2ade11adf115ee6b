/* Removes finished sandboxes and old events from the store, as the configuration's retention says:
 * in batches, every five minutes, and early when many events came. */
#ifndef CONTROL_PRUNE_H
#define CONTROL_PRUNE_H

#include <stdint.h>

struct control;

void prune_open(struct control *c);
void prune_close(struct control *c);

/* An event was recorded. */
void prune_seen(struct control *c, int64_t seq);

#endif
