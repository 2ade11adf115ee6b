#include "egress/relays/pipes.h"

#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

#include "base/own.h"

static struct {
    struct pipe_ends kept[PIPES_KEPT];
    size_t n;
} pool; /* a process has one loop, and only that uses it */

bool pipes_take(struct pipe_ends *ret)
{
    int fd[2];

    if (pool.n > 0) {
        *ret = pool.kept[--pool.n];
        return true;
    }
    if (pipe2(fd, O_CLOEXEC | O_NONBLOCK) < 0)
        return false;
    /* Fails beyond what a user may have of it; a smaller one works as well. */
    (void)fcntl(fd[1], F_SETPIPE_SZ, PIPE_BYTES);
    *ret = (struct pipe_ends){ fd[0], fd[1] };
    return true;
}

void pipes_give(struct pipe_ends *p, bool empty)
{
    if (empty && pool.n < PIPES_KEPT) {
        pool.kept[pool.n++] = *p;
    } else {
        close(p->read);
        close(p->write);
    }
    *p = (struct pipe_ends){ -1, -1 };
}
