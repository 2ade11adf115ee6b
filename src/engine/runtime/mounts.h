/* Mounts as descriptors: made detached, then put in their place below a directory, never through a
 * symlink. Attributes are MOUNT_ATTR_* masks. */
#ifndef RUNTIME_MOUNTS_H
#define RUNTIME_MOUNTS_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "proc/sys.h"

struct mount_option {
    const char *key, *value; /* value NULL: a flag */
};

/* A new file system of the kind, detached. options end with a NULL key. */
int mounts_make(const char *kind, const struct mount_option *options, uint64_t attributes, int *ret,
                struct err *e);

/* A detached copy of the tree at dir/path (path "" is dir itself), with everything mounted in it.
 */
int mounts_copy(int dir, const char *path, int *ret, struct err *e);

/* The same without what is mounted in it. */
int mounts_copy_bare(int dir, const char *path, int *ret, struct err *e);

/* Adds attributes to a whole tree. userns >= 0 also maps its owners through that user namespace; a
 * file system that cannot do that stays as it is. */
int mounts_restrict(int tree, uint64_t attributes, int userns, struct err *e);

/* Puts a detached mount at path below root; the place must be there. */
int mounts_attach(int tree, int root, const char *path, struct err *e);
/* The same where every part of path was made by us or by the kernel: no link can be in the way. */
int mounts_attach_known(int tree, int dir, const char *path, struct err *e);

/* A new file system at path below root, in one step; flags are MS_*. */
int mounts_new(const char *kind, int root, const char *path, unsigned long flags, const char *data,
               struct err *e);

/* A directory (an empty file) at path below root, with its parents. What is already there stays; a
 * symlink on the way is an error that names it. */
int mounts_place_dir(int root, const char *path, mode_t mode, struct err *e);
int mounts_place_file(int root, const char *path, struct err *e);

/* A descriptor (O_PATH) of path below root, no symlink followed. */
int mounts_find(int root, const char *path, int *ret, struct err *e);

#endif
