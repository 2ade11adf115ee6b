#include "cli/write.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

/* Whoever started us may have made its descriptors non-blocking. */
static bool wait_for_room(int fd)
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
        else if (errno != EINTR && !(errno == EAGAIN && wait_for_room(fd)))
            return err_sys(e, "writing");
    }
    return 0;
}
