/* SPDX-License-Identifier: Apache-2.0 */
#include "base/disk_space.h"

#include <stdbool.h>
#include <sys/statvfs.h>

enum { LOOK_BYTES = 4 << 20 };

int room_check(int fd, uint64_t free_min, uint64_t at, uint64_t n, struct err *e)
{
    bool due = at == 0 || n >= LOOK_BYTES || at / LOOK_BYTES != (at + n) / LOOK_BYTES;
    struct statvfs fs;
    uint64_t left;

    if (!free_min || !due)
        return 0;
    if (fstatvfs(fd, &fs) < 0)
        return err_sys(e, "asking how full the disk is");
    left = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (left >= n && left - n >= free_min)
        return 0;
    return err_set(e, ERR_TOO_BIG,
                   "the disk is full: %llu bytes are free, and images.free_min keeps %llu of "
                   "them; free some space",
                   (unsigned long long)left, (unsigned long long)free_min);
}
