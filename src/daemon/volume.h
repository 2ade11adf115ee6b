/* A btrfs in a file, for `storage.driver: btrfs` where the state directory has another file system:
 * STATE/storage.btrfs, which grows as it is filled, mounted on STATE/storage. Root's daemon makes
 * and mounts it before it splits, and takes it away when it ends; sandboxes that live on keep the
 * file system, but not the mount, and the next daemon finds both, whatever became of the last. */
#ifndef DAEMON_VOLUME_H
#define DAEMON_VOLUME_H

#include <stdint.h>

#include "base/err.h"

struct volume {
    const char *state; /* NULL: there is none */
    int lock;          /* held as long as the daemon lives */
};
#define VOLUME_NONE ((struct volume){ .lock = -1 })

/* After state_open_storage(), whose descriptor is of what is below the mount then. Nothing happens
 * where the state directory is on btrfs already. `size`: bytes it may grow to; 0: half of what is
 * free. -ERR_BUSY: another daemon has it; -ERR_CONFLICT: there are layers that it would hide. */
int volume_open(struct volume *v, const char *state, uint64_t size, struct err *e);
void volume_done(struct volume *v);

#endif
