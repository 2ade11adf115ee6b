/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sandbox/dial.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/own.h"
#include "control/sandbox/sandbox.h"

#define DIAL_TIMEOUT_NS (10 * NS_PER_S) /* for a listener that does not accept */

/* Releases everything but the socket. */
static void release_dial(struct dial_op *op)
{
    struct sandbox *s = take_ptr(op->sandbox);

    if (op->dial_.box)
        op->dial_.box->ops->dial_drop(&op->dial_);
    loop_fd_stop(&op->connecting_);
    loop_timer_stop(&op->late_);
    loop_later_stop(&op->later_);
    sandbox_detach(s);
    sandbox_unref(s);
}

static void fail_dial(struct dial_op *op, const struct err *e)
{
    drop_fd(&op->connecting_.fd);
    release_dial(op);
    op->done(op, -(int)e->code, e, -1);
}

static void request_dial(struct dial_op *op, int family)
{
    op->family_ = family;
    op->sandbox->ops->dial(op->sandbox->box, &op->dial_, op->port, family);
}

/* Servers listen on 127.0.0.1 or ::1, some on one of them only. */
static void retry_or_fail_dial(struct dial_op *op, int sys)
{
    struct err e;

    if (sys == ECONNREFUSED && op->family_ == 4 && op->sandbox->box) {
        loop_timer_stop(&op->late_);
        request_dial(op, 6);
        return;
    }
    (void)err_set(&e, ERR_UPSTREAM, "nothing listens on port %u of sandbox %s", op->port,
                  op->sandbox->record.id);
    fail_dial(op, &e);
}

static void on_dial_connected(struct loop_fd *f, unsigned events)
{
    struct dial_op *op = container_of(f, struct dial_op, connecting_);
    AUTO_CLOSE int fd = f->fd;
    int sys = 0;
    socklen_t n = sizeof sys;

    loop_fd_stop(f);
    f->fd = -1;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &sys, &n) < 0)
        sys = errno;
    if (sys) {
        retry_or_fail_dial(op, sys);
        return;
    }
    release_dial(op);
    op->done(op, 0, NULL, take_fd(&fd));
}

static void on_dial_timeout(struct loop_timer *t)
{
    struct dial_op *op = container_of(t, struct dial_op, late_);
    struct err e;

    loop_fd_stop(&op->connecting_);
    (void)err_set(&e, ERR_TIMEOUT, "port %u of sandbox %s does not accept connections", op->port,
                  op->sandbox->record.id);
    fail_dial(op, &e);
}

static void on_backend_dialled(struct backend_dial *d, int r, const struct err *e, int fd)
{
    struct dial_op *op = container_of(d, struct dial_op, dial_);
    struct loop *l = op->sandbox->control->loop;
    struct err why;

    if (r < 0 && e->sys && e->code != ERR_UNSUPPORTED)
        retry_or_fail_dial(op, e->sys);
    else if (r < 0)
        fail_dial(op, e);
    else if (loop_fd_start(l, &op->connecting_, fd, LOOP_WRITE, on_dial_connected, &why) < 0) {
        op->connecting_.fd = fd;
        fail_dial(op, &why);
    } else {
        loop_timer_start(l, &op->late_, clock_mono() + DIAL_TIMEOUT_NS, on_dial_timeout, NULL);
    }
}

static void on_dial_unusable(struct loop_later *l)
{
    struct dial_op *op = container_of(l, struct dial_op, later_);

    fail_dial(op, &op->err_);
}

void sandbox_dial(struct sandbox *s, struct dial_op *op)
{
    int r = sandbox_check_usable(s, BACKEND_CAN_DIAL, &op->err_);

    op->sandbox = sandbox_ref(s);
    op->dial_ = (struct backend_dial){ .done = on_backend_dialled };
    op->connecting_ = (struct loop_fd){ .fd = -1 };
    sandbox_attach(s);
    if (r < 0)
        loop_later(s->control->loop, &op->later_, on_dial_unusable, NULL);
    else
        request_dial(op, 4);
}

void dial_op_cancel(struct dial_op *op)
{
    if (!op->sandbox)
        return;
    loop_fd_stop(&op->connecting_);
    drop_fd(&op->connecting_.fd);
    release_dial(op);
}
