/* The content of a sandbox's large files, copied while it still runs: what is left to do while it
 * stands still is to compare and to write what has changed, which waits for no disk.
 *
 * What was copied ahead is in a directory, each file by its number. Nothing is believed of it: it
 * is another file's content, or an older one, until it was compared with the file that stands
 * still. (Times would not tell: what a program writes through a mapping changes none on a tmpfs.)
 */
#ifndef LAYERS_AHEAD_H
#define LAYERS_AHEAD_H

#include <sys/stat.h>

#include "layers/copy.h"

/* From `from`, which anybody may change meanwhile, to the directory `to`: as much as there is room
 * for, no more than `most` bytes. Whatever fails is left for later: this never does. Nothing is
 * copied where files can be cloned. */
void ahead_copy(int from, int to, uint64_t most, const struct copy_options *o);

/* What nobody has taken makes room. */
void ahead_drop(int ahead);

/* The file that this was copied of gets this name: a descriptor to read and write it. -1: it was
 * not. */
int ahead_take(int ahead, const struct stat *of, int dir, const char *name);

#endif
