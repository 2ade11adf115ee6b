/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/lock.h"

#include <sys/file.h>
#include <unistd.h>

bool lock_take(int fd)
{
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
        if (i == LOCK_TRIES)
            return false;
        usleep(LOCK_WAIT_US);
    }
    return true;
}
