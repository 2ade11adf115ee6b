/* SPDX-License-Identifier: Apache-2.0 */
/* Locks of a daemon. Its children hold them with it: those of a monitor that was killed do so
 * for a moment longer, and a daemon that starts meanwhile waits for them. */
#ifndef DAEMON_LOCK_H
#define DAEMON_LOCK_H

#include <stdbool.h>
#include <sys/file.h>
#include <unistd.h>

enum { LOCK_TRIES = 200, LOCK_WAIT_US = 10000 };

/* Locks the open file; false: another process keeps it for longer than a moment. */
static inline bool lock_take(int fd)
{
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
        if (i == LOCK_TRIES)
            return false;
        usleep(LOCK_WAIT_US);
    }
    return true;
}

#endif
