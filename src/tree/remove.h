/* Deletes a tree, whatever its content does to prevent it. */
#ifndef TREE_REMOVE_H
#define TREE_REMOVE_H

#include "base/err.h"

/* Removes what `name` (one component) is in `dir`, with everything beneath it. Symbolic links are
 * removed, never followed. Directories that keep out their owner are opened up first. Any depth
 * will do: levels beyond TREE_DEPTH_MAX are moved up to the first one, so neither memory nor
 * descriptors grow. (Only an overlay that does not let directories of its lower layers move stops
 * that.)
 *
 * -ERR_NOT_FOUND if there is no such name; -ERR_BUSY if something is mounted inside, which stays as
 * it is, or if others keep adding files. What could be removed before an error is gone. */
int tree_remove(int dir, const char *name, struct err *e);

#endif
