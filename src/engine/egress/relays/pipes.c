/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/relays/pipes.h"

#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

#include "base/own.h"

static struct {
    struct pipe_ends kept[PIPES_KEPT];
    size_t n;
    size_t large; /* number of large pipes, in use or kept */
} pool;           /* without locks: a process has one loop, its only user */

bool pipes_take(struct pipe_ends *ret)
{
    struct pipe_ends made;
    int fd[2];

    if (pool.n > 0) {
        *ret = pool.kept[--pool.n];
        return true;
    }
    if (pipe2(fd, O_CLOEXEC | O_NONBLOCK) < 0)
        return false;
    made = (struct pipe_ends){ .read = fd[0], .write = fd[1] };
    /* Fails beyond the user's limit; a smaller pipe works as well. */
    made.large = pool.large < PIPES_LARGE && fcntl(fd[1], F_SETPIPE_SZ, PIPE_BYTES) >= 0;
    pool.large += made.large;
    *ret = made;
    return true;
}

void pipes_give(struct pipe_ends *p, bool empty)
{
    if (empty && pool.n < PIPES_KEPT) {
        pool.kept[pool.n++] = *p;
    } else {
        close(p->read);
        close(p->write);
        pool.large -= p->large;
    }
    *p = PIPE_NONE;
}
