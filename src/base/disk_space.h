/* Room on a disk: what comes from outside, or is made of it, leaves a part to everything else. */
#ifndef BASE_ROOM_H
#define BASE_ROOM_H

#include <stdint.h>

#include "base/err.h"

/* Before `n` bytes are written to the file system of `fd`, of which `at` were before: asks it with
 * the first and then every few megabytes. -ERR_TOO_BIG if less than free_min would be left; 0
 * stands for no limit. */
int room_check(int fd, uint64_t free_min, uint64_t at, uint64_t n, struct err *e);

#endif
