/* The process that makes a volume larger as it is filled (daemon/volume.h).
 *
 * btrfs cannot wait for room: whoever writes to a full file system gets ENOSPC. So there is room
 * ahead, always; the process looks for it several times a second, allocates blocks of the file, and
 * then lets the loop device and btrfs know of them. It stops where the disk would have less than
 * images.free_min left: from then on the volume is full when it is full. */
#ifndef DAEMON_VOLUME_GROW_H
#define DAEMON_VOLUME_GROW_H

#include <sys/types.h>

#include "daemon/volume.h"

/* Where less is free inside, it grows until VOLUME_GROW_HIGH is. */
#define VOLUME_GROW_LOW  (UINT64_C(768) << 20)
#define VOLUME_GROW_HIGH (UINT64_C(3) << 30)

/* A child of the caller, with whom it ends; `storage` is the mounted volume. Returns its pid; 0 if
 * there is no volume. */
pid_t volume_grow_start(const struct volume *v, int storage, const struct volume_room *room,
                        struct err *e);
/* Before volume_done(): it holds the mount. */
void volume_grow_stop(pid_t pid);

#endif
