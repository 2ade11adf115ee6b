/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/keep_body.h"

#include "base/disk_space.h"
#include "base/io.h"

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
    r = err_wrap(e, write_all(fd, data, e), "storing the body");
    if (r >= 0)
        *size += data.n;
    return r;
}
