/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sync/sink.h"

#include <string.h>

#include "lib/tar/at.h"

void sync_sink_init(struct sync_sink *s, int fd)
{
    s->fd = fd;
    s->n = 0;
}

int sync_sink_flush(struct sync_sink *s, struct err *e)
{
    size_t n = s->n;

    s->n = 0;
    return at_write(s->fd, s->bytes, n, e);
}

int sync_sink_write(struct sync_sink *s, struct str bytes, struct err *e)
{
    while (bytes.n > 0) {
        size_t room = sizeof s->bytes - s->n, step = bytes.n < room ? bytes.n : room;
        int r = 0;

        memcpy(s->bytes + s->n, bytes.p, step);
        s->n += step;
        bytes.p += step;
        bytes.n -= step;
        if (s->n == sizeof s->bytes)
            r = sync_sink_flush(s, e);
        if (r < 0)
            return r;
    }
    return 0;
}

int sync_sink_zeros(struct sync_sink *s, uint64_t n, struct err *e)
{
    static const char zeros[512];

    while (n > 0) {
        size_t step = n < sizeof zeros ? (size_t)n : sizeof zeros;
        int r = sync_sink_write(s, (struct str){ zeros, step }, e);

        if (r < 0)
            return r;
        n -= step;
    }
    return 0;
}
