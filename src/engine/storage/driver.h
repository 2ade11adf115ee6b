/* SPDX-License-Identifier: Apache-2.0 */
/* Storage drivers: the places for the writable layers of a daemon's sandboxes.
 *
 *     memory    a tmpfs each, within its disk limit; a capture copies it
 *     plain     a directory each on the file system of the state directory; no limit is enforced
 *     reflink   the same, on a file system that shares blocks: a capture clones each file
 *     btrfs     a subvolume each, with a limit if the file system has quotas; a capture is a
 *               snapshot, whose cost does not depend on the size
 *
 * On disk a box is STORAGE/boxes/ID:
 *
 *     fs/       the writable layer, with owners as ids inside
 *     …work/    work directories of overlayfs
 *
 * which is the layout of a layer (engine/layers/storage.h), so that one becomes the other without a
 * copy. The processes of a box hold a lock on its directory: the kernel releases it with the last
 * of them. */
#ifndef ENGINE_STORAGE_DRIVER_H
#define ENGINE_STORAGE_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define STORAGE_BOXES   "boxes"
#define STORAGE_RESERVE "reserve" /* in a box with an enforced limit; see driver.c */
#define STORAGE_FS      "fs"

enum { DRIVER_COUNTERS = 2 };

/* Where a box is made. */
struct driver_place {
    int storage, boxes; /* STORAGE, STORAGE/boxes */
    uint64_t above;     /* its inode numbers must be higher than this, the highest of its layers; 0:
                           no layers */
};

struct driver {
    const char *name;
    bool on_disk;
    bool by_itself; /* "auto" may choose it */
    /* Called by the daemon at its start: whether the file system of this directory supports it. */
    int (*check)(int dir, struct err *e);
    /* Called by the launcher: makes the directory of a new box, accessible to its maker only. */
    int (*make)(const struct driver_place *at, const char *name, struct err *e);
    /* Called by the launcher right after that; NULL: no limits. */
    int (*limit)(int box, uint64_t bytes, struct err *e);
    /* The launcher, after that: opens files whose numbers add up to the bytes in a box, -1 where
     * there is none. `sys` is /sys. NULL: it counts none. */
    void (*open_counters)(int sys, int box, int ret[static DRIVER_COUNTERS]);
};

/* Finds a driver by name; NULL: unknown. "auto" is not a driver. */
const struct driver *driver_find(const char *name);

struct driver_choice {
    const struct driver *driver;
    bool limited;  /* disk limits are enforced */
    char why[200]; /* reason for the choice, and for unenforced limits */
};

/* Chooses the configured driver, or for "auto" the best that works, tested in `storage`.
 * -ERR_UNSUPPORTED: the configured one does not work, and why. */
int driver_choose(const char *name, int storage, struct driver_choice *ret, struct err *e);

/* Tests features that depend on file system, kernel and user. */

/* Whether files in this directory share blocks. */
int probe_reflink(int dir, struct err *e);
/* Whether overlayfs accepts directories in it as upper directories, as for a sandbox. */
int probe_overlay(int dir, struct err *e);

#endif
