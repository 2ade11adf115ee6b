/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to the ports of a sandbox.
 *
 * The sandbox's PID 1 makes them inside the sandbox, so the host's network is not involved: a port
 * is reachable if a program of the sandbox can reach it on its loopback. */
#ifndef CONTROL_SANDBOX_DIAL_H
#define CONTROL_SANDBOX_DIAL_H

#include "control/control.h"
#include "lib/loop/fd.h"

struct dial_op {
    uint16_t port;
    /* fd: a non-blocking connection that the callee owns; -1 if r < 0. -ERR_UPSTREAM: no listener
     * on the port. */
    void (*done)(struct dial_op *op, int r, const struct err *e, int fd);
    struct sandbox *sandbox; /* referenced while it is under way */
    /* private */
    int family_;
    struct backend_dial dial_;
    struct loop_fd connecting_;
    struct loop_timer late_;
    struct loop_later later_;
    struct err err_;
};
void sandbox_dial(struct sandbox *s, struct dial_op *op);
void dial_op_cancel(struct dial_op *op); /* done is not called */

#endif
