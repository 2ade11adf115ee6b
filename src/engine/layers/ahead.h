/* SPDX-License-Identifier: Apache-2.0 */
/* Copies the content of a sandbox's large files while the sandbox still runs (pre-copy). The frozen
 * phase then only compares and writes differences, without waiting for the disk.
 *
 * Copies are stored in a directory, each file under its inode number. They are not trusted: a copy
 * may be outdated or belong to another file until it was compared with the file of the frozen
 * sandbox. (File times do not help: a store through a mapping changes no time on a tmpfs.) */
#ifndef ENGINE_LAYERS_AHEAD_H
#define ENGINE_LAYERS_AHEAD_H

#include <sys/stat.h>

#include "engine/layers/copy.h"

/* Copies from `from`, which processes may change meanwhile, to the directory `to`: as much as fits,
 * at most `most` bytes. Never fails: files that cannot be copied are left for later. Copies nothing
 * where files can be cloned. */
void ahead_copy(int from, int to, uint64_t most, const struct copy_options *o);

/* Deletes all copies that ahead_take() did not take, to free space. */
void ahead_drop(int ahead);

/* Moves the copy of file `of` to `dir`/`name`: a descriptor to read and write it. -1: there is no
 * copy. */
int ahead_take(int ahead, const struct stat *of, int dir, const char *name);

#endif
