/* Opens a lease (lease.h) and the connection that it allows, and nothing else: the decision's
 * addresses in their order, directly or through the configured upstream proxy, each for at most
 * EGRESS_DIAL_NS. Checks that the decision is current before every attempt and that the kernel did
 * connect there. */
#ifndef EGRESS_DIAL_H
#define EGRESS_DIAL_H

#include "egress/lease.h"

struct dial;
typedef void dial_fn(struct dial *d, int fd, const struct err *e); /* fd < 0: why */

struct dial { /* embedded, zeroed before */
    struct egress_box *box;
    struct lease *lease;
    size_t at; /* of its addresses; afterwards: the one that answered */

    dial_fn *done_;
    int fd_;
    struct loop_fd socket_;
    struct loop_timer timer_;
    struct loop_later later_;
    struct err why_;
    int step_; /* of the talk with an upstream proxy */
    size_t n_;
    char talk_[2048];
};

/* The lease stays alive until done. done fires once, from the loop; the descriptor (non-blocking,
 * TCP_NODELAY) is then the callee's, and so is the lease's end. A lease that is not open then could
 * not be: its decision has the reason. */
void dial_start(struct dial *d, struct lease *l, dial_fn *done);
void dial_cancel(struct dial *d);

#endif
