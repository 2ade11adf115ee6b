/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a tree of a sandbox's writable layer with everything that overlayfs and users can see:
 * modes, owners, times to the nanosecond, extended attributes and ACLs, hard links, holes, symbolic
 * links, FIFOs, sockets and whiteouts.
 *
 * Owners are stored as ids inside the sandbox, because any later sandbox may use the layer. Files
 * are cloned instead of copied where the file system can (FICLONE). */
#ifndef ENGINE_LAYERS_COPY_H
#define ENGINE_LAYERS_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Lower trees, uppermost first, that are visible below a stack of layers; n 0: none. */
struct floor {
    const int *trees;
    size_t n;
    const char *top; /* the trees are below this name at the top of the stack; NULL: at its root */
};

struct copy_options {
    uint64_t bytes_max, entries_max; /* bytes of content and number of names; 0: the defaults of
                                lib/tar/tree.h */
    uint64_t free_min;               /* bytes that stay free where `to` is: base/disk_space.h */
    const char *const *skip;         /* names at the top to skip; ended by NULL */
    int ahead;          /* directory with pre-copied content (engine/layers/ahead.h); -1: none */
    bool onto;          /* `to` holds the layers below `from`: the result is the merge of both */
    struct floor floor; /* … above these trees: whiteouts and opaque marks that hide them are
                           kept */
    void (*progress)(void *user, uint64_t bytes, uint64_t entries);
    void *user;
};

struct copy_report {
    uint64_t bytes, entries;
};

/* Copies from `from`, which must not change meanwhile, to the directory `to`, which is empty unless
 * `onto` is set. `links` is another empty directory on the same file system: files with several
 * names are kept there until their next name is found; its contents can be deleted afterwards. The
 * three descriptors stay the caller's. */
int layers_copy(int from, int to, int links, const struct copy_options *o, struct copy_report *ret,
                struct err *e);

#endif
