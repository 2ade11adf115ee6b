/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/relays/queue.h"

#include <errno.h>
#include <sys/socket.h>

void queue_done(struct queue *q)
{
    buf_done(&q->bytes);
    q->sent_ = 0;
}

size_t queue_left(const struct queue *q)
{
    return q->bytes.n - q->sent_;
}

int64_t queue_send(struct queue *q, int fd)
{
    int64_t all = 0;

    while (queue_left(q) > 0) {
        ssize_t n = send(fd, q->bytes.p + q->sent_, queue_left(q), MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == ENOBUFS))
            return all;
        if (n < 0)
            return -(int64_t)ERR_UPSTREAM;
        q->sent_ += (size_t)n;
        all += n;
    }
    queue_done(q);
    return all;
}
