/* SPDX-License-Identifier: Apache-2.0 */
/* A btrfs image, for a state directory on a file system without snapshots: STATE/storage.btrfs,
 * mounted on STATE/storage. Root's daemon makes and mounts it before it splits, and unmounts it
 * when it ends. Running sandboxes keep the file system, but not the mount; the next daemon finds
 * both, even after a crash.
 *
 * Every block of the image is allocated before btrfs uses it, so that a full disk of the host is a
 * full disk inside, and not an I/O error that disables the file system. The image begins small, and
 * a process of its own (daemon/volume_grow.h) grows it as it is filled. */
#ifndef DAEMON_VOLUME_H
#define DAEMON_VOLUME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Free space kept inside the volume; the disk's own reserve (images.free_min) is kept outside. */
#define VOLUME_FREE_MIN (UINT64_C(64) << 20)

enum { VOLUME_DEVICE_MAX = 64 };

struct volume {
    const char *state; /* NULL: no volume */
    int lock;          /* held as long as the daemon lives */
};
#define VOLUME_NONE ((struct volume){ .lock = -1 })

struct volume_room {
    uint64_t size;     /* bytes it may grow to; 0: as long as free_min is left */
    uint64_t free_min; /* bytes that stay free on the disk that it is on */
};

/* True if an image exists: then it holds the stored layers, and is used under any configuration. */
bool volume_exists(const char *state);

/* Whether the btrfs driver can be tried on a state directory `dir`: it is on btrfs, or root makes an
 * image there. */
int volume_check(int dir, struct err *e);

/* After state_open_own_part(), whose descriptor then refers to the directory below the mount. Does
 * nothing where the state directory is on btrfs already. -ERR_BUSY: another daemon has it;
 * -ERR_CONFLICT: there are layers that the mount would hide; -ERR_UNSUPPORTED: not possible here,
 * with the reason. */
int volume_open(struct volume *v, const char *state, const struct volume_room *room, struct err *e);
void volume_done(struct volume *v);

/* Bytes of the file system of `storage`: of an open volume, with those that it can grow to. 0: not
 * known. */
uint64_t volume_capacity(const struct volume *v, int storage, const struct volume_room *room);

/* The image of an open one: a descriptor. */
int volume_open_image(const struct volume *v, struct err *e);
/* Opens the loop device of the image; -1: it has none. The descriptor keeps the device: without it,
 * the last sandbox may end and the device be given to another file. */
int volume_find_device(int image, char ret[static VOLUME_DEVICE_MAX]);

#endif
