/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a lease (lease.h) and the connection that it allows: tries the decision's addresses in
 * their order, directly or through the configured upstream proxy, each for at most EGRESS_DIAL_NS.
 * Checks before every attempt that the decision is current, and afterwards that the kernel
 * connected to that address. */
#ifndef ENGINE_EGRESS_DIAL_H
#define ENGINE_EGRESS_DIAL_H

#include "engine/egress/lease.h"

struct dial;
typedef void dial_fn(struct dial *d, int fd, const struct err *e); /* fd < 0: *e has the reason */

struct dial { /* embedded in its owner, zeroed before use */
    struct egress_box *box;
    struct lease *lease;
    size_t at; /* index of the address; finally of the one that answered */

    dial_fn *done_;
    int fd_;
    struct loop_fd socket_;
    struct loop_timer timer_;
    struct loop_later later_;
    struct err why_;
    int step_; /* of the handshake with an upstream proxy */
    size_t n_;
    char talk_[2048];
};

/* The lease must live until done, which is called once, from the loop. The callee then owns the
 * descriptor (non-blocking, TCP_NODELAY) and must close the lease. If the lease is not open then,
 * it was refused: its decision has the reason. */
void dial_start(struct dial *d, struct lease *l, dial_fn *done);
void dial_cancel(struct dial *d);

#endif
