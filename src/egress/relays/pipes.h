/* Pipes that bulk is spliced through, shared by all relays of the process: a tunnel has one per
 * direction only while it holds bytes. */
#ifndef EGRESS_RELAYS_PIPES_H
#define EGRESS_RELAYS_PIPES_H

#include <stdbool.h>

enum { PIPES_KEPT = 32, PIPE_BYTES = 256 << 10 };

struct pipe_ends {
    int read, write;
};

/* False: there are no descriptors for one. */
bool pipes_take(struct pipe_ends *ret);
/* Only one that is empty is used again. */
void pipes_give(struct pipe_ends *p, bool empty);

#endif
