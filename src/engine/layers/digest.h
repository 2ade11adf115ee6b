/* SPDX-License-Identifier: Apache-2.0 */
/* The digest of a tree: a SHA-256 over all of its files, independent of directory order.
 *
 * Each entry has a SHA-256 of its path, kind, mode, owner, size, time, number of names, link target
 * or device, extended attributes, overlayfs marks and content. Each group of names that share an
 * inode has another one. The digest of the tree is the SHA-256 of all these, sorted by their bytes,
 * so neither the order nor the size of directories matters, nor holes, nor access times. Two trees
 * with the same digest are identical except for that. A digest does not protect against an attacker
 * who can write to the storage: such an attacker can replace the stored digest, too. */
#ifndef ENGINE_LAYERS_DIGEST_H
#define ENGINE_LAYERS_DIGEST_H

#include <stdint.h>

#include "base/err.h"

enum { DIGEST_TEXT_MAX = sizeof "sha256:" + 64 }; /* with the NUL */

struct tree_digest {
    uint64_t bytes, entries;
    char digest[DIGEST_TEXT_MAX];
};

/* Called from time to time. */
typedef void digest_progress_fn(void *ctx, uint64_t bytes, uint64_t entries);

/* Computes the digest of the tree below `dir`, which stays the caller's. -ERR_TOO_BIG if it is
 * deeper than TREE_DEPTH_MAX or has more entries than TREE_ENTRIES_DEFAULT. */
int digest_tree(int dir, digest_progress_fn *progress, void *ctx, struct tree_digest *ret,
                struct err *e);

#endif
