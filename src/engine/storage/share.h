/* SPDX-License-Identifier: Apache-2.0 */
/* The share of a btrfs that the boxes of one owner, and the layers captured from them, have together.
 *
 * A quota group of the kernel above those of the boxes cannot be used: a snapshot of a subvolume in
 * such a group, which every capture makes, has the kernel count the whole file system again, and no
 * limit holds meanwhile. So a process of the daemon (daemon/share_keeper.h) adds up what each owner
 * has and lowers the limits of its boxes as the share is used up. It learns everything from the
 * storage, and so continues after a crash:
 *
 *     boxes/ID/owner       the owner that the box is charged to, and its own limit; written before
 *                          the box, or before it is handed over, by the launcher
 *     layers/NAME/owner    the same note, kept when the box was captured
 *     full/OWNER           exists while the owner has used up its share
 *
 * Data that a box shares with a layer is charged with the layer. Data in several layers is charged
 * with each, as snapshots are. */
#ifndef ENGINE_STORAGE_SHARE_H
#define ENGINE_STORAGE_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define SHARE_FULL "full"
#define SHARE_NOTE "owner"
enum { SHARE_OWNER_MAX = 48 };

struct share_charge {
    const char *owner; /* a file name, shorter than SHARE_OWNER_MAX */
    uint64_t disk;     /* bytes of the limit of the box; 0: none */
    bool again;        /* even if the share is used up */
};

/* Charges a box without files to an owner. -ERR_FULL: the owner has used up its share. */
int share_charge(int storage, int box, const struct share_charge *c, struct err *e);

/* Charges a layer that was made of another one to the same owner. */
int share_copy_note(int from, int to, struct err *e);

/* Adds up the boxes of each owner and sets the limits of boxes so that no owner gets beyond `bytes`.
 * `sys` is /sys. Boxes that are made or removed meanwhile are left to the next call. -ERR_BUSY:
 * the kernel does not count; it was asked to count again. */
int share_enforce(int storage, int sys, uint64_t bytes, struct err *e);

/* In bytes. */
struct share_box {
    uint64_t used;  /* what its limit is compared with */
    uint64_t limit; /* as it is */
    uint64_t own;   /* as it is without a share; UINT64_MAX: none */
};

/* The limit of a box whose owner has `left` bytes of its share. A limit is a write to the disk: one
 * that would be raised a little stays as it is. */
uint64_t share_limit(const struct share_box *b, uint64_t left);

#endif
