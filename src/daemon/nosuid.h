/* STATE/storage as a mount of its own, without set-user-id programs and devices.
 *
 * Layers and boxes hold files of root's that tenants wrote, with the bits that they have inside.
 * Sandboxes see them through mounts that ignore such bits; so does the host, by this mount, in case
 * that somebody gets past the mode of the directory. Root's daemon mounts the directory on itself
 * and unmounts it when it ends in good order. The next one finds what another end has left. */
#ifndef DAEMON_NOSUID_H
#define DAEMON_NOSUID_H

#include "base/err.h"

struct nosuid {
    const char *state; /* NULL: nothing is mounted, or it is not ours */
    int lock;          /* of the state directory, held as long as the daemon lives */
};
#define NOSUID_NONE ((struct nosuid){ .lock = -1 })

/* Returns whether it is mounted by us: descriptors from before are of what is below then, and files
 * cannot be moved from one to the other. 0 for a plain user, who has no rights to lose there; where
 * the file system has these flags already; and where another daemon has the directory. */
int nosuid_mount(struct nosuid *n, const char *state, struct err *e);
void nosuid_unmount(struct nosuid *n);

#endif
