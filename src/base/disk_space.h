/* SPDX-License-Identifier: Apache-2.0 */
/* Free space on a disk: data from outside, and data derived from it, must leave a part free. */
#ifndef BASE_DISK_SPACE_H
#define BASE_DISK_SPACE_H

#include <stdint.h>

#include "base/err.h"

/* Call before writing `n` bytes at offset `at` of a stream to the file system of `fd`. Queries the
 * file system at the first byte and then every few megabytes. -ERR_TOO_BIG if less than free_min
 * would be left; a free_min of 0 disables the check. */
int room_check(int fd, uint64_t free_min, uint64_t at, uint64_t n, struct err *e);

#endif
