/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts STATE/storage on itself, nosuid and nodev.
 *
 * Layers and boxes hold files of root that tenants wrote, with the mode bits that these have
 * inside. Sandboxes see them through mounts that ignore such bits; with this mount the host ignores
 * them, too, in case a process gets past the mode of the directory. Root's daemon mounts the
 * directory on itself and unmounts it in an orderly shutdown. The next daemon finds a mount that
 * was left behind. */
#ifndef DAEMON_NOSUID_H
#define DAEMON_NOSUID_H

#include "base/err.h"

struct nosuid {
    const char *state; /* NULL: not mounted, or mounted by another daemon */
    int lock;          /* of the state directory, held as long as the daemon lives */
};
#define NOSUID_NONE ((struct nosuid){ .lock = -1 })

/* Returns 1 if this daemon has mounted it: descriptors opened before refer to the directory below
 * the mount then, and files cannot be renamed between the two. 0 for a plain user, who has no
 * rights to lose there; where the file system has these flags already; and where another daemon has
 * the directory. */
int nosuid_mount(struct nosuid *n, const char *state, struct err *e);
void nosuid_unmount(struct nosuid *n);

#endif
