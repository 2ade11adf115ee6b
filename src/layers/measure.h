/* What a tree is, as one number: everything about every file in it, whatever order they come in.
 *
 * Each entry has a SHA-256 of its path, kind, mode, owner, size, time, number of names, target or
 * device, attributes, what it says to overlayfs, and content; so have the names of one file
 * together. The measure is the SHA-256 of these in the order of their bytes, so that neither the
 * order of directories nor their size matters, nor where files have holes or when they were read.
 * Two trees with one measure are the same tree but for that: nobody can make another. It does not
 * stop who may write to the storage, who could as well change what it is compared with. */
#ifndef LAYERS_MEASURE_H
#define LAYERS_MEASURE_H

#include <stdint.h>

#include "base/err.h"

enum { MEASURE_MAX = sizeof "sha256:" + 64 }; /* with the NUL */

struct measure {
    uint64_t bytes, entries;
    char digest[MEASURE_MAX];
};

/* Called now and then. */
typedef void measure_progress_fn(void *ctx, uint64_t bytes, uint64_t entries);

/* `dir` stays the caller's. -ERR_TOO_BIG where it is deeper than TREE_DEPTH_MAX, or has more
 * entries than TREE_ENTRIES_DEFAULT. */
int measure_tree(int dir, measure_progress_fn *progress, void *ctx, struct measure *ret,
                 struct err *e);

#endif
