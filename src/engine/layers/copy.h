/* A tree of a sandbox's writable layer, with all that an overlay and a person can tell apart:
 * modes, owners, times to the nanosecond, extended attributes and ACLs, hard links, holes, symbolic
 * links, FIFOs, sockets, and what stands for a name that was removed.
 *
 * Owners are stored as they are inside: a layer is any later sandbox's. Whatever fits there can be
 * cloned instead of copied (FICLONE). */
#ifndef LAYERS_COPY_H
#define LAYERS_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Trees, uppermost first, that show through from below a stack; none: nothing does. */
struct floor {
    const int *trees;
    size_t n;
    const char *top; /* they are what is below this name at the top of the stack; NULL: its root */
};

struct copy_options {
    uint64_t bytes_max, entries_max; /* of file content, of names; 0: the defaults of tree/tree.h */
    uint64_t free_min;               /* bytes that stay free where `to` is: base/room.h */
    const char *const *skip;         /* names at the top that are not wanted; ended by NULL */
    int ahead; /* directory with content that was copied ahead (layers/ahead.h); -1: none was */
    bool onto; /* `to` holds what is below `from` in a stack: the result is what both show */
    struct floor floor; /* … on something else: what hides that is kept */
    void (*progress)(void *user, uint64_t bytes, uint64_t entries);
    void *user;
};

struct copy_report {
    uint64_t bytes, entries;
    uint64_t cloned; /* files that share their content with the source */
};

/* From `from`, which nobody changes meanwhile, to the directory `to`, which is empty (but `onto`).
 * `links` is another empty directory on the same file system: files with several names wait there
 * for their next one, and what is left in it can go. The three stay the caller's. */
int layers_copy(int from, int to, int links, const struct copy_options *o, struct copy_report *ret,
                struct err *e);

#endif
