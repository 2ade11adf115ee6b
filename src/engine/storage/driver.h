/* Where sandboxes that a daemon serves write to.
 *
 *     memory    a tmpfs each, within its disk limit; what is captured of it is copied
 *     plain     a directory each on the file system of the state directory; no limit holds there
 *     reflink   the same, on one that shares blocks: what is captured is cloned, file by file
 *     btrfs     a subvolume each, with a limit where the file system has quotas; what is captured
 *               is a snapshot, which costs the same however much there is
 *
 * On disk a box is STORAGE/boxes/ID:
 *
 *     fs/       what its sandbox writes, with owners as they are called inside
 *     …work/    overlayfs's own
 *
 * which is how a layer looks (layers/storage.h), so that one becomes the other without a copy.
 * Whoever runs in a box holds a lock on its directory: the kernel lets go of it with the last of
 * them, however they end. */
#ifndef UPPERS_DRIVER_H
#define UPPERS_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define UPPERS_BOXES   "boxes"
#define UPPERS_RESERVE "reserve" /* in a box whose limit holds; see driver.c */
#define UPPERS_FS      "fs"

/* Where a box is made. */
struct driver_place {
    int storage, boxes; /* STORAGE, STORAGE/boxes */
    uint64_t above;     /* no lower inode numbers, which its layers have; 0: it has no layers */
};

struct driver {
    const char *name;
    bool on_disk;
    bool by_itself; /* "auto" takes it where it works */
    /* The daemon, at its start: whether the file system of this directory can do it. */
    int (*check)(int dir, struct err *e);
    /* The launcher: the directory of a new box; only its maker can enter it. */
    int (*make)(const struct driver_place *at, const char *name, struct err *e);
    /* The launcher, right after that; NULL: it has no limits. */
    int (*limit)(int box, uint64_t bytes, struct err *e);
};

/* The one of that name; NULL: there is none. "auto" is none. */
const struct driver *driver_find(const char *name);

struct driver_choice {
    const struct driver *driver;
    bool limited;  /* it holds sandboxes to their disk limits */
    char why[200]; /* this one, and why limits do not hold */
};

/* The one that was asked for, or for "auto" the best that works, tried out in `storage`.
 * -ERR_UNSUPPORTED: the one that was asked for does not, and why. */
int driver_choose(const char *name, int storage, struct driver_choice *ret, struct err *e);

#endif
