/* SPDX-License-Identifier: Apache-2.0 */
/* The process that keeps owners within their share of the disk (engine/storage/share.h).
 *
 * It looks ten times a second whether the file system has changed, a hundred times while it does, and
 * only then at the boxes; a look at very many of them is followed by a longer pause, so that it takes
 * at most a twentieth of a processor. What an owner writes in several boxes between two looks can exceed its share. */
#ifndef DAEMON_SHARE_KEEPER_H
#define DAEMON_SHARE_KEEPER_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Starts a child of the caller, which ends with it. Returns its pid. */
pid_t share_keeper_start(int storage, uint64_t bytes, struct err *e);
/* It holds the mount of a volume: before volume_done(). 0: none. */
void share_keeper_stop(pid_t pid);

#endif
