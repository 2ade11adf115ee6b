/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/tar/sink.h"

#include <string.h>

#include "base/io.h"

void tar_sink_init(struct tar_sink *s, int fd)
{
    s->fd = fd;
    s->n = 0;
}

int tar_sink_flush(struct tar_sink *s, struct err *e)
{
    size_t n = s->n;

    s->n = 0;
    return write_all(s->fd, (struct str){ s->bytes, n }, e);
}

int tar_sink_room(struct tar_sink *s, char **ret, size_t *ret_n, struct err *e)
{
    int r = s->n == sizeof s->bytes ? tar_sink_flush(s, e) : 0;

    *ret = s->bytes + s->n;
    *ret_n = sizeof s->bytes - s->n;
    return r;
}

int tar_sink_write(struct tar_sink *s, struct str bytes, struct err *e)
{
    while (bytes.n > 0) {
        size_t room, step;
        char *to;
        int r = tar_sink_room(s, &to, &room, e);

        if (r < 0)
            return r;
        step = bytes.n < room ? bytes.n : room;
        memcpy(to, bytes.p, step);
        s->n += step;
        bytes = (struct str){ bytes.p + step, bytes.n - step };
    }
    return 0;
}

int tar_sink_zeros(struct tar_sink *s, uint64_t n, struct err *e)
{
    static const char zeros[512];

    while (n > 0) {
        size_t step = n < sizeof zeros ? (size_t)n : sizeof zeros;
        int r = tar_sink_write(s, (struct str){ zeros, step }, e);

        if (r < 0)
            return r;
        n -= step;
    }
    return 0;
}
