/* How SQLite finds the store: by the state directory's descriptor.
 *
 * The control plane may not pass the directories above its own, and SQLite takes paths only. This
 * file system of SQLite's takes a path as it is, where the usual one first replaces every link in
 * it: so a path through /proc/self/fd works, which leads to a directory that is open and asks for
 * no rights on the way. */
#ifndef STORE_VFS_H
#define STORE_VFS_H

#include "base/err.h"

#define VFS_NAME "sandboxer"

enum { VFS_PATH_MAX = 64 };

/* On top of SQLite's default, as it is now. Before the first connection, and again when another
 * became the default. */
int vfs_register(struct err *e);

/* Where the file `name` of an open directory is, as long as that is open. */
void vfs_path(int dir, const char *name, char ret[static VFS_PATH_MAX]);

#endif
