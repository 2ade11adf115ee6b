/* A btrfs in a file, where the state directory has a file system without snapshots:
 * STATE/storage.btrfs, mounted on STATE/storage. Root's daemon makes and mounts it before it
 * splits, and unmounts it when it ends; sandboxes that live on keep the file system, but not the
 * mount, and the next daemon finds both, whatever became of the last.
 *
 * Every block of the file is allocated before btrfs knows of it, so that a full disk of the host is
 * a full disk inside, and not an I/O error that ends the file system. It begins small, and a
 * process of its own (daemon/volume_grow.h) makes it larger as it is filled. */
#ifndef DAEMON_VOLUME_H
#define DAEMON_VOLUME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* What stays free in it: the disk's own reserve (images.free_min) is kept outside. */
#define VOLUME_FREE_MIN (UINT64_C(64) << 20)

enum { VOLUME_DEVICE_MAX = 64 };

struct volume {
    const char *state; /* NULL: there is none */
    int lock;          /* held as long as the daemon lives */
};
#define VOLUME_NONE ((struct volume){ .lock = -1 })

struct volume_room {
    uint64_t size;     /* bytes it may grow to; 0: as long as free_min is left */
    uint64_t free_min; /* bytes that stay free on the disk that it is on */
};

/* Whether there is one already: then it has what was stored, whatever is configured. */
bool volume_exists(const char *state);

/* After state_open_storage(), whose descriptor is of what is below the mount then. Nothing happens
 * where the state directory is on btrfs already. -ERR_BUSY: another daemon has it; -ERR_CONFLICT:
 * there are layers that it would hide; -ERR_UNSUPPORTED: it cannot be here, and why. */
int volume_open(struct volume *v, const char *state, const struct volume_room *room, struct err *e);
void volume_done(struct volume *v);

/* The image of an open one: a descriptor. */
int volume_open_image(const struct volume *v, struct err *e);
/* The loop device of the image. */
bool volume_find_device(int image, char ret[static VOLUME_DEVICE_MAX]);

#endif
