/* SPDX-License-Identifier: Apache-2.0 */
#include "base/io.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <unistd.h>

enum { PIECE = 16 << 10 };

int buf_read_fd(struct buf *b, int fd, struct err *e)
{
    char piece[PIECE];
    ssize_t n;

    do {
        n = read(fd, piece, sizeof piece);
        if (n < 0 && errno != EINTR)
            return err_sys(e, "reading");
        if (n > 0 && buf_add(b, (struct str){ piece, (size_t)n }) < 0)
            return err_set(e, ERR_TOO_BIG, "longer than %zu bytes", b->max);
    } while (n != 0);
    return 0;
}

static bool await_room(int fd)
{
    struct pollfd out = { .fd = fd, .events = POLLOUT };

    return poll(&out, 1, -1) >= 0 || errno == EINTR;
}

int write_all(int fd, struct str s, struct err *e)
{
    while (s.n) {
        ssize_t n = write(fd, s.p, s.n);

        if (n >= 0)
            s = (struct str){ s.p + n, s.n - (size_t)n };
        else if (errno != EINTR && !(errno == EAGAIN && await_room(fd)))
            return err_sys(e, "writing");
    }
    return 0;
}
