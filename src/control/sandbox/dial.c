#include "control/dial.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/own.h"
#include "control/sandbox.h"

#define PATIENCE_NS (10 * NS_PER_S) /* with a listener that does not take what it is offered */

/* Lets go of everything but the socket. */
static void leave(struct dial_op *op)
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

static void fail(struct dial_op *op, const struct err *e)
{
    drop_fd(&op->connecting_.fd);
    leave(op);
    op->done(op, -(int)e->code, e, -1);
}

static void ask(struct dial_op *op, int family)
{
    op->family_ = family;
    op->sandbox->ops->dial(op->sandbox->box, &op->dial_, op->port, family);
}

/* Servers listen on 127.0.0.1 or ::1, and some on one of them only. */
static void refused(struct dial_op *op, int sys)
{
    struct err e;

    if (sys == ECONNREFUSED && op->family_ == 4 && op->sandbox->box) {
        loop_timer_stop(&op->late_);
        ask(op, 6);
        return;
    }
    (void)err_set(&e, ERR_UPSTREAM, "nothing listens on port %u of sandbox %s", op->port,
                  op->sandbox->record.id);
    fail(op, &e);
}

static void on_connected(struct loop_fd *f, unsigned events)
{
    struct dial_op *op = container_of(f, struct dial_op, connecting_);
    AUTO_CLOSE int fd = f->fd;
    int sys = 0;
    socklen_t n = sizeof sys;

    (void)events;
    loop_fd_stop(f);
    f->fd = -1;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &sys, &n) < 0)
        sys = errno;
    if (sys) {
        refused(op, sys);
        return;
    }
    leave(op);
    op->done(op, 0, NULL, take_fd(&fd));
}

static void on_late(struct loop_timer *t)
{
    struct dial_op *op = container_of(t, struct dial_op, late_);
    struct err e;

    loop_fd_stop(&op->connecting_);
    (void)err_set(&e, ERR_TIMEOUT, "port %u of sandbox %s does not accept connections", op->port,
                  op->sandbox->record.id);
    fail(op, &e);
}

static void on_dialled(struct ext_dial *d, int r, const struct err *e, int fd)
{
    struct dial_op *op = container_of(d, struct dial_op, dial_);
    struct loop *l = op->sandbox->control->loop;
    struct err why;

    if (r < 0 && e->sys)
        refused(op, e->sys);
    else if (r < 0)
        fail(op, e);
    else if (loop_fd_start(l, &op->connecting_, fd, LOOP_WRITE, on_connected, &why) < 0) {
        op->connecting_.fd = fd;
        fail(op, &why);
    } else {
        loop_timer_start(l, &op->late_, clock_mono() + PATIENCE_NS, on_late, NULL);
    }
}

static void unusable(struct loop_later *l)
{
    struct dial_op *op = container_of(l, struct dial_op, later_);

    fail(op, &op->err_);
}

void sandbox_dial(struct sandbox *s, struct dial_op *op)
{
    int r = sandbox_check_usable(s, EXT_CAN_DIAL, &op->err_);

    op->sandbox = sandbox_ref(s);
    op->dial_ = (struct ext_dial){ .done = on_dialled };
    op->connecting_ = (struct loop_fd){ .fd = -1 };
    sandbox_attach(s);
    if (r < 0)
        loop_later(s->control->loop, &op->later_, unusable, NULL);
    else
        ask(op, 4);
}

void dial_op_cancel(struct dial_op *op)
{
    if (!op->sandbox)
        return;
    loop_fd_stop(&op->connecting_);
    drop_fd(&op->connecting_.fd);
    leave(op);
}
