/* SPDX-License-Identifier: Apache-2.0 */
/* A queue of bytes to be sent to a socket. Holds memory only while it is not empty. */
#ifndef ENGINE_EGRESS_RELAYS_QUEUE_H
#define ENGINE_EGRESS_RELAYS_QUEUE_H

#include "base/buf.h"

struct queue {
    struct buf bytes; /* BUF_INIT(); append to it, except during queue_send() */
    size_t sent_;
};

void queue_done(struct queue *q); /* drops the rest; can be used again */
size_t queue_left(const struct queue *q);

/* Sends as much as the socket takes. Returns the number of bytes, or -ERR_UPSTREAM if the peer has
 * closed. */
int64_t queue_send(struct queue *q, int fd);

#endif
