/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts as descriptors: made detached, then attached below a directory, never through a symlink.
 * Attributes are MOUNT_ATTR_* masks. */
#ifndef ENGINE_RUNTIME_MOUNTS_H
#define ENGINE_RUNTIME_MOUNTS_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "lib/proc/sys.h"

struct mount_option {
    const char *key, *value; /* value NULL: a flag */
};

/* Makes a new, detached file system of the kind. options end with a NULL key. */
int mounts_make(const char *kind, const struct mount_option *options, uint64_t attributes, int *ret,
                struct err *e);

/* Makes a detached copy of the tree at dir/path (path "": dir itself), including the mounts below
 * it. */
int mounts_copy(int dir, const char *path, int *ret, struct err *e);

/* The same without the mounts below it. */
int mounts_copy_bare(int dir, const char *path, int *ret, struct err *e);

/* Adds attributes to a whole tree. userns >= 0 also maps its owners through that user namespace;
 * file systems that do not support it stay unmapped. */
int mounts_restrict(int tree, uint64_t attributes, int userns, struct err *e);

/* The same for a tree whose owners must be mapped: -ERR_UNSUPPORTED if a file system in it cannot. */
int mounts_restrict_mapped(int tree, uint64_t attributes, int userns, struct err *e);

/* Attaches a detached mount at path below root; the path must exist. */
int mounts_attach(int tree, int root, const char *path, struct err *e);
/* The same if every component of path was made by us or by the kernel, so that none is a link. */
int mounts_attach_known(int tree, int dir, const char *path, struct err *e);

/* Mounts a new file system at path below root, in one step; flags are MS_*. */
int mounts_new(const char *kind, int root, const char *path, unsigned long flags, const char *data,
               struct err *e);

/* Makes a directory (an empty file) at path below root, with its parents. Existing ones stay; a
 * symlink on the way is an error that names it. */
int mounts_place_dir(int root, const char *path, mode_t mode, struct err *e);
int mounts_place_file(int root, const char *path, struct err *e);

/* Opens path below root with O_PATH, following no symlink. */
int mounts_find(int root, const char *path, int *ret, struct err *e);

#endif
