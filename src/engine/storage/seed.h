/* SPDX-License-Identifier: Apache-2.0 */
/* Inode numbers of boxes on btrfs.
 *
 * Each subvolume numbers its files from 257 on, and overlayfs shows these numbers unchanged if all
 * its layers are on one file system: a file of a box and one of a layer would have the same device
 * and number, and programs such as cp, mv and cmp would treat them as one file. So a box on layers
 * has higher numbers than the layers. It is a snapshot of a seed: an empty subvolume,
 * STORAGE/seeds/NUMBER, whose new files get numbers beyond NUMBER, because a file in it has that
 * number. btrfs allocates numbers in ascending order, so a seed is made by using them up. */
#ifndef ENGINE_STORAGE_SEED_H
#define ENGINE_STORAGE_SEED_H

#include <stdint.h>

#include "base/err.h"

/* In seeds/NUMBER, and in boxes made from it: the file that has the number. */
#define SEED_MARK "seed"

/* Makes a seed from `number` on, unless one exists; uses up at most `most` numbers. -ERR_BUSY: that
 * was not enough; the next call continues. */
int seed_prepare(int storage, uint64_t number, uint64_t most, struct err *e);
/* Makes the subvolume `boxes`/`name`, whose files have higher numbers than `number`. */
int seed_plant(int storage, uint64_t number, uint64_t most, int boxes, const char *name,
               struct err *e);

#endif
