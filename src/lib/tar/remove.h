/* SPDX-License-Identifier: Apache-2.0 */
/* Deletes a tree, also one with hostile modes, depth or concurrent changes. */
#ifndef LIB_TAR_REMOVE_H
#define LIB_TAR_REMOVE_H

#include "base/err.h"

/* Removes the file or tree `name` (one component) in `dir`. Symbolic links are removed, never
 * followed. Directories without u+rwx get it first. The depth is unlimited: levels beyond
 * TREE_DEPTH_MAX are moved up to the first level, so neither memory nor descriptors grow. (This
 * fails only on an overlay without redirect_dir, which cannot rename directories of lower layers.)
 *
 * -ERR_NOT_FOUND if the name is absent; -ERR_BUSY if a mount point is inside, which remains, or if
 * other processes keep adding files. Files removed before an error are not restored. */
int tree_remove(int dir, const char *name, struct err *e);

#endif
