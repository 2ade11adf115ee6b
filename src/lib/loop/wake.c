/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/loop/wake.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/own.h"

static void on_eventfd_readable(struct loop_fd *fd, unsigned events)
{
    struct loop_wake *s = container_of(fd, struct loop_wake, fd_);
    uint64_t posts;

    if (read(fd->fd, &posts, sizeof posts) == (ssize_t)sizeof posts)
        s->call_(s);
}

int loop_wake_start(struct loop *l, struct loop_wake *s, loop_wake_fn *call, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    int r;

    if (s->fd_.on_)
        return err_set(e, ERR_CONFLICT, "the wake-up is already started");
    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return err_sys(e, "making a descriptor for wake-ups");
    r = loop_fd_start(l, &s->fd_, fd, LOOP_READ, on_eventfd_readable, e);
    if (r < 0)
        return r;
    s->loop = l;
    s->call_ = call;
    take_fd(&fd);
    return 0;
}

void loop_wake_post(struct loop_wake *s)
{
    const uint64_t one = 1;
    int saved = errno;

    /* Fails only if the counter is full, and then the loop has been woken already. */
    if (write(s->fd_.fd, &one, sizeof one) < 0)
        errno = saved;
}

void loop_wake_stop(struct loop_wake *s)
{
    if (!s->fd_.on_)
        return;
    loop_fd_stop(&s->fd_);
    drop_fd(&s->fd_.fd);
}
