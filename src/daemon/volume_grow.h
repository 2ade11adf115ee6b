/* SPDX-License-Identifier: Apache-2.0 */
/* The process that grows a volume as it is filled (daemon/volume.h).
 *
 * btrfs cannot wait for space: a write to a full file system fails with ENOSPC. So the process
 * keeps space free ahead: it checks ten times a second, allocates blocks of the image, and then
 * resizes the loop device and btrfs. Data in the page cache that has no place on the disk yet counts
 * as used: statfs() does not count it, and it can be several gigabytes. The process stops where the
 * disk would have less than images.free_min left: from then on the volume can fill up.
 *
 * It is a companion of the monitor (daemon/companion.h): the next one finishes a resize that was
 * interrupted. */
#ifndef DAEMON_VOLUME_GROW_H
#define DAEMON_VOLUME_GROW_H

#include <sys/types.h>

#include "daemon/volume.h"

/* Where less is free inside, it grows until VOLUME_GROW_HIGH is. A disk with much space gives more:
 * its 32nd part, up to VOLUME_GROW_MOST, and twice that. */
#define VOLUME_GROW_LOW  (UINT64_C(768) << 20)
#define VOLUME_GROW_HIGH (UINT64_C(3) << 30)
#define VOLUME_GROW_MOST (UINT64_C(8) << 30)

struct volume_growth {
    const struct volume *volume; /* without a state: there is no such process */
    int storage;                 /* the mounted volume */
    struct volume_room room;
};

/* A companion_fork of a struct volume_growth. Its process holds the mount: stop it before
 * volume_done(). */
pid_t volume_grow_fork(void *growth, struct err *e);

#endif
