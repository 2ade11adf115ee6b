/* Removes finished sandboxes and old events from the store, as the configuration's retention says.
 */
#ifndef CONTROL_PRUNE_H
#define CONTROL_PRUNE_H

struct control;

void prune_open(struct control *c);
void prune_close(struct control *c);

#endif
