/* SPDX-License-Identifier: Apache-2.0 */
/* The process that keeps owners within their share of the disk (engine/storage/share.h).
 *
 * It looks ten times a second whether the file system has changed, a hundred times while it does, and
 * only then at the boxes; a look at very many of them is followed by a longer pause, so that it takes
 * at most a twentieth of a processor. What an owner writes in several boxes between two looks can
 * exceed its share.
 *
 * It is a companion of the monitor (daemon/companion.h): all that it knows is in the storage. */
#ifndef DAEMON_SHARE_KEEPER_H
#define DAEMON_SHARE_KEEPER_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct share_keeper {
    int storage;
    uint64_t bytes; /* 0: there is no such process */
};

/* A companion_fork of a struct share_keeper. Its process holds the mount of a volume: stop it before
 * volume_done(). */
pid_t share_keeper_fork(void *share, struct err *e);

#endif
