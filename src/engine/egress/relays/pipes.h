/* Pipes that bulk is spliced through, shared by all relays of the process: a tunnel has one per
 * direction only while it holds bytes. */
#ifndef EGRESS_RELAYS_PIPES_H
#define EGRESS_RELAYS_PIPES_H

#include <stdbool.h>

/* A user may have so much of pipes (64 MB, mostly), and below ours there may be others' programs: a
 * few are large, which halves what bulk costs, the rest as the kernel makes them. */
enum { PIPES_KEPT = 16, PIPES_LARGE = 16, PIPE_BYTES = 1 << 20 };

struct pipe_ends {
    int read, write;
    bool large;
};
#define PIPE_NONE ((struct pipe_ends){ .read = -1, .write = -1 })

/* False: there are no descriptors for one. */
bool pipes_take(struct pipe_ends *ret);
/* Only one that is empty is used again. */
void pipes_give(struct pipe_ends *p, bool empty);

#endif
