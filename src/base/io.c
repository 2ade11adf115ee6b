/* SPDX-License-Identifier: Apache-2.0 */
#include "base/io.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <unistd.h>

enum { PIECE = 16 << 10 };

int buf_read_fd(struct buf *b, int fd, struct err *e)
{
    for (;;) {
        size_t left = b->max - b->n, room = left < PIECE ? left : PIECE;
        char beyond, *to = &beyond; /* at the ceiling: room for the byte that would pass it */
        ssize_t n;

        if (room > 0 && buf_room(b, room, &to) < 0)
            return err_set(e, ERR_TOO_BIG, "longer than %zu bytes", b->max);
        n = read(fd, to, room > 0 ? room : 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, "reading");
        if (n == 0)
            return 0;
        if (room == 0)
            return err_set(e, ERR_TOO_BIG, "longer than %zu bytes", b->max);
        buf_grew(b, (size_t)n);
    }
}

ssize_t pread_full(int fd, void *to, size_t n, off_t at)
{
    size_t have = 0;

    while (have < n) {
        ssize_t got = pread(fd, (char *)to + have, n - have, at + (off_t)have);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    return (ssize_t)have;
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
