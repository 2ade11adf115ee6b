/* Bytes on their way into a socket. Holds memory only while there are some. */
#ifndef EGRESS_RELAYS_QUEUE_H
#define EGRESS_RELAYS_QUEUE_H

#include "base/buf.h"

struct queue {
    struct buf bytes; /* may be added to as long as queue_send() is not running */
    size_t sent_;
};

void queue_init(struct queue *q, size_t max);
void queue_done(struct queue *q); /* forgets what is left; can be used again */
size_t queue_left(const struct queue *q);

/* Sends as much as the socket takes: how many bytes, or -ERR_UPSTREAM if the peer is gone. */
int64_t queue_send(struct queue *q, int fd);

#endif
