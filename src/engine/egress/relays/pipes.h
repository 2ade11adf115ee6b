/* SPDX-License-Identifier: Apache-2.0 */
/* Pipes for splicing bulk data, shared by all relays of the process: a direction of a tunnel has
 * one only while it contains bytes. */
#ifndef ENGINE_EGRESS_RELAYS_PIPES_H
#define ENGINE_EGRESS_RELAYS_PIPES_H

#include <stdbool.h>

/* The kernel limits the pipe memory of a user (usually to 64 MB), which programs of the same user
 * share: so only a few pipes are large, which halves the cost of bulk data, and the others have the
 * default size. */
enum { PIPES_KEPT = 16, PIPES_LARGE = 16, PIPE_BYTES = 1 << 20 };

struct pipe_ends {
    int read, write;
    bool large;
};
#define PIPE_NONE ((struct pipe_ends){ .read = -1, .write = -1 })

/* Returns false if no descriptors are left. */
bool pipes_take(struct pipe_ends *ret);
/* Only an empty pipe is used again. */
void pipes_give(struct pipe_ends *p, bool empty);

#endif
