/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/keep_body.h"

#include <errno.h>
#include <unistd.h>

#include "base/disk_space.h"

int store_body_piece(int fd, uint64_t *size, const struct config *config, struct str data,
                     struct err *e)
{
    uint64_t max = config->images.max_bytes;
    int r = room_check(fd, config->images.free_min, *size, data.n, e);

    if (r < 0)
        return r;
    if (data.n > max - *size)
        return err_set(e, ERR_TOO_BIG, "the file has more than %llu bytes (images.max_bytes)",
                       (unsigned long long)max);
    while (data.n) {
        ssize_t n = write(fd, data.p, data.n);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, "storing the body");
        *size += (uint64_t)n;
        data = (struct str){ data.p + n, data.n - (size_t)n };
    }
    return 0;
}
