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

/* A snapshot of a box has the limit of the box, and the layer worker that makes a layer of it cannot
 * lift it. The reserve is removed with everything that is no part of a layer, and leaves room for
 * what is written to one: so a box at its limit can be captured. btrfs makes a file only if up to
 * eight nodes of 16 KiB more would be within the limit; twice that, since every box takes it from the
 * disk. */
enum { STORAGE_RESERVE_BYTES = 256 << 10 };

/* Where a box is made. */
struct driver_place {
    int storage, boxes; /* STORAGE, STORAGE/boxes */
    uint64_t above;     /* its inode numbers must be higher than this, the highest of its layers; 0:
                           no layers */
};

struct share_charge; /* engine/storage/share.h */

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
    /* Where limits are enforced. The launcher, before anything is written to a new box, or at the
     * hand-over of a prepared one: charges it to its owner. -ERR_FULL: the owner has used up its
     * share. NULL: owners have no share. */
    int (*charge)(int storage, int box, const struct share_charge *c, struct err *e);
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
