/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/loop/child.h"

#include <sys/wait.h>

#include "base/own.h"

static void on_pidfd_readable(struct loop_fd *fd, unsigned events)
{
    struct loop_child *s = container_of(fd, struct loop_child, fd_);
    siginfo_t info = { 0 };
    int r = waitid(P_PIDFD, (id_t)fd->fd, &info, WEXITED | WNOHANG);

    if (r == 0 && info.si_pid == 0)
        return; /* a debugger sees it first */
    if (r < 0)
        info = (siginfo_t){ 0 };
    loop_fd_stop(fd);
    s->call_(s, &info);
}

int loop_child_start(struct loop *l, struct loop_child *s, int pidfd, loop_child_fn *call,
                     struct err *e)
{
    int r = loop_fd_start(l, &s->fd_, pidfd, LOOP_READ, on_pidfd_readable, e);

    if (r < 0)
        return err_wrap(e, r, "waiting for a child");
    s->loop = l;
    s->call_ = call;
    return 0;
}

void loop_child_stop(struct loop_child *s)
{
    loop_fd_stop(&s->fd_);
}
