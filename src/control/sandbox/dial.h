/* Connections to the ports of a sandbox.
 *
 * They are made inside, by its own PID 1, so that nothing of the host's network has part in them:
 * what can be reached is what a program of the sandbox can reach on its loopback. */
#ifndef CONTROL_DIAL_H
#define CONTROL_DIAL_H

#include "control/control.h"
#include "loop/fd.h"

struct dial_op {
    uint16_t port;
    /* fd: a connection that does not block, the receiver's; -1 if r < 0. -ERR_UPSTREAM: nobody
     * listens there. */
    void (*done)(struct dial_op *op, int r, const struct err *e, int fd);
    struct sandbox *sandbox; /* referenced while it is under way */
    /* private */
    int family_;
    struct ext_dial dial_;
    struct loop_fd connecting_;
    struct loop_timer late_;
    struct loop_later later_;
    struct err err_;
};
void sandbox_dial(struct sandbox *s, struct dial_op *op);
void dial_op_cancel(struct dial_op *op); /* nothing is told any more */

#endif
