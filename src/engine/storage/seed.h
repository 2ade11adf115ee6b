/* Inode numbers of boxes on btrfs.
 *
 * Each subvolume numbers its files from 257 on, and overlayfs shows these numbers as they are where
 * all its layers are of one file system: a file of a box and another one of a layer would have the
 * same device and number, and programs such as cp, mv and cmp would take them for one file. So a
 * box that stands on layers has higher numbers than they have. It is a snapshot of a seed: an empty
 * subvolume, STORAGE/seeds/NUMBER, whose files are numbered from beyond NUMBER on, because a file
 * in it has that one. btrfs gives numbers in order alone, so a seed is made by using them up. */
#ifndef UPPERS_SEED_H
#define UPPERS_SEED_H

#include <stdint.h>

#include "base/err.h"

/* In seeds/NUMBER, and in boxes made from it: the file that has the number. */
#define SEED_MARK "seed"

/* Makes a seed from `number` on, unless there is one; uses up `most` numbers for it.
 * -ERR_BUSY: that was not enough; the next call continues. */
int seed_prepare(int storage, uint64_t number, uint64_t most, struct err *e);
/* The subvolume `boxes`/`name`, whose files have higher numbers than `number`. */
int seed_plant(int storage, uint64_t number, uint64_t most, int boxes, const char *name,
               struct err *e);

#endif
